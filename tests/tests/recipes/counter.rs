//! [`Counter`] and [`SharedCount`].

use std::time::Duration;

use tokio::task::JoinSet;
use tokio::time::timeout;
use zoolet_client::recipes::{Counter, SharedCount, Versioned};
use zoolet_client::{CreateMode, ErrorKind, Version};
use zoolet_tests::scenes::{Scene, connect};
use zoolet_torture::proxy::{Fault, Proxy};

use crate::harness::{RecipeScene, cancelled_at_every_await};

const LONG: Duration = Duration::from_secs(10);

pub(crate) async fn many_add_to_one_number(scene: &Scene) {
    let (client, path) = (scene.client().await, scene.path());
    let mut contenders = JoinSet::new();
    for _ in 0..5 {
        let counter = Counter::new(&scene.client().await, &path);
        contenders.spawn(async move {
            for _ in 0..20 {
                counter.increment().await.unwrap();
            }
        });
    }
    while let Some(ended) = contenders.join_next().await {
        ended.unwrap();
    }
    scene.catch_up(&client).await;
    let counter = Counter::new(&client, &path);
    assert_eq!(counter.get().await.unwrap(), 100);
    assert_eq!(client.get(&path).await.unwrap().0.as_ref(), 100i64.to_be_bytes());
    assert_eq!(counter.decrement().await.unwrap(), 99);
    assert_eq!(counter.add(-100).await.unwrap(), -1);
    assert!(!counter.compare_and_set(5, 6).await.unwrap());
    assert!(counter.compare_and_set(-1, i64::MAX).await.unwrap());
    assert_eq!(counter.increment().await.unwrap(), i64::MIN, "it wraps");
    counter.set(7).await.unwrap();
    assert_eq!(counter.get().await.unwrap(), 7);
    client.set_data(&path, b"text", Version::Any).await.unwrap();
    let error = counter.get().await.unwrap_err();
    assert!(matches!(error.kind(), ErrorKind::Protocol(_)), "{error}");
}

pub(crate) async fn a_lost_reply_is_not_counted_twice(scene: &Scene) {
    let other = &scene.client().await;
    scene
        .under_every_fault(async |client, path| {
            let path = format!("{path}/number");
            let counter = Counter::new(&client, &path);
            for sum in 1..=3 {
                assert_eq!(counter.increment().await.unwrap(), sum);
            }
            assert!(counter.compare_and_set(3, 10).await.unwrap());
            scene.catch_up(other).await;
            let (data, stat) = other.get(&path).await.unwrap();
            assert_eq!((data.as_ref(), stat.version), (10i64.to_be_bytes().as_ref(), 3));
        })
        .await;
}

pub(crate) async fn a_shared_count_is_watched_and_set(scene: &Scene) {
    let (one, other, path) = (scene.client().await, scene.client().await, scene.path());
    let count = SharedCount::new(&one, &path, 42);
    assert_eq!(count.get().await.unwrap(), Versioned { value: 42, version: 0 });
    assert_eq!(one.get(&path).await.unwrap().0.as_ref(), [0, 0, 0, 42]);
    let same = SharedCount::new(&other, &path, 5);
    scene.catch_up(&other).await;
    let (seen, watch) = same.get_watched().await.unwrap();
    assert_eq!(seen.value, 42, "the seed is for the first writer");
    count.set(-1).await.unwrap();
    timeout(LONG, watch.changed()).await.unwrap().unwrap();
    assert!(!same.try_set(seen, 3).await.unwrap(), "somebody has written it");
    let now = same.get().await.unwrap();
    assert_eq!(now, Versioned { value: -1, version: 1 });
    assert!(same.try_set(now, 3).await.unwrap());
    let bad = format!("{path}-bad");
    one.create(&bad, b"12345", CreateMode::Persistent).await.unwrap();
    assert!(SharedCount::new(&one, &bad, 0).get().await.is_err());
    scene
        .under_every_fault(async |client, path| {
            let count = SharedCount::new(&client, &format!("{path}/count"), 1);
            let seen = count.get().await.unwrap();
            assert!(count.try_set(seen, 2).await.unwrap(), "no other client writes it");
            count.set(3).await.unwrap();
            assert_eq!(count.get().await.unwrap(), Versioned { value: 3, version: 2 });
        })
        .await;
}

/// A write that is dropped at any moment leaves a number that was there before or after it.
pub(crate) async fn a_cancelled_write_happens_once_or_not_at_all(scene: &Scene) {
    let (one, other, path) = (scene.client().await, scene.client().await, scene.path());
    let counter = Counter::new(&one, &format!("{path}/number"));
    let watching = Counter::new(&other, &format!("{path}/number"));
    let (before, mut tries) = (counter.increment().await.unwrap(), 0);
    let left = async || {
        tries += 1;
        // Its server may be behind that of the writer.
        scene.catch_up(&other).await;
        let now = watching.get().await.unwrap();
        assert!((before..=before + tries).contains(&now), "{now} after {tries} increments");
    };
    cancelled_at_every_await(|| counter.increment(), left).await;
    let count = SharedCount::new(&one, &format!("{path}/count"), 7);
    cancelled_at_every_await(|| count.set(8), async || {}).await;
    assert_eq!(count.get().await.unwrap().value, 8);
    one.close().await.unwrap();
    scene.until_bare(&other, &path).await;
}

/// The reply of a write is lost, somebody writes something else, and the write is not repeated.
pub(crate) async fn a_set_whose_reply_is_lost_undoes_nothing(scene: &Scene) {
    let other = scene.client().await;
    for after in 0.. {
        let path = scene.path();
        let proxy = Proxy::start(&scene.servers).await.unwrap();
        let client = connect(&proxy.connect_string()).await;
        let counter = Counter::new(&other, &path);
        assert_eq!(counter.increment().await.unwrap(), 1);
        let set = Counter::new(&client, &path);
        // Its helper znode is there already.
        set.set(2).await.unwrap();
        scene.catch_up(&other).await;
        let (_, _, changed) = other.get_watched(&path).await.unwrap();
        proxy.strike(Fault::Reply, after);
        let setting = tokio::spawn(async move { set.set(5).await });
        timeout(LONG, changed.changed()).await.unwrap().unwrap();
        assert_eq!(counter.increment().await.unwrap(), 6);
        timeout(LONG, setting).await.unwrap().unwrap().unwrap();
        scene.catch_up(&other).await;
        assert_eq!(counter.get().await.unwrap(), 6, "what was added is undone");
        if !proxy.calm() {
            assert!(after > 0, "nothing was lost");
            return;
        }
    }
}
