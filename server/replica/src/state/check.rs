//! The whole state against itself, in as much time as it has znodes and sessions: for tests and for
//! fuzz targets. What can be checked in constant time is checked by `invariant!` where it changes.

use std::collections::BTreeMap;

use zoolet_jute::SessionId;

use super::State;
use super::arena::Below;
use super::names::Names;
use super::tree::Tree;
use super::znode::{Kind, ZnodeId};

impl State {
    /// Ends the program if counts, indexes and digests are not those of the znodes and sessions.
    /// Between the steps of a command they need not be.
    pub fn check(&self) {
        self.tree.check();
        for owner in self.tree.ephemeral_owners(None) {
            let is_session = self.sessions.get(owner).is_some();
            invariant!(is_session, "session {owner} has ended and owns znodes");
        }
        let (listed, counted) = (self.sessions.iter().count(), self.sessions.len());
        invariant!(listed == counted, "{listed} sessions are counted as {counted}");
        let (kept, computed) = (self.digest(), self.digest_recomputed());
        invariant!(kept == computed, "the digest is {kept:x} and that of the content {computed:x}");
    }
}

impl Tree {
    fn check(&self) {
        let mut waiting = vec![ZnodeId::ROOT];
        let mut parents_first = Vec::new();
        let (mut ephemerals, mut data_bytes) = (BTreeMap::<SessionId, usize>::new(), 0);
        while let Some(id) = waiting.pop() {
            parents_first.push(id);
            let node = self.node(id);
            data_bytes += node.data_bytes();
            for (name, child) in self.children(id).into_iter().flat_map(Names::iter) {
                let (parent, own_name) = (self.node(child).parent, self.name(child));
                let is_linked = parent == id && own_name == name;
                invariant!(is_linked, "{name} below znode {} is {own_name} of {parent:?}", id.0);
                waiting.push(child);
            }
            let is_listed = self.reapable(id).next() == Some(id);
            let is_reapable = node.kind.is_reapable();
            invariant!(
                is_listed == is_reapable,
                "znode {} is listed as reapable: {is_listed}",
                id.0
            );
            if let Kind::Ephemeral(owner) = node.kind {
                *ephemerals.entry(owner).or_default() += 1;
                let path = self.path_of(id);
                let listed = self.ephemerals(owner).and_then(|of_owner| of_owner.get(&path));
                invariant!(listed == Some(id), "session {owner} has {path} as {listed:?}");
            }
        }
        let (found, counted) = (parents_first.len(), self.len());
        invariant!(found == counted, "{found} znodes are counted as {counted}");
        let kept = self.data_bytes();
        invariant!(data_bytes == kept, "{data_bytes} bytes of data are counted as {kept}");
        for (owner, found) in &ephemerals {
            let listed = self.ephemerals(*owner).map_or(0, Names::len);
            invariant!(*found == listed, "session {owner} owns {found} znodes, listed: {listed}");
        }
        let (found, counted) = (ephemerals.values().sum::<usize>(), self.ephemerals_count());
        invariant!(found == counted, "{found} ephemeral znodes are counted as {counted}");
        self.check_below(&parents_first);
    }

    /// Counts what is below each znode anew.
    fn check_below(&self, parents_first: &[ZnodeId]) {
        let mut counted = BTreeMap::<ZnodeId, Below>::new();
        for &id in parents_first.iter().rev() {
            let own = counted.get(&id).copied().unwrap_or_default();
            let kept = self.below(id);
            invariant!(own == kept, "below znode {} are {own:?}, counted: {kept:?}", id.0);
            let node = self.node(id);
            if id != ZnodeId::ROOT {
                let above = counted.entry(node.parent).or_default();
                above.znodes += own.znodes + 1;
                above.bytes += own.bytes + node.data_bytes();
            }
        }
    }
}
