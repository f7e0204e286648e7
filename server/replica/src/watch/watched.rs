//! The paths that one connection watches.

use std::ops::Bound;
use std::sync::Arc;

use super::table::WatchTable;
use crate::sorted_map::SortedMap;

/// A set of paths in order. Many connections have one: the contenders of a lock.
#[derive(Debug)]
pub(super) enum Watched {
    One(Arc<str>),
    // Boxed, because there is one of these for each connection.
    Many(Box<PathSet>),
}

#[derive(Debug, Default)]
pub(super) struct PathSet {
    paths: SortedMap<Arc<str>, ()>,
    len: usize,
    // Invariant: the sum of `WatchTable::bytes_of` over the paths.
    bytes: usize,
}

impl Watched {
    pub(super) fn len(&self) -> usize {
        match self {
            Self::One(_) => 1,
            Self::Many(set) => set.len,
        }
    }

    /// The memory of the watches.
    pub(super) fn bytes(&self) -> usize {
        match self {
            Self::One(path) => WatchTable::bytes_of(path),
            Self::Many(set) => set.bytes,
        }
    }

    pub(super) fn contains(&self, path: &str) -> bool {
        match self {
            Self::One(only) => **only == *path,
            Self::Many(set) => set.paths.get(path).is_some(),
        }
    }

    /// Adds a path; false if it is there already.
    pub(super) fn insert(&mut self, path: Arc<str>) -> bool {
        match self {
            Self::One(only) if *only == path => false,
            Self::One(only) => {
                let mut set = Box::<PathSet>::default();
                set.insert(Arc::clone(only));
                set.insert(path);
                *self = Self::Many(set);
                true
            }
            Self::Many(set) => set.insert(path),
        }
    }

    /// Removes a path, and returns how many are left; `None` if it is not there. With the last of
    /// them the set is to be dropped.
    pub(super) fn remove(&mut self, path: &str) -> Option<usize> {
        match self {
            Self::One(only) => (**only == *path).then_some(0),
            Self::Many(set) => {
                set.paths.remove(path)?;
                let (len, bytes) = (set.len, set.bytes);
                let is_counted = len > 0 && bytes >= WatchTable::bytes_of(path);
                invariant!(is_counted, "a watch is one of {len} of {bytes} bytes");
                set.len -= 1;
                set.bytes -= WatchTable::bytes_of(path);
                Some(set.len)
            }
        }
    }

    /// The paths behind `after`, in order.
    pub(super) fn behind(&self, after: Option<&str>) -> impl Iterator<Item = &Arc<str>> {
        let (one, many) = match self {
            Self::One(only) => (Some(only), None),
            Self::Many(set) => (None, Some(set)),
        };
        let one = one.filter(|only| after.is_none_or(|after| *after < ***only));
        let from = after.map_or(Bound::Unbounded, Bound::Excluded);
        let many = many.into_iter().flat_map(move |set| set.paths.range(from));
        one.into_iter().chain(many.map(|(path, ())| path))
    }
}

impl PathSet {
    fn insert(&mut self, path: Arc<str>) -> bool {
        let bytes = WatchTable::bytes_of(&path);
        let is_new = self.paths.insert(path, ());
        if is_new {
            self.len += 1;
            self.bytes += bytes;
        }
        is_new
    }
}
