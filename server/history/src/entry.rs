//! What the history consists of.

use zoolet_jute::Zxid;
use zoolet_replica::HistoryEvent;

/// One line of the history.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Its number in the history of this server: later ones have greater numbers, without holes
    /// between them. It means nothing on other servers.
    pub number: u64,
    /// What it says.
    pub kind: EntryKind,
}

/// What a line of the history says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EntryKind {
    /// Something was changed.
    Event(HistoryEvent),
    /// Something is missing here.
    Gap(Gap),
}

/// A place of the history at which events are missing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Gap {
    /// The last transaction that is known before it.
    pub after: Zxid,
    /// Everything up to this transaction may be missing.
    pub through: Zxid,
    /// Why.
    pub reason: GapReason,
}

/// Why something is missing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GapReason {
    /// The server has got its state by a snapshot of another one, or from its own disk after it had
    /// lost a part of its history.
    Snapshot,
    /// More was changed than could be written.
    Overload,
    /// What was written, or handed over, cannot be read.
    Damage,
    /// The files could not be written.
    Disk,
    /// What was there is not any more: it was too old or too much, or a new history has begun. Only
    /// those who follow the history see this.
    Removed,
}

impl GapReason {
    /// The number of the reason, in a block.
    pub(crate) const fn code(self) -> u8 {
        match self {
            Self::Snapshot => 0,
            Self::Overload => 1,
            Self::Damage => 2,
            Self::Disk => 3,
            Self::Removed => 4,
        }
    }

    /// The reason with this number.
    pub(crate) const fn of(code: u8) -> Option<Self> {
        match code {
            0 => Some(Self::Snapshot),
            1 => Some(Self::Overload),
            2 => Some(Self::Damage),
            3 => Some(Self::Disk),
            4 => Some(Self::Removed),
            _ => None,
        }
    }

    /// The name of the reason, in JSON.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Snapshot => "snapshot",
            Self::Overload => "overload",
            Self::Damage => "damage",
            Self::Disk => "disk",
            Self::Removed => "removed",
        }
    }
}
