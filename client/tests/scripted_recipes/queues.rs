//! Takes and puts of one handle that go on together.

use std::collections::BTreeSet;
use std::time::Duration;

use bytes::Bytes;
use futures_util::future::{join_all, try_join_all};
use tokio::time::{Instant, sleep, timeout};
use zoolet_client::recipes::{Queue, QueueFormat};
use zoolet_jute::OpCode;

use crate::tree::{Ensemble, SOON};

/// What the items of a test are.
fn items(from: usize, to: usize) -> Vec<String> {
    (from..to).map(|number| format!("{number:03}")).collect()
}

async fn put_all(queue: &Queue, items: &[String]) {
    let puts = items.iter().map(|item| queue.put(item.as_bytes()));
    timeout(SOON, try_join_all(puts)).await.unwrap().unwrap();
}

fn texts(taken: Vec<Bytes>) -> Vec<String> {
    taken.into_iter().map(|item| String::from_utf8(item.to_vec()).unwrap()).collect()
}

/// Each take waited for the one before, and took three round trips: 500 of them 6 s on one machine.
#[tokio::test(start_paused = true)]
async fn the_takes_of_one_handle_are_under_way_together() {
    for format in [QueueFormat::Simple, QueueFormat::Kazoo, QueueFormat::Distributed] {
        let mut ensemble = Ensemble::new();
        let client = ensemble.client().await;
        let queue = Queue::with_format(&client, "/queue", format);
        let all = items(0, 500);
        put_all(&queue, &all).await;
        ensemble.tree.state().requests.clear();
        let began = Instant::now();
        let takes = all.iter().map(|_| queue.take());
        let taken = timeout(SOON, try_join_all(takes)).await.unwrap().unwrap();
        let took = began.elapsed();
        assert!(took < Duration::from_millis(300), "{took:?} with a latency of 1 ms, {format:?}");
        assert_eq!(texts(taken), all, "in the order of asking, {format:?}");
        let lists = ensemble.tree.count(OpCode::GetChildren2);
        assert!(lists <= 2, "{lists} lists, {format:?}");
    }
}

/// Two handles take beside each other while replies are lost.
#[tokio::test(start_paused = true)]
async fn takes_that_are_under_way_together_take_an_item_once_when_replies_are_lost() {
    let mut ensemble = Ensemble::new();
    let client = ensemble.client().await;
    let (queue, other) = (Queue::new(&client, "/queue"), Queue::new(&client, "/queue"));
    let all = items(0, 200);
    put_all(&queue, &all).await;
    let mut taken = Vec::new();
    for lost in [OpCode::Multi, OpCode::GetData, OpCode::GetChildren2, OpCode::Multi] {
        // Lists are read when a handle knows of none.
        let handles = [queue.clone(), other.clone(), Queue::new(&client, "/queue")];
        ensemble.tree.state().loses_reply_of = Some(lost);
        let takes = handles.iter().flat_map(|handle| (0..16).map(|_| handle.take()));
        let takes = timeout(SOON, try_join_all(takes));
        let (batch, _) = tokio::join!(takes, ensemble.serve_next());
        taken.extend(texts(batch.unwrap().unwrap()));
    }
    taken.extend(texts(try_join_all((0..8).map(|_| other.take())).await.unwrap()));
    taken.sort();
    assert_eq!(taken, all, "each once");
    assert!(queue.try_take().await.unwrap().is_none() && queue.is_empty().await.unwrap());
}

/// Every put woke all takes, and each of them listed the queue.
#[tokio::test(start_paused = true)]
async fn takes_that_wait_together_watch_once() {
    let mut ensemble = Ensemble::new();
    let client = ensemble.client().await;
    let (queue, putter) = (Queue::new(&client, "/queue"), Queue::new(&client, "/queue"));
    let takes: Vec<_> = (0..100)
        .map(|_| {
            let queue = queue.clone();
            tokio::spawn(async move { queue.take().await.unwrap() })
        })
        .collect();
    sleep(Duration::from_secs(1)).await;
    ensemble.tree.state().requests.clear();
    let all = items(0, 100);
    for item in &all[..50] {
        putter.put(item.as_bytes()).await.unwrap();
        sleep(Duration::from_millis(100)).await;
    }
    let lists = ensemble.tree.count(OpCode::GetChildren2);
    assert!(lists <= 50 * 4, "{lists} lists for 50 items and 100 takes");
    put_all(&putter, &all[50..]).await;
    let taken = timeout(SOON, join_all(takes)).await.unwrap();
    let taken: BTreeSet<Bytes> = taken.into_iter().map(Result::unwrap).collect();
    assert_eq!(taken.len(), 100, "each once");
}

/// The one that watches for all others can be given up at any time.
#[tokio::test(start_paused = true)]
async fn a_take_that_is_given_up_leaves_the_watch_to_another() {
    let mut ensemble = Ensemble::new();
    let client = ensemble.client().await;
    let queue = Queue::new(&client, "/queue");
    queue.put(b"first").await.unwrap();
    queue.take().await.unwrap();
    let first = queue.clone();
    let first = tokio::spawn(async move { first.take().await });
    sleep(Duration::from_millis(100)).await;
    let second = queue.clone();
    let second = tokio::spawn(async move { second.take().await });
    sleep(Duration::from_millis(100)).await;
    first.abort();
    sleep(Duration::from_millis(100)).await;
    Queue::new(&client, "/queue").put(b"item").await.unwrap();
    assert_eq!(timeout(SOON, second).await.unwrap().unwrap().unwrap().as_ref(), b"item");
}

/// The first of them found no queue, and were repeated behind those that were asked for later.
#[tokio::test(start_paused = true)]
async fn the_puts_that_make_a_queue_keep_their_order() {
    let mut ensemble = Ensemble::new();
    let client = ensemble.client().await;
    let queue = Queue::new(&client, "/queues/new");
    let all = items(0, 100);
    put_all(&queue, &all).await;
    let mut taken = Vec::new();
    while let Some(item) = queue.try_take().await.unwrap() {
        taken.push(item);
    }
    assert_eq!(texts(taken), all);
}

/// What is promised of the order: a put is behind those that were answered before it was asked for,
/// whatever becomes of those that are asked for together.
#[tokio::test(start_paused = true)]
async fn puts_are_behind_those_that_were_answered_when_replies_are_lost() {
    let mut ensemble = Ensemble::new();
    let client = ensemble.client().await;
    let queue = Queue::new(&client, "/queue");
    for batch in 0..4 {
        ensemble.tree.state().loses_reply_of = Some(OpCode::Multi);
        let batch = items(batch * 50, batch * 50 + 50);
        tokio::join!(put_all(&queue, &batch), ensemble.serve_next());
    }
    let taken = try_join_all((0..200).map(|_| queue.take())).await.unwrap();
    for (number, batch) in texts(taken).chunks(50).enumerate() {
        let mut batch = batch.to_vec();
        batch.sort();
        assert_eq!(batch, items(number * 50, number * 50 + 50), "each once");
    }
}
