//! Where znodes live: in chunks that a snapshot can hold on to while the tree goes on.
//!
//! A chunk is copied when it is written while a snapshot shares it, and not otherwise. Children
//! are not in the chunks: the parent pointers say it all, and a snapshot needs no more.

use std::sync::Arc;

use bytes::Bytes;

use super::chunk::{CHUNK_NODES, SHARED_BYTES_MIN, ZnodeChunk};
use super::names::Names;
use super::znode::{Znode, ZnodeId};

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

/// What only a znode with children has.
#[derive(Clone, Debug, Default)]
struct Parent {
    // Invariant: not empty.
    children: Names,
    below: Below,
}

#[derive(Clone, Debug, Default)]
pub(super) struct Arena {
    chunks: Vec<Arc<ZnodeChunk>>,
    /// By place; `None` stands for no children, which is most.
    parents: Vec<Option<Box<Parent>>>,
    /// Places that deleted znodes have left, the latest on top.
    free: Vec<ZnodeId>,
    len: usize,
    /// Long data that was taken out while something else referred to it.
    replaced: Vec<Bytes>,
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
        let (chunk, place) = position(id);
        self.chunks.get(chunk)?.get(place)
    }

    /// A znode, to change anything but its name and data.
    pub(super) fn get_mut(&mut self, id: ZnodeId) -> Option<&mut Znode> {
        let (chunk, place) = position(id);
        Arc::make_mut(self.chunks.get_mut(chunk)?).get_mut(place)
    }

    /// The last segment of a znode's path; empty for the root.
    pub(super) fn name(&self, id: ZnodeId) -> Option<&str> {
        let (chunk, place) = position(id);
        self.chunks.get(chunk)?.name(place)
    }

    /// The data of a znode; `None` for null as well.
    pub(super) fn data(&self, id: ZnodeId) -> Option<&[u8]> {
        let (chunk, place) = position(id);
        self.chunks.get(chunk)?.data(place)
    }

    /// The data of a znode to keep: long data is shared.
    pub(super) fn shared_data(&self, id: ZnodeId) -> Option<Bytes> {
        let (chunk, place) = position(id);
        self.chunks.get(chunk)?.shared_data(place)
    }

    pub(super) fn set_data(&mut self, id: ZnodeId, data: Option<Bytes>) {
        let (chunk, place) = position(id);
        if let Some(chunk) = self.chunks.get_mut(chunk) {
            let former = Arc::make_mut(chunk).set_data(place, data);
            self.note_replaced(former);
        }
    }

    fn note_replaced(&mut self, former: Option<Bytes>) {
        let is_shared = |data: &Bytes| data.len() >= SHARED_BYTES_MIN && !data.is_unique();
        self.replaced.extend(former.filter(is_shared));
    }

    /// Returns the data of at least [`SHARED_BYTES_MIN`] bytes that was taken out since the last
    /// call while something else, a reply or a snapshot, referred to it.
    pub(super) fn take_replaced(&mut self) -> Vec<Bytes> {
        std::mem::take(&mut self.replaced)
    }

    /// The children in the order of their names.
    pub(super) fn children(&self, id: ZnodeId) -> Option<&Names> {
        self.parents.get(id.0 as usize)?.as_deref().map(|parent| &parent.children)
    }

    pub(super) fn child_count(&self, id: ZnodeId) -> usize {
        self.children(id).map_or(0, Names::len)
    }

    /// What is below this one.
    pub(super) fn below(&self, id: ZnodeId) -> Below {
        let parent = self.parents.get(id.0 as usize).and_then(Option::as_deref);
        parent.map_or(Below::default(), |parent| parent.below)
    }

    /// Notes that there is more below `parent` and all that is above it, or less.
    pub(super) fn count_below(&mut self, parent: ZnodeId, znodes: i32, bytes: i64) {
        let mut at = parent;
        loop {
            // One that has lost its last child has nothing below it.
            if let Some(Some(parent)) = self.parents.get_mut(at.0 as usize) {
                parent.below.add(znodes, bytes);
            }
            let Some(node) = self.get(at).filter(|_| at != ZnodeId::ROOT) else { return };
            at = node.parent;
        }
    }

    /// Counts from nothing what is below each znode. `parents_first` has all of a tree.
    pub(super) fn recount(&mut self, parents_first: &[ZnodeId]) {
        for parent in self.parents.iter_mut().flatten() {
            parent.below = Below::default();
        }
        for &id in parents_first.iter().rev().filter(|&&id| id != ZnodeId::ROOT) {
            let Below { znodes, bytes } = self.below(id);
            let Some(node) = self.get(id) else { continue };
            let (parent, own) = (node.parent, node.data_bytes());
            if let Some(Some(parent)) = self.parents.get_mut(parent.0 as usize) {
                let below = &mut parent.below;
                below.znodes = below.znodes.saturating_add(znodes).saturating_add(1);
                below.bytes = below.bytes.saturating_add(bytes).saturating_add(own);
            }
        }
    }

    /// Gives a znode a place, and leaves its parent as it is.
    pub(super) fn insert(&mut self, node: Znode, name: &str, data: Option<Bytes>) -> ZnodeId {
        self.len += 1;
        let id = self.free.pop().unwrap_or_else(|| {
            let next = u32::try_from(self.parents.len()).expect("fewer than 2³² znodes");
            self.parents.push(None);
            ZnodeId(next)
        });
        let (chunk, place) = position(id);
        if chunk == self.chunks.len() {
            self.chunks.push(Arc::new(ZnodeChunk::new()));
        }
        let chunk = Arc::make_mut(self.chunks.get_mut(chunk).expect("chunks grow one by one"));
        chunk.insert(place, node, name, data);
        id
    }

    /// Takes a znode out, and leaves its parent as it is.
    pub(super) fn remove(&mut self, id: ZnodeId) -> Option<Znode> {
        let (chunk, place) = position(id);
        let (node, data) = Arc::make_mut(self.chunks.get_mut(chunk)?).remove(place)?;
        self.note_replaced(data);
        self.len -= 1;
        self.free.push(id);
        Some(node)
    }

    /// Enters a child into its parent's list; false if one of its name is there, or no parent.
    pub(super) fn adopt(&mut self, child: ZnodeId) -> bool {
        let (chunk, place) = position(child);
        let Some(chunk) = self.chunks.get(chunk) else { return false };
        let (Some(node), Some(name)) = (chunk.get(place), chunk.name(place)) else { return false };
        if self.get(node.parent).is_none() {
            return false;
        }
        let Some(parent) = self.parents.get_mut(node.parent.0 as usize) else { return false };
        parent.get_or_insert_default().children.insert(name, child)
    }

    /// Puts a child with this name on its parent's list; false if the name is taken.
    pub(super) fn list(&mut self, parent: ZnodeId, name: &str, child: ZnodeId) -> bool {
        let Some(parent) = self.parents.get_mut(parent.0 as usize) else { return false };
        parent.get_or_insert_default().children.insert(name, child)
    }

    /// Takes a child off its parent's list, and returns the place that the list has for its name.
    pub(super) fn disown(&mut self, child: ZnodeId) -> Option<ZnodeId> {
        let (chunk, place) = position(child);
        let chunk = self.chunks.get(chunk)?;
        let (node, name) = (chunk.get(place)?, chunk.name(place)?);
        let parent = self.parents.get_mut(node.parent.0 as usize)?;
        let children = &mut parent.as_mut()?.children;
        let listed = children.remove(name);
        if children.is_empty() {
            *parent = None;
        }
        listed
    }

    /// The chunks as they are now: what is written later goes to copies.
    pub(super) fn chunks(&self) -> Vec<Arc<ZnodeChunk>> {
        self.chunks.clone()
    }
}
