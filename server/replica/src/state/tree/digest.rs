//! The digest of a tree from the beginning, to check the one that each change keeps up to date.

use super::{Names, Tree, ZnodeId, access, hash_data, hash_path};

impl Tree {
    /// The sum of the digests, from nothing but names, data, ACLs and numbers.
    pub(in crate::state) fn digest_recomputed(&self) -> u64 {
        let mut sum = 0_u64;
        let mut waiting = vec![(ZnodeId::ROOT, 0)];
        while let Some((id, path_hash)) = waiting.pop() {
            let mut node = *self.node(id);
            node.path_hash = path_hash;
            node.data_hash = hash_data(self.arena.data(id));
            sum = sum.wrapping_add(node.digest(access::hash_acl(self.acls.get(node.acl))));
            for (name, child) in self.arena.children(id).into_iter().flat_map(Names::iter) {
                waiting.push((child, hash_path(path_hash, name)));
            }
        }
        sum
    }
}
