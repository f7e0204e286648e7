//! What the server keeps on the disk: the log, the snapshots and the identity of its directory.
//!
//! It knows bytes, not their meaning: no znodes here, and no raft beyond a term, a node and an
//! index per log entry. `docs/storage.md` describes every byte and what is synced when.

#[macro_use]
mod planted;

mod data_dir;
mod disk;
mod error;
mod identity;
mod log_index;
mod memory;
mod overlay;
mod panic;
mod small_file;
mod snapshot;
mod wal;
mod watched;

pub use data_dir::{DataDir, DirectorySizes};
pub use disk::{Disk, DiskFile, DiskLock, FoundFile, RealDisk};
pub use error::StorageError;
pub use identity::Identity;
pub use log_index::LogIndex;
pub use memory::MemoryDisk;
#[cfg(feature = "faults")]
pub use memory::{Fault, Image, Power, Survival};
pub use overlay::OverlayDisk;
pub use panic::{caught_now, panicked};
pub use small_file::{read_small_file, replace_small_file};
pub use snapshot::{
    SealedSnapshot, SnapshotEncoder, SnapshotInfo, SnapshotName, SnapshotReader, SnapshotStore,
    SnapshotSummary, SnapshotWriter,
};
pub use wal::{
    Entry, FailureHook, LogPosition, LogState, OnDurable, Recovered, TornTail, Wal, WalMode,
    WalOptions,
};
pub use watched::{AroundSync, MonotonicClock, SyncHook, WatchedDisk};
