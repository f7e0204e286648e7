//! Why a server cannot start.

use std::io;
use std::path::PathBuf;

use thiserror::Error;
use zoolet_storage::{LogIndex, StorageError};

use super::epoch::EpochError;

/// Why a server cannot join its ensemble.
#[derive(Debug, Error)]
pub enum JoinError {
    /// The directory cannot be used.
    #[error(transparent)]
    Storage(#[from] StorageError),
    /// The log is in the data directory, but has one of its own.
    #[error(
        "the log is in {}, and should be in {}: move it there, with a copy of the file identity \
         beside it", found.display(), expected.display()
    )]
    LogElsewhere { found: PathBuf, expected: PathBuf },
    /// The server has served before, but the log is not there.
    #[error(
        "{} has served before, but its log is not in {}: a server must not start without it; bring \
         the files *.wal back, or see \"A server has lost its log\" in docs/runbook.md",
        directory.display(), expected.display()
    )]
    LogMissing { directory: PathBuf, expected: PathBuf },
    /// The log lacks what the server has acknowledged, which it has noted in this file.
    #[error("{why} (as noted in {})", mark.display())]
    LostEntries { mark: PathBuf, why: String },
    /// The log goes on behind a snapshot that is not there.
    #[error(
        "the log in {} begins behind entry {purged}, and no snapshot reaches so far",
        log.display()
    )]
    SnapshotMissing { log: PathBuf, purged: LogIndex },
    /// The directory is that of an Apache `ZooKeeper`, whose data is not read.
    #[error(
        "{} holds data of Apache ZooKeeper, which a start does not read: bring it in with `zoolet \
         import` into another directory, or move it away to start with an empty tree", .0.display()
    )]
    ApacheData(PathBuf),
    /// A directory is missing, and the configuration forbids creating it.
    #[error(
        "{} is missing, and data_dir_autocreate (datadir.autocreate) is false: mount it, or create it",
        .0.display()
    )]
    DirectoryMissing(PathBuf),
    /// A standalone server has no data, and the configuration forbids creating an empty database.
    #[error(
        "{} has no data, and db_autocreate (db.autocreate) is false: bring the data back, or create \
         an empty file `initialize` there to start without data", .0.display()
    )]
    DatabaseMissing(PathBuf),
    /// No epoch is left for a new ensemble.
    #[error(transparent)]
    Epoch(#[from] EpochError),
    /// The configuration does not name this server.
    #[error("the configuration has no server {0}")]
    NotAMember(zoolet_replica::ServerId),
    /// The peer port cannot be opened.
    #[error("cannot listen for peers on {address}: {source}")]
    Listen { address: String, source: io::Error },
    /// A value of the configuration is out of range, or the log cannot be replayed.
    #[error("cannot start the log: {0}")]
    Raft(String),
}
