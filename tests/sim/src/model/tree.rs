//! The znodes, by their paths.

use std::collections::{BTreeMap, BTreeSet};

use zoolet_jute::{Acl, Id, SessionId, perms};

use super::path;
use super::znode::{Kind, Znode};

/// All znodes. Every change goes through `put`, so that a multi can be undone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tree {
    znodes: BTreeMap<String, Znode>,
    ephemerals: BTreeMap<SessionId, BTreeSet<String>>,
    /// While a multi is under way: what its parts have replaced, as it was before the first.
    replaced: Option<BTreeMap<String, Option<Znode>>>,
}

impl Default for Tree {
    fn default() -> Self {
        let mut znodes = BTreeMap::new();
        let read_only = vec![Acl { perms: perms::READ, id: Id::new("world", "anyone") }];
        let mut root = Znode::built_in(Acl::open());
        root.children.insert("zookeeper".to_owned());
        let mut zookeeper = Znode::built_in(Acl::open());
        zookeeper.children.extend(["config".to_owned(), "quota".to_owned()]);
        let mut config = Znode::built_in(read_only);
        config.aversion = -1;
        znodes.insert("/".to_owned(), root);
        znodes.insert("/zookeeper".to_owned(), zookeeper);
        znodes.insert(path::QUOTA.to_owned(), Znode::built_in(Acl::open()));
        znodes.insert(path::CONFIG.to_owned(), config);
        Self { znodes, ephemerals: BTreeMap::new(), replaced: None }
    }
}

/// The empty path is the root as well.
fn key(path: &str) -> &str {
    if path.is_empty() { "/" } else { path }
}

impl Tree {
    /// The znode at a path.
    pub fn get(&self, path: &str) -> Option<&Znode> {
        self.znodes.get(key(path))
    }

    /// All znodes, in the order of their paths.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &Znode)> {
        self.znodes.iter().map(|(path, znode)| (path.as_str(), znode))
    }

    /// Everything below a path, without the path itself.
    pub fn below(&self, path: &str) -> impl Iterator<Item = (&str, &Znode)> {
        let prefix = format!("{}/", path.trim_end_matches('/'));
        let from = self.znodes.range(prefix.clone()..);
        from.map(|(path, znode)| (path.as_str(), znode))
            .take_while(move |(path, _)| path.starts_with(&prefix))
            .filter(|(path, _)| *path != "/")
    }

    /// The paths of a session's ephemeral znodes.
    pub fn ephemerals(&self, session: SessionId) -> impl Iterator<Item = &str> {
        self.ephemerals.get(&session).into_iter().flatten().map(String::as_str)
    }

    /// The sessions that own ephemeral znodes.
    pub fn owners(&self) -> impl Iterator<Item = SessionId> {
        self.ephemerals.keys().copied()
    }

    /// Puts a znode at a path, or takes it away.
    pub(super) fn put(&mut self, path: &str, znode: Option<Znode>) {
        let path = key(path).to_owned();
        let after = znode.as_ref().map(|znode| znode.kind);
        let before = match znode {
            Some(znode) => self.znodes.insert(path.clone(), znode),
            None => self.znodes.remove(&path),
        };
        if let Some(Kind::Ephemeral(owner)) = before.as_ref().map(|znode| znode.kind)
            && let Some(paths) = self.ephemerals.get_mut(&owner)
        {
            paths.remove(&path);
            if paths.is_empty() {
                self.ephemerals.remove(&owner);
            }
        }
        if let Some(Kind::Ephemeral(owner)) = after {
            self.ephemerals.entry(owner).or_default().insert(path.clone());
        }
        if let Some(replaced) = &mut self.replaced {
            replaced.entry(path).or_insert(before);
        }
    }

    /// Changes the znode at a path, if it is there.
    pub(super) fn change(&mut self, path: &str, change: impl FnOnce(&mut Znode)) {
        if let Some(znode) = self.get(path) {
            let mut znode = znode.clone();
            change(&mut znode);
            self.put(path, Some(znode));
        }
    }

    /// A multi begins.
    pub(super) fn begin(&mut self) {
        self.replaced = Some(BTreeMap::new());
    }

    /// A multi ends: what it did stays, or is undone.
    pub(super) fn end(&mut self, is_undone: bool) {
        let replaced = self.replaced.take().unwrap_or_default();
        if is_undone {
            for (path, znode) in replaced {
                self.put(&path, znode);
            }
        }
    }
}
