//! What can be done about a server that does not start.

use super::StartError;
use crate::replication;

/// What is wrong when a server does not start.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum StartErrorKind {
    /// The configuration, or a file that it names for the secret or for TLS, has to be changed.
    Config,
    /// The directory of the server cannot be used: it belongs to another server or is in use, files
    /// are missing or damaged, or the disk has failed.
    Data,
    /// The server cannot listen on an address for clients or for the other servers.
    Listen,
    /// The server has failed while it started.
    Failed,
}

impl StartError {
    /// Returns what is wrong.
    pub fn kind(&self) -> StartErrorKind {
        match self {
            Self::Config(_) | Self::Secret(_) | Self::Tls(..) => StartErrorKind::Config,
            Self::Raft(error) => kind_of_log(error),
            Self::Snapshot(_) | Self::Audit(_) => StartErrorKind::Data,
            Self::Listen { .. } => StartErrorKind::Listen,
            Self::Failed(_) => StartErrorKind::Failed,
        }
    }
}

fn kind_of_log(error: &replication::JoinError) -> StartErrorKind {
    match error {
        replication::JoinError::NotAMember(_) => StartErrorKind::Config,
        replication::JoinError::Listen { .. } => StartErrorKind::Listen,
        replication::JoinError::Raft(_) => StartErrorKind::Failed,
        replication::JoinError::Storage(_)
        | replication::JoinError::LogElsewhere { .. }
        | replication::JoinError::LogMissing { .. }
        | replication::JoinError::SnapshotMissing { .. }
        | replication::JoinError::LostEntries { .. }
        | replication::JoinError::Epoch(_)
        | replication::JoinError::ApacheData(_)
        | replication::JoinError::DirectoryMissing(_)
        | replication::JoinError::DatabaseMissing(_) => StartErrorKind::Data,
    }
}
