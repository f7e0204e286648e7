//! [`Mutex`]: the base of all locks.

use std::net::IpAddr;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, timeout};
use zoolet_client::recipes::{LockOptions, Loss, Mutex, Queue};
use zoolet_client::{Acl, Client, ClientOptions, CreateMode, ErrorCode, ErrorKind, Id, Version};
use zoolet_jute::perms;
use zoolet_tests::scenes::{Scene, soon};
use zoolet_torture::proxy::Proxy;

use crate::harness::{
    Fenced, RecipeScene, cancelled_at_every_await, connect_for, count_up, new_counter,
};

const LONG: Duration = Duration::from_secs(20);

const CONTENDERS: usize = 6;
const ROUNDS: usize = 8;

pub(crate) async fn contenders_hold_it_one_at_a_time(scene: &Scene) {
    let client = scene.client().await;
    let path = scene.path();
    let mutex = Mutex::new(&client, &path);
    drop(mutex.acquire().await.unwrap());
    let counter = format!("{path}-count");
    new_counter(&client, &counter).await;
    let (inside, fenced) = (Arc::new(AtomicUsize::new(0)), Arc::new(Fenced::default()));
    let mut contenders = JoinSet::new();
    for number in 0..CONTENDERS {
        let client = scene.client().await;
        // Both kinds are in one queue.
        let options = LockOptions::new();
        let options = if number % 2 == 0 { options.bilingual() } else { options };
        let mutex = Mutex::with_options(&client, &path, options);
        let (inside, fenced, counter) = (Arc::clone(&inside), Arc::clone(&fenced), counter.clone());
        contenders.spawn(async move {
            for _ in 0..ROUNDS {
                let guard = mutex.acquire().await.unwrap();
                assert_eq!(inside.fetch_add(1, Ordering::SeqCst), 0, "holders at one time");
                fenced.grant(guard.token());
                count_up(&client, &counter).await;
                assert_eq!(inside.fetch_sub(1, Ordering::SeqCst), 1);
                assert!(guard.release().await.unwrap());
            }
        });
    }
    while let Some(ended) = contenders.join_next().await {
        ended.unwrap();
    }
    scene.catch_up(&client).await;
    let (data, _) = client.get(&counter).await.unwrap();
    assert_eq!(data.as_ref(), (CONTENDERS * ROUNDS).to_string().as_bytes());
    scene.until_children(&client, &path, 0).await;
}

pub(crate) async fn the_znodes_are_curator_s(scene: &Scene) {
    let client = scene.client().await;
    let path = format!("{}/deep/lock", scene.path());
    let guard = Mutex::new(&client, &path).acquire().await.unwrap();
    let (parent, name) = guard.path().rsplit_once('/').unwrap();
    assert_eq!(parent, path);
    // _c_, a UUID with its dashes, -lock-, ten digits.
    assert_eq!(name.len(), 3 + 36 + "-lock-".len() + 10, "{name}");
    assert!(name.starts_with("_c_") && name.ends_with("-lock-0000000000"), "{name}");
    let (data, stat) = client.get(guard.path()).await.unwrap();
    assert!(std::str::from_utf8(&data).unwrap().parse::<IpAddr>().is_ok(), "{data:?}");
    assert_eq!(stat.ephemeral_owner, client.session().id);
    assert_eq!(stat.czxid.0, guard.token().get());
    guard.release().await.unwrap();
    // Only a container goes by itself.
    let grandparent = path.rsplit_once('/').unwrap().0;
    for container in [&path, grandparent] {
        soon("the parents are containers", async || {
            client.sync("/").await.unwrap();
            client.exists(container).await.unwrap().is_none()
        })
        .await;
    }

    let options = LockOptions::new().data("me");
    let guard = Mutex::with_options(&client, &path, options).acquire().await.unwrap();
    assert_eq!(client.get(guard.path()).await.unwrap().0.as_ref(), b"me");
}

pub(crate) async fn a_release_wakes_the_next_in_line(scene: &Scene) {
    let (first, path) = (scene.client().await, scene.path());
    let held = Mutex::new(&first, &path).acquire().await.unwrap();
    let order = Arc::new(std::sync::Mutex::new(Vec::new()));
    let mut waiters = JoinSet::new();
    for number in 0..4 {
        let mutex = Mutex::new(&scene.client().await, &path);
        let order = Arc::clone(&order);
        waiters.spawn(async move {
            let guard = mutex.acquire().await.unwrap();
            order.lock().unwrap().push(number);
            guard.release().await.unwrap();
        });
        scene.until_children(&first, &path, number + 2).await;
    }
    assert_eq!(Mutex::new(&first, &path).participants().await.unwrap()[0], held.path());
    assert!(held.release().await.unwrap());
    while let Some(ended) = waiters.join_next().await {
        ended.unwrap();
    }
    assert_eq!(*order.lock().unwrap(), [0, 1, 2, 3], "grants in the order of the queue");
}

pub(crate) async fn a_try_does_not_wait(scene: &Scene) {
    let (one, other, path) = (scene.client().await, scene.client().await, scene.path());
    let held = Mutex::new(&one, &path).try_acquire().await.unwrap().unwrap();
    let mutex = Mutex::new(&other, &path);
    let before = one.exists(&path).await.unwrap().unwrap();
    assert!(mutex.try_acquire().await.unwrap().is_none());
    scene.catch_up(&one).await;
    let after = one.exists(&path).await.unwrap().unwrap();
    assert_eq!(before, after, "a try that fails writes nothing");
    assert!(held.release().await.unwrap());
    assert!(mutex.try_acquire().await.unwrap().is_some(), "a release is seen at once");
}

pub(crate) async fn a_timeout_leaves_the_queue(scene: &Scene) {
    let (one, other, path) = (scene.client().await, scene.client().await, scene.path());
    let held = Mutex::new(&one, &path).acquire().await.unwrap();
    let mutex = Mutex::new(&other, &path);
    assert!(mutex.acquire_timeout(Duration::from_millis(200)).await.unwrap().is_none());
    scene.until_children(&one, &path, 1).await;
    assert!(held.release().await.unwrap());
    let again = mutex.acquire_timeout(Duration::from_secs(10)).await.unwrap();
    assert!(again.is_some());
}

pub(crate) async fn a_guard_is_entered_again(scene: &Scene) {
    let (one, other, path) = (scene.client().await, scene.client().await, scene.path());
    let outer = Mutex::new(&one, &path).acquire().await.unwrap();
    let inner = outer.reenter();
    assert_eq!(inner.token(), outer.token());
    assert!(outer.release().await.unwrap());
    let mutex = Mutex::new(&other, &path);
    assert!(mutex.try_acquire().await.unwrap().is_none(), "the inner guard holds it");
    assert!(inner.release().await.unwrap());
    assert!(mutex.try_acquire().await.unwrap().is_some());
}

pub(crate) async fn a_cancelled_acquire_leaves_nothing_behind(scene: &Scene) {
    let (one, other, path) = (scene.client().await, scene.client().await, scene.path());
    for options in [LockOptions::new(), LockOptions::new().bilingual()] {
        let mutex = Mutex::with_options(&other, &path, options);
        let free = async || scene.until_children(&one, &path, 0).await;
        cancelled_at_every_await(|| mutex.acquire(), free).await;
        cancelled_at_every_await(|| mutex.try_acquire(), free).await;
        let held = Mutex::new(&one, &path).acquire().await.unwrap();
        let taken = async || scene.until_children(&one, &path, 1).await;
        cancelled_at_every_await(|| mutex.acquire(), taken).await;
        assert!(held.release().await.unwrap());
        // A release that is dropped half way releases all the same.
        let release = || async { mutex.acquire().await?.release().await };
        cancelled_at_every_await(release, free).await;
    }
}

pub(crate) async fn a_lost_reply_does_no_harm(scene: &Scene) {
    for options in [LockOptions::new(), LockOptions::new().bilingual()] {
        let (options, other) = (&options, &scene.client().await);
        scene
            .under_every_fault(async |client, path| {
                let mutex = Mutex::with_options(&client, &path, options.clone());
                let held = Mutex::new(other, &path).acquire().await.unwrap();
                let waiter = tokio::spawn({
                    let mutex = mutex.clone();
                    async move { mutex.acquire().await.unwrap() }
                });
                scene
                    .until_children(other, &path, if options_double(options) { 3 } else { 2 })
                    .await;
                assert!(held.release().await.unwrap());
                let guard = waiter.await.unwrap();
                // One znode of each name: a create that was lost is found, not repeated.
                let names = scene.children(other, &path).await;
                assert_eq!(names.len(), if options_double(options) { 2 } else { 1 }, "{names:?}");
                assert!(guard.release().await.unwrap());
                let guard = mutex.try_acquire().await.unwrap().unwrap();
                assert!(guard.release().await.unwrap());
            })
            .await;
    }
}

fn options_double(options: &LockOptions) -> bool {
    format!("{options:?}").contains("bilingual: true")
}

/// The two together: a create whose reply is lost, and whose caller is gone.
pub(crate) async fn a_cancelled_acquire_whose_reply_is_lost_leaves_nothing_behind(scene: &Scene) {
    let other = &scene.client().await;
    scene
        .under_every_fault(async |client, path| {
            let held = Mutex::new(other, &path).acquire().await.unwrap();
            for options in [LockOptions::new(), LockOptions::new().bilingual()] {
                let mutex = Mutex::with_options(&client, &path, options);
                for patience_ms in [0, 1, 3, 9, 30] {
                    let patience = Duration::from_millis(patience_ms);
                    assert!(mutex.acquire_timeout(patience).await.unwrap().is_none());
                }
            }
            scene.until_children(other, &path, 1).await;
            assert!(held.release().await.unwrap());
        })
        .await;
}

pub(crate) async fn a_dead_holder_s_lock_goes_on(scene: &Scene) {
    let (one, other, path) = (scene.client().await, scene.client().await, scene.path());
    let held = Mutex::new(&one, &path).acquire().await.unwrap();
    let lost = tokio::spawn(held.lost());
    let mutex = Mutex::new(&other, &path);
    let waiter = tokio::spawn(async move { mutex.acquire().await.unwrap() });
    scene.until_children(&other, &path, 2).await;
    scene.expire(&one).await;
    let guard = timeout(Duration::from_secs(10), waiter).await.unwrap().unwrap();
    assert!(guard.token() > held.token());
    lost.await.unwrap();
    soon("nothing remains of the lock", async || held.remaining().is_zero()).await;
    let error = held.write(&path, b"stale", Version::Any).await.unwrap_err();
    assert!(error.ends_session(), "{error}");
    assert!(held.release().await.is_err());
}

pub(crate) async fn a_holder_who_is_cut_off_knows_before_the_next_one_holds(scene: &Scene) {
    let (other, path) = (scene.client().await, scene.path());
    let proxy = Proxy::start(&scene.servers).await.unwrap();
    let cut_off = connect_for(&proxy.connect_string(), Duration::from_secs(4)).await;
    let held = Mutex::new(&cut_off, &path).acquire().await.unwrap();
    let timeout_ms = cut_off.session().timeout_ms;
    let mutex = Mutex::new(&other, &path);
    let waiter = tokio::spawn(async move { (mutex.acquire().await.unwrap(), Instant::now()) });
    // Longer than a lease: pings renew it.
    let lost = held.lost();
    let mut lost = pin!(async { (lost.await, Instant::now()) });
    let patience = Duration::from_millis(timeout_ms * 3 / 2);
    assert!(timeout(patience, &mut lost).await.is_err(), "it was not lost yet");
    assert!(!held.remaining().is_zero());

    proxy.cut();
    let (loss, lost_at) = timeout(LONG, lost).await.unwrap();
    assert_eq!((loss, held.remaining()), (Loss::Session, Duration::ZERO));
    let (guard, granted_at) = timeout(LONG, waiter).await.unwrap().unwrap();
    assert!(lost_at < granted_at, "{:?} late", lost_at - granted_at);
    assert!(guard.token() > held.token());
    proxy.heal();
}

pub(crate) async fn a_session_that_ends_ends_the_wait(scene: &Scene) {
    let (one, other, path) = (scene.client().await, scene.client().await, scene.path());
    let held = Mutex::new(&one, &path).acquire().await.unwrap();
    let mutex = Mutex::new(&other, &path);
    let waiter = tokio::spawn(async move { mutex.acquire().await });
    scene.until_children(&one, &path, 2).await;
    scene.expire(&other).await;
    let ended = timeout(Duration::from_secs(10), waiter).await.unwrap().unwrap();
    assert!(ended.unwrap_err().ends_session());
    scene.until_children(&one, &path, 1).await;
    assert!(held.release().await.unwrap());
}

pub(crate) async fn a_lost_lock_writes_nothing(scene: &Scene) {
    let (one, other, path) = (scene.client().await, scene.client().await, scene.path());
    let held = Mutex::new(&one, &path).acquire().await.unwrap();
    let target = format!("{path}-target");
    one.create(&target, b"", CreateMode::Persistent).await.unwrap();
    assert_eq!(held.write(&target, b"held", Version::Any).await.unwrap().version, 1);
    let created =
        held.guarded().create(&format!("{target}/part"), b"", Acl::open(), CreateMode::Persistent);
    assert_eq!(created.commit().await.unwrap().1.len(), 1, "the check is not among the results");

    let lost = held.lost();
    other.delete(held.path(), Version::Any).await.unwrap();
    assert_eq!(timeout(Duration::from_secs(10), lost).await.unwrap(), Loss::Deleted);
    let taken = Mutex::new(&other, &path).acquire().await.unwrap();
    let error = held.write(&target, b"stale", Version::Any).await.unwrap_err();
    assert_eq!(*error.kind(), ErrorKind::LockLost);
    taken.write(&target, b"fresh", Version::Exactly(1)).await.unwrap();
    assert!(taken.token() > held.token());
    assert!(!held.release().await.unwrap(), "it was lost before");
}

/// A process that starts again finds the ephemeral of its former session, which the servers have
/// not expired yet. CURATOR-604: two held the lock.
pub(crate) async fn a_dead_session_s_znode_is_not_taken_for_one_s_own(scene: &Scene) {
    let (watcher, path) = (scene.client().await, scene.path());
    let former = scene.client().await;
    let held = Mutex::new(&former, &path).acquire().await.unwrap();
    let resumed = scene.client().await;
    let mutex = Mutex::new(&resumed, &path);
    let waiter = tokio::spawn(async move { mutex.acquire().await.unwrap() });
    scene.until_children(&watcher, &path, 2).await;
    sleep(Duration::from_millis(100)).await;
    assert!(!waiter.is_finished());
    scene.expire(&former).await;
    let guard = timeout(Duration::from_secs(10), waiter).await.unwrap().unwrap();
    assert_ne!(guard.path(), held.path());
    let (_, stat) = resumed.get(guard.path()).await.unwrap();
    assert_eq!(stat.ephemeral_owner, resumed.session().id);
}

pub(crate) async fn a_holder_is_asked_for_its_lock(scene: &Scene) {
    let (one, other, path) = (scene.client().await, scene.client().await, scene.path());
    let options = LockOptions::new().revocable();
    let held = Mutex::with_options(&one, &path, options).acquire().await.unwrap();
    assert!(one.get(held.path()).await.unwrap().0.is_empty(), "as Curator creates it");
    let asked = tokio::spawn(held.revocation());
    let mutex = Mutex::new(&other, &path);
    let holder = mutex.participants().await.unwrap()[0].clone();
    // Something else on the znode is not a request.
    other.set_data(&holder, b"hello", Version::Any).await.unwrap();
    sleep(Duration::from_millis(100)).await;
    assert!(!asked.is_finished());
    Mutex::request_revocation(&other, &holder).await.unwrap();
    timeout(Duration::from_secs(10), asked).await.unwrap().unwrap();
    assert_eq!(other.get(&holder).await.unwrap().0.as_ref(), b"__REVOKE__");
    assert!(held.release().await.unwrap());
}

pub(crate) async fn a_bilingual_lock_waits_in_both_queues(scene: &Scene) {
    let (one, other, path) = (scene.client().await, scene.client().await, scene.path());
    let options = LockOptions::new().bilingual().data("me");
    let mutex = Mutex::with_options(&one, &path, options);
    let held = mutex.acquire().await.unwrap();
    let names = scene.children(&other, &path).await;
    let [curator, kazoo] = names.as_slice() else { panic!("{names:?}") };
    assert!(curator.starts_with("_c_") && curator.ends_with("-lock-0000000000"), "{curator}");
    assert_eq!(kazoo.len(), 32 + "__lock__".len() + 10);
    assert!(kazoo.ends_with("__lock__0000000001"), "{kazoo}");
    assert_eq!(curator[3..39].replace('-', ""), kazoo[..32], "one id");

    // A kazoo client with an earlier number is waited for, one with a later number waits.
    let base = format!("{path}/0123456789abcdef0123456789abcdef__lock__");
    let (later, _) = other.create(&base, b"", CreateMode::EphemeralSequential).await.unwrap();
    let waiter = tokio::spawn(async move { mutex.acquire().await.unwrap() });
    scene.until_children(&other, &path, 5).await;
    // Who loses either znode has lost the lock.
    let lost = held.lost();
    other.delete(&format!("{path}/{kazoo}"), Version::Any).await.unwrap();
    assert_eq!(timeout(Duration::from_secs(10), lost).await.unwrap(), Loss::Deleted);
    assert_eq!(
        *held.write(&path, b"", Version::Any).await.unwrap_err().kind(),
        ErrorKind::LockLost
    );
    held.release().await.unwrap();
    sleep(Duration::from_millis(200)).await;
    assert!(!waiter.is_finished(), "kazoo's znode is first now");
    other.delete(&later, Version::Any).await.unwrap();
    let guard = timeout(Duration::from_secs(10), waiter).await.unwrap().unwrap();
    assert!(guard.release().await.unwrap());
    scene.until_children(&other, &path, 0).await;
}

/// It tried again and again to create what is above the chroot.
pub(crate) async fn a_lock_at_the_root_of_a_chroot_that_is_missing_is_an_error(scene: &Scene) {
    let client = scene.client().await;
    let path = scene.path();
    for chroot in [path.clone(), format!("{path}/deeper")] {
        let inner = client.chrooted(&chroot).unwrap();
        let outcome = timeout(LONG, Mutex::new(&inner, "/").acquire()).await;
        let error = outcome.expect("an answer").expect_err("no lock");
        assert_eq!(error.code(), Some(ErrorCode::NoNode), "{chroot}: {error}");
        let put = timeout(LONG, Queue::new(&inner, "/").put(b"item")).await;
        let error = put.expect("an answer").expect_err("no queue");
        assert_eq!(error.code(), Some(ErrorCode::NoNode), "{chroot}: {error}");
        assert_eq!(client.exists(&chroot).await.unwrap(), None);
    }
}

/// The znode stayed with the session, and the program that resumed that had no guard for it and
/// waited for itself.
pub(crate) async fn a_resumed_session_adopts_its_lock(scene: &Scene) {
    let (other, path) = (scene.client().await, scene.path());
    for options in [LockOptions::new(), LockOptions::new().bilingual()] {
        let client = scene.client().await;
        let mutex = |client: &Client| Mutex::with_options(client, &path, options.clone());
        let held = mutex(&client).acquire().await.unwrap();
        let token = held.token();
        let session = client.detach().await;
        drop(held);
        let client = ClientOptions::new().resume(session).connect(&scene.servers).await.unwrap();
        let adopted = mutex(&client).adopt().await.unwrap().unwrap();
        assert_eq!(adopted.token(), token);
        assert!(mutex(&other).try_acquire().await.unwrap().is_none());
        assert!(mutex(&other).adopt().await.unwrap().is_none(), "another session holds it");
        adopted.guarded().commit().await.unwrap();
        assert!(adopted.release().await.unwrap());
        let next = mutex(&other).acquire().await.unwrap();
        assert!(next.token() > token);
        assert!(next.release().await.unwrap());
    }
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
    sleep(Duration::from_millis(200)).await;
    assert!(!waiter.is_finished() && !lost.is_finished());
    assert!(!asked.is_finished(), "there was no request for it");
    other.delete(held.path(), Version::Any).await.unwrap();
    timeout(LONG, asked).await.unwrap().unwrap();
    assert_eq!(timeout(LONG, lost).await.unwrap().unwrap(), Loss::Deleted);
    let next = timeout(LONG, waiter).await.unwrap().unwrap();
    assert!(next.release().await.unwrap());
}
