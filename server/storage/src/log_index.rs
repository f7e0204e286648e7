//! The places of entries in the log.

use std::fmt;

/// The place of an entry in the log, counted from the log's beginning. Entries of all kinds count.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LogIndex(pub u64);

impl LogIndex {
    /// Returns the index of the next entry; `None` behind the largest.
    pub const fn next(self) -> Option<Self> {
        match self.0.checked_add(1) {
            Some(index) => Some(Self(index)),
            None => None,
        }
    }

    /// Returns the index of the entry before; `None` for the first.
    pub const fn previous(self) -> Option<Self> {
        match self.0.checked_sub(1) {
            Some(index) => Some(Self(index)),
            None => None,
        }
    }

    /// Returns how many entries it is behind `start`; `None` if it precedes it.
    pub const fn entries_since(self, start: Self) -> Option<u64> {
        self.0.checked_sub(start.0)
    }
}

impl fmt::Display for LogIndex {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}
