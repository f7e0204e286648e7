//! The watches that recipes leave with the servers: none.

use std::time::Duration;

use tokio::sync::mpsc;
use tokio::time::{sleep, timeout};
use zoolet_client::recipes::{Cache, Mutex};
use zoolet_client::{AddWatchMode, CreateMode, Version};
use zoolet_tests::scenes::{Scene, connect, soon};
use zoolet_torture::proxy::Proxy;

use crate::harness::RecipeScene;

const SHORT: Duration = Duration::from_millis(200);

pub(crate) async fn a_dropped_wait_leaves_no_watch(scene: &Scene) {
    let (one, other, path) = (scene.client().await, scene.client().await, scene.path());
    let held = Mutex::new(&one, &path).acquire().await.unwrap();
    let mutex = Mutex::new(&other, &path);
    let waiter = tokio::spawn(async move { mutex.acquire_timeout(SHORT * 5).await });
    soon("the waiter's watch", async || scene.watched(&path) == Some(1)).await;
    assert!(waiter.await.unwrap().unwrap().is_none());
    soon("no watch of a waiter who gave up", async || scene.watched(&path) == Some(0)).await;
    assert!(held.release().await.unwrap());

    one.create(&path, b"", CreateMode::Persistent).await.ok();
    let cache = Cache::start(&other, &path);
    cache.ready().await.unwrap();
    assert_eq!(scene.watched(&path), Some(1));
    drop(cache);
    soon("no watch of a dropped cache", async || scene.watched(&path) == Some(0)).await;
}

pub(crate) async fn a_release_wakes_one_waiter(scene: &Scene) {
    const WAITERS: usize = 5;
    let (holder, path) = (scene.client().await, scene.path());
    let proxy = Proxy::start(&scene.servers).await.unwrap();
    let mut held = Mutex::new(&holder, &path).acquire().await.unwrap();
    let (grants, mut granted) = mpsc::channel(WAITERS);
    for number in 0..WAITERS {
        let mutex = Mutex::new(&connect(&proxy.connect_string()).await, &path);
        let grants = grants.clone();
        tokio::spawn(async move {
            let guard = mutex.acquire().await.unwrap();
            grants.send(guard).await.unwrap();
        });
        soon("the waiter's watch", async || scene.watched(&path) == Some(number + 1)).await;
    }
    for woken in 1..=WAITERS {
        assert!(held.release().await.unwrap());
        held = timeout(Duration::from_secs(10), granted.recv()).await.unwrap().unwrap();
        // Any other that was woken is notified within this time.
        sleep(SHORT).await;
        assert_eq!(proxy.events(), woken, "one event for each release");
    }
    assert!(held.release().await.unwrap());
}

pub(crate) async fn a_watcher_that_is_dropped_does_not_take_another_s_watch_away(scene: &Scene) {
    let (one, other, path) = (scene.client().await, scene.client().await, scene.path());
    one.create(&path, b"", CreateMode::Persistent).await.unwrap();
    scene.catch_up(&other).await;
    let (_, _, stays) = other.get_watched(&path).await.unwrap();
    let (_, _, goes) = other.get_watched(&path).await.unwrap();
    let mode = AddWatchMode::Persistent;
    let mut lasting = other.add_watch(&path, mode).await.unwrap();
    drop((goes, other.add_watch(&path, mode).await.unwrap()));
    // A watch that is asked for behind the drop.
    let (_, children_watch) = {
        let (_, watch) = other.exists_watched(&path).await.unwrap();
        drop(watch);
        let (names, _, watch) = other.children_watched(&path).await.unwrap();
        (names, watch)
    };
    one.set_data(&path, b"1", Version::Any).await.unwrap();
    one.create(&format!("{path}/child"), b"", CreateMode::Persistent).await.unwrap();
    let limit = Duration::from_secs(10);
    timeout(limit, stays.changed()).await.unwrap().unwrap();
    timeout(limit, lasting.changed()).await.unwrap().unwrap();
    timeout(limit, children_watch.changed()).await.unwrap().unwrap();
}
