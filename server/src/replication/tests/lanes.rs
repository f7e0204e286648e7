//! What servers do when heartbeats arrive and entries do not.

use std::time::Duration;

use tokio::time::{Instant, sleep};
use zoolet_replica::Role;

use super::cluster::check;
use super::ensemble::{Ensemble, PATIENCE, Server};

/// Longer packets are lost: heartbeats and handshakes are shorter.
const PACKET_BYTES_MAX: usize = 700;

impl Ensemble {
    fn role(&self, at: usize) -> Role {
        *self.servers[at].as_ref().unwrap().raft.role().borrow()
    }

    async fn until(&self, is_done: impl Fn(&Self) -> bool, expected: &str) {
        let deadline = Instant::now() + PATIENCE;
        while !is_done(self) {
            let roles: Vec<Role> = (0..self.servers.len()).map(|at| self.role(at)).collect();
            assert!(Instant::now() < deadline, "{expected}: {roles:?}");
            sleep(Duration::from_millis(10)).await;
        }
    }
}

/// Servers that have no syncLimit of ten seconds, and the place of their leader.
async fn started(voters: usize, observers: usize) -> (Ensemble, usize) {
    let mut ensemble = Ensemble::new(voters, observers).await;
    ensemble.timing.sync_limit = Duration::from_secs(1);
    for at in 0..voters + observers {
        ensemble.start(at).await;
    }
    let leader = ensemble.ready().await;
    ensemble.commit(leader, 10).await;
    (ensemble, leader)
}

/// It heard its leader's heartbeats, and served what it had for as long as the hole was there.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_follower_or_observer_that_receives_no_entries_stops_serving() {
    let (mut ensemble, leader) = started(3, 1).await;
    let (follower, other, observer) = ((leader + 1) % 3, (leader + 2) % 3, 3);
    for to in [follower, observer] {
        ensemble.cut.lose_longer(leader, to, PACKET_BYTES_MAX);
    }
    ensemble.server(leader).propose_long(5000);
    ensemble.server(leader).settled().await;
    // On a starved machine it may stop for another reason first, or others may for a while.
    let limit = ensemble.timing.state_age_max();
    let have_stopped = |ensemble: &Ensemble| {
        [follower, observer].iter().all(|at| {
            let is_old = |server: &Server| server.raft.status().state_age >= Some(limit);
            ensemble.role(*at) == Role::Looking
                && ensemble.servers[*at].as_ref().is_some_and(is_old)
        })
    };
    ensemble.until(have_stopped, "they go on serving").await;
    let others_serve = |ensemble: &Ensemble| {
        let roles = [ensemble.role(leader), ensemble.role(other)];
        roles.contains(&Role::Leader) && !roles.contains(&Role::Looking)
    };
    ensemble.until(others_serve, "the others do not serve").await;
    ensemble.cut.heal();
    ensemble.ready().await;
    ensemble.commit(follower, 10).await;
    check(&ensemble).await;
}

/// No entry was committed, and no other server began an election: it heard the leader's heartbeats.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_leader_whose_entries_reach_no_majority_is_replaced() {
    let (mut ensemble, leader) = started(3, 0).await;
    let others = [(leader + 1) % 3, (leader + 2) % 3];
    for to in others {
        ensemble.cut.lose_longer(leader, to, PACKET_BYTES_MAX);
    }
    ensemble.server(leader).propose_long(5000);
    let is_replaced =
        |ensemble: &Ensemble| others.iter().any(|at| ensemble.role(*at) == Role::Leader);
    ensemble.until(is_replaced, "it leads on").await;
    for at in others {
        ensemble.commit(at, 10).await;
        assert_eq!(ensemble.server(at).machine.received().lost, 0);
    }
    ensemble.cut.heal();
    ensemble.ready().await;
    ensemble.commit(leader, 10).await;
    check(&ensemble).await;
}
