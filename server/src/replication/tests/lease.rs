//! Until when a leader may count signs of life.

use tokio::time::{sleep, timeout};
use zoolet_replica::Role;

use super::ensemble::{Ensemble, PATIENCE};
use crate::replication::Machine;

/// A leader that was stopped answered the pings that had come meanwhile before it noticed that it
/// was replaced.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_leader_gets_a_new_lease_as_long_as_a_majority_answers() {
    let mut ensemble = Ensemble::started(3, 0).await;
    let leader = ensemble.ready().await;
    let machine = ensemble.server(leader).machine.clone();
    let length_ms = u64::try_from(ensemble.timing.silence_max().as_millis()).unwrap();
    let first_ms = machine.received().lease_until_ms;
    assert!(first_ms <= machine.mono_ms() + length_ms);
    let is_renewed = async {
        while machine.received().lease_until_ms <= first_ms + length_ms {
            sleep(ensemble.timing.heartbeat).await;
        }
    };
    timeout(PATIENCE, is_renewed).await.expect("it is not renewed");
    ensemble.cut.isolate(leader, 3).await;
    let cut_at_ms = machine.mono_ms();
    let looks = machine.until(|_, received| received.roles.last() == Some(&Role::Looking));
    timeout(PATIENCE, looks).await.expect("it goes on leading");
    let until_ms = machine.received().lease_until_ms;
    assert!(
        until_ms <= cut_at_ms + length_ms,
        "{until_ms}: no server has answered since {cut_at_ms}"
    );
}
