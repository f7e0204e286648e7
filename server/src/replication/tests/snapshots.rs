//! Snapshots that cannot be read, or do not fit on the disk.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use tokio::time::{Instant, sleep, timeout};
use zoolet_storage::{DirectorySizes, Disk};

use super::cluster::{check, left_behind};
use super::ensemble::{Ensemble, PATIENCE};

/// A snapshot got its name before its state was read. One that could not be read ended the server,
/// and every start after that.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_received_snapshot_that_cannot_be_read_is_deleted_and_sent_again() {
    let (mut ensemble, _, away) = left_behind().await;
    ensemble.refusals = 1_000_000;
    ensemble.start(away).await;
    let refusals = Arc::clone(&ensemble.server(away).machine.refusals);
    let deadline = Instant::now() + PATIENCE;
    while refusals.load(Ordering::Relaxed) > ensemble.refusals - 3 {
        assert!(Instant::now() < deadline, "it is not sent again");
        sleep(Duration::from_millis(5)).await;
    }
    let left = ensemble.disk(away).list(Path::new("data/snapshots")).unwrap();
    assert!(left.iter().all(|file| file.name.contains(".tmp")), "{left:?}");
    assert_eq!(*ensemble.server(away).fatal.watch().borrow(), None);
    refusals.store(0, Ordering::Relaxed);
    let machine = ensemble.server(away).machine.clone();
    timeout(PATIENCE, machine.until(|_, received| received.restored > 0))
        .await
        .expect("a snapshot");
    check(&ensemble).await;
}

/// Damage of the leader's snapshot passed for an error of the network, and the same file was sent
/// again and again.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_damaged_snapshot_of_the_leader_is_replaced_by_a_new_one() {
    let (mut ensemble, leader, away) = left_behind().await;
    let directory = Path::new("data/snapshots");
    for server in [leader, 3 - leader - away] {
        let disk = ensemble.disk(server);
        for file in disk.list(directory).unwrap() {
            let path = directory.join(&file.name);
            disk.open(&path).unwrap().write_all_at(b"damage", file.bytes / 2).unwrap();
        }
    }
    ensemble.start(away).await;
    let machine = ensemble.server(away).machine.clone();
    timeout(PATIENCE, machine.until(|_, received| received.restored > 0))
        .await
        .expect("a snapshot");
    ensemble.ready().await;
    check(&ensemble).await;
}

/// A follower's full disk passed for damage of the leader's snapshot, and the leader took one
/// snapshot after another for it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_follower_without_room_gets_the_same_snapshot_later() {
    let (mut ensemble, leader, away) = left_behind().await;
    // A replacement would be wanted for as long as it cannot be written.
    ensemble.snapshot_gate(leader).close();
    ensemble.snapshot_gate(away).fill(true);
    ensemble.start(away).await;
    let deadline = Instant::now() + PATIENCE;
    while ensemble.snapshot_gate(away).refused() < 3 {
        assert!(Instant::now() < deadline, "it is not sent again");
        sleep(Duration::from_millis(5)).await;
    }
    assert!(!ensemble.server(leader).raft.status.snapshots.needs_new(), "it passes for damaged");
    assert_eq!(*ensemble.server(away).fatal.watch().borrow(), None);
    ensemble.snapshot_gate(away).fill(false);
    let machine = ensemble.server(away).machine.clone();
    timeout(PATIENCE, machine.until(|_, received| received.restored > 0))
        .await
        .expect("a snapshot");
    ensemble.snapshot_gate(leader).open();
    check(&ensemble).await;
}

/// The log has all that a snapshot holds, and room of its own. But the server ended when a snapshot
/// did not fit on the disk any more.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_goes_on_when_the_disk_is_too_full_for_a_snapshot() {
    let mut ensemble = Ensemble::new(1, 0).await;
    ensemble.snapshot_commands = 300;
    ensemble.start(0).await;
    ensemble.ready().await;
    ensemble.server(0).propose(10);
    ensemble.server(0).settled().await;
    // The log's segment is there. Nothing else fits.
    let disk = ensemble.disk(0).clone();
    let used = || DirectorySizes::measure(&disk, "data".as_ref(), "data".as_ref()).data;
    let deadline = Instant::now() + PATIENCE;
    while used() < 1 << 18 {
        assert!(Instant::now() < deadline, "no segment: {}", used());
        sleep(Duration::from_millis(10)).await;
    }
    ensemble.disk(0).set_capacity(Some(used()));
    for _ in 0..20 {
        ensemble.server(0).propose(50);
        ensemble.server(0).settled().await;
        sleep(Duration::from_millis(50)).await;
    }
    assert_eq!(*ensemble.server(0).fatal.watch().borrow(), None);
    assert_eq!(ensemble.server(0).raft.status().snapshot, None);
    ensemble.disk(0).set_capacity(None);
    let deadline = Instant::now() + PATIENCE;
    while ensemble.server(0).raft.status().snapshot.is_none() {
        assert!(Instant::now() < deadline, "no snapshot is taken");
        sleep(Duration::from_millis(50)).await;
    }
}
