//! Recipes that are dropped before they are where they want to be: nothing is left behind while the
//! session lives on, and others go on.

use std::collections::BTreeMap;
use std::time::Duration;

use tokio::task::JoinSet;
use tokio::time::timeout;
use zoolet_client::recipes::{
    Cache, GroupMember, LeaderLatch, MultiLock, Mutex, PersistentNode, Queue, Semaphore, SimpleLock,
};
use zoolet_client::{Client, CreateMode, Error};
use zoolet_tests::scenes::{Scene, soon};

use crate::harness::{
    RecipeScene, cancelled_at_every_await, cancelled_until_it_ends, dropped_after,
};

const LONG: Duration = Duration::from_secs(20);

/// How often each item is in a queue that no other client uses.
async fn items(client: &Client, path: &str) -> BTreeMap<String, usize> {
    let queue = Queue::new(client, path);
    let mut items = BTreeMap::new();
    while let Some(item) = queue.try_take().await.unwrap() {
        *items.entry(String::from_utf8(item.to_vec()).unwrap()).or_default() += 1;
    }
    items
}

/// The witness of a put goes too, and numbers stay in order for who puts next.
pub(crate) async fn a_cancelled_put_has_put_once_or_not_at_all(scene: &Scene) {
    let (one, other) = (scene.client().await, scene.client().await);
    // With a queue of its own for each, and with one for all, whose witness may stay.
    for shares in [false, true] {
        let path = scene.path();
        let shared = Queue::new(&other, &path);
        let mut puts = 0;
        let put = || {
            puts += 1;
            let (item, queue) = (puts.to_string(), shared.clone());
            let queue = if shares { queue } else { Queue::new(&other, &path) };
            async move { queue.put(item.as_bytes()).await }
        };
        let witnesses = format!("{path}-witness");
        let left = async || {
            let most = usize::from(shares);
            soon("no witness of a put that was dropped", async || {
                scene.children(&one, &witnesses).await.len() <= most
            })
            .await;
        };
        cancelled_until_it_ends(put, left).await;
        drop(shared);
        scene.until_children(&one, &witnesses, 0).await;
        let items = items(&one, &path).await;
        assert!(items.values().all(|times| *times == 1), "{items:?}");
        assert!(puts > 2 && items.contains_key(&puts.to_string()), "{puts} puts: {items:?}");
        assert!(items.keys().all(|item| item.parse::<u32>().unwrap() <= puts), "{items:?}");
    }
}

pub(crate) async fn a_put_that_is_dropped_over_a_loss_has_put_once_or_not_at_all(scene: &Scene) {
    let start = |client: &Client, path: &str| {
        let queue = Queue::new(client, &format!("{path}/queue"));
        let mut put = JoinSet::new();
        put.spawn(async move { queue.put(b"dropped").await });
        put
    };
    let others = async |client: &Client, path: &str| {
        let path = format!("{path}/queue");
        Queue::new(client, &path).put(b"next").await.unwrap();
        let items = items(client, &path).await;
        assert!(items.get("dropped").is_none_or(|times| *times == 1), "{items:?}");
        assert_eq!(items.get("next"), Some(&1), "{items:?}");
    };
    let goal = async |put: &mut JoinSet<Result<(), Error>>| {
        put.join_next().await.unwrap().unwrap().unwrap();
    };
    scene.dropped_at_every_call(start, goal, others).await;
}

pub(crate) async fn a_cache_that_is_dropped_early_leaves_nothing_behind(scene: &Scene) {
    // What it mirrors is not below its path: nothing is to be left there.
    scene
        .dropped_at_every_call(
            Cache::start,
            async |cache| cache.ready().await.unwrap(),
            async |client, path| {
                let cache = Cache::start(client, path);
                timeout(LONG, cache.ready()).await.unwrap().unwrap();
            },
        )
        .await;
    // Who waits for it may go without it.
    let (client, path) = (scene.client().await, scene.path());
    let cache = Cache::start(&client, &path);
    drop(dropped_after(1, cache.ready()).await);
    timeout(LONG, cache.ready()).await.unwrap().unwrap();
}

pub(crate) async fn a_persistent_node_that_is_dropped_early_leaves_nothing_behind(scene: &Scene) {
    for mode in [CreateMode::Ephemeral, CreateMode::EphemeralSequential] {
        scene
            .dropped_at_every_call(
                |client, path| {
                    PersistentNode::start(client, &format!("{path}/deep/n"), mode, b"1").unwrap()
                },
                async |node| _ = node.path().await.unwrap(),
                async |client, path| {
                    let at = format!("{path}/deep/n");
                    let node = PersistentNode::start(client, &at, mode, b"2").unwrap();
                    timeout(LONG, node.path()).await.unwrap().unwrap();
                    timeout(LONG, node.close()).await.unwrap().unwrap();
                },
            )
            .await;
    }
}

pub(crate) async fn a_member_that_is_dropped_early_leaves_nothing_behind(scene: &Scene) {
    scene
        .dropped_at_every_call(
            |client, path| GroupMember::join(client, path, "me").unwrap(),
            async |member| member.ready().await.unwrap(),
            async |client, path| {
                let member = GroupMember::join(client, path, "me").unwrap();
                timeout(LONG, member.ready()).await.unwrap().unwrap();
                assert_eq!(member.members().len(), 1);
                timeout(LONG, member.leave()).await.unwrap().unwrap();
            },
        )
        .await;
}

pub(crate) async fn a_latch_that_is_dropped_early_leaves_nothing_behind(scene: &Scene) {
    scene
        .dropped_at_every_call(
            |client, path| LeaderLatch::start(client, path, "dropped"),
            async |latch| _ = latch.lead().await.unwrap(),
            async |client, path| {
                let latch = LeaderLatch::start(client, path, "next");
                timeout(LONG, latch.lead()).await.unwrap().unwrap();
                timeout(LONG, latch.close()).await.unwrap().unwrap();
            },
        )
        .await;
    // Behind another one, and while that leads.
    let (leads, path) = (scene.client().await, scene.path());
    let leader = LeaderLatch::start(&leads, &path, "leads");
    timeout(LONG, leader.lead()).await.unwrap().unwrap();
    let other = scene.client().await;
    let wait = || async {
        let latch = LeaderLatch::start(&other, &path, "waits");
        latch.lead().await
    };
    cancelled_at_every_await(wait, async || scene.until_children(&leads, &path, 1).await).await;
    assert!(leader.is_leader());
    timeout(LONG, leader.close()).await.unwrap().unwrap();
}

pub(crate) async fn a_cancelled_release_leaves_nothing_behind(scene: &Scene) {
    let (one, other, path) = (scene.client().await, scene.client().await, scene.path());
    let free = async || scene.until_bare(&one, &path).await;
    let mutex = Mutex::new(&other, &format!("{path}/mutex"));
    cancelled_at_every_await(|| async { mutex.acquire().await?.release().await }, free).await;
    let semaphore = Semaphore::new(&other, &format!("{path}/semaphore"), 1);
    cancelled_at_every_await(|| async { semaphore.acquire().await?.release().await }, free).await;
    let simple = SimpleLock::new(&other, &format!("{path}/simple"));
    cancelled_at_every_await(|| async { simple.acquire().await?.release().await }, free).await;
    let (a, b) = (format!("{path}/a"), format!("{path}/b"));
    let multi = MultiLock::mutexes(&other, [a.as_str(), b.as_str()]);
    cancelled_at_every_await(|| async { multi.acquire().await?.release().await }, free).await;
}
