//! What the server keeps on the disk: the log, the snapshots and the identity of its directory.
//!
//! It knows bytes, not their meaning: no znodes here, and no raft beyond a term, a node and an
//! index per log entry. `docs/storage.md` describes every byte and what is synced when.

mod data_dir;
mod disk;
mod error;
mod identity;
mod memory;
mod snapshot;
mod wal;
mod watched;

pub use data_dir::{DataDir, DirectorySizes};
pub use disk::{Disk, DiskFile, DiskLock, FoundFile, RealDisk};
pub use error::StorageError;
pub use identity::Identity;
pub use memory::{Fault, Image, MemoryDisk, Survival};
pub use snapshot::{
    SealedSnapshot, SnapshotInfo, SnapshotName, SnapshotReader, SnapshotStore, SnapshotSummary,
    SnapshotWriter,
};
pub use wal::{
    Entry, FailureHook, LogPosition, LogState, OnDurable, Recovered, TornTail, Wal, WalMode,
    WalOptions,
};
pub use watched::{SlowSyncHook, WatchedDisk};
