//! Writes with a witness: queues and counters.

use std::time::Duration;

use bytes::Bytes;
use futures_util::future::try_join_all;
use tokio::time::{Instant, timeout};
use zoolet_client::recipes::{Barrier, Counter, Queue, QueueFormat, SharedCount};
use zoolet_client::{Error, ErrorKind, SessionId};
use zoolet_jute::OpCode;

use crate::tree::{Ensemble, SOON};

/// Each put waited for the one before: 500 of them took 212 ms on one machine, where 3 ms are enough.
#[tokio::test(start_paused = true)]
async fn the_puts_of_one_handle_are_under_way_together() {
    let mut ensemble = Ensemble::new();
    let client = ensemble.client().await;
    let queue = Queue::new(&client, "/queue");
    queue.put(b"first").await.unwrap();
    let began = Instant::now();
    let items: Vec<String> = (0..500).map(|number| number.to_string()).collect();
    let puts = items.iter().map(|item| queue.put(item.as_bytes()));
    timeout(SOON, try_join_all(puts)).await.unwrap().unwrap();
    let took = began.elapsed();
    assert!(took < Duration::from_millis(200), "{took:?} with a latency of 1 ms");
    assert_eq!(queue.take().await.unwrap().as_ref(), b"first");
    for item in &items {
        assert_eq!(queue.take().await.unwrap().as_ref(), item.as_bytes(), "in the order of asking");
    }
    drop(queue);
    ensemble.tree.until("no witness", |tree| tree.names("/queue-witness").is_empty()).await;
}

/// A take read the names of the whole queue, and the next one again: 500 takes, 125,000 names.
#[tokio::test(start_paused = true)]
async fn a_take_does_not_list_the_queue_again() {
    for format in [QueueFormat::Simple, QueueFormat::Kazoo, QueueFormat::Distributed] {
        let mut ensemble = Ensemble::new();
        let client = ensemble.client().await;
        let queue = Queue::with_format(&client, "/queue", format);
        for number in 0..100 {
            queue.put(&[number]).await.unwrap();
        }
        ensemble.tree.state().requests.clear();
        for number in 0..100 {
            assert_eq!(queue.take().await.unwrap().as_ref(), [number], "{format:?}");
        }
        let lists = ensemble.tree.count(OpCode::GetChildren2);
        assert!(lists <= 2, "{lists} lists, {format:?}");
        assert_eq!(queue.try_take().await.unwrap(), None);
    }
}

#[tokio::test(start_paused = true)]
async fn an_item_of_a_higher_priority_comes_first_behind_a_list_too() {
    let mut ensemble = Ensemble::new();
    let client = ensemble.client().await;
    let (queue, other) = (
        Queue::with_format(&client, "/queue", QueueFormat::Kazoo),
        Queue::with_format(&client, "/queue", QueueFormat::Kazoo),
    );
    for item in [b"a", b"b", b"c"] {
        queue.put(item).await.unwrap();
    }
    assert_eq!(queue.take().await.unwrap().as_ref(), b"a");
    other.put_with_priority(b"now", 1).await.unwrap();
    assert_eq!(queue.take().await.unwrap().as_ref(), b"now");
    assert_eq!(other.take().await.unwrap().as_ref(), b"b");
    assert_eq!(queue.take().await.unwrap().as_ref(), b"c");
}

/// The parent of the path grants no one CREATE, so the witness could not be created: no write was
/// possible to a number that may be written.
#[tokio::test(start_paused = true)]
async fn a_writer_that_may_have_no_witness_reports_what_is_in_doubt() {
    let mut ensemble = Ensemble::new();
    ensemble.tree.create("/closed", b"");
    ensemble.tree.create("/closed/count", &7i64.to_be_bytes());
    ensemble.tree.create("/closed/shared", &7i32.to_be_bytes());
    ensemble.tree.create("/closed/queue", b"");
    ensemble.tree.state().closed.push("/closed".to_owned());
    let (client, connection) = ensemble.servers.client().await;
    let mut serving = ensemble.serve(connection);
    let counter = Counter::new(&client, "/closed/count");
    assert_eq!(counter.add(1).await.unwrap(), 8);
    let shared = SharedCount::new(&client, "/closed/shared", 0);
    shared.set(9).await.unwrap();
    let queue = Queue::new(&client, "/closed/queue");
    queue.put(b"item").await.unwrap();
    assert_eq!(queue.take().await.unwrap().as_ref(), b"item");
    for _ in 0..2 {
        ensemble.tree.state().loses_reply_of = Some(OpCode::Multi);
        let (added, served) = tokio::join!(counter.add(1), ensemble.serve_next());
        serving.abort();
        serving = served;
        assert!(added.unwrap_err().may_have_happened());
    }
    // It was added each time, and not twice.
    assert_eq!(counter.get().await.unwrap(), 10);
    ensemble.tree.state().loses_reply_of = Some(OpCode::Multi);
    let (put, _) = tokio::join!(queue.put(b"in doubt"), ensemble.serve_next());
    assert!(put.unwrap_err().may_have_happened());
    assert_eq!(queue.len().await.unwrap(), 1);
    assert_eq!(ensemble.tree.names("/closed"), ["count", "queue", "shared"]);
}

/// Where there is a witness a lost reply is made up for, also that of the transaction which creates it.
#[tokio::test(start_paused = true)]
async fn a_lost_reply_is_made_up_for() {
    let mut ensemble = Ensemble::new();
    let client = ensemble.client().await;
    let counter = Counter::new(&client, "/count");
    assert_eq!(counter.add(1).await.unwrap(), 1);
    let queue = Queue::new(&client, "/queue");
    queue.put(b"0").await.unwrap();
    for number in 2..5 {
        // The first of a new handle creates its witness.
        let counter = if number == 4 { Counter::new(&client, "/count") } else { counter.clone() };
        ensemble.tree.state().loses_reply_of = Some(OpCode::Multi);
        let (added, _) = tokio::join!(counter.add(1), ensemble.serve_next());
        assert_eq!(added.unwrap(), number);
        let queue = if number == 4 { Queue::new(&client, "/queue") } else { queue.clone() };
        ensemble.tree.state().loses_reply_of = Some(OpCode::Multi);
        let (put, _) = tokio::join!(queue.put(b"item"), ensemble.serve_next());
        put.unwrap();
    }
    assert_eq!(queue.len().await.unwrap(), 4);
}

/// A server that had not seen the last write was asked, and answered with the number before: the
/// caller learned that another had written.
#[tokio::test(start_paused = true)]
async fn a_comparison_fails_by_the_newest_number_only() {
    let mut ensemble = Ensemble::new();
    let client = ensemble.client().await;
    let counter = Counter::new(&client, "/count");
    counter.set(5).await.unwrap();
    let old = Bytes::copy_from_slice(&4i64.to_be_bytes());
    ensemble.tree.state().stale.insert("/count".to_owned(), old);
    assert!(counter.compare_and_set(5, 6).await.unwrap());
    assert!(!counter.compare_and_set(5, 7).await.unwrap());
    assert_eq!(ensemble.tree.data("/count").unwrap().as_ref(), 6i64.to_be_bytes());
}

/// Loses the reply of a write, and then ends the session. Returns the failure of the write.
async fn failed_in_doubt<T: std::fmt::Debug>(
    ensemble: &mut Ensemble,
    loses_reply_of: OpCode,
    write: impl Future<Output = Result<T, Error>>,
) -> Error {
    ensemble.tree.state().loses_reply_of = Some(loses_reply_of);
    let ends = async {
        let mut connection = ensemble.servers.accept().await;
        connection.hello().await;
        connection.welcome(SessionId::NONE, 0, false).await;
    };
    let (written, ()) = tokio::join!(write, ends);
    written.unwrap_err()
}

/// The look behind the lost reply failed since the session had ended, as a request that was never
/// sent: the error said that nothing had happened, and an item was in the queue.
#[tokio::test(start_paused = true)]
async fn a_write_that_no_look_can_settle_is_in_doubt() {
    for case in 0..4 {
        let mut ensemble = Ensemble::new();
        let client = ensemble.client().await;
        let (counter, queue) = (Counter::new(&client, "/count"), Queue::new(&client, "/queue"));
        let barrier = Barrier::new(&client, "/barrier");
        counter.add(1).await.unwrap();
        queue.put(b"0").await.unwrap();
        let error = match case {
            0 => failed_in_doubt(&mut ensemble, OpCode::Multi, counter.add(1)).await,
            1 => failed_in_doubt(&mut ensemble, OpCode::Multi, queue.put(b"1")).await,
            2 => failed_in_doubt(&mut ensemble, OpCode::Create2, barrier.set()).await,
            _ => {
                barrier.set().await.unwrap();
                failed_in_doubt(&mut ensemble, OpCode::Delete, barrier.remove()).await
            }
        };
        assert_eq!(error.kind(), &ErrorKind::SessionExpired, "case {case}");
        assert!(error.may_have_happened(), "case {case}");
    }
}
