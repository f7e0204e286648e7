//! openraft's own suite for stores.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use openraft::StorageError;
use openraft::testing::log::{StoreBuilder, Suite};
use tokio::time::{sleep, timeout};
use zoolet_replica::ServerId;
use zoolet_storage::{Disk, MemoryDisk, RealDisk, SnapshotName, SnapshotStore, Wal, WalOptions};

use super::ensemble::PATIENCE;
use super::recorder::Recorder;
use crate::replication::Staged;
use crate::replication::log_store::LogStore;
use crate::replication::proposer::Proposer;
use crate::replication::state_machine::{Snapshots, StateMachine};
use crate::replication::types::TypeConfig;

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
        let proposer = Arc::new(Proposer::new(ServerId(1), 1));
        let snapshots = Snapshots::new(store, 3, None, Arc::default());
        let machine = StateMachine::new(Recorder::new(None), proposer, snapshots).unwrap();
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

/// A leader of the past sends a snapshot. The state is read and checked before openraft is asked,
/// and openraft refuses it: the whole tree stayed in memory until the next snapshot came.
#[tokio::test]
async fn a_received_state_that_is_not_installed_is_freed() {
    let store = SnapshotStore::open(Arc::new(MemoryDisk::new()), Path::new("snapshots")).unwrap();
    let snapshots = Snapshots::new(store.clone(), 3, None, Arc::default());
    let name = SnapshotName { term: 1, index: 7, zxid: 7 };
    let mut writer = store.create(name, &bytes::Bytes::from_static(b"meta")).unwrap();
    writer.write(b"state").unwrap();
    let state = Arc::new(());
    let held = Arc::clone(&state);
    let stage = |_| Ok(Staged::new(move || drop(held)));
    let (_reader, place) = snapshots.receive(writer, 0, stage).unwrap();
    assert_eq!(Arc::strong_count(&state), 2, "it waits for its install");
    drop(place);
    let freed = async {
        while Arc::strong_count(&state) > 1 {
            sleep(Duration::from_millis(1)).await;
        }
    };
    timeout(PATIENCE, freed).await.expect("it is freed");
}
