//! [`MultiLock`]: several locks as one.

use std::time::Duration;

use tokio::time::{sleep, timeout};
use zoolet_client::recipes::{
    Lockable, Loss, MultiLock, Mutex, ReadLock, ReadWriteLock, SemaphoreMutex, SimpleLock,
    WriteLock,
};
use zoolet_client::{AddWatchMode, CreateMode, ErrorKind, EventType, Version};
use zoolet_tests::scenes::Scene;

use crate::harness::{RecipeScene, cancelled_at_every_await};

const LONG: Duration = Duration::from_secs(10);
const SHORT: Duration = Duration::from_millis(200);

pub(crate) async fn a_multi_lock_holds_all_or_none(scene: &Scene) {
    let (one, other, path) = (scene.client().await, scene.client().await, scene.path());
    let locks = |client| -> Vec<Box<dyn Lockable>> {
        vec![
            Box::new(Mutex::new(client, &format!("{path}/a"))),
            Box::new(SemaphoreMutex::new(client, &format!("{path}/b"))),
            Box::new(ReadLock(ReadWriteLock::new(client, &format!("{path}/c")))),
            Box::new(WriteLock(ReadWriteLock::new(client, &format!("{path}/d")))),
            Box::new(SimpleLock::new(client, &format!("{path}/e"))),
        ]
    };
    let multi = MultiLock::new(locks(&one));
    let all = multi.acquire().await.unwrap();
    assert_eq!(all.guards().len(), 5);
    assert!(MultiLock::new(locks(&other)).try_acquire().await.unwrap().is_none());
    assert!(all.release().await.unwrap());
    scene.until_bare(&one, &path).await;

    // The last one is taken: after the deadline none is held, and it was one deadline for all.
    let last = SimpleLock::new(&other, &format!("{path}/e")).acquire().await.unwrap();
    let limit = Duration::from_millis(400);
    let answer = timeout(LONG, multi.acquire_timeout(limit)).await.unwrap();
    assert!(answer.unwrap().is_none());
    assert!(multi.try_acquire().await.unwrap().is_none());
    let a = MultiLock::mutexes(&other, [format!("{path}/a").as_str()]);
    let a = a.acquire_timeout(LONG).await.unwrap().unwrap();
    assert!(last.release().await.unwrap());
    let waiter = tokio::spawn(async move { multi.acquire().await.unwrap() });
    sleep(SHORT).await;
    assert!(!waiter.is_finished());
    assert!(a.release().await.unwrap());
    let all = timeout(LONG, waiter).await.unwrap().unwrap();
    let third = all.guards()[2].path().to_owned();
    let (loss, deleted) = tokio::join!(all.lost(), other.delete(&third, Version::Any));
    deleted.unwrap();
    assert_eq!(loss, Loss::Deleted);
    assert!(!all.release().await.unwrap(), "one of them was lost");
}

pub(crate) async fn several_locks_guard_one_write_and_go_in_reverse(scene: &Scene) {
    let (one, other, path) = (scene.client().await, scene.client().await, scene.path());
    let paths = ["a", "b", "c"].map(|name| format!("{path}/{name}"));
    let multi = MultiLock::mutexes(&one, paths.iter().map(String::as_str));
    let target = format!("{path}-target");
    one.create(&target, b"", CreateMode::Persistent).await.unwrap();
    let held = multi.acquire().await.unwrap();
    assert!(held.remaining() > Duration::ZERO && held.tokens().is_sorted());
    assert_eq!(held.write(&target, b"held", Version::Any).await.unwrap().version, 1);
    other.delete(held.guards()[1].path(), Version::Any).await.unwrap();
    let refused = held.write(&target, b"lost", Version::Any).await.unwrap_err();
    assert_eq!(*refused.kind(), ErrorKind::LockLost);
    assert!(!held.release().await.unwrap());
    let locks: [Box<dyn Lockable>; 2] =
        [Box::new(Mutex::new(&one, &paths[0])), Box::new(Mutex::new(&other, &paths[1]))];
    let of_two = MultiLock::new(locks.into()).acquire().await.unwrap();
    let refused = of_two.write(&target, b"two", Version::Any).await.unwrap_err();
    assert!(refused.to_string().contains("several clients"), "{refused}");
    of_two.release().await.unwrap();

    // A guard that is dropped gives the locks back in reverse too.
    let held = multi.acquire().await.unwrap();
    let mut wanted: Vec<String> =
        held.guards().iter().map(|guard| guard.path().to_owned()).collect();
    wanted.reverse();
    let mut watch = other.add_watch(&path, AddWatchMode::PersistentRecursive).await.unwrap();
    drop(held);
    let mut gone = Vec::new();
    while gone.len() < wanted.len() {
        let event = timeout(LONG, watch.changed()).await.unwrap().unwrap();
        // A directory may be reaped meanwhile.
        if event.event_type == EventType::NodeDeleted && wanted.contains(&event.path) {
            gone.push(event.path);
        }
    }
    assert_eq!(gone, wanted);
}

pub(crate) async fn a_cancelled_multi_lock_leaves_nothing_behind(scene: &Scene) {
    let (one, other, path) = (scene.client().await, scene.client().await, scene.path());
    let (a, b) = (format!("{path}/a"), format!("{path}/b"));
    let multi = MultiLock::mutexes(&other, [a.as_str(), b.as_str()]);
    let free = async || scene.until_bare(&one, &path).await;
    cancelled_at_every_await(|| multi.acquire(), free).await;
    scene
        .under_every_fault(async |client, path| {
            let (a, b) = (format!("{path}/a"), format!("{path}/b"));
            let multi = MultiLock::mutexes(&client, [a.as_str(), b.as_str()]);
            assert!(multi.acquire().await.unwrap().release().await.unwrap());
        })
        .await;
}
