//! The mirror of a part of the tree.

use std::time::Duration;

use tokio::time::{Instant, timeout};
use zoolet_client::Zxid;
use zoolet_client::recipes::{Cache, CacheChange};
use zoolet_jute::{EventType, OpCode};

use crate::tree::{Ensemble, SOON};

const ZNODES: usize = 5000;

/// It asked for one znode, waited, and asked for the next: 296 ms for 5,000 znodes on one machine,
/// where 6 ms are enough. After a reconnect it read all of them twice.
#[tokio::test(start_paused = true)]
async fn a_cache_reads_many_znodes_at_a_time_and_each_once() {
    let mut ensemble = Ensemble::new();
    let (client, connection) = ensemble.servers.client().await;
    let serving = ensemble.serve(connection);
    ensemble.tree.create("/root", b"");
    for number in 0..ZNODES {
        if number % 100 == 0 {
            ensemble.tree.create(&format!("/root/{number}"), b"");
        }
        ensemble.tree.create(&format!("/root/{}/{number}", number - number % 100), b"data");
    }
    let began = Instant::now();
    let cache = Cache::start(&client, "/root");
    timeout(SOON, cache.ready()).await.unwrap().unwrap();
    let all = 1 + ZNODES / 100 + ZNODES;
    assert_eq!(cache.snapshot().len(), all);
    let took = began.elapsed();
    assert!(took < Duration::from_secs(1), "{took:?} with a latency of 1 ms");
    assert_eq!(ensemble.tree.count(OpCode::GetData), all);
    ensemble.tree.state().requests.clear();

    serving.abort();
    ensemble.tree.until("it is behind", |_| !cache.is_ready()).await;
    ensemble.serve_next().await;
    timeout(SOON, cache.ready()).await.unwrap().unwrap();
    ensemble.tree.create("/root/last", b"");
    ensemble.tree.until("it follows", |_| cache.get("/root/last").is_some()).await;
    assert_eq!(
        ensemble.tree.count(OpCode::GetData),
        all + 1,
        "one read for each, after a reconnect"
    );
}

/// A znode was deleted and created again. The mirror had read the new one when the end of the old
/// one was the next event: it forgot the new one, until the event behind that.
#[tokio::test(start_paused = true)]
async fn a_queued_delete_does_not_take_a_cache_back() {
    let mut ensemble = Ensemble::new();
    let (client, mut connection) = ensemble.servers.client().await;
    ensemble.tree.create("/root", b"");
    for _ in 0..8 {
        ensemble.tree.create("/root/a", b"old");
        ensemble.tree.delete("/root/a");
    }
    ensemble.tree.create("/root/a", b"new");
    let created = ensemble.tree.czxid("/root/a");
    let cache = Cache::start(&client, "/root");
    ensemble.tree.serve_until(&mut connection, |_| cache.is_ready()).await;
    assert_eq!(cache.get("/root/a").unwrap().data.as_ref(), b"new");
    let mut changes = cache.subscribe();
    let before = Zxid(created.0 - 1);
    connection.event_at(before, EventType::NodeDeleted, "/root/a").await;
    connection.event_at(created, EventType::NodeCreated, "/root/a").await;
    ensemble.tree.create("/root/marker", b"");
    ensemble.serve(connection);
    let change = timeout(SOON, changes.recv()).await.unwrap().unwrap();
    let CacheChange::Created(path, _) = change else { panic!("{change:?}") };
    assert_eq!(path, "/root/marker");
    // Its own end is taken for what it is.
    ensemble.tree.delete("/root/a");
    let change = timeout(SOON, changes.recv()).await.unwrap().unwrap();
    assert!(matches!(change, CacheChange::Deleted(path, _) if path == "/root/a"));
    assert_eq!(cache.get("/root/a"), None);
}

/// A burst of changes is read together too, and reported in its order.
#[tokio::test(start_paused = true)]
async fn a_cache_follows_a_burst_of_changes_in_order() {
    let mut ensemble = Ensemble::new();
    let client = ensemble.client().await;
    ensemble.tree.create("/root", b"");
    let cache = Cache::start(&client, "/root");
    timeout(SOON, cache.ready()).await.unwrap().unwrap();
    let mut changes = cache.subscribe();
    let began = Instant::now();
    for number in 0..500 {
        ensemble.tree.create(&format!("/root/{number:03}"), b"");
    }
    for number in 0..500 {
        let change = timeout(SOON, changes.recv()).await.unwrap().unwrap();
        let CacheChange::Created(path, _) = change else { panic!("{change:?}") };
        assert_eq!(path, format!("/root/{number:03}"));
    }
    let took = began.elapsed();
    assert!(took < Duration::from_millis(200), "{took:?} with a latency of 1 ms");
}
