//! [`SimpleLock`]: one znode, without a queue.

use std::time::Duration;

use tokio::time::{sleep, timeout};
use zoolet_client::recipes::{Loss, SimpleLock};
use zoolet_client::{Acl, CreateMode, Version};
use zoolet_tests::scenes::{Scene, connect};
use zoolet_torture::proxy::{Fault, Proxy};

use crate::harness::{RecipeScene, cancelled_at_every_await, dropped_after};

const LONG: Duration = Duration::from_secs(10);
const SHORT: Duration = Duration::from_millis(200);

pub(crate) async fn a_simple_lock_is_one_znode(scene: &Scene) {
    let (one, other, path) = (scene.client().await, scene.client().await, scene.path());
    let lock = SimpleLock::new(&one, &path).label("me");
    let held = lock.acquire().await.unwrap();
    assert_eq!(held.path(), path);
    scene.catch_up(&other).await;
    let (data, stat) = other.get(&path).await.unwrap();
    assert!(data.ends_with(b" me"), "{data:?}");
    assert_eq!(stat.ephemeral_owner, one.session().id);
    // The same session, but another holder.
    assert!(lock.try_acquire().await.unwrap().is_none());
    let waiting = SimpleLock::new(&other, &path);
    assert!(waiting.acquire_timeout(SHORT).await.unwrap().is_none());
    let waiter = tokio::spawn(async move { waiting.acquire().await.unwrap() });
    sleep(SHORT).await;
    assert!(!waiter.is_finished());
    let token = held.token();
    assert!(held.release().await.unwrap());
    let next = timeout(LONG, waiter).await.unwrap().unwrap();
    assert!(next.token() > token);
    let waiter = tokio::spawn(async move { lock.acquire().await.unwrap() });
    scene.expire(&other).await;
    let last = timeout(LONG, waiter).await.unwrap().unwrap();
    assert!(last.token() > next.token());
}

pub(crate) async fn a_simple_lock_survives_cancels_and_lost_replies(scene: &Scene) {
    let (one, other) = (scene.client().await, scene.client().await);
    let path = format!("{}/lock", scene.path());
    let lock = SimpleLock::new(&other, &path);
    let free = async || {
        let parent = path.rsplit_once('/').unwrap().0;
        scene.until_children(&one, parent, 0).await;
    };
    cancelled_at_every_await(|| lock.acquire(), free).await;
    scene
        .under_every_fault(async |client, path| {
            let lock = SimpleLock::new(&client, &format!("{path}/lock"));
            let guard = lock.acquire().await.unwrap();
            assert!(guard.release().await.unwrap());
            let guard = lock.try_acquire().await.unwrap().unwrap();
            assert!(guard.release().await.unwrap());
        })
        .await;
}

/// The name is the same for every holder, so a delete that is sent again, because its reply was
/// lost, may meet the next holder's znode. The torture found this one.
pub(crate) async fn a_simple_lock_released_again_spares_the_next_holder(scene: &Scene) {
    let next = scene.client().await;
    for _ in 0..10 {
        let path = scene.path();
        let proxy = Proxy::start(&scene.servers).await.unwrap();
        let client = connect(&proxy.connect_string()).await;
        let held = SimpleLock::new(&client, &path).acquire().await.unwrap();
        let token = held.token();
        let waiting = SimpleLock::new(&next, &path);
        let waiter = tokio::spawn(async move { waiting.acquire().await.unwrap() });
        sleep(SHORT).await;
        proxy.strike(Fault::Reply, 0);
        assert!(held.release().await.unwrap(), "it was held until then");
        assert!(proxy.calm(), "the reply was not lost");
        let after = timeout(LONG, waiter).await.unwrap().unwrap();
        assert!(after.token() > token);
        scene.catch_up(&next).await;
        let owner = next.exists(&path).await.unwrap().map(|stat| stat.ephemeral_owner);
        assert_eq!(owner, Some(next.session().id), "the next holder's znode is gone");
        assert!(after.release().await.unwrap());
    }
}

/// A release that is dropped is made up for in the background. It may have happened, its reply be
/// lost, and the next holder have the name.
pub(crate) async fn a_cancelled_release_of_a_simple_lock_spares_the_next_holder(scene: &Scene) {
    let next = scene.client().await;
    for after in 0..4 {
        for polls in 1.. {
            let path = scene.path();
            let proxy = Proxy::start(&scene.servers).await.unwrap();
            let client = connect(&proxy.connect_string()).await;
            let held = SimpleLock::new(&client, &path).acquire().await.unwrap();
            let waiting = SimpleLock::new(&next, &path);
            let waiter = tokio::spawn(async move { waiting.acquire().await.unwrap() });
            sleep(Duration::from_millis(50)).await;
            proxy.strike(Fault::Reply, after);
            let ended = dropped_after(polls, held.release()).await.is_some();
            let after = timeout(LONG, waiter).await.unwrap().unwrap();
            // What the dropped release has left to do is done by then.
            sleep(SHORT).await;
            scene.catch_up(&next).await;
            let owner = next.exists(&path).await.unwrap().map(|stat| stat.ephemeral_owner);
            assert_eq!(owner, Some(next.session().id), "{polls}: the next holder's znode is gone");
            assert!(after.release().await.unwrap());
            if ended {
                break;
            }
        }
    }
}

/// The znode is deleted by hand, and somebody else has the lock before its holder has looked.
pub(crate) async fn a_simple_lock_that_another_has_is_lost(scene: &Scene) {
    let (one, other, path) = (scene.client().await, scene.client().await, scene.path());
    let held = SimpleLock::new(&one, &path).acquire().await.unwrap();
    let lost = tokio::spawn(held.lost());
    other.sync(&path).await.unwrap();
    let (open, mode) = (Acl::open(), CreateMode::Ephemeral);
    let taken = other.transaction().delete(&path, Version::Any).create(&path, b"other", open, mode);
    taken.commit().await.unwrap();
    assert_eq!(timeout(LONG, lost).await.unwrap().unwrap(), Loss::Deleted);
    assert_eq!(timeout(LONG, held.lost()).await.unwrap(), Loss::Deleted);
    assert!(!held.release().await.unwrap(), "it was lost before");
    scene.catch_up(&other).await;
    assert_eq!(other.get(&path).await.unwrap().0.as_ref(), b"other");
}
