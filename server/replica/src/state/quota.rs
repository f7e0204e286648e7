//! Quotas: limits and usage, each a znode below `/zookeeper/quota` (protocol §12).
//!
//! The usage is text that clients may overwrite, and the reference carries on from whatever
//! number it then finds. So it is here: the text itself is the replicated truth, travels in
//! snapshots, and is never counted anew behind a client's back. Text that makes no sense counts
//! as not set; it can neither stop an apply nor a start. The same goes for text that is longer than
//! any quota's: it would be read again with every change, while no other request is served.

use std::collections::BTreeMap;
use std::fmt::Write;

use bytes::Bytes;
use zoolet_jute::ErrorCode;

use super::path;
use super::tree::Tree;
use super::znode::ZnodeId;
use crate::path_table::PathTable;

const LIMITS: &str = "zookeeper_limits";
const STATS: &str = "zookeeper_stats";

/// The longest text that is read, in bytes. Four numbers by their names have less than 150.
const TEXT_BYTES_MAX: usize = 1024;

/// The prefixes that a limit governs.
#[derive(Clone, Debug, Default)]
pub(super) struct Quotas {
    governed: PathTable<String, ()>,
    /// What the command that was applied last has passed.
    exceeded: Option<QuotaExceeded>,
}

impl Quotas {
    /// Whether a znode of this name may be a limit; its path decides.
    pub(super) fn is_limit(name: &str) -> bool {
        name == LIMITS
    }

    pub(super) fn limit_created(&mut self, path: &str) {
        // The root cannot have a quota.
        if let Some(prefix) = subject(path, LIMITS).filter(|prefix| !prefix.is_empty()) {
            self.governed.insert(prefix.to_owned(), ());
        }
    }

    pub(super) fn limit_deleted(&mut self, path: &str) {
        if let Some(prefix) = subject(path, LIMITS) {
            self.governed.remove(prefix);
        }
    }

    pub(super) fn take_exceeded(&mut self) -> Option<QuotaExceeded> {
        self.exceeded.take()
    }

    /// The deepest governed prefix of a path, the path itself included. Only that one counts.
    fn governing<'a>(&self, path: &'a str) -> Option<&'a str> {
        if self.governed.is_empty() {
            return None;
        }
        self.governed.at_or_above(path).next().map(|(prefix, ())| prefix)
    }
}

/// The `<P>` of `/zookeeper/quota<P>/<leaf>`.
fn subject<'a>(path: &'a str, leaf: &str) -> Option<&'a str> {
    let prefix = path.strip_prefix(path::QUOTA)?.strip_suffix(leaf)?.strip_suffix('/')?;
    (prefix.is_empty() || prefix.starts_with('/')).then_some(prefix)
}

/// The text of a limit or usage znode: numbers by name.
#[derive(Debug, Default)]
struct Track(BTreeMap<String, i64>);

impl Track {
    /// Reads `count=<n>,bytes=<n>=;byteHardLimit=<n>`. What does not read is not set.
    fn parse(data: Option<&Bytes>) -> Self {
        let data = data.filter(|data| data.len() <= TEXT_BYTES_MAX);
        let text = String::from_utf8_lossy(data.map_or(&[], |data| data));
        let pairs = text.split([',', ';']).filter_map(|pair| {
            let mut parts = pair.split('=');
            let (key, value) = (parts.next()?, parts.next()?);
            Some((key.to_owned(), value.parse().ok()?))
        });
        Self(pairs.collect())
    }

    fn get(&self, key: &str) -> i64 {
        self.0.get(key).copied().unwrap_or(-1)
    }

    fn add(&mut self, key: &str, delta: i64) {
        let sum = self.get(key).saturating_add(delta);
        self.0.insert(key.to_owned(), sum);
    }

    /// The text; the stray `=` behind the bytes makes old parsers ignore what follows.
    fn encode(&self) -> Bytes {
        let mut text = format!("count={},bytes={}", self.get("count"), self.get("bytes"));
        let others = self.0.iter().filter(|(key, _)| !matches!(key.as_str(), "count" | "bytes"));
        for (at, (key, value)) in others.enumerate() {
            let stray = if at == 0 { "=" } else { "" };
            write!(text, "{stray};{key}={value}").expect("a String takes everything");
        }
        Bytes::from(text)
    }

    /// The limit of a kind that `delta` more would pass. A hard limit is consulted instead of the
    /// soft one.
    fn passed(&self, kind: LimitKind, used: i64, delta: i64) -> Option<Passed> {
        let (soft, hard) = kind.keys();
        let (is_hard, limit) = match self.get(hard) {
            limit if limit > -1 => (true, limit),
            _ => (false, self.get(soft)),
        };
        let value = used.saturating_add(delta);
        let is_passed = delta != 0 && limit > -1 && value > limit;
        is_passed.then_some(Passed { is_hard, value, limit })
    }
}

/// What a quota limits.
#[derive(Clone, Copy, Debug)]
enum LimitKind {
    Count,
    Bytes,
}

impl LimitKind {
    /// The names of the soft limit and of the hard one.
    fn keys(self) -> (&'static str, &'static str) {
        match self {
            Self::Count => ("count", "countHardLimit"),
            Self::Bytes => ("bytes", "byteHardLimit"),
        }
    }
}

#[derive(Clone, Copy, Debug)]
struct Passed {
    is_hard: bool,
    value: i64,
    limit: i64,
}

/// A limit that a write has passed, if it is soft, or would have passed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QuotaExceeded {
    /// The znode whose quota it is.
    pub path: String,
    /// The limit's name in `zookeeper_limits`.
    pub limit: &'static str,
    /// Whether the write was refused.
    pub is_hard: bool,
    /// What the limit allows.
    pub allowed: i64,
    /// What there would be, or is.
    pub value: i64,
}

fn find(tree: &Tree, prefix: &str, leaf: &str) -> Option<ZnodeId> {
    tree.find(&format!("{}{prefix}/{leaf}", path::QUOTA))
}

/// Refuses what a hard limit does not allow, and notes what passes any limit. As in Apache
/// `ZooKeeper`, the count is looked at first, and a refusal is the end of it.
pub(super) fn check(tree: &mut Tree, path: &str, bytes: i64, count: i64) -> Result<(), ErrorCode> {
    let Some(prefix) = tree.quotas().governing(path) else { return Ok(()) };
    let (Some(limits), Some(stats)) = (find(tree, prefix, LIMITS), find(tree, prefix, STATS))
    else {
        return Ok(());
    };
    let limits = Track::parse(tree.data(limits).as_ref());
    let used = Track::parse(tree.data(stats).as_ref());
    for (kind, delta) in [(LimitKind::Count, count), (LimitKind::Bytes, bytes)] {
        let (soft, hard) = kind.keys();
        let Some(passed) = limits.passed(kind, used.get(soft), delta) else { continue };
        let Passed { is_hard, value, limit: allowed } = passed;
        let limit = if is_hard { hard } else { soft };
        let path = prefix.to_owned();
        tree.quotas_mut().exceeded = Some(QuotaExceeded { path, limit, is_hard, allowed, value });
        if is_hard {
            return Err(ErrorCode::QuotaExceeded);
        }
    }
    Ok(())
}

/// Brings the usage up to date after a change at `path`. No version, no zxid, no watch.
pub(super) fn account(tree: &mut Tree, path: &str, bytes: i64, count: i64) {
    if bytes == 0 && count == 0 {
        return;
    }
    let Some(prefix) = tree.quotas().governing(path) else { return };
    let Some(stats) = find(tree, prefix, STATS) else { return };
    let mut used = Track::parse(tree.data(stats).as_ref());
    used.add("count", count);
    used.add("bytes", bytes);
    let text = used.encode();
    tree.change_data(stats, Some(text), |_| {});
}

/// Writes the real usage into a usage znode that was just created.
pub(super) fn created(tree: &mut Tree, id: ZnodeId, path: &str) {
    let Some(prefix) = subject(path, STATS) else { return };
    let (count, bytes) = tree.find(prefix).map_or((0, 0), |top| {
        let below = tree.below(top);
        let bytes = below.bytes.saturating_add(tree.node(top).data_bytes());
        (i64::from(below.znodes) + 1, 0_i64.saturating_add_unsigned(bytes))
    });
    let used = Track(BTreeMap::from([("count".to_owned(), count), ("bytes".to_owned(), bytes)]));
    let text = used.encode();
    tree.change_data(id, Some(text), |_| {});
}
