//! Where znodes live: in chunks that a snapshot can hold on to while the tree goes on.
//!
//! A chunk is copied when it is written while a snapshot shares it, and not otherwise. Children
//! are not in the chunks: the parent pointers say it all, and a snapshot needs no more.

use std::sync::Arc;

use super::names::Names;
use super::znode::{Znode, ZnodeId};

/// Znodes in a chunk: a copy costs about 9 KiB.
pub(super) const CHUNK_NODES: usize = 64;

pub(super) type ZnodeChunk = Vec<Option<Znode>>;

/// What is below a znode, at any depth.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Below {
    pub(super) znodes: u32,
    /// Of their data.
    pub(super) bytes: u64,
}

impl Below {
    fn add(&mut self, znodes: i32, bytes: i64) {
        self.znodes = self.znodes.saturating_add_signed(znodes);
        self.bytes = self.bytes.saturating_add_signed(bytes);
    }
}

#[derive(Clone, Debug, Default)]
pub(super) struct Arena {
    chunks: Vec<Arc<ZnodeChunk>>,
    /// By place; `None` stands for no children, which is most.
    children: Vec<Option<Box<Names>>>,
    /// By place: what is below the znode there.
    below: Vec<Below>,
    /// Places that deleted znodes have left, the latest on top.
    free: Vec<ZnodeId>,
    len: usize,
}

const fn position(id: ZnodeId) -> (usize, usize) {
    let index = id.0 as usize;
    (index / CHUNK_NODES, index % CHUNK_NODES)
}

impl Arena {
    pub(super) fn len(&self) -> usize {
        self.len
    }

    pub(super) fn get(&self, id: ZnodeId) -> Option<&Znode> {
        let (chunk, pending) = position(id);
        self.chunks.get(chunk)?.get(pending)?.as_ref()
    }

    pub(super) fn get_mut(&mut self, id: ZnodeId) -> Option<&mut Znode> {
        let (chunk, pending) = position(id);
        Arc::make_mut(self.chunks.get_mut(chunk)?).get_mut(pending)?.as_mut()
    }

    /// The children in the order of their names.
    pub(super) fn children(&self, id: ZnodeId) -> Option<&Names> {
        self.children.get(id.0 as usize)?.as_deref()
    }

    pub(super) fn child_count(&self, id: ZnodeId) -> usize {
        self.children(id).map_or(0, Names::len)
    }

    /// What is below this one.
    pub(super) fn below(&self, id: ZnodeId) -> Below {
        self.below.get(id.0 as usize).copied().unwrap_or_default()
    }

    /// Notes that there is more below `parent` and all that is above it, or less.
    pub(super) fn count_below(&mut self, parent: ZnodeId, znodes: i32, bytes: i64) {
        let mut at = parent;
        while let Some(below) = self.below.get_mut(at.0 as usize) {
            below.add(znodes, bytes);
            let Some(node) = self.get(at).filter(|_| at != ZnodeId::ROOT) else { return };
            at = node.parent;
        }
    }

    /// Counts from nothing what is below each znode. `parents_first` has all of a tree.
    pub(super) fn recount(&mut self, parents_first: &[ZnodeId]) {
        self.below.fill(Below::default());
        for &id in parents_first.iter().rev().filter(|&&id| id != ZnodeId::ROOT) {
            let Below { znodes, bytes } = self.below(id);
            let Some(node) = self.get(id) else { continue };
            let (parent, own) = (node.parent, node.data_bytes());
            if let Some(below) = self.below.get_mut(parent.0 as usize) {
                below.znodes = below.znodes.saturating_add(znodes).saturating_add(1);
                below.bytes = below.bytes.saturating_add(bytes).saturating_add(own);
            }
        }
    }

    /// Gives a znode a place, and leaves its parent as it is.
    pub(super) fn insert(&mut self, node: Znode) -> ZnodeId {
        self.len += 1;
        let id = self.free.pop().unwrap_or_else(|| {
            let next = u32::try_from(self.children.len()).expect("fewer than 2³² znodes");
            self.children.push(None);
            self.below.push(Below::default());
            ZnodeId(next)
        });
        let (chunk, pending) = position(id);
        if chunk == self.chunks.len() {
            self.chunks.push(Arc::new(Vec::with_capacity(CHUNK_NODES)));
        }
        let chunk = Arc::make_mut(self.chunks.get_mut(chunk).expect("chunks grow one by one"));
        match chunk.get_mut(pending) {
            Some(place) => {
                invariant!(place.is_none(), "the free place {} has a znode", id.0);
                *place = Some(node);
            }
            None => chunk.push(Some(node)),
        }
        id
    }

    /// Takes a znode out, and leaves its parent as it is.
    pub(super) fn remove(&mut self, id: ZnodeId) -> Option<Znode> {
        let (chunk, pending) = position(id);
        let node = Arc::make_mut(self.chunks.get_mut(chunk)?).get_mut(pending)?.take()?;
        self.len -= 1;
        self.free.push(id);
        Some(node)
    }

    /// Enters a child into its parent's list; false if one of that name is there.
    pub(super) fn adopt(&mut self, parent: ZnodeId, name: &str, child: ZnodeId) -> bool {
        let Some(children) = self.children.get_mut(parent.0 as usize) else { return false };
        children.get_or_insert_default().insert(name, child)
    }

    /// Takes a child off its parent's list, and returns its place; `None` if it was not there.
    pub(super) fn disown(&mut self, parent: ZnodeId, name: &str) -> Option<ZnodeId> {
        let place = self.children.get_mut(parent.0 as usize)?;
        let children = place.as_mut()?;
        let child = children.remove(name);
        if children.is_empty() {
            *place = None;
        }
        child
    }

    /// The chunks as they are now: what is written later goes to copies.
    pub(super) fn chunks(&self) -> Vec<Arc<ZnodeChunk>> {
        self.chunks.clone()
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (ZnodeId, &Znode)> {
        let pending_requests = self.chunks.iter().enumerate().flat_map(|(chunk, nodes)| {
            nodes
                .iter()
                .enumerate()
                .map(move |(pending, node)| (chunk * CHUNK_NODES + pending, node))
        });
        pending_requests
            .filter_map(|(index, node)| Some((ZnodeId(u32::try_from(index).ok()?), node.as_ref()?)))
    }
}
