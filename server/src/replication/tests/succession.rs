//! What followers do about a leader that is gone, where a leader that is only silent keeps its lease
//! for longer than any test takes.

use std::time::Duration;

use tokio::time::{Instant, sleep, timeout};
use zoolet_replica::Role;

use super::cluster::check;
use super::ensemble::{Ensemble, PATIENCE, Server};

/// Ensembles in which timeouts elect no server. If the first election fails, as it did on a busy machine,
/// they bring no second one: it is asked for here.
pub(super) async fn with_long_leases() -> (Ensemble, usize) {
    let mut ensemble = Ensemble::new(3, 0).await;
    ensemble.timing.election_max = PATIENCE * 3;
    ensemble.timing.election_min = PATIENCE * 2;
    for at in 0..3 {
        ensemble.start(at).await;
    }
    let has_leader = |ensemble: &Ensemble| {
        ensemble.running().any(|(_, server)| *server.raft.role().borrow() == Role::Leader)
    };
    let deadline = Instant::now() + PATIENCE;
    while !has_leader(&ensemble) && Instant::now() < deadline {
        sleep(Duration::from_secs(1)).await;
        if !has_leader(&ensemble) {
            ensemble.server(0).raft.handle.campaign().await;
        }
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

/// A firewall may answer in the place of a leader that goes on (decision 0017). Then two servers lead
/// for a moment, and only the new one commits anything.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_leader_whose_port_refuses_while_it_goes_on_commits_nothing_beside_its_successor() {
    let (mut ensemble, leader) = with_long_leases().await;
    ensemble.commit(leader, 10).await;
    ensemble.cut.refuse(leader, 3).await;
    let next = timeout(PATIENCE, async {
        loop {
            let mut others = ensemble.running().filter(|(at, _)| *at != leader);
            let leads = |server: &Server| *server.raft.role().borrow() == Role::Leader;
            if let Some((next, _)) = others.find(|(_, server)| leads(server)) {
                return next;
            }
            sleep(Duration::from_millis(10)).await;
        }
    });
    let next = next.await.expect("no successor is elected within the lease");
    ensemble.server(leader).propose(5);
    let handle = ensemble.server(leader).raft.handle.clone();
    let index = timeout(Duration::from_millis(500), handle.read_index()).await;
    assert!(!matches!(index, Ok(Some(_))), "a read index of a leader that was replaced");
    ensemble.commit(next, 10).await;
    assert_eq!(ensemble.server(next).machine.received().lost, 0);
    let old = ensemble.server(leader);
    assert_eq!(*old.raft.role().borrow(), Role::Leader, "it does not know of the other");
    assert_eq!(old.machine.record().applied.len(), 10, "it has committed something");
    ensemble.cut.heal();
    ensemble.server(leader).settled().await;
    ensemble.commit(leader, 5).await;
    ensemble.ready().await;
    check(&ensemble).await;
}

/// It finished a change of the membership ten times a second until another one led, and was refused.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_leader_that_has_given_up_its_lead_does_not_lead_on() {
    let mut ensemble = Ensemble::started(1, 0).await;
    let leader = ensemble.ready().await;
    let handle = ensemble.server(leader).raft.handle.clone();
    assert!(handle.leads_on());
    handle.give_up();
    assert!(handle.is_leader() && !handle.leads_on());
}
