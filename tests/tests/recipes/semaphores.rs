//! [`Semaphore`], [`SemaphoreMutex`], [`MultiLock`] and [`SimpleLock`].

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};
use zoolet_client::recipes::{
    LockOptions, Lockable, Loss, MultiLock, Mutex, ReadLock, ReadWriteLock, Semaphore,
    SemaphoreMutex, SharedCount, SimpleLock, WriteLock,
};
use zoolet_client::{Acl, AddWatchMode, CreateMode, ErrorKind, EventType, Id, Version};
use zoolet_jute::perms;
use zoolet_tests::scenes::{Scene, connect};
use zoolet_torture::proxy::{Fault, Proxy};

use crate::harness::{
    Fenced, RecipeScene, cancelled_at_every_await, count_up, dropped_after, new_counter,
};

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
    client.sync(&counter).await.unwrap();
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

pub(crate) async fn a_simple_lock_is_one_znode(scene: &Scene) {
    let (one, other, path) = (scene.client().await, scene.client().await, scene.path());
    let lock = SimpleLock::new(&one, &path).label("me");
    let held = lock.acquire().await.unwrap();
    assert_eq!(held.path(), path);
    other.sync(&path).await.unwrap();
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
        next.sync(&path).await.unwrap();
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
            next.sync(&path).await.unwrap();
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
    other.sync(&path).await.unwrap();
    assert_eq!(other.get(&path).await.unwrap().0.as_ref(), b"other");
}

/// A lock's ACL may grant READ on its znode to no one: its holder and its waiters watch it all the
/// same.
pub(crate) async fn a_lock_without_read_permission_is_watched(scene: &Scene) {
    let (one, other, path) = (scene.client().await, scene.client().await, scene.path());
    let acl = vec![Acl { perms: perms::ADMIN, id: Id::new("world", "anyone") }];
    let options = LockOptions::new().acl(acl);
    let held = Mutex::with_options(&one, &path, options).acquire().await.unwrap();
    let mutex = Mutex::new(&other, &path);
    let waiter = tokio::spawn(async move { mutex.acquire().await.unwrap() });
    scene.until_children(&other, &path, 2).await;
    let (lost, asked) = (tokio::spawn(held.lost()), tokio::spawn(held.revocation()));
    sleep(SHORT).await;
    assert!(!waiter.is_finished() && !lost.is_finished());
    assert!(!asked.is_finished(), "there was no request for it");
    other.delete(held.path(), Version::Any).await.unwrap();
    timeout(LONG, asked).await.unwrap().unwrap();
    assert_eq!(timeout(LONG, lost).await.unwrap().unwrap(), Loss::Deleted);
    let next = timeout(LONG, waiter).await.unwrap().unwrap();
    assert!(next.release().await.unwrap());
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

/// Who is about to take a permit holds the mutex of the semaphore, and may stand still.
pub(crate) async fn a_try_does_not_wait_for_a_paused_holder(scene: &Scene) {
    let (one, other, path) = (scene.client().await, scene.client().await, scene.path());
    let still = Mutex::new(&one, &format!("{path}/locks")).acquire().await.unwrap();
    let semaphore = Semaphore::new(&other, &path, 1);
    assert!(timeout(LONG, semaphore.try_acquire()).await.unwrap().unwrap().is_none());
    assert!(still.release().await.unwrap());
    assert!(semaphore.try_acquire().await.unwrap().is_some());
}
