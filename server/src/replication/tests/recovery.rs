//! Starts on directories that a crash or a bad disk has left behind.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use zoolet_replica::Boot;
use zoolet_storage::{
    DataDir, Disk, Entry, Identity, LogIndex, LogPosition, MemoryDisk, SnapshotName, SnapshotStore,
    StorageError, Wal, WalOptions,
};

use super::cluster::{check, left_behind};
use super::ensemble::Ensemble;
use crate::consensus::{MemberNode, Membership};
use crate::node_id::NodeId;
use crate::raft::membership_entry;
use crate::raft::testing::{blank_entry, saved_vote, snapshot_head};
use crate::replication::{JoinError, open};

/// The directory of the server that is made here.
const DIRECTORY: u64 = 5;

fn position(term: u64, index: u64) -> LogPosition {
    LogPosition { term, node: 0, index: LogIndex(index) }
}

fn server_1_alone() -> Membership {
    let member = MemberNode { address: "127.0.0.1:1".to_owned(), line: String::new() };
    let node = NodeId::new(1, DIRECTORY);
    Membership {
        position: Some(position(1, 0)),
        configs: vec![BTreeSet::from([node])],
        nodes: BTreeMap::from([(node, member)]),
    }
}

/// A log of `count` entries of the first term, the first of which makes server 1 the ensemble.
fn fill(wal: &Wal, count: u64) {
    let entry = |index| {
        let is_first = index == 0;
        let (kind, body) =
            if is_first { membership_entry(server_1_alone()).unwrap() } else { blank_entry() };
        Entry { position: position(1, index), kind, body }
    };
    wal.append((0..count).map(entry).collect(), Box::new(drop)).unwrap();
}

fn newest_snapshot(disk: &MemoryDisk) -> PathBuf {
    let snapshots = Path::new("data/snapshots");
    let files = disk.list(snapshots).unwrap();
    snapshots.join(
        &files
            .iter()
            .rfind(|file| Path::new(&file.name).extension().is_some_and(|of| of == "snap"))
            .unwrap()
            .name,
    )
}

/// It began from the older one, or from nothing, and failed without naming a file, or later.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_damaged_snapshot_is_named_if_the_log_does_not_reach_back_behind_it() {
    let (mut ensemble, _, away) = left_behind().await;
    ensemble.start(away).await;
    ensemble.ready().await;
    check(&ensemble).await;
    ensemble.kill(away).await;
    let whole = ensemble.disk(away).image();
    let snapshot = newest_snapshot(ensemble.disk(away));
    let mut damaged = whole.clone();
    let bytes = damaged.contents(&snapshot).unwrap().len() as u64;
    damaged.flip(&snapshot, bytes - 1, 1).unwrap();
    ensemble.disks[away] = MemoryDisk::from_image(damaged);
    let error = open(ensemble.options(away), 1).unwrap_err().to_string();
    let expected = format!("{} is damaged at byte ", snapshot.display());
    assert!(error.starts_with(&expected), "{error}");

    let mut lost = whole.clone();
    lost.lose_file(&snapshot).unwrap();
    ensemble.disks[away] = MemoryDisk::from_image(lost);
    let error = open(ensemble.options(away), 1).unwrap_err();
    assert!(matches!(error, JoinError::SnapshotMissing { .. }), "{error}");

    // All segments of the log are lost.
    let mut lost = whole.clone();
    for (path, _) in whole.files().iter().filter(|(path, _)| path.starts_with("data/wal")) {
        lost.lose_file(path).unwrap();
    }
    ensemble.disks[away] = MemoryDisk::from_image(lost);
    let error = open(ensemble.options(away), 1).unwrap_err();
    assert!(matches!(error, JoinError::LogMissing { .. }), "{error}");

    ensemble.disks[away] = MemoryDisk::from_image(whole);
    ensemble.start(away).await;
    ensemble.ready().await;
    check(&ensemble).await;
}

/// The server ended when the snapshot had its name and the entries in its place were still there:
/// every start after that failed.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn entries_that_a_received_snapshot_replaces_do_not_outlive_a_crash() {
    let disk = MemoryDisk::new();
    let shared: Arc<dyn Disk> = Arc::new(disk.clone());
    let directory = DataDir::open(Arc::clone(&shared), Path::new("data")).unwrap();
    Identity { cluster_id: 7, server_id: 1, directory_id: DIRECTORY, founding: 7 }
        .claim(&directory)
        .unwrap();
    let (wal, _) =
        Wal::open(Arc::clone(&shared), &directory.wal_path(), WalOptions::default()).unwrap();
    fill(&wal, 20);
    wal.save_vote(saved_vote(3, NodeId(1)), Box::new(drop)).unwrap();
    drop(wal);
    let store = SnapshotStore::open(shared, &directory.snapshot_path()).unwrap();
    let head = snapshot_head(Some(position(2, 10)), server_1_alone());
    let name = SnapshotName { term: 2, index: LogIndex(10), zxid: 0 };
    let writer = store.create(name, &head).unwrap();
    writer.finish(0).unwrap();
    drop(directory);

    let mut ensemble = Ensemble::new(1, 0).await;
    ensemble.disks[0] = disk;
    ensemble.start(0).await;
    ensemble.ready().await;
    ensemble.server(0).propose(10);
    ensemble.server(0).settled().await;
    assert_eq!(ensemble.server(0).machine.received().lost, 0);
    assert_eq!(ensemble.server(0).machine.record().applied.len(), 10);
}

#[test]
fn a_start_number_that_is_damaged_is_not_used() {
    use crate::replication::boot::next;
    let path = Path::new("data/boot");
    let with = |bytes: &[u8]| {
        let disk = MemoryDisk::new();
        disk.create_dir_all(Path::new("data")).unwrap();
        disk.create(path).unwrap().write_all_at(bytes, 0).unwrap();
        next(&disk, Path::new("data"), 0)
    };
    let disk = MemoryDisk::new();
    disk.create_dir_all(Path::new("data")).unwrap();
    assert_eq!(next(&disk, Path::new("data"), 300).unwrap(), Boot(300));
    let written = disk.image().contents(path).unwrap();
    assert_eq!(with(&written).unwrap(), Boot(301));
    for offset in 0..written.len() {
        for bit in 0..8 {
            let mut flipped = written.clone();
            flipped[offset] ^= 1 << bit;
            with(&flipped).unwrap_err();
        }
        with(&written[..offset]).unwrap_err();
    }
    // What was written before there was a checksum.
    let old = |number: u64| [&[1][..], &number.to_be_bytes()].concat();
    assert_eq!(with(&old(300)).unwrap(), Boot(301));
    let error = with(&old(u64::MAX)).unwrap_err();
    assert!(matches!(error, StorageError::Corrupt { .. }), "{error}");
}
