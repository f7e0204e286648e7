//! A session that ends, while its holder waits for something.

use std::future::Future;
use std::pin::Pin;
use std::time::Duration;

use tokio::time::{sleep, timeout};
use zoolet_client::recipes::{
    Barrier, Cache, DoubleBarrier, GroupMember, LeaderLatch, LeaderSelector, MultiLock, Mutex,
    PersistentNode, Queue, ReadWriteLock, Semaphore, SharedCount, SimpleLock,
};
use zoolet_client::{Client, CreateMode, Error};
use zoolet_tests::scenes::Scene;

use crate::harness::RecipeScene;

const LONG: Duration = Duration::from_secs(20);

type Wait = Pin<Box<dyn Future<Output = Result<(), Error>> + Send>>;

/// Every wait of every recipe, on a path where `holder` holds everything.
fn waits(client: &Client, path: &str) -> Vec<(&'static str, Wait)> {
    let (client, path) = (client.clone(), path.to_owned());
    let at = |name: &str| format!("{path}/{name}");
    let mutex = Mutex::new(&client, &at("mutex"));
    let multi_path = at("mutex");
    let multi = MultiLock::mutexes(&client, [multi_path.as_str()]);
    let rw = ReadWriteLock::new(&client, &at("rw"));
    let rw_writer = rw.clone();
    let semaphore = Semaphore::new(&client, &at("semaphore"), 1);
    let count = SharedCount::new(&client, &at("count"), 1);
    let shared = Semaphore::shared(&client, &at("semaphore"), count);
    let simple = SimpleLock::new(&client, &at("simple"));
    let latch = LeaderLatch::start(&client, &at("latch"), "");
    let selector = LeaderSelector::new(&client, &at("mutex"));
    let barrier = Barrier::new(&client, &at("barrier"));
    let double = DoubleBarrier::new(&client, &at("double"), 9);
    let queue = Queue::new(&client, &at("queue"));
    vec![
        ("mutex", Box::pin(async move { mutex.acquire().await.map(drop) })),
        ("multi lock", Box::pin(async move { multi.acquire().await.map(drop) })),
        ("read lock", Box::pin(async move { rw.read().await.map(drop) })),
        ("write lock", Box::pin(async move { rw_writer.write().await.map(drop) })),
        ("semaphore", Box::pin(async move { semaphore.acquire().await.map(drop) })),
        ("shared semaphore", Box::pin(async move { shared.acquire().await.map(drop) })),
        ("simple lock", Box::pin(async move { simple.acquire().await.map(drop) })),
        ("latch", Box::pin(async move { latch.lead().await.map(drop) })),
        ("selector", Box::pin(async move { selector.lead(async |_| ()).await.map(drop) })),
        ("barrier", Box::pin(async move { barrier.wait().await })),
        ("double barrier", Box::pin(async move { double.enter().await.map(drop) })),
        ("queue", Box::pin(async move { queue.take().await.map(drop) })),
    ]
}

pub(crate) async fn every_wait_ends_with_its_session(scene: &Scene) {
    let (holder, waiter, path) = (scene.client().await, scene.client().await, scene.path());
    let at = |name: &str| format!("{path}/{name}");
    let held = (
        Mutex::new(&holder, &at("mutex")).acquire().await.unwrap(),
        ReadWriteLock::new(&holder, &at("rw")).write().await.unwrap(),
        Semaphore::new(&holder, &at("semaphore"), 1).acquire().await.unwrap(),
        SimpleLock::new(&holder, &at("simple")).acquire().await.unwrap(),
    );
    let latch = LeaderLatch::start(&holder, &at("latch"), "");
    latch.lead().await.unwrap();
    Barrier::new(&holder, &at("barrier")).set().await.unwrap();

    scene.catch_up(&waiter).await;
    let waits: Vec<_> =
        waits(&waiter, &path).into_iter().map(|(name, wait)| (name, tokio::spawn(wait))).collect();
    let cache = Cache::start(&waiter, &path);
    cache.ready().await.unwrap();
    let node = PersistentNode::start(&waiter, &at("node"), CreateMode::Ephemeral, b"").unwrap();
    node.path().await.unwrap();
    let member = GroupMember::join(&waiter, &at("group"), "me").unwrap();
    member.ready().await.unwrap();
    sleep(Duration::from_millis(500)).await;
    for (name, wait) in &waits {
        assert!(!wait.is_finished(), "{name} does not wait");
    }

    scene.expire(&waiter).await;
    for (name, wait) in waits {
        let Ok(ended) = timeout(LONG, wait).await else { panic!("{name} waits on") };
        let error = ended.unwrap().unwrap_err();
        assert!(error.ends_session(), "{name}: {error}");
    }
    let ended = timeout(LONG, async {
        while cache.ready().await.is_ok() || node.path().await.is_ok() {
            sleep(Duration::from_millis(10)).await;
        }
    });
    assert!(ended.await.is_ok(), "a mirror or a znode goes on");
    assert!(timeout(LONG, member.leave()).await.unwrap().is_err());

    // The dead waiters delay no other.
    assert!(held.0.release().await.unwrap() && held.1.release().await.unwrap());
    assert!(held.2.release().await.unwrap() && held.3.release().await.unwrap());
    latch.close().await.unwrap();
    Barrier::new(&holder, &at("barrier")).remove().await.unwrap();
    scene.until_bare(&holder, &path).await;
}
