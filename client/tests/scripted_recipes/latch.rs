//! A leader, and its terms.

use std::pin::pin;
use std::task::{Context, Waker};
use std::time::Duration;

use tokio::time::{advance, sleep, timeout};
use zoolet_client::recipes::{LeaderLatch, Suspension};
use zoolet_jute::OpCode;

use crate::script::TIMEOUT;
use crate::tree::{Ensemble, SOON};

/// Stops the program for a time: no task of it runs meanwhile.
fn pause(time: Duration) {
    let _ = pin!(advance(time)).poll(&mut Context::from_waker(Waker::noop()));
}

/// The program was stopped for longer than its lease, and asked, before its tasks ran, whether it
/// led: it got that, with the token of the term that was over.
#[tokio::test(start_paused = true)]
async fn a_leader_that_was_paused_past_its_lease_does_not_lead() {
    for suspension in [Suspension::StepDown, Suspension::StayOn] {
        let mut ensemble = Ensemble::new();
        let client = ensemble.client().await;
        let latch = LeaderLatch::start_with(&client, "/leader", "me", suspension);
        let first = timeout(SOON, latch.lead()).await.unwrap().unwrap();
        assert_eq!(latch.token(), Some(first));
        pause(TIMEOUT);
        assert!(!latch.is_leader() && latch.token().is_none(), "{suspension:?}");
        assert_eq!(latch.remaining(), Duration::ZERO);
        timeout(Duration::ZERO, latch.lost()).await.expect("it is lost at once");
        // The session lives on here, and the next term is another one.
        let serving = ensemble.serve_next();
        let (again, _) = tokio::join!(timeout(SOON, latch.lead()), timeout(SOON, serving));
        let again = again.unwrap().unwrap();
        assert!(again > first, "{again} after {first}");
    }
}

/// Between its terms a latch stays in the queue: every list of it has it at every moment, also
/// when the reply of the request that begins the next one is lost.
#[tokio::test(start_paused = true)]
async fn a_latch_between_its_terms_is_in_the_queue() {
    let mut ensemble = Ensemble::new();
    let (client, connection) = ensemble.servers.client().await;
    let serving = ensemble.serve(connection);
    let latch = LeaderLatch::start(&client, "/leader", "me");
    let first = timeout(SOON, latch.lead()).await.unwrap().unwrap();
    serving.abort();
    latch.lost().await;
    ensemble.tree.state().loses_reply_of = Some(OpCode::Multi);
    for _ in 0..2 {
        ensemble.serve_next().await;
    }
    let next = timeout(SOON, latch.lead()).await.unwrap().unwrap();
    assert!(next > first);
    assert!(ensemble.tree.always_had_children("/leader"));
    timeout(SOON, latch.close()).await.unwrap().unwrap();
}

/// A latch that stepped down and led again did so with the token that it had: a resource could not
/// tell a write of the former term from one of the present.
#[tokio::test(start_paused = true)]
async fn two_terms_of_a_latch_have_two_tokens() {
    let mut ensemble = Ensemble::new();
    let (client, connection) = ensemble.servers.client().await;
    let mut serving = ensemble.serve(connection);
    let latch = LeaderLatch::start(&client, "/leader", "me");
    let mut last = timeout(SOON, latch.lead()).await.unwrap().unwrap();
    for _ in 0..3 {
        serving.abort();
        latch.lost().await;
        assert_eq!(latch.token(), None);
        serving = ensemble.serve_next().await;
        let next = timeout(SOON, latch.lead()).await.unwrap().unwrap();
        assert!(next > last, "{next} after {last}");
        assert_eq!(ensemble.tree.names("/leader").len(), 1, "the former place is left");
        last = next;
    }
    sleep(TIMEOUT * 3).await;
    assert_eq!(latch.token(), Some(last), "it leads on");
    timeout(SOON, latch.close()).await.unwrap().unwrap();
    assert!(ensemble.tree.names("/leader").is_empty());
}
