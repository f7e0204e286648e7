//! What followers do about a leader that is gone, where a leader that is only silent keeps its lease
//! for longer than any test takes.

use std::time::Duration;

use tokio::time::sleep;
use zoolet_replica::Role;

use super::ensemble::{Ensemble, PATIENCE};

/// Ensembles in which timeouts elect no server.
async fn with_long_leases() -> (Ensemble, usize) {
    let mut ensemble = Ensemble::new(3, 0).await;
    ensemble.timing.election_max = PATIENCE * 3;
    ensemble.timing.election_min = PATIENCE * 2;
    for at in 0..3 {
        ensemble.start(at).await;
    }
    let leader = ensemble.ready().await;
    (ensemble, leader)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_leader_whose_process_ends_is_replaced_within_its_lease() {
    let (mut ensemble, leader) = with_long_leases().await;
    ensemble.commit(leader, 10).await;
    ensemble.kill(leader).await;
    let next = ensemble.ready().await;
    assert_ne!(next, leader);
    ensemble.commit(next, 10).await;
    assert_eq!(ensemble.server(next).machine.received().lost, 0);
}

/// Its connections have ended, too, but nothing says that it does not go on.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_leader_that_is_cut_off_keeps_its_lease() {
    let (mut ensemble, leader) = with_long_leases().await;
    ensemble.cut.isolate(leader, 3).await;
    let number = leader as u64 + 1;
    // Longer than the looks after it and the attempts of a campaign take.
    for _ in 0..100 {
        for (at, server) in ensemble.running() {
            assert_eq!(server.raft.status().leader, Some(number), "{at}");
        }
        sleep(Duration::from_millis(10)).await;
    }
    ensemble.cut.heal();
    ensemble.commit((leader + 1) % 3, 10).await;
    assert_eq!(ensemble.server((leader + 1) % 3).machine.received().lost, 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_leader_that_comes_back_follows_its_successor() {
    let (mut ensemble, leader) = with_long_leases().await;
    ensemble.commit(leader, 5).await;
    ensemble.kill(leader).await;
    let next = ensemble.ready().await;
    ensemble.start(leader).await;
    assert_eq!(ensemble.ready().await, next);
    assert_eq!(*ensemble.server(leader).raft.role().borrow(), Role::Follower);
    ensemble.commit(leader, 5).await;
}
