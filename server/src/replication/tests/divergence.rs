//! Servers whose states or logs differ.

use std::sync::atomic::Ordering;

use tokio::time::{Instant, sleep, timeout};
use zoolet_replica::Role;
use zoolet_storage::{LogIndex, LogPosition};

use super::calls::link;
use super::cluster::check;
use super::ensemble::{Ensemble, PATIENCE};
use crate::peer::RpcKind;
use crate::raft::append_refusal;
use crate::raft::testing::append;

/// Makes a server's state another one than its log gives.
fn drift(ensemble: &mut Ensemble, at: usize, by: u64) {
    ensemble.server(at).machine.drift.store(by, Ordering::Relaxed);
}

/// Waits until a server has stopped serving because of its state.
async fn halted(ensemble: &mut Ensemble, at: usize) {
    let machine = ensemble.server(at).machine.clone();
    let is_received = machine.until(|_, received| received.diverged == 1);
    timeout(PATIENCE, is_received).await.expect("it serves on");
    let status = ensemble.server(at).raft.status();
    assert!(status.diverged && status.role == Role::Looking, "{status:?}");
}

/// Waits until the status of a server is so.
pub(super) async fn until(
    ensemble: &mut Ensemble,
    at: usize,
    is_so: impl Fn(&crate::replication::Status) -> bool,
) {
    let deadline = Instant::now() + PATIENCE;
    while !is_so(&ensemble.server(at).raft.status()) {
        assert!(Instant::now() < deadline, "{:?}", ensemble.server(at).raft.status());
        sleep(ensemble.timing.heartbeat).await;
    }
}

async fn write(ensemble: &mut Ensemble, at: usize) {
    ensemble.server(at).propose(10);
    ensemble.server(at).settled().await;
    assert_eq!(ensemble.server(at).machine.received().lost, 0);
}

/// Three servers held two different trees for ever, and all of them reported health.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_follower_whose_state_differs_from_two_others_stops_serving() {
    let mut ensemble = Ensemble::started(3, 0).await;
    let leader = ensemble.ready().await;
    let [wrong, other] = [(leader + 1) % 3, (leader + 2) % 3];
    write(&mut ensemble, leader).await;
    drift(&mut ensemble, wrong, 1);
    write(&mut ensemble, leader).await;
    halted(&mut ensemble, wrong).await;
    for right in [leader, other] {
        until(&mut ensemble, right, |status| status.differing == [wrong as u64 + 1]).await;
        let status = ensemble.server(right).raft.status();
        assert!(!status.diverged && status.role != Role::Looking, "{status:?}");
        assert!(status.agreed.is_some());
    }
    write(&mut ensemble, other).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_leader_whose_state_differs_from_the_majority_gives_the_lead_up() {
    let mut ensemble = Ensemble::started(3, 0).await;
    let wrong = ensemble.ready().await;
    write(&mut ensemble, wrong).await;
    drift(&mut ensemble, wrong, 1);
    write(&mut ensemble, wrong).await;
    halted(&mut ensemble, wrong).await;
    let [one, other] = [(wrong + 1) % 3, (wrong + 2) % 3];
    let old = wrong as u64 + 1;
    for right in [one, other] {
        until(&mut ensemble, right, |status| {
            status.role != Role::Looking && status.leader.is_some_and(|leader| leader != old)
        })
        .await;
    }
    write(&mut ensemble, one).await;
    assert_eq!(*ensemble.server(wrong).raft.role().borrow(), Role::Looking);
}

/// In a rolling upgrade to a build that computes the digest in another way, each server would have
/// taken the others for diverged ones, and stopped serving.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn servers_whose_digests_have_different_definitions_do_not_differ() {
    let mut ensemble = Ensemble::started(3, 0).await;
    let leader = ensemble.ready().await;
    write(&mut ensemble, leader).await;
    let [newer, other] = [(leader + 1) % 3, (leader + 2) % 3];
    ensemble.kill(newer).await;
    ensemble.digest_version = 2;
    ensemble.start(newer).await;
    drift(&mut ensemble, newer, 1);
    ensemble.ready().await;
    write(&mut ensemble, newer).await;
    // The other two go on being compared.
    let last = ensemble.server(leader).raft.status().applied;
    until(&mut ensemble, leader, |status| status.agreed >= last).await;
    sleep(ensemble.timing.election_max * 3).await;
    for at in [leader, newer, other] {
        let status = ensemble.server(at).raft.status();
        assert!(!status.diverged && status.differing.is_empty(), "server {at}: {status:?}");
        assert!(status.role != Role::Looking, "server {at}: {status:?}");
    }
}

/// With one of three away, no count can tell which of two is wrong: both say that they differ and
/// serve on. The third decides.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_count_of_three_decides_which_of_two_is_wrong() {
    let mut ensemble = Ensemble::started(3, 0).await;
    let leader = ensemble.ready().await;
    let [wrong, away] = [(leader + 1) % 3, (leader + 2) % 3];
    write(&mut ensemble, leader).await;
    ensemble.kill(away).await;
    drift(&mut ensemble, wrong, 1);
    write(&mut ensemble, leader).await;
    for (at, other) in [(leader, wrong), (wrong, leader)] {
        until(&mut ensemble, at, |status| status.differing == [other as u64 + 1]).await;
        assert!(!ensemble.server(at).raft.status().diverged);
    }
    write(&mut ensemble, wrong).await;
    ensemble.start(away).await;
    halted(&mut ensemble, wrong).await;
    for right in [leader, away] {
        until(&mut ensemble, right, |status| status.role != Role::Looking).await;
        assert!(!ensemble.server(right).raft.status().diverged);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_observer_whose_state_differs_stops_serving_and_three_different_servers_all_do() {
    let mut ensemble = Ensemble::started(3, 1).await;
    let leader = ensemble.ready().await;
    write(&mut ensemble, leader).await;
    drift(&mut ensemble, 3, 1);
    write(&mut ensemble, leader).await;
    halted(&mut ensemble, 3).await;
    assert_eq!(ensemble.ready_voters().await, 3);
    for at in 0..3 {
        drift(&mut ensemble, at, 10 + at as u64);
    }
    ensemble.server(leader).propose(10);
    for at in 0..3 {
        halted(&mut ensemble, at).await;
    }
}

/// The same states after a snapshot was installed, a log replayed and members restarted: nothing
/// may ever be taken for a difference.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn servers_with_the_same_state_agree_after_snapshots_and_restarts() {
    let (mut ensemble, leader, away) = super::cluster::left_behind().await;
    ensemble.start(away).await;
    let machine = ensemble.server(away).machine.clone();
    timeout(PATIENCE, machine.until(|_, received| received.restored > 0))
        .await
        .expect("a snapshot");
    write(&mut ensemble, leader).await;
    for restarted in [away, leader] {
        ensemble.kill(restarted).await;
        ensemble.start(restarted).await;
        ensemble.ready().await;
        write(&mut ensemble, restarted).await;
    }
    let last = ensemble.server(leader).raft.status().applied;
    for at in 0..3 {
        until(&mut ensemble, at, |status| status.agreed >= last).await;
        let status = ensemble.server(at).raft.status();
        assert!(!status.diverged && status.differing.is_empty(), "{status:?}");
    }
    check(&ensemble).await;
}

/// A leader of a later term sent another entry in the place of a committed one. In a release build
/// the follower cut its log behind what it had applied.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_entry_in_the_place_of_a_committed_one_is_refused() {
    let mut ensemble = Ensemble::started(3, 0).await;
    let leader = ensemble.ready().await;
    let target = (leader + 1) % 3;
    write(&mut ensemble, target).await;
    let before = ensemble.server(target).raft.status();
    let (applied, term) = (before.applied.unwrap().0, before.term);
    let link = link(&ensemble, leader, target);
    let from = (term + 1, ensemble.server(leader).raft.handle.node());
    let position = |term, index| LogPosition { term, node: 0, index: LogIndex(index) };
    let other = position(term + 1, applied);
    for (previous, entry) in
        [(position(term + 1, applied - 1), None), (position(before.term, applied - 1), Some(other))]
    {
        let body = append(from, previous, entry, other);
        let answer = link.call_within(RpcKind::Append.code(), body, PATIENCE).await.unwrap();
        assert_eq!(answer, append_refusal());
    }
    write(&mut ensemble, target).await;
    check(&ensemble).await;
}
