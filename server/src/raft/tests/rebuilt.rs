//! Servers that have lost their disks, and what they may not do before they have everything back;
//! and new ones, which are not to be taken for them.

use std::path::Path;
use std::sync::atomic::Ordering;
use std::time::Duration;

use tokio::time::{Instant, sleep, timeout};

use super::cluster::{check, left_behind};
use super::ensemble::{Ensemble, PATIENCE};
use crate::replica::Role;
use crate::storage::Disk;

/// Nobody takes the place of `leader`, for as long as several elections take.
async fn nobody_follows(ensemble: &Ensemble, leader: usize) {
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
    let mut ensemble = Ensemble::started(3, 0).await;
    let leader = ensemble.ready().await;
    let (poor, third) = ((leader + 1) % 3, (leader + 2) % 3);
    ensemble.server(leader).propose(50);
    ensemble.server(leader).settled().await;
    check(&ensemble).await;
    ensemble.kill(poor).await;
    ensemble.wipe(poor);
    (ensemble, leader, poor, third)
}

/// The same, and it is being rebuilt: it has the log, and has applied nothing of it.
async fn half_rebuilt() -> (Ensemble, usize, usize, usize) {
    let (mut ensemble, leader, poor, third) = wiped().await;
    ensemble.is_held = true;
    ensemble.start(poor).await;
    ensemble.is_held = false;
    let last = ensemble.server(leader).raft.status().last_log;
    let deadline = Instant::now() + PATIENCE;
    while ensemble.server(poor).raft.status().last_log < last {
        assert!(Instant::now() < deadline, "it gets no log");
        sleep(Duration::from_millis(5)).await;
    }
    (ensemble, leader, poor, third)
}

/// It asked others for their votes while it refused its own, and led before it had what it had
/// once acknowledged.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_server_does_not_lead_before_it_is_rebuilt() {
    let (mut ensemble, leader, poor, _) = half_rebuilt().await;
    ensemble.kill(leader).await;
    nobody_follows(&ensemble, leader).await;
    ensemble.server(poor).machine.gate.open();
    ensemble.start(leader).await;
    ensemble.ready().await;
    ensemble.server(poor).propose(10);
    ensemble.server(poor).settled().await;
    check(&ensemble).await;
    assert_eq!(ensemble.server(poor).machine.record().applied.len(), 60);
}

/// The lead was handed to it, and it took it.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn the_lead_is_not_handed_to_a_server_before_it_is_rebuilt() {
    let (mut ensemble, leader, poor, third) = half_rebuilt().await;
    ensemble.kill(third).await;
    ensemble.server(leader).raft.hand_over().await;
    nobody_follows(&ensemble, leader).await;
    ensemble.server(poor).machine.gate.open();
    ensemble.start(third).await;
    ensemble.ready().await;
    check(&ensemble).await;
}

/// Its log was no longer empty after the leader's first message, so that it voted at once when it
/// was started again.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_rebuild_that_was_cut_short_goes_on_and_gives_no_vote() {
    let (mut ensemble, leader, poor) = left_behind().await;
    ensemble.wipe(poor);
    ensemble.refusals = 1_000_000;
    let mark = Path::new("data/rebuilding");
    for _ in 0..2 {
        ensemble.start(poor).await;
        let refusals = ensemble.server(poor).machine.refusals.clone();
        let deadline = Instant::now() + PATIENCE;
        while refusals.load(Ordering::Relaxed) >= ensemble.refusals {
            assert!(Instant::now() < deadline, "no snapshot is sent");
            sleep(Duration::from_millis(5)).await;
        }
        assert!(ensemble.disk(poor).exists(mark).unwrap());
        ensemble.kill(poor).await;
    }
    ensemble.start(poor).await;
    ensemble.refusals = 0;
    ensemble.kill(leader).await;
    nobody_follows(&ensemble, leader).await;
    ensemble.start(leader).await;
    ensemble.server(poor).machine.refusals.store(0, Ordering::Relaxed);
    let machine = ensemble.server(poor).machine.clone();
    timeout(PATIENCE, machine.until(|_, told| told.restored > 0)).await.expect("a snapshot");
    ensemble.ready().await;
    ensemble.server(poor).propose(10);
    ensemble.server(poor).settled().await;
    check(&ensemble).await;
    let deadline = Instant::now() + PATIENCE;
    while ensemble.disk(poor).exists(mark).unwrap() {
        assert!(Instant::now() < deadline, "it is never done");
        sleep(Duration::from_millis(5)).await;
    }
}

/// A leader that did not know found that a follower had lost what it had acknowledged, and ended or
/// sent it nothing more.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_leader_that_is_told_late_rebuilds_a_server_all_the_same() {
    let (mut ensemble, leader, poor, _) = wiped().await;
    ensemble.cut.one_way(poor, leader).await;
    ensemble.start(poor).await;
    sleep(ensemble.timing.election_max * 2).await;
    assert_eq!(*ensemble.server(leader).raft.role().borrow(), Role::Leader);
    assert_eq!(*ensemble.server(leader).raft.fatal().borrow(), None);
    ensemble.cut.heal();
    assert_eq!(ensemble.ready().await, leader);
    check(&ensemble).await;
    assert_eq!(ensemble.server(poor).machine.record().applied.len(), 50);
}

/// A leader that hands its lead over asks whether the heir is still there, and one that takes a
/// server in asks whether it runs. That is no sign of a leader without data.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_leader_that_only_asks_makes_no_new_server_of_one_that_lost_its_data() {
    let (mut ensemble, leader, poor, third) = wiped().await;
    ensemble.kill(third).await;
    ensemble.cut.one_way(poor, leader).await;
    ensemble.cut.one_way(poor, third).await;
    ensemble.start(poor).await;
    ensemble.server(leader).raft.hand_over().await;
    sleep(ensemble.timing.election_max * 4).await;
    // It has founded nothing, and voted for nobody.
    assert_eq!(ensemble.server(poor).raft.status().last_log, None);
    assert_eq!(ensemble.server(poor).raft.status().leader, None);
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
