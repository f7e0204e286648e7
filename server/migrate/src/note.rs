//! What an import accepts, and says.

use std::fmt;
use std::path::PathBuf;

/// Something that Apache `ZooKeeper` accepts as well, and that an operator should know.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Note {
    /// A snapshot was not written to its end; an older one was read.
    SnapshotCutOff(PathBuf),
    /// A log ends with a transaction that was not written to its end.
    TornLog(PathBuf, u64),
    /// A log without any content.
    EmptyLog(PathBuf),
    /// Ephemeral znodes of sessions that do not exist were deleted.
    UnknownSessions(usize),
}

impl fmt::Display for Note {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::SnapshotCutOff(path) => {
                write!(f, "{} is cut off: an older snapshot is read instead", path.display())
            }
            Self::TornLog(path, offset) => write!(
                f,
                "{} ends at byte {offset} with a transaction that was not written to its end; \
                 Apache ZooKeeper leaves it out too",
                path.display()
            ),
            Self::EmptyLog(path) => write!(f, "{} is empty", path.display()),
            Self::UnknownSessions(znodes) => write!(
                f,
                "{znodes} ephemeral znodes of sessions that have ended are left out, as at a start \
                 of Apache ZooKeeper"
            ),
        }
    }
}
