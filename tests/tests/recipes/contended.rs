//! Locks that another one holds: their waiters lose replies, and are dropped while they wait.

use std::time::Duration;

use tokio::time::timeout;
use zoolet_client::Client;
use zoolet_client::recipes::{
    LockGuard, Lockable, MultiLock, Mutex, ReadLock, ReadWriteLock, SimpleLock, WriteLock,
};
use zoolet_tests::scenes::{Scene, soon};

use crate::harness::{RecipeScene, cancelled_at_every_await, dropped_after};

const LONG: Duration = Duration::from_secs(20);

/// How long those are patient who are dropped while a reply is lost.
const PATIENCE_MS: [u64; 4] = [0, 2, 9, 30];

pub(crate) async fn a_read_write_lock_that_is_waited_for_survives_lost_replies(scene: &Scene) {
    let other = &scene.client().await;
    scene
        .under_every_fault(async |client, path| {
            let (held, lock) =
                (ReadWriteLock::new(other, &path), ReadWriteLock::new(&client, &path));
            let writer = held.write().await.unwrap().into_guard();
            handed_over(scene, &path, writer, ReadLock(lock.clone())).await;
            let writer = held.write().await.unwrap().into_guard();
            handed_over(scene, &path, writer, WriteLock(lock.clone())).await;
            let reader = held.read().await.unwrap();
            handed_over(scene, &path, reader, WriteLock(lock)).await;
        })
        .await;
}

/// A waiter gets the lock that is given back when it waits, and gives it back in turn.
async fn handed_over(scene: &Scene, path: &str, held: LockGuard, lock: impl Lockable + 'static) {
    let token = held.token();
    let waiter = tokio::spawn(async move { lock.acquire_boxed().await.unwrap().unwrap() });
    soon("it waits", async || scene.watched(path) > Some(0)).await;
    assert!(!waiter.is_finished());
    assert!(held.release().await.unwrap());
    let guard = timeout(LONG, waiter).await.unwrap().unwrap();
    assert!(guard.token() > token);
    assert!(guard.release().await.unwrap());
}

/// It waits for its first lock, and then for its second while it holds the first.
pub(crate) async fn a_multi_lock_that_is_waited_for_survives_lost_replies(scene: &Scene) {
    let other = &scene.client().await;
    scene
        .under_every_fault(async |client, path| {
            let paths = [format!("{path}/a"), format!("{path}/b")];
            let [a, b] = [0, 1].map(|index: usize| Mutex::new(other, &paths[index]));
            let (first, second) = (a.acquire().await.unwrap(), b.acquire().await.unwrap());
            let multi = MultiLock::mutexes(&client, paths.iter().map(String::as_str));
            let waiter = tokio::spawn(async move { multi.acquire().await.unwrap() });
            for (held, at) in [(first, &paths[0]), (second, &paths[1])] {
                soon("it waits", async || scene.watched(at) > Some(0)).await;
                assert!(!waiter.is_finished());
                assert!(held.release().await.unwrap());
            }
            let all = timeout(LONG, waiter).await.unwrap().unwrap();
            assert!(a.try_acquire().await.unwrap().is_none());
            assert!(b.try_acquire().await.unwrap().is_none());
            assert!(all.release().await.unwrap());
        })
        .await;
}

pub(crate) async fn a_simple_lock_that_is_waited_for_survives_lost_replies(scene: &Scene) {
    let other = &scene.client().await;
    scene
        .under_every_fault(async |client, path| {
            let path = format!("{path}/lock");
            let held = SimpleLock::new(other, &path).acquire().await.unwrap();
            handed_over(scene, &path, held, SimpleLock::new(&client, &path)).await;
        })
        .await;
}

pub(crate) async fn a_cancelled_wait_for_a_multi_lock_leaves_nothing_behind(scene: &Scene) {
    let (one, other, path) = (scene.client().await, scene.client().await, scene.path());
    let paths = [format!("{path}/a"), format!("{path}/b")];
    let multi = |client: &Client| MultiLock::mutexes(client, paths.iter().map(String::as_str));
    for (taken, free) in [(&paths[0], &paths[1]), (&paths[1], &paths[0])] {
        let held = Mutex::new(&one, taken).acquire().await.unwrap();
        let left = async || {
            scene.until_children(&one, taken, 1).await;
            scene.until_children(&one, free, 0).await;
        };
        let all = multi(&other);
        cancelled_at_every_await(|| all.acquire(), left).await;
        cancelled_at_every_await(|| all.try_acquire(), left).await;
        assert!(held.release().await.unwrap(), "no other client has taken it away");
    }
    let all = multi(&other);
    assert!(timeout(LONG, all.acquire()).await.unwrap().unwrap().release().await.unwrap());

    let one = &one;
    scene
        .under_every_fault(async |client, path| {
            let paths = [format!("{path}/a"), format!("{path}/b")];
            let held = Mutex::new(one, &paths[1]).acquire().await.unwrap();
            let multi = MultiLock::mutexes(&client, paths.iter().map(String::as_str));
            for patience in PATIENCE_MS.map(Duration::from_millis) {
                assert!(multi.acquire_timeout(patience).await.unwrap().is_none());
            }
            scene.until_children(one, &paths[0], 0).await;
            scene.until_children(one, &paths[1], 1).await;
            assert!(held.release().await.unwrap());
        })
        .await;
}

pub(crate) async fn a_cancelled_wait_for_a_simple_lock_leaves_nothing_behind(scene: &Scene) {
    let (one, other, path) = (scene.client().await, scene.client().await, scene.path());
    let at = format!("{path}/lock");
    let held = SimpleLock::new(&one, &at).acquire().await.unwrap();
    let lock = SimpleLock::new(&other, &at);
    let left = async || assert_eq!(scene.children(&one, &path).await, ["lock"]);
    cancelled_at_every_await(|| lock.acquire(), left).await;
    cancelled_at_every_await(|| lock.try_acquire(), left).await;
    soon("no watch is left but the holder's", async || scene.watched(&at) == Some(0)).await;
    assert!(held.release().await.unwrap(), "no other client has taken it away");
    assert!(timeout(LONG, lock.acquire()).await.unwrap().unwrap().release().await.unwrap());

    let one = &one;
    scene
        .under_every_fault(async |client, path| {
            let at = format!("{path}/lock");
            let held = SimpleLock::new(one, &at).acquire().await.unwrap();
            let lock = SimpleLock::new(&client, &at);
            for patience in PATIENCE_MS.map(Duration::from_millis) {
                assert!(lock.acquire_timeout(patience).await.unwrap().is_none());
            }
            assert!(held.release().await.unwrap(), "no other client has taken it away");
        })
        .await;
}

/// Makes a lock of one kind.
type Make = fn(&Client, &str) -> Box<dyn Lockable>;

fn mutex(client: &Client, path: &str) -> Box<dyn Lockable> {
    Box::new(Mutex::new(client, path))
}

fn simple(client: &Client, path: &str) -> Box<dyn Lockable> {
    Box::new(SimpleLock::new(client, path))
}

/// Those who wait, for one lock or for the second of three, are dropped when they hear that it is
/// their turn, and at each await behind that.
pub(crate) async fn a_wait_that_is_dropped_over_its_grant_leaves_nothing_behind(scene: &Scene) {
    let (one, other) = (scene.client().await, scene.client().await);
    for (kind, is_second) in
        [(mutex as Make, false), (mutex, true), (simple, false), (simple, true)]
    {
        let mut has_ended = false;
        for polls in 1..200 {
            let path = scene.path();
            let at = format!("{path}/second");
            let held = kind(&one, &at).acquire_boxed().await.unwrap().unwrap();
            let mut locks = vec![kind(&other, &at)];
            if is_second {
                locks.insert(0, simple(&other, &format!("{path}/first")));
                locks.push(mutex(&other, &format!("{path}/third")));
            }
            let all = MultiLock::new(locks);
            let wait = async move { all.acquire().await.unwrap() };
            let waiter = tokio::spawn(dropped_after(polls, wait));
            soon("it waits or is dropped", async || {
                waiter.is_finished() || scene.watched(&at) > Some(0)
            })
            .await;
            assert!(held.release().await.unwrap(), "no other client has taken it away");
            has_ended = waiter.await.unwrap().is_some();
            scene.until_bare(&one, &path).await;
            if has_ended {
                assert!(polls > 3, "it awaits nothing");
                break;
            }
        }
        assert!(has_ended, "it does not end");
    }
}
