//! How a tree is put together from the znodes of a snapshot.

use std::sync::Arc;

use super::{Kind, Names, Tree, Znode, ZnodeId, hash_data, hash_path};
use crate::state::path;

impl Tree {
    /// Gives a znode its place; its parent may come later, see [`Tree::connect`].
    pub(in crate::state) fn place(&mut self, mut node: Znode) {
        node.data_hash = hash_data(node.data.as_ref());
        self.acls.hold_again(node.acl);
        self.arena.insert(node);
    }

    /// Connects all placed znodes with their parents, and builds the indexes. False if that makes
    /// no tree: a parent is missing, two siblings have one name, or there is a circle.
    pub(in crate::state) fn connect(&mut self) -> bool {
        let links: Vec<(ZnodeId, ZnodeId, Arc<str>)> = self
            .arena
            .iter()
            .skip(1)
            .map(|(id, node)| (id, node.parent, Arc::clone(&node.name)))
            .collect();
        for (id, parent, name) in links {
            if self.arena.get(parent).is_none() || !self.arena.adopt(parent, &name, id) {
                return false;
            }
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
