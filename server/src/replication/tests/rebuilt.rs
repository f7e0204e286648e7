//! Servers that have lost their disks, and what they may not do before they have everything back;
//! and new ones, which are not to be taken for them.

use std::sync::atomic::Ordering;
use std::time::Duration;

use tokio::time::{Instant, sleep, timeout};
use zoolet_replica::Role;

use super::cluster::{check, left_behind, with_commands};
use super::ensemble::{Ensemble, PATIENCE};

/// No server follows `leader`, for as long as several elections take.
async fn no_server_follows(ensemble: &Ensemble, leader: usize) {
    let until = Instant::now() + ensemble.timing.election_max * 8;
    while Instant::now() < until {
        for (at, server) in ensemble.running() {
            let known = server.raft.status().leader;
            assert!(known.is_none_or(|known| known == leader as u64 + 1), "{at}: {known:?}");
        }
        sleep(Duration::from_millis(10)).await;
    }
}

/// Three servers with 50 commands, of which one was killed and has lost its disk. The places of the
/// leader, of that server, and of the third.
async fn wiped() -> (Ensemble, usize, usize, usize) {
    let (mut ensemble, leader) = with_commands(50).await;
    let (poor, third) = ((leader + 1) % 3, (leader + 2) % 3);
    ensemble.lose_disk(poor).await;
    (ensemble, leader, poor, third)
}

/// Its log was no longer empty after the leader's first message, so that it voted at once when it
/// was started again.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_new_directory_has_no_vote_before_it_has_the_data() {
    let (mut ensemble, leader, poor) = left_behind().await;
    ensemble.wipe(poor);
    ensemble.refusals = 1_000_000;
    for _ in 0..2 {
        ensemble.start(poor).await;
        let refusals = ensemble.server(poor).machine.refusals.clone();
        let deadline = Instant::now() + PATIENCE;
        while refusals.load(Ordering::Relaxed) >= ensemble.refusals {
            assert!(Instant::now() < deadline, "no snapshot is sent");
            sleep(Duration::from_millis(5)).await;
        }
        ensemble.kill(poor).await;
    }
    ensemble.start(poor).await;
    ensemble.refusals = 0;
    ensemble.kill(leader).await;
    no_server_follows(&ensemble, leader).await;
    ensemble.start(leader).await;
    ensemble.server(poor).machine.refusals.store(0, Ordering::Relaxed);
    let machine = ensemble.server(poor).machine.clone();
    timeout(PATIENCE, machine.until(|_, received| received.restored > 0))
        .await
        .expect("a snapshot");
    ensemble.ready().await;
    ensemble.commit(poor, 10).await;
    check(&ensemble).await;
}

/// A leader that did not know found that a follower had lost what it had acknowledged, and ended or
/// sent it nothing more.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_leader_that_is_informed_late_rebuilds_a_server_all_the_same() {
    let (mut ensemble, leader, poor, _) = wiped().await;
    ensemble.cut.one_way(poor, leader).await;
    ensemble.start(poor).await;
    sleep(ensemble.timing.election_max * 2).await;
    assert_eq!(*ensemble.server(leader).raft.role().borrow(), Role::Leader);
    assert_eq!(*ensemble.server(leader).fatal.watch().borrow(), None);
    ensemble.cut.heal();
    assert_eq!(ensemble.ready().await, leader);
    check(&ensemble).await;
    assert_eq!(ensemble.server(poor).machine.record().applied.len(), 50);
}

/// A leader that transfers its leadership asks whether the transferee is still there, and one that takes a
/// server in asks whether it runs. That is not a sign of a leader without data.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_leader_that_only_asks_makes_no_new_server_of_one_that_lost_its_data() {
    let (mut ensemble, leader, poor, third) = wiped().await;
    ensemble.kill(third).await;
    ensemble.cut.one_way(poor, leader).await;
    ensemble.cut.one_way(poor, third).await;
    ensemble.start(poor).await;
    ensemble.server(leader).raft.transfer_leadership().await;
    sleep(ensemble.timing.election_max * 4).await;
    // It has no vote that could make a majority.
    assert_eq!(*ensemble.server(poor).raft.role().borrow(), Role::Looking);
    assert_eq!(*ensemble.server(leader).raft.role().borrow(), Role::Looking);
    ensemble.cut.heal();
    ensemble.start(third).await;
    ensemble.ready().await;
    check(&ensemble).await;
    assert_eq!(ensemble.server(poor).machine.record().applied.len(), 50);
}

/// It was asked by the others, which founded the ensemble before it got through to them itself, and
/// took itself for one that had lost its data.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_others_ask_knows_that_it_is_new() {
    let mut ensemble = Ensemble::new(3, 0).await;
    ensemble.cut.one_way(2, 0).await;
    ensemble.cut.one_way(2, 1).await;
    for at in [2, 0, 1] {
        ensemble.start(at).await;
    }
    let deadline = Instant::now() + PATIENCE;
    while ensemble.server(2).raft.status().last_log.is_none() {
        assert!(Instant::now() < deadline, "it takes no entries");
        sleep(Duration::from_millis(5)).await;
    }
    // It cannot ask the leader what it lacks.
    assert_eq!(*ensemble.server(2).raft.role().borrow(), Role::Looking);
    ensemble.cut.heal();
    ensemble.ready().await;
}
