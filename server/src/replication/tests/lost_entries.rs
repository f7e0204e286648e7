//! A server whose disk has lost entries that it had acknowledged.

use tokio::time::timeout;
use zoolet_storage::MemoryDisk;

use super::cluster::check;
use super::divergence::until;
use super::ensemble::PATIENCE;
use super::succession::with_long_leases;
use crate::replication::open;

/// The leader ended by an assertion of openraft, and without assertions never sent the server again
/// what it lacked, unless it sent a snapshot; the server voted as if nothing had happened.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_server_without_what_it_has_acknowledged_ends_and_says_so() {
    // The leader stays: another one would not know what it lacks.
    let (mut ensemble, leader) = with_long_leases().await;
    ensemble.commit(leader, 50).await;
    check(&ensemble).await;
    let restored = (leader + 1) % 3;
    ensemble.kill(restored).await;
    let older = ensemble.disk(restored).image();
    ensemble.start(restored).await;
    let leader = ensemble.ready().await;
    ensemble.commit(restored, 20).await;
    check(&ensemble).await;
    // The leader knows that, too: an acknowledgement may be under way when its entry is applied.
    let number = restored as u64 + 1;
    until(&mut ensemble, leader, |status| {
        let peer = status.peers.iter().find(|peer| peer.server == number);
        peer.is_some_and(|peer| peer.matching == status.last_log)
    })
    .await;
    ensemble.kill(restored).await;
    ensemble.disks[restored] = MemoryDisk::from_image(older);
    ensemble.start(restored).await;
    let mut fatal = ensemble.server(restored).fatal.watch();
    let ends = timeout(PATIENCE / 3, fatal.wait_for(Option::is_some)).await;
    let why = ends.expect("it does not end").unwrap().clone().unwrap();
    assert!(why.starts_with("the log is damaged: it lacks entry "), "{why}");
    assert!(why.contains(&format!("acknowledged to server {}:", leader + 1)), "{why}");

    ensemble.kill(restored).await;
    let error = open(ensemble.options(restored), 1).unwrap_err().to_string();
    assert_eq!(error, format!("{why} (as noted in data/lost-entries)"));

    ensemble.commit(leader, 10).await;
    assert_eq!(*ensemble.server(leader).fatal.watch().borrow(), None, "the leader goes on");
    ensemble.wipe(restored);
    ensemble.start(restored).await;
    ensemble.ready().await;
    check(&ensemble).await;
    assert_eq!(ensemble.server(restored).machine.record().applied.len(), 80);
}
