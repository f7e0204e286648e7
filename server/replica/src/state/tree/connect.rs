//! How a tree is put together from the znodes of a snapshot.

use bytes::Bytes;

use super::{Kind, Names, Tree, Znode, ZnodeId, hash_data, hash_path};
use crate::state::path;

impl Tree {
    /// Gives a znode its place; its parent may come later, see [`Tree::connect`].
    pub(in crate::state) fn place(&mut self, mut node: Znode, name: &str, data: Option<Bytes>) {
        node.data_hash = hash_data(data.as_deref());
        self.acls.hold_again(node.acl);
        self.arena.insert(node, name, data);
    }

    /// Connects all placed znodes with their parents, and builds the indexes. False if that makes
    /// no tree: a parent is missing, two siblings have one name, or there is a circle.
    pub(in crate::state) fn connect(&mut self) -> bool {
        let ids: Vec<_> = self.arena.ids().skip(1).collect();
        if !ids.into_iter().all(|id| self.arena.adopt(id)) {
            return false;
        }
        let mut reached = Vec::with_capacity(self.arena.len());
        let mut waiting = vec![(ZnodeId::ROOT, 0)];
        while let Some((id, path_hash)) = waiting.pop() {
            let Some(node) = self.arena.get_mut(id) else { return false };
            node.path_hash = path_hash;
            reached.push(id);
            for (name, child) in self.arena.children(id).into_iter().flat_map(Names::iter) {
                waiting.push((child, hash_path(path_hash, name)));
            }
            self.index(id);
        }
        self.arena.recount(&reached);
        let is_ephemeral_parent = |id: ZnodeId| {
            matches!(self.node(id).kind, Kind::Ephemeral(_)) && self.child_count(id) > 0
        };
        reached.len() == self.arena.len()
            && !self
                .ephemerals
                .values()
                .flat_map(Names::iter)
                .any(|(_, id)| is_ephemeral_parent(id))
            && [path::QUOTA, path::CONFIG].iter().all(|path| self.find(path).is_some())
    }
}
