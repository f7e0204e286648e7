//! The tree as a state of zoolet.

use std::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;
use zoolet_jute::{SessionId, Zxid};
use zoolet_replica::state::{AclNumber, Kind, State, StateBuilder, ZnodeNumber, ZnodeNumbers};

use crate::digest::StoredStat;
use crate::owner::kind_beside;
use crate::tree::{ApacheTree, Node, parent_of};

/// Quotas are below it: `zookeeper_limits` and `zookeeper_stats` at the path that they are for.
const QUOTA: &str = "/zookeeper/quota";
const LIMITS: &str = "/zookeeper_limits";
const STATS: &str = "/zookeeper_stats";

/// The numbers of what is below it are not all numbers of transactions.
const BUILT_IN: &str = "/zookeeper";

/// Makes a state of a tree, or says what in it is not possible.
pub(crate) fn convert(mut tree: ApacheTree, last: Zxid) -> Result<State, String> {
    count_quotas(&mut tree);
    let (nodes, acls, sessions) = tree.into_nodes();
    let mut builder = StateBuilder::default();
    for (&id, &timeout_ms) in &sessions {
        if timeout_ms < 0 {
            return Err(format!("session {id:#x} has a timeout of {timeout_ms} ms"));
        }
        builder.session(SessionId(id), timeout_ms).map_err(|error| error.to_string())?;
    }
    let acls: Vec<AclNumber> = acls.list().iter().map(|acl| builder.acl(acl)).collect();
    let mut nodes: Vec<(String, Node)> = nodes.into_iter().collect();
    nodes.sort_unstable_by(|(a, _), (b, _)| depth_first(a, b));
    let mut above: Vec<(String, ZnodeNumber, Kind)> = Vec::new();
    for (path, node) in nodes {
        let parent = parent_of(&path);
        while above.last().is_some_and(|(known, ..)| Some(known.as_str()) != parent) {
            above.pop();
        }
        let found = above.last().map(|(_, number, kind)| (*number, *kind));
        if found.is_none() != parent.is_none() {
            return Err(format!("znode `{path}` has no parent"));
        }
        if let Some((_, Kind::Ephemeral(owner))) = found {
            return Err(format!("znode `{path}` is below an ephemeral znode of session {owner}"));
        }
        let kind = kind_beside(&sessions, node.stat.owner);
        let numbers = numbers_of(&path, &node.stat, kind, last)?;
        let acl = node.acl.and_then(|acl| acl.of(&acls).copied());
        let acl = acl.ok_or_else(|| format!("znode `{path}` has an ACL that does not exist"))?;
        let name = path.rsplit('/').next().unwrap_or_default();
        let parent = found.map(|(number, _)| number);
        let number = builder.znode(parent, name, node.data, acl, &numbers);
        let number = number.map_err(|error| format!("znode `{path}`: {error}"))?;
        above.push((path, number, numbers.kind));
    }
    builder.finish(last).map_err(|error| error.to_string())
}

/// The order in which each znode comes before what is below it, and that before its next sibling.
fn depth_first(a: &str, b: &str) -> Ordering {
    let rank = |byte: u8| if byte == b'/' { 0 } else { u16::from(byte) + 1 };
    a.bytes().map(rank).cmp(b.bytes().map(rank))
}

fn numbers_of(
    path: &str,
    stat: &StoredStat,
    kind: Kind,
    last: Zxid,
) -> Result<ZnodeNumbers, String> {
    let StoredStat { czxid, mzxid, pzxid, ctime, mtime, version, cversion, aversion, .. } = *stat;
    let latest = czxid.max(mzxid).max(pzxid);
    let is_built_in =
        path.strip_prefix(BUILT_IN).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'));
    if latest > last.0 && !is_built_in {
        return Err(format!(
            "znode `{path}` was changed by transaction {latest:#x}, behind the last one, {:#x}",
            last.0
        ));
    }
    Ok(ZnodeNumbers {
        kind,
        czxid: Zxid(czxid),
        mzxid: Zxid(mzxid),
        pzxid: Zxid(pzxid),
        ctime,
        mtime,
        version,
        aversion,
        // One that has overflowed stays what it is on the wire.
        created: cversion.cast_unsigned(),
    })
}

/// Counts the usage of each quota anew, as Apache's servers do at each start: transactions do not
/// have it.
fn count_quotas(tree: &mut ApacheTree) {
    for (subject, (count, bytes)) in quota_usage(tree) {
        let usage = Bytes::from(format!("count={count},bytes={bytes}"));
        tree.set_local_data(&format!("{QUOTA}{subject}{STATS}"), usage);
    }
}

/// Returns the number of znodes and of their bytes for each quota that has a znode for it. The tree
/// is walked once: of each path only the beginnings that are as long as some quota's path are looked
/// up, however many quotas there are.
fn quota_usage(tree: &ApacheTree) -> BTreeMap<String, (u64, u64)> {
    let subject = |path: &String| path.strip_prefix(QUOTA)?.strip_suffix(LIMITS).map(str::to_owned);
    let has_stats = |subject: &String| tree.get(&format!("{QUOTA}{subject}{STATS}")).is_some();
    let subjects = tree.paths().filter_map(subject).filter(has_stats);
    let mut usage: BTreeMap<String, (u64, u64)> =
        subjects.map(|subject| (subject, (0, 0))).collect();
    let lengths: BTreeSet<usize> = usage.keys().map(String::len).collect();
    for (path, node) in tree.nodes() {
        let bytes = node.data.as_ref().map_or(0, |data| data.len() as u64);
        for length in lengths.range(..=path.len()) {
            let Some((above, rest)) = path.split_at_checked(*length) else { continue };
            if !rest.is_empty() && !rest.starts_with('/') {
                continue;
            }
            if let Some((count, sum)) = usage.get_mut(above) {
                *count += 1;
                *sum += bytes;
            }
        }
    }
    usage
}
