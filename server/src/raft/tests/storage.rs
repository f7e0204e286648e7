//! openraft's own suite for stores.

use std::future::ready;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use bytes::Bytes;
use openraft::testing::log::{StoreBuilder, Suite};
use openraft::{RaftLogReader, StorageError};
use zoolet_storage::{
    Disk, Entry, LogIndex, LogPosition, MemoryDisk, RealDisk, SnapshotStore, Wal, WalOptions,
};

use crate::consensus::Applier;
use crate::fatal::Fatal;
use crate::node_id::NodeId;
use crate::raft::log_store::LogStore;
use crate::raft::state_machine::{StateMachine, WrittenSnapshot};
use crate::raft::testing::blank_entry;
use crate::raft::types::{TypeConfig, term_of};
use crate::snapshots::{Chunks, Snapshots, Staged, StateSnapshot};
use crate::transport::BoxFuture;

/// A state that is always empty.
#[derive(Debug)]
struct EmptyState;

impl Applier for EmptyState {
    fn apply(&self, _: Vec<(LogPosition, Bytes)>, _: LogPosition) -> BoxFuture<'_, ()> {
        Box::pin(ready(()))
    }

    fn is_checkpoint(&self, _: LogIndex) -> bool {
        false
    }

    fn capture(&self) -> StateSnapshot {
        StateSnapshot { zxid: 0, digest: 0, chunks: Box::new(std::iter::empty()) }
    }

    fn stage(&self, _: Chunks) -> io::Result<Staged> {
        Ok(Staged::new(|| {}))
    }

    fn replaced(&self, _: Option<LogPosition>) {}
}

fn position(term: u64, index: u64) -> LogPosition {
    LogPosition { term, node: 0, index: LogIndex(index) }
}

/// openraft's suite counts its nodes.
impl From<u64> for NodeId {
    fn from(id: u64) -> Self {
        Self(id)
    }
}

#[derive(Debug)]
enum Place {
    Memory,
    Real(PathBuf, AtomicU64),
}

impl StoreBuilder<TypeConfig, LogStore, StateMachine> for Place {
    async fn build(&self) -> Result<((), LogStore, StateMachine), StorageError<TypeConfig>> {
        let (disk, directory): (Arc<dyn Disk>, PathBuf) = match self {
            Self::Memory => (Arc::new(MemoryDisk::new()), PathBuf::from("data")),
            Self::Real(base, number) => {
                let number = number.fetch_add(1, Ordering::Relaxed);
                (Arc::new(RealDisk), base.join(number.to_string()))
            }
        };
        let options = WalOptions { segment_bytes: 1 << 16, ..WalOptions::default() };
        let (wal, _) = Wal::open(Arc::clone(&disk), &directory.join("wal"), options).unwrap();
        let store = SnapshotStore::open(disk, &directory.join("snapshots")).unwrap();
        let snapshots = Snapshots::new(store, 3, None, Arc::default());
        let machine = StateMachine::new(
            Arc::new(EmptyState),
            snapshots,
            WrittenSnapshot::default(),
            Fatal::default(),
        );
        let machine = machine.unwrap();
        Ok(((), LogStore::new(Arc::new(wal)), machine))
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_store_passes_openrafts_suite_in_memory() {
    Suite::test_all(Place::Memory).await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_store_passes_openrafts_suite_on_the_disk() {
    let base = std::env::temp_dir().join(format!("zoolet-raft-suite-{}", std::process::id()));
    let place = Place::Real(base.clone(), AtomicU64::new(0));
    let passed = Suite::test_all(place).await;
    remove(&base);
    passed.unwrap();
}

fn remove(directory: &Path) {
    std::fs::remove_dir_all(directory).unwrap();
}

/// The entries behind a hole were given for those in it.
#[tokio::test]
async fn purged_entries_are_not_skipped() {
    let disk: Arc<dyn Disk> = Arc::new(MemoryDisk::new());
    let (wal, _) = Wal::open(disk, Path::new("wal"), WalOptions::default()).unwrap();
    let entry = |index| {
        let (kind, body) = blank_entry();
        Entry { position: position(1, index), kind, body }
    };
    wal.append((0..20).map(entry).collect(), Box::new(drop)).unwrap();
    wal.purge_to(position(1, 4), Box::new(drop)).unwrap();
    let mut store = LogStore::new(Arc::new(wal));
    let error = store.limited_get_log_entries(4, 8).await.unwrap_err();
    assert!(error.to_string().contains("entry 4 is asked for"), "{error}");
    let there = store.limited_get_log_entries(5, 8).await.unwrap();
    let indices: Vec<u64> = there.iter().map(|entry| entry.log_id.index).collect();
    assert_eq!(indices, [5, 6, 7]);
    assert!(there.iter().all(|entry| term_of(&entry.log_id) == 1));
}
