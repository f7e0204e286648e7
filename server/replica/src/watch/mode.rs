//! How a connection watches a path, and what a change at a path selects (protocol §8.1, §8.3).

use zoolet_jute::WatcherType;

/// The ways in which one connection watches one path: independent bits.
///
/// ZooKeeper keeps a data table and a child table. A persistent watch is always in both, so one
/// set of four bits says the same in half the memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Modes(u8);

impl Modes {
    /// One-shot, in the data table: of `getData` and `exists`.
    pub(crate) const DATA: Self = Self(1);
    /// One-shot, in the child table: of `getChildren`.
    pub(crate) const CHILD: Self = Self(2);
    /// In both tables, until removed.
    pub(crate) const PERSISTENT: Self = Self(4);
    /// In the data table, for the path and everything below it, until removed.
    pub(crate) const RECURSIVE: Self = Self(8);

    /// Every one of them.
    const ALL: Self = Self(15);
    /// Those in the data table.
    const DATA_TABLE: Self = Self(1 | 4 | 8);
    /// Those in the child table.
    const CHILD_TABLE: Self = Self(2 | 4);

    /// What a `checkWatches` or `removeWatches` means.
    pub(crate) const fn of(watcher_type: WatcherType) -> Self {
        match watcher_type {
            WatcherType::Children => Self::CHILD,
            WatcherType::Data => Self::DATA,
            WatcherType::Any => Self::ALL,
            WatcherType::Persistent => Self::PERSISTENT,
            WatcherType::PersistentRecursive => Self::RECURSIVE,
        }
    }

    pub(crate) const fn is_empty(self) -> bool {
        self.0 == 0
    }

    pub(crate) const fn with(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    pub(crate) const fn without(self, other: Self) -> Self {
        Self(self.0 & !other.0)
    }

    pub(crate) const fn intersects(self, other: Self) -> bool {
        self.0 & other.0 != 0
    }

    pub(crate) const fn in_data_table(self) -> bool {
        self.intersects(Self::DATA_TABLE)
    }

    pub(crate) const fn in_child_table(self) -> bool {
        self.intersects(Self::CHILD_TABLE)
    }
}

/// Which tables a change at a path looks into.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Trigger {
    /// The data table, at the path and recursively above it: created, data changed.
    Data,
    /// The child table: a child came or went.
    Child,
    /// Both, with one event for a connection that is in both: deleted.
    Both,
}

impl Trigger {
    /// The modes at the path itself that get the event.
    pub(crate) const fn notified(self) -> Modes {
        match self {
            Self::Data => Modes::DATA_TABLE,
            Self::Child => Modes::CHILD_TABLE,
            Self::Both => Modes::ALL,
        }
    }

    /// The modes at the path itself that are used up.
    pub(crate) const fn consumed(self) -> Modes {
        match self {
            Self::Data => Modes::DATA,
            Self::Child => Modes::CHILD,
            Self::Both => Modes::DATA.with(Modes::CHILD),
        }
    }

    /// Whether recursive watches above the path get the event as well.
    pub(crate) const fn climbs(self) -> bool {
        matches!(self, Self::Data | Self::Both)
    }
}
