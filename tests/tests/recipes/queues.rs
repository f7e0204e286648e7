//! [`Queue`].

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};
use zoolet_client::recipes::{Queue, QueueFormat};
use zoolet_client::{CreateMode, Version};
use zoolet_tests::scenes::{Scene, connect, soon};
use zoolet_torture::proxy::Proxy;

use crate::harness::{RecipeScene, cancelled_at_every_await};

const LONG: Duration = Duration::from_secs(10);
const SHORT: Duration = Duration::from_millis(200);

pub(crate) async fn an_item_is_taken_once_and_in_order(scene: &Scene) {
    let (client, path) = (scene.client().await, scene.path());
    for format in [QueueFormat::Simple, QueueFormat::Distributed, QueueFormat::Kazoo] {
        let queue = Queue::with_format(&client, &path, format);
        assert_eq!(queue.try_take().await.unwrap(), None);
        for item in ["a", "b", "c"] {
            queue.put(item.as_bytes()).await.unwrap();
        }
        assert_eq!(queue.len().await.unwrap(), 3);
        assert_eq!(queue.peek().await.unwrap().unwrap().as_ref(), b"a");
        for item in ["a", "b", "c"] {
            assert_eq!(queue.take().await.unwrap().as_ref(), item.as_bytes(), "{format:?}");
        }
        assert!(queue.take_timeout(SHORT).await.unwrap().is_none());
    }
    for format in [QueueFormat::Distributed, QueueFormat::Kazoo] {
        let queue = Queue::with_format(&client, &path, format);
        for (item, priority) in [("late", 9), ("first", 2), ("second", 2)] {
            queue.put_with_priority(item.as_bytes(), priority).await.unwrap();
        }
        for item in ["first", "second", "late"] {
            assert_eq!(queue.take().await.unwrap().as_ref(), item.as_bytes(), "{format:?}");
        }
    }
    assert!(Queue::new(&client, &path).put_with_priority(b"", 1).await.is_err());

    let mut takers = JoinSet::new();
    for _ in 0..3 {
        let queue = Queue::new(&scene.client().await, &path);
        takers.spawn(async move {
            let mut items = Vec::new();
            loop {
                match queue.take().await.unwrap().as_ref() {
                    b"end" => return items,
                    item => items.push(String::from_utf8(item.to_vec()).unwrap()),
                }
            }
        });
    }
    let queue = Queue::new(&client, &path);
    for item in 0..30 {
        queue.put(item.to_string().as_bytes()).await.unwrap();
    }
    for _ in 0..3 {
        queue.put(b"end").await.unwrap();
    }
    let mut all = Vec::new();
    while let Some(items) = timeout(LONG, takers.join_next()).await.unwrap() {
        all.extend(items.unwrap());
    }
    assert_eq!(all.len(), 30, "every item once");
    assert_eq!(all.iter().collect::<BTreeSet<_>>().len(), 30);
}

pub(crate) async fn a_take_that_is_cancelled_loses_no_item(scene: &Scene) {
    let (client, path) = (scene.client().await, scene.path());
    let queue = Queue::new(&client, &path);
    queue.put(b"item").await.unwrap();
    let seen = AtomicUsize::new(0);
    let take = || async {
        let item = queue.take().await?;
        assert_eq!(item.as_ref(), b"item");
        seen.fetch_add(1, Ordering::SeqCst);
        Ok(item)
    };
    cancelled_at_every_await(take, async || {}).await;
    assert_eq!(seen.load(Ordering::SeqCst), 1, "it was taken once, after all the cancelled ones");
    assert!(queue.is_empty().await.unwrap());
    scene
        .under_every_fault(async |client, path| {
            let queue = Queue::new(&client, &format!("{path}/queue"));
            queue.put(b"a").await.unwrap();
            queue.put(b"b").await.unwrap();
            assert_eq!(queue.len().await.unwrap(), 2, "nothing is put twice");
            assert_eq!(queue.take().await.unwrap().as_ref(), b"a");
            assert_eq!(queue.take().await.unwrap().as_ref(), b"b");
            assert!(queue.try_take().await.unwrap().is_none());
        })
        .await;
}

/// Its numbers would start anew: a take that stood still between its look at the queue and its
/// delete took another item than the one that it had seen.
pub(crate) async fn an_empty_queue_is_not_reaped(scene: &Scene) {
    let (client, path) = (scene.client().await, scene.path());
    let (dir, container) = (format!("{path}/queue"), format!("{path}/other"));
    let queue = Queue::new(&client, &dir);
    queue.put(b"1").await.unwrap();
    queue.take().await.unwrap();
    client.create(&container, b"", CreateMode::Container).await.unwrap();
    let child = format!("{container}/child");
    client.create(&child, b"", CreateMode::Persistent).await.unwrap();
    client.delete(&child, Version::Any).await.unwrap();
    soon("a container is reaped", async || client.exists(&container).await.unwrap().is_none())
        .await;
    queue.put(b"2").await.unwrap();
    assert_eq!(client.children(&dir).await.unwrap().0, ["qn-0000000001"]);
}

/// Those that wait for servers that do not answer pile up no work.
pub(crate) async fn takes_that_are_given_up_pile_nothing_up(scene: &Scene) {
    let path = scene.path();
    let proxy = Proxy::start(&scene.servers).await.unwrap();
    let queue = Queue::new(&connect(&proxy.connect_string()).await, &path);
    queue.put(b"item").await.unwrap();
    proxy.cut();
    sleep(Duration::from_millis(50)).await;
    let tasks = || tokio::runtime::Handle::current().metrics().num_alive_tasks();
    let before = tasks();
    for _ in 0..20 {
        assert!(timeout(Duration::from_millis(5), queue.try_take()).await.is_err());
    }
    let more = tasks().saturating_sub(before);
    assert!(more < 10, "{more} tasks");
    proxy.heal();
    assert_eq!(timeout(LONG, queue.take()).await.unwrap().unwrap().as_ref(), b"item");
}

pub(crate) async fn znodes_that_are_not_items_are_passed_over(scene: &Scene) {
    let (client, path) = (scene.client().await, scene.path());
    client.create(&path, b"", CreateMode::Persistent).await.unwrap();
    let foreign = format!("{path}/queue-");
    client.create(&foreign, b"nonsense", CreateMode::PersistentSequential).await.unwrap();
    let queue = Queue::with_format(&client, &path, QueueFormat::Distributed);
    assert!(queue.try_take().await.unwrap().is_none());
    assert!(queue.take_timeout(SHORT).await.unwrap().is_none());
    let taker = queue.clone();
    let waiter = tokio::spawn(async move { taker.take().await.unwrap() });
    sleep(SHORT).await;
    queue.put(b"item").await.unwrap();
    assert_eq!(timeout(LONG, waiter).await.unwrap().unwrap().as_ref(), b"item");
    assert!(queue.peek().await.unwrap().is_none());
    assert_eq!(queue.len().await.unwrap(), 1, "it stays");
}
