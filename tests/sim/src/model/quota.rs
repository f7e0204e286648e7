//! Quotas: limits and usage, as text in znodes below `/zookeeper/quota` (protocol §12).

use std::collections::BTreeMap;

use bytes::Bytes;
use zoolet_jute::ErrorCode;

use super::path::{self, QUOTA};
use super::tree::Tree;

const LIMITS: &str = "zookeeper_limits";
const STATS: &str = "zookeeper_stats";

/// Longer texts count as not set (`docs/differences.md`).
const TEXT_BYTES_MAX: usize = 1024;

/// What a change adds to the usage.
#[derive(Clone, Copy, Debug)]
pub(super) struct Delta {
    pub(super) count: i64,
    pub(super) bytes: i64,
}

fn numbers(data: Option<&Bytes>) -> BTreeMap<String, i64> {
    let data = data.filter(|data| data.len() <= TEXT_BYTES_MAX);
    let text = data.map(|data| String::from_utf8_lossy(data).into_owned()).unwrap_or_default();
    let mut numbers = BTreeMap::new();
    for pair in text.split([',', ';']) {
        let mut parts = pair.split('=');
        if let (Some(name), Some(Ok(number))) = (parts.next(), parts.next().map(str::parse)) {
            numbers.insert(name.to_owned(), number);
        }
    }
    numbers
}

fn number(numbers: &BTreeMap<String, i64>, name: &str) -> i64 {
    numbers.get(name).copied().unwrap_or(-1)
}

fn text(numbers: &BTreeMap<String, i64>) -> Bytes {
    let (count, bytes) = (number(numbers, "count"), number(numbers, "bytes"));
    let others: Vec<String> = numbers
        .iter()
        .filter(|(name, _)| *name != "count" && *name != "bytes")
        .map(|(name, number)| format!(";{name}={number}"))
        .collect();
    // The stray sign makes old readers ignore what follows.
    let stray = if others.is_empty() { "" } else { "=" };
    Bytes::from(format!("count={count},bytes={bytes}{stray}{}", others.concat()))
}

/// The deepest path at or above this one that has a limit.
fn governing<'a>(tree: &Tree, path: &'a str) -> Option<&'a str> {
    let mut at = Some(path);
    while let Some(path) = at.filter(|path| *path != "/") {
        if tree.get(&format!("{QUOTA}{path}/{LIMITS}")).is_some() {
            return Some(path);
        }
        at = path::parent(path);
    }
    None
}

/// Refuses what a hard limit does not allow.
pub(super) fn check(tree: &Tree, path: &str, delta: Delta) -> Result<(), ErrorCode> {
    let Some(prefix) = governing(tree, path) else { return Ok(()) };
    let find = |leaf: &str| tree.get(&format!("{QUOTA}{prefix}/{leaf}"));
    let (Some(limits), Some(used)) = (find(LIMITS), find(STATS)) else { return Ok(()) };
    let (limits, used) = (numbers(limits.data.as_ref()), numbers(used.data.as_ref()));
    for (name, hard, delta) in
        [("count", "countHardLimit", delta.count), ("bytes", "byteHardLimit", delta.bytes)]
    {
        let limit = number(&limits, hard);
        if delta != 0 && limit > -1 && number(&used, name).saturating_add(delta) > limit {
            return Err(ErrorCode::QuotaExceeded);
        }
    }
    Ok(())
}

/// Adds a change at `path` to the usage. No version and no zxid changes by it.
pub(super) fn account(tree: &mut Tree, path: &str, delta: Delta) {
    if delta.count == 0 && delta.bytes == 0 {
        return;
    }
    let Some(prefix) = governing(tree, path) else { return };
    let stats = format!("{QUOTA}{prefix}/{STATS}");
    let Some(znode) = tree.get(&stats) else { return };
    let mut used = numbers(znode.data.as_ref());
    for (name, delta) in [("count", delta.count), ("bytes", delta.bytes)] {
        let sum = number(&used, name).saturating_add(delta);
        used.insert(name.to_owned(), sum);
    }
    tree.change(&stats, |znode| znode.data = Some(text(&used)));
}

/// A znode was created; if it is one of usage, the server writes the real usage into it.
pub(super) fn created(tree: &mut Tree, path: &str) {
    let Some(rest) = path.strip_prefix(QUOTA).and_then(|rest| rest.strip_suffix(STATS)) else {
        return;
    };
    let Some(prefix) = rest.strip_suffix('/') else { return };
    if !prefix.is_empty() && !prefix.starts_with('/') {
        return;
    }
    let (mut count, mut bytes) = (0, 0);
    if let Some(top) = tree.get(prefix) {
        (count, bytes) = (1, top.data_bytes());
        for (_, znode) in tree.below(prefix) {
            count += 1;
            bytes += znode.data_bytes();
        }
    }
    let used = BTreeMap::from([("count".to_owned(), count), ("bytes".to_owned(), bytes)]);
    tree.change(path, |znode| znode.data = Some(text(&used)));
}
