//! Reports of silent sessions between servers.

use tokio::time::timeout;
use zoolet_jute::SessionId;
use zoolet_replica::Silence;

use super::ensemble::{Ensemble, PATIENCE};

fn silence(session: i64) -> Silence {
    Silence { session: SessionId(session), generation: 3, silence_ms: 4000, has_ended: true }
}

impl Ensemble {
    /// A server knows that a connection has ended, its own one or another server's.
    fn hang_up(&mut self, at: usize, is_own: bool, session: i64) {
        self.server(at).machine.ended.lock().unwrap().push((is_own, silence(session)));
    }

    async fn is_reported(&mut self, at: usize, session: i64) {
        let machine = self.server(at).machine.clone();
        let reports = machine.until(|_, received| received.silences.contains(&silence(session)));
        timeout(PATIENCE, reports).await.expect("reported");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ended_connections_are_reported_to_all_and_everything_known_to_a_new_leader() {
    let mut ensemble = Ensemble::started(3, 0).await;
    let leader = ensemble.ready().await;
    let followers = [(leader + 1) % 3, (leader + 2) % 3];
    ensemble.hang_up(leader, true, 1);
    ensemble.hang_up(followers[0], true, 2);
    for at in followers {
        ensemble.hang_up(at, false, 4);
        ensemble.is_reported(at, 1).await;
    }
    // Number 3 comes after a session of another server, which is not reported.
    ensemble.hang_up(followers[0], true, 3);
    for at in [leader, followers[1]] {
        ensemble.is_reported(at, 2).await;
        ensemble.is_reported(at, 3).await;
    }
    let reports = ensemble.server(followers[1]).machine.received().silences;
    assert!(!reports.contains(&silence(4)), "{reports:?}");
    ensemble.kill(leader).await;
    let next = ensemble.ready().await;
    ensemble.is_reported(next, 4).await;
}
