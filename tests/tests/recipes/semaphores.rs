//! [`Semaphore`] and [`SemaphoreMutex`]: permits.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};
use zoolet_client::recipes::{Mutex, Semaphore, SemaphoreMutex, SharedCount};
use zoolet_tests::scenes::{Scene, connect};
use zoolet_torture::proxy::{Fault, Proxy};

use crate::harness::{Fenced, RecipeScene, cancelled_at_every_await, count_up, new_counter};

const LONG: Duration = Duration::from_secs(10);
const SHORT: Duration = Duration::from_millis(200);

pub(crate) async fn a_semaphore_has_its_permits_and_no_more(scene: &Scene) {
    const PERMITS: usize = 3;
    let path = scene.path();
    let (inside, most) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let mut contenders = JoinSet::new();
    for _ in 0..7 {
        let semaphore = Semaphore::new(&scene.client().await, &path, PERMITS);
        let (inside, most) = (Arc::clone(&inside), Arc::clone(&most));
        contenders.spawn(async move {
            for _ in 0..5 {
                let lease = semaphore.acquire().await.unwrap();
                let holders = inside.fetch_add(1, Ordering::SeqCst) + 1;
                assert!(holders <= PERMITS, "{holders} holders");
                most.fetch_max(holders, Ordering::SeqCst);
                // The first ones stay until all permits are out.
                let all_out = async {
                    while most.load(Ordering::SeqCst) < PERMITS {
                        sleep(Duration::from_millis(1)).await;
                    }
                };
                timeout(LONG, all_out).await.unwrap();
                inside.fetch_sub(1, Ordering::SeqCst);
                assert!(lease.release().await.unwrap());
            }
        });
    }
    while let Some(ended) = contenders.join_next().await {
        ended.unwrap();
    }
    scene.until_bare(&scene.client().await, &path).await;
}

pub(crate) async fn a_semaphore_s_znodes_are_curator_s(scene: &Scene) {
    let (one, other, path) = (scene.client().await, scene.client().await, scene.path());
    let semaphore = Semaphore::new(&one, &path, 2);
    let leases = semaphore.acquire_many(2).await.unwrap();
    // The queue is empty, and may be reaped before the next look.
    let mut parents = scene.children(&one, &path).await;
    parents.retain(|name| name != "locks");
    assert_eq!(parents, ["leases"]);
    let name = leases[0].path().strip_prefix(&format!("{path}/leases/_c_")).unwrap();
    assert_eq!(name.len(), 36 + "-lease-".len() + 10);
    assert!(name.ends_with("-lease-0000000000"), "{name}");
    assert!(leases[1].token() > leases[0].token());

    let waiting = Semaphore::new(&other, &path, 2);
    assert!(waiting.try_acquire().await.unwrap().is_none());
    assert!(waiting.acquire_timeout(SHORT).await.unwrap().is_none());
    let waiter = tokio::spawn(async move { waiting.acquire().await.unwrap() });
    // Who waits holds the mutex, and has its lease already.
    scene.until_children(&one, &format!("{path}/leases"), 3).await;
    scene.until_children(&one, &format!("{path}/locks"), 1).await;
    for lease in leases {
        assert!(lease.release().await.unwrap());
    }
    let lease = timeout(LONG, waiter).await.unwrap().unwrap();
    let second = semaphore.try_acquire().await.unwrap();
    assert!(second.is_some());
    assert!(semaphore.try_acquire().await.unwrap().is_none());
    assert!(lease.release().await.unwrap());
}

pub(crate) async fn a_shared_count_changes_the_permits(scene: &Scene) {
    let (one, other, path) = (scene.client().await, scene.client().await, scene.path());
    let count = SharedCount::new(&one, &format!("{path}-count"), 1);
    let semaphore = Semaphore::shared(&one, &path, count.clone());
    let first = semaphore.acquire().await.unwrap();
    assert!(semaphore.try_acquire().await.unwrap().is_none());
    let waiting =
        Semaphore::shared(&other, &path, SharedCount::new(&other, &format!("{path}-count"), 9));
    let waiter = tokio::spawn(async move { waiting.acquire().await.unwrap() });
    scene.until_children(&one, &format!("{path}/leases"), 2).await;
    sleep(SHORT).await;
    assert!(!waiter.is_finished());
    count.set(2).await.unwrap();
    let second = timeout(LONG, waiter).await.unwrap().unwrap();
    count.set(1).await.unwrap();
    assert!(first.release().await.unwrap());
    assert!(semaphore.try_acquire().await.unwrap().is_none(), "one is out, one is allowed");
    assert!(second.release().await.unwrap());
    assert!(semaphore.acquire_timeout(LONG).await.unwrap().is_some());
}

pub(crate) async fn a_semaphore_mutex_has_one_holder(scene: &Scene) {
    let (client, path) = (scene.client().await, scene.path());
    drop(SemaphoreMutex::new(&client, &path).acquire().await.unwrap());
    let counter = format!("{path}-count");
    new_counter(&client, &counter).await;
    let fenced = Arc::new(Fenced::default());
    let mut contenders = JoinSet::new();
    for _ in 0..4 {
        let client = scene.client().await;
        let mutex = SemaphoreMutex::new(&client, &path);
        let (fenced, counter) = (Arc::clone(&fenced), counter.clone());
        contenders.spawn(async move {
            for _ in 0..5 {
                let guard = mutex.acquire().await.unwrap();
                fenced.grant(guard.token());
                count_up(&client, &counter).await;
                assert!(guard.release().await.unwrap());
            }
        });
    }
    while let Some(ended) = contenders.join_next().await {
        ended.unwrap();
    }
    scene.catch_up(&client).await;
    assert_eq!(client.get(&counter).await.unwrap().0.as_ref(), b"20");
}

pub(crate) async fn a_cancelled_permit_leaves_nothing_behind(scene: &Scene) {
    let (one, other, path) = (scene.client().await, scene.client().await, scene.path());
    let semaphore = Semaphore::new(&other, &path, 1);
    let free = async || scene.until_bare(&one, &path).await;
    cancelled_at_every_await(|| semaphore.acquire(), free).await;
    cancelled_at_every_await(|| semaphore.try_acquire(), free).await;
    let held = Semaphore::new(&one, &path, 1).acquire().await.unwrap();
    let taken = async || {
        scene.until_children(&one, &format!("{path}/locks"), 0).await;
        scene.until_children(&one, &format!("{path}/leases"), 1).await;
    };
    cancelled_at_every_await(|| semaphore.acquire(), taken).await;
    assert!(held.release().await.unwrap());
}

pub(crate) async fn a_permit_survives_lost_replies(scene: &Scene) {
    let other = &scene.client().await;
    scene
        .under_every_fault(async |client, path| {
            let held = Semaphore::new(other, &path, 1).acquire().await.unwrap();
            let semaphore = Semaphore::new(&client, &path, 1);
            let waiter = tokio::spawn({
                let semaphore = semaphore.clone();
                async move { semaphore.acquire().await.unwrap() }
            });
            scene.until_children(other, &format!("{path}/leases"), 2).await;
            assert!(held.release().await.unwrap());
            assert!(waiter.await.unwrap().release().await.unwrap());
            let lease = semaphore.try_acquire().await.unwrap().unwrap();
            assert!(lease.release().await.unwrap());
        })
        .await;
}

/// A try that has to find its servers again takes longer than it would wait for others.
pub(crate) async fn a_try_outlasts_its_own_reconnects(scene: &Scene) {
    for after in 0..3 {
        let proxy = Proxy::start(&scene.servers).await.unwrap();
        let client = connect(&proxy.connect_string()).await;
        let semaphore = Semaphore::new(&client, &scene.path(), 1);
        // The requests of a try differ from the second one on, when the containers are there.
        assert!(semaphore.acquire().await.unwrap().release().await.unwrap());
        proxy.strike(Fault::Servers, after);
        let trying = tokio::spawn(async move { semaphore.try_acquire().await });
        sleep(Duration::from_millis(1500)).await;
        proxy.heal();
        assert!(trying.await.unwrap().unwrap().is_some(), "after {after} requests");
        assert!(proxy.calm(), "no request was lost");
    }
}

pub(crate) async fn a_dead_holder_s_permit_is_free(scene: &Scene) {
    let (one, other, path) = (scene.client().await, scene.client().await, scene.path());
    let held = Semaphore::new(&one, &path, 1).acquire().await.unwrap();
    let semaphore = Semaphore::new(&other, &path, 1);
    let waiter = tokio::spawn(async move { semaphore.acquire().await.unwrap() });
    scene.until_children(&other, &format!("{path}/leases"), 2).await;
    scene.expire(&one).await;
    let lease = timeout(LONG, waiter).await.unwrap().unwrap();
    assert!(lease.token() > held.token());
}

/// Each of two would have one permit and wait for the other's.
pub(crate) async fn many_permits_are_taken_by_one_at_a_time(scene: &Scene) {
    let (path, inside) = (scene.path(), Arc::new(AtomicUsize::new(0)));
    let mut contenders = JoinSet::new();
    for _ in 0..3 {
        let semaphore = Semaphore::new(&scene.client().await, &path, 2);
        let inside = Arc::clone(&inside);
        contenders.spawn(async move {
            for _ in 0..10 {
                let leases = semaphore.acquire_many(2).await.unwrap();
                assert_eq!(inside.fetch_add(1, Ordering::SeqCst), 0, "both permits are out");
                inside.fetch_sub(1, Ordering::SeqCst);
                for lease in leases {
                    assert!(lease.release().await.unwrap());
                }
            }
        });
    }
    let all = async {
        while let Some(ended) = contenders.join_next().await {
            ended.unwrap();
        }
    };
    timeout(LONG * 3, all).await.expect("they wait for each other");

    let client = scene.client().await;
    let semaphore = Semaphore::new(&client, &path, 2);
    let error = timeout(LONG, semaphore.acquire_many(3)).await.unwrap().unwrap_err();
    assert!(error.to_string().contains("3 permits"), "{error}");
    let one = semaphore.acquire().await.unwrap();
    assert!(semaphore.acquire_many_timeout(2, SHORT).await.unwrap().is_none());
    scene.until_children(&client, &format!("{path}/leases"), 1).await;
    scene.until_children(&client, &format!("{path}/locks"), 0).await;
    assert!(semaphore.try_acquire_many(2).await.unwrap().is_none());
    assert!(one.release().await.unwrap());
    let both = semaphore.acquire_many_timeout(2, LONG).await.unwrap().unwrap();
    assert_eq!(both.len(), 2);
    drop(both);
    scene.until_bare(&client, &path).await;
    assert_eq!(semaphore.try_acquire_many(2).await.unwrap().unwrap().len(), 2);
}

pub(crate) async fn many_permits_survive_cancels_and_lost_replies(scene: &Scene) {
    let (one, other, path) = (scene.client().await, scene.client().await, scene.path());
    let free = async || scene.until_bare(&one, &path).await;
    let semaphore = Semaphore::new(&other, &path, 2);
    cancelled_at_every_await(|| semaphore.acquire_many(2), free).await;
    scene
        .under_every_fault(async |client, path| {
            let semaphore = Semaphore::new(&client, &path, 2);
            for lease in semaphore.acquire_many(2).await.unwrap() {
                assert!(lease.release().await.unwrap());
            }
        })
        .await;
}

/// A client that is about to take a permit holds the mutex of the semaphore, and may be paused.
pub(crate) async fn a_try_does_not_wait_for_a_paused_holder(scene: &Scene) {
    let (one, other, path) = (scene.client().await, scene.client().await, scene.path());
    let still = Mutex::new(&one, &format!("{path}/locks")).acquire().await.unwrap();
    let semaphore = Semaphore::new(&other, &path, 1);
    assert!(timeout(LONG, semaphore.try_acquire()).await.unwrap().unwrap().is_none());
    assert!(still.release().await.unwrap());
    assert!(semaphore.try_acquire().await.unwrap().is_some());
}
