//! How a tree is put together from the znodes of a snapshot.

use bytes::Bytes;
use zoolet_jute::Acl;

use super::{AclId, Kind, Names, Tree, Znode, ZnodeId, hash_data, hash_path};
use crate::state::path;

/// A tree to which znodes are added in any order, the root first.
///
/// A znode that comes behind its parent is connected at once, while both are in the processor's cache.
#[derive(Debug)]
pub(in crate::state) struct TreeBuilder {
    tree: Tree,
    /// By place: whether the znode is connected with the root.
    is_connected: Vec<bool>,
    /// The connected znodes, each behind its parent.
    connected: Vec<ZnodeId>,
    /// Znodes that came before their parents were connected.
    early: Vec<ZnodeId>,
}

impl TreeBuilder {
    /// Begins with a tree that has no znode.
    pub(in crate::state) fn new(tree: Tree) -> Self {
        Self { tree, is_connected: Vec::new(), connected: Vec::new(), early: Vec::new() }
    }

    /// Adds an ACL, or counts one more user of an equal one.
    pub(in crate::state) fn hold_acl(&mut self, acl: &[Acl]) -> AclId {
        self.tree.hold_acl(acl)
    }

    /// Adds a znode. Returns false if a sibling has its name.
    pub(in crate::state) fn add(
        &mut self,
        mut node: Znode,
        name: &str,
        data: Option<Bytes>,
    ) -> bool {
        node.data_hash = hash_data(data.as_deref());
        self.tree.acls.hold_again(node.acl);
        let (parent, is_root) = (node.parent, self.is_connected.is_empty());
        let id = self.tree.arena.insert(node, name, data);
        self.is_connected.push(false);
        if is_root {
            self.connect(id, 0);
            return true;
        }
        if !self.is_connected(parent) {
            self.early.push(id);
            return true;
        }
        let is_new = self.tree.arena.list(parent, name, id);
        let path_hash = hash_path(self.tree.node(parent).path_hash, name);
        self.connect(id, path_hash);
        is_new
    }

    /// Connects the znodes that came early. Returns `None` if all of them make no tree: a parent
    /// is missing, two siblings have one name, or there is a circle.
    pub(in crate::state) fn finish(mut self) -> Option<Tree> {
        if !self.early.iter().all(|&id| self.tree.arena.adopt(id)) {
            return None;
        }
        let below = std::mem::take(&mut self.early);
        let mut waiting: Vec<_> =
            below.into_iter().filter(|&id| self.is_connected(self.tree.node(id).parent)).collect();
        while let Some(id) = waiting.pop() {
            let parent = self.tree.node(id).parent;
            let path_hash = hash_path(self.tree.node(parent).path_hash, self.tree.name(id));
            self.connect(id, path_hash);
            let children = self.tree.arena.children(id).into_iter().flat_map(Names::iter);
            waiting.extend(children.map(|(_, child)| child));
        }
        let Self { mut tree, connected, .. } = self;
        tree.arena.recount(&connected);
        let is_ephemeral_parent = |id: ZnodeId| {
            matches!(tree.node(id).kind, Kind::Ephemeral(_)) && tree.child_count(id) > 0
        };
        let is_tree = connected.len() == tree.arena.len()
            && !tree
                .ephemerals
                .values()
                .flat_map(Names::iter)
                .any(|(_, id)| is_ephemeral_parent(id))
            && [path::QUOTA, path::CONFIG].iter().all(|path| tree.find(path).is_some());
        tree.locks.settle();
        is_tree.then_some(tree)
    }

    fn is_connected(&self, id: ZnodeId) -> bool {
        self.is_connected.get(id.0 as usize).copied().unwrap_or_default()
    }

    /// Notes that the path of a znode is known, and puts it into the indexes.
    fn connect(&mut self, id: ZnodeId, path_hash: u64) {
        if let Some(node) = self.tree.arena.get_mut(id) {
            node.path_hash = path_hash;
        }
        if let Some(is_connected) = self.is_connected.get_mut(id.0 as usize) {
            *is_connected = true;
        }
        self.connected.push(id);
        self.tree.index(id);
    }
}
