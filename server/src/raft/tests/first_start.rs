//! Servers that start for the first time, together, and are not all as fast.

use std::collections::BTreeSet;
use std::time::Duration;

use tokio::time::{Instant, sleep};

use super::cluster::check;
use super::ensemble::{Ensemble, PATIENCE};
use crate::raft::admission::Admission;
use crate::replica::Role;

/// It was asked by the others, which founded the ensemble before it got through to them itself, and
/// took itself for one that had lost its data.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_others_ask_knows_that_it_is_new() {
    let mut ensemble = Ensemble::new(3, 0).await;
    ensemble.cut.one_way(2, 0);
    ensemble.cut.one_way(2, 1);
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

/// A leader that hands its lead over asks whether the heir is still there, and one that takes a
/// server in asks whether it runs. That is no sign of a leader without data.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_leader_that_only_asks_makes_no_new_server_of_one_that_lost_its_data() {
    let mut ensemble = Ensemble::started(3, 0).await;
    let leader = ensemble.ready().await;
    let (poor, third) = ((leader + 1) % 3, (leader + 2) % 3);
    ensemble.server(leader).propose(20);
    ensemble.server(leader).settled().await;
    check(&ensemble).await;
    ensemble.kill(poor).await;
    ensemble.wipe(poor);
    ensemble.kill(third).await;
    ensemble.cut.one_way(poor, leader);
    ensemble.cut.one_way(poor, third);
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
    assert_eq!(ensemble.server(poor).machine.record().applied.len(), 20);
}

/// A leader that had just been founded had not reached anybody itself, so its calls failed at once,
/// and it ended without an heir.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_leader_looks_for_an_heir_for_a_while() {
    let mut ensemble = Ensemble::started(3, 0).await;
    let leader = ensemble.ready().await;
    for other in (0..3).filter(|other| *other != leader) {
        ensemble.cut.one_way(leader, other);
    }
    let cut = ensemble.cut.clone();
    let healing = async {
        sleep(Duration::from_millis(80)).await;
        cut.heal();
    };
    tokio::join!(ensemble.server(leader).raft.hand_over(), healing);
    let deadline = Instant::now() + PATIENCE;
    let old = leader as u64 + 1;
    while ensemble.server((leader + 1) % 3).raft.status().leader.is_none_or(|now| now == old) {
        assert!(Instant::now() < deadline, "it still leads");
        sleep(Duration::from_millis(5)).await;
    }
}

/// The leader's call was not answered at all: it waited for 2 s, and so did everybody.
#[tokio::test]
async fn a_server_that_does_not_know_what_it_is_says_so_soon() {
    let (soon, admission) = (Duration::from_secs(5), Admission::new(true, false));
    let asked = Instant::now();
    assert!(!admission.takes_from(1).await);
    assert!(!admission.votes().await);
    assert!(asked.elapsed() < soon, "{:?}", asked.elapsed());

    let (takes, ()) = tokio::join!(admission.takes_from(1), async {
        admission.take_from_all_but(BTreeSet::from([2]));
    });
    assert!(takes);
    assert!(!admission.takes_from(2).await);
    assert!(!admission.votes().await);
    admission.complete();
    assert!(admission.takes_from(2).await);
    assert!(admission.votes().await);
}

#[tokio::test]
async fn a_server_that_was_cut_short_in_its_rebuild_takes_entries_and_gives_no_vote() {
    let admission = Admission::new(false, true);
    assert!(admission.takes_from(1).await);
    assert!(!admission.votes().await);
    let whole = Admission::new(false, false);
    assert!(whole.takes_from(1).await && whole.votes().await);
}
