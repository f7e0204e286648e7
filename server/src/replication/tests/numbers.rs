//! The numbers of starts, when the fence knows of a higher one.

use tokio::time::timeout;
use zoolet_replica::{Batch, Boot, Origin};

use super::cluster::check;
use super::ensemble::{Ensemble, PATIENCE, command};

/// While a leader ran, the log got a batch of a later start of the same server. The fence dropped
/// everything that the leader proposed from then on, and the leader took it for applied.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_leader_whose_number_is_overtaken_while_it_runs_goes_on_with_a_higher_one() {
    let mut ensemble = Ensemble::started(3, 0).await;
    let leader = ensemble.ready().await;
    ensemble.commit(leader, 50).await;
    let origin = ensemble.server(leader).machine.record().applied.last().unwrap().0;
    let later = Origin { boot: Boot(origin.boot.0 + 1000), ..origin };
    // It may have begun 200,000 sessions, whose ids take the place of three more starts.
    let batch = Batch { origin: later, now_ms: 0, commands: vec![command(200_000)] };
    let done = Box::new(drop);
    assert!(ensemble.server(leader).raft.handle.propose(batch.encode(), None, done).await);
    let machine = ensemble.server(leader).machine.clone();
    let again = machine.until(|_, received| received.started.len() > 1);
    timeout(PATIENCE, again).await.expect("dropped batches are taken for applied ones");
    let expected = Boot(later.boot.0 + 1 + 3);
    assert_eq!(machine.received().started, [origin.boot, expected]);
    ensemble.commit(leader, 50).await;
    let applied = ensemble.server(leader).machine.record().applied;
    let of_new = applied.iter().filter(|(origin, _)| origin.boot == expected);
    assert_eq!(of_new.count(), 50);
    check(&ensemble).await;
    ensemble.kill(leader).await;
    ensemble.start(leader).await;
    assert!(ensemble.server(leader).boot > expected, "the number was not durable");
}

/// The clock stood where it had stood before, and the disk was replaced: the server took the number
/// of its first start again. What the first had proposed was in the log under the same number.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_number_that_an_earlier_start_had_is_not_used_again() {
    let mut ensemble = Ensemble::started(3, 0).await;
    let server = (ensemble.ready().await + 1) % 3;
    let before = ensemble.server(server).boot;
    ensemble.commit(server, 20).await;
    ensemble.lose_disk(server).await;
    ensemble.start(server).await;
    assert_eq!(ensemble.server(server).boot, before);
    ensemble.ready().await;
    let machine = ensemble.server(server).machine.clone();
    let started = machine.until(|_, received| !received.started.is_empty());
    timeout(PATIENCE, started).await.expect("it has not caught up");
    assert_eq!(machine.received().started, [Boot(before.0 + 1)]);
    ensemble.commit(server, 20).await;
    assert_eq!(machine.received().lost, 0);
    assert_eq!(machine.record().applied.len(), 40);
    check(&ensemble).await;
}
