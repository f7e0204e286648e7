//! Names in order, each with its znode: the children of a znode, or the ephemeral znodes of a
//! session by their paths.
//!
//! A copy shares everything and costs nothing. So a reply with 100,000 names holds on to a copy and
//! is written without the lock.

use super::znode::ZnodeId;
use crate::byte_map::{self, ByteMap};

/// The bytes of the length in front of a name on the wire.
const LENGTH_BYTES: usize = 4;

pub(super) type Leaf = byte_map::Leaf<ZnodeId>;
pub(super) type Leaves = byte_map::Leaves<ZnodeId>;

#[derive(Clone, Debug, Default)]
pub(super) struct Names(ByteMap<ZnodeId>);

/// A name as text again.
pub(super) fn text(name: &[u8]) -> &str {
    std::str::from_utf8(name).expect("a name was text when it came")
}

impl Names {
    pub(super) const fn len(&self) -> usize {
        self.0.len()
    }

    pub(super) const fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The bytes of all names as a list on the wire, without the count.
    pub(super) const fn wire_bytes(&self) -> usize {
        self.0.key_bytes() + LENGTH_BYTES * self.0.len()
    }

    pub(super) fn get(&self, name: &str) -> Option<ZnodeId> {
        self.0.get(name.as_bytes()).copied()
    }

    /// Adds a name; false if it is there already.
    pub(super) fn insert(&mut self, name: &str, id: ZnodeId) -> bool {
        self.0.insert(name.as_bytes(), id)
    }

    /// Removes a name, and returns its znode.
    pub(super) fn remove(&mut self, name: &str) -> Option<ZnodeId> {
        self.0.remove(name.as_bytes())
    }

    /// The leaves in order; each is freed when it was used.
    pub(super) fn into_leaves(self) -> Leaves {
        self.0.into_leaves()
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (&str, ZnodeId)> {
        self.0.iter().map(|(name, id)| (text(name), *id))
    }

    /// A leaf by its number; `None` behind the last.
    pub(super) fn leaf(&self, number: usize) -> Option<&Leaf> {
        self.0.leaf(number)
    }

    /// The number of the leaf in which a name would be.
    pub(super) fn part_of(&self, name: &str) -> usize {
        self.0.part_of(name.as_bytes())
    }
}

/// The paths of a session's ephemeral znodes at one moment, in order.
#[derive(Clone, Debug, Default)]
pub struct PathList(Names);

impl PathList {
    pub(super) fn of(names: Option<&Names>) -> Self {
        Self(names.cloned().unwrap_or_default())
    }

    /// The paths.
    pub fn iter(&self) -> impl Iterator<Item = &str> {
        self.0.iter().map(|(path, _)| path)
    }
}
