//! The tree of an Apache `ZooKeeper` server, as its snapshots and transactions make it.
//!
//! A snapshot is written while transactions go on, so it may hold some of those that follow it in
//! the log. They are applied again, as Apache's servers do: what is there already stays, what is
//! gone stays gone, and counters only rise.

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;
use zoolet_jute::Zxid;
use zoolet_replica::state::Kind;

use crate::acls::{AclPlace, Acls};
use crate::digest::{self, StoredStat};
use crate::owner::kind_beside;
use crate::txn::{CVERSION_UNKNOWN, Change, Create, Txn};

/// A znode.
#[derive(Clone, Debug)]
pub(crate) struct Node {
    pub(crate) data: Option<Bytes>,
    /// `None` if the snapshot lacks its ACL, which a later transaction has.
    pub(crate) acl: Option<AclPlace>,
    pub(crate) stat: StoredStat,
}

/// The znodes and sessions.
#[derive(Clone, Debug, Default)]
pub(crate) struct ApacheTree {
    /// By their paths; the root's is empty.
    nodes: BTreeMap<String, Node>,
    pub(crate) acls: Acls,
    /// The timeouts of all sessions, in milliseconds.
    pub(crate) sessions: BTreeMap<i64, i32>,
    ephemerals: BTreeMap<i64, BTreeSet<String>>,
    /// The sum of the digests of all znodes.
    digest: u64,
}

/// A path as it is in the tree: the root's is empty.
fn key(path: &str) -> &str {
    if path == "/" { "" } else { path }
}

/// The path of the parent; `None` for the root.
pub(crate) fn parent_of(path: &str) -> Option<&str> {
    path.rsplit_once('/').map(|(parent, _)| parent)
}

impl ApacheTree {
    pub(crate) fn len(&self) -> usize {
        self.nodes.len()
    }

    pub(crate) fn digest(&self) -> u64 {
        self.digest
    }

    pub(crate) fn get(&self, path: &str) -> Option<&Node> {
        self.nodes.get(path)
    }

    pub(crate) fn paths(&self) -> impl Iterator<Item = &String> {
        self.nodes.keys()
    }

    pub(crate) fn nodes(&self) -> impl Iterator<Item = (&String, &Node)> {
        self.nodes.iter()
    }

    /// Ends the tree: its znodes one by one, in no order.
    pub(crate) fn into_nodes(self) -> (BTreeMap<String, Node>, Acls, BTreeMap<i64, i32>) {
        (self.nodes, self.acls, self.sessions)
    }

    /// Adds a znode, without a look at its parent. False if it is there already.
    pub(crate) fn insert(&mut self, path: String, node: Node) -> bool {
        if self.nodes.contains_key(&path) {
            return false;
        }
        let added = digest::of_znode(&path, node.data.as_deref(), &node.stat);
        self.digest = self.digest.wrapping_add(added);
        if let Kind::Ephemeral(owner) = self.kind(&node) {
            self.ephemerals.entry(owner.0).or_default().insert(path.clone());
        }
        self.nodes.insert(path, node);
        true
    }

    /// Returns what ends the life of a znode. A session may have a number that is a time to live as
    /// well, so those that exist go first.
    fn kind(&self, node: &Node) -> Kind {
        kind_beside(&self.sessions, node.stat.owner)
    }

    fn remove(&mut self, path: &str) -> bool {
        let Some(node) = self.nodes.remove(path) else { return false };
        let removed = digest::of_znode(path, node.data.as_deref(), &node.stat);
        self.digest = self.digest.wrapping_sub(removed);
        if let Some(paths) = self.ephemerals.get_mut(&node.stat.owner) {
            paths.remove(path);
            if paths.is_empty() {
                self.ephemerals.remove(&node.stat.owner);
            }
        }
        true
    }

    /// Changes a znode. False if it does not exist.
    fn change(&mut self, path: &str, change: impl FnOnce(&mut Node)) -> bool {
        let Some(node) = self.nodes.get_mut(path) else { return false };
        let before = digest::of_znode(path, node.data.as_deref(), &node.stat);
        change(node);
        let after = digest::of_znode(path, node.data.as_deref(), &node.stat);
        self.digest = self.digest.wrapping_sub(before).wrapping_add(after);
        true
    }

    /// Applies a transaction. Returns how many of its changes had no effect, because the snapshot
    /// holds them or a later one already.
    pub(crate) fn apply(&mut self, txn: Txn) -> u64 {
        let Txn { session, zxid, time, change, .. } = txn;
        match change {
            Change::CreateSession { timeout_ms } => {
                self.sessions.insert(session, timeout_ms);
                0
            }
            Change::CloseSession { paths } => {
                self.sessions.remove(&session);
                self.end_session(session, &paths, zxid);
                0
            }
            Change::Multi(parts) => {
                let apply = |part| u64::from(!self.apply_one(part, zxid, time));
                parts.into_iter().map(apply).sum()
            }
            Change::Create(_)
            | Change::Delete { .. }
            | Change::SetData { .. }
            | Change::SetAcl { .. }
            | Change::Nothing => u64::from(!self.apply_one(change, zxid, time)),
        }
    }

    fn apply_one(&mut self, change: Change, zxid: Zxid, time: i64) -> bool {
        match change {
            Change::Create(create) => self.create(create, zxid, time),
            Change::Delete { path } => self.delete(&path, zxid),
            Change::SetData { path, data, version } => self.change(key(&path), |node| {
                node.data = data;
                (node.stat.version, node.stat.mzxid, node.stat.mtime) = (version, zxid.0, time);
            }),
            Change::SetAcl { path, acl, version } => {
                let acl = self.acls.place(acl);
                self.change(key(&path), |node| {
                    (node.acl, node.stat.aversion) = (Some(acl), version);
                })
            }
            Change::Nothing
            | Change::Multi(_)
            | Change::CreateSession { .. }
            | Change::CloseSession { .. } => true,
        }
    }

    fn create(&mut self, create: Create, zxid: Zxid, time: i64) -> bool {
        let Create { path, data, acl, owner, parent_cversion, corrects_parent } = create;
        let parent = parent_of(&path).unwrap_or_default().to_owned();
        if !self.nodes.contains_key(&parent) {
            return false;
        }
        let acl = Some(self.acls.place(acl));
        let exists = self.change(&path, |node| node.acl = acl);
        if !exists || corrects_parent {
            self.child_created(&parent, parent_cversion, zxid);
        }
        if exists {
            return false;
        }
        let stat = StoredStat {
            czxid: zxid.0,
            mzxid: zxid.0,
            pzxid: zxid.0,
            ctime: time,
            mtime: time,
            owner,
            ..StoredStat::default()
        };
        self.insert(path, Node { data, acl, stat })
    }

    fn child_created(&mut self, parent: &str, cversion: i32, zxid: Zxid) {
        self.change(parent, |node| {
            let next = match cversion {
                CVERSION_UNKNOWN => node.stat.cversion.wrapping_add(1),
                cversion => cversion,
            };
            if next > node.stat.cversion {
                (node.stat.cversion, node.stat.pzxid) = (next, zxid.0);
            }
        });
    }

    fn delete(&mut self, path: &str, zxid: Zxid) -> bool {
        let Some(parent) = parent_of(path) else { return false };
        let raise = |node: &mut Node| node.stat.pzxid = node.stat.pzxid.max(zxid.0);
        if !self.change(parent, raise) {
            return false;
        }
        // A snapshot that was written meanwhile may have what was created below it afterwards. That
        // is created again, and has to count as the first time.
        let prefix = format!("{path}/");
        let below = self.nodes.range(prefix.clone()..).map(|(below, _)| below);
        let below: Vec<_> = below.take_while(|below| below.starts_with(&prefix)).cloned().collect();
        for below in &below {
            self.remove(below);
        }
        self.remove(path)
    }

    /// Deletes a session's ephemeral znodes: those that its end names, and those that it owns.
    fn end_session(&mut self, session: i64, paths: &[String], zxid: Zxid) {
        let mut owned = self.ephemerals.remove(&session).unwrap_or_default();
        for path in paths {
            owned.remove(path);
            self.delete(path, zxid);
        }
        for path in &owned {
            self.delete(path, zxid);
        }
    }

    /// Deletes the ephemeral znodes of sessions that do not exist, as Apache's start does. Returns
    /// how many there were.
    pub(crate) fn end_unknown_sessions(&mut self, zxid: Zxid) -> usize {
        let unknown = |session: &i64| !self.sessions.contains_key(session);
        let unknown: Vec<i64> = self.ephemerals.keys().copied().filter(unknown).collect();
        let before = self.len();
        for session in unknown {
            self.end_session(session, &[], zxid);
        }
        before - self.len()
    }

    /// Replaces a znode's data without a trace in its numbers, as Apache does with the usage of a
    /// quota.
    pub(crate) fn set_local_data(&mut self, path: &str, data: Bytes) {
        self.change(path, |node| node.data = Some(data));
    }
}
