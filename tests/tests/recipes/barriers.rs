//! [`Barrier`] and [`DoubleBarrier`].

use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use futures_util::FutureExt;
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};
use zoolet_client::recipes::{Barrier, DoubleBarrier};
use zoolet_client::{Acl, AddWatchMode, CreateMode, Version};
use zoolet_tests::scenes::{Scene, connect};
use zoolet_torture::proxy::{Fault, Proxy};

use crate::harness::{RecipeScene, cancelled_at_every_await, dropped_after};

const LONG: Duration = Duration::from_secs(10);
const SHORT: Duration = Duration::from_millis(200);

pub(crate) async fn a_barrier_holds_all_up(scene: &Scene) {
    let (one, other, path) = (scene.client().await, scene.client().await, scene.path());
    let barrier = Barrier::new(&one, &path);
    barrier.set().await.unwrap();
    barrier.set().await.unwrap();
    let data = one.get(&path).await.unwrap().0;
    assert!(std::str::from_utf8(&data).unwrap().parse::<IpAddr>().is_ok(), "as Curator's");
    let waiting = Barrier::new(&other, &path);
    scene.catch_up(&other).await;
    assert!(!waiting.wait_timeout(SHORT).await.unwrap());
    let waiter = tokio::spawn(async move { waiting.wait().await });
    barrier.remove().await.unwrap();
    timeout(LONG, waiter).await.unwrap().unwrap().unwrap();
    barrier.wait().await.unwrap();
    barrier.remove().await.unwrap();
    scene
        .under_every_fault(async |client, path| {
            let barrier = Barrier::new(&client, &format!("{path}/barrier"));
            barrier.set().await.unwrap();
            assert!(!barrier.wait_timeout(Duration::from_millis(20)).await.unwrap());
            barrier.remove().await.unwrap();
            barrier.wait().await.unwrap();
        })
        .await;
}

pub(crate) async fn members_enter_and_leave_together(scene: &Scene) {
    const MEMBERS: usize = 4;
    let (watcher, path) = (scene.client().await, scene.path());
    let (entering, leaving) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let mut members = JoinSet::new();
    for number in 0..MEMBERS {
        let barrier = DoubleBarrier::new(&scene.client().await, &path, MEMBERS);
        let (entering, leaving) = (Arc::clone(&entering), Arc::clone(&leaving));
        members.spawn(async move {
            sleep(Duration::from_millis(20 * u64::try_from(number).unwrap())).await;
            entering.fetch_add(1, Ordering::SeqCst);
            let entered = barrier.enter().await.unwrap();
            assert_eq!(entering.load(Ordering::SeqCst), MEMBERS, "no member enters alone");
            leaving.fetch_add(1, Ordering::SeqCst);
            entered.leave().await.unwrap();
            assert_eq!(leaving.load(Ordering::SeqCst), MEMBERS, "no member leaves alone");
        });
    }
    while let Some(ended) = timeout(LONG, members.join_next()).await.unwrap() {
        ended.unwrap();
    }
    scene.until_children(&watcher, &path, 0).await;

    let barrier = DoubleBarrier::new(&watcher, &path, 2);
    assert!(barrier.enter_timeout(SHORT).await.unwrap().is_none());
    let alone = DoubleBarrier::new(&watcher, &path, 1);
    scene.until_children(&watcher, &path, 0).await;
    let entered = alone.enter().await.unwrap();
    let names = scene.children(&watcher, &path).await;
    assert_eq!((names[0].len(), names[1].as_str()), (36, "ready"), "as Curator's");
    drop(entered);
    scene.until_children(&watcher, &path, 1).await;
    watcher.delete(&format!("{path}/ready"), Version::Any).await.unwrap();
}

/// Its `ready` may be gone again when it looks: a slow leaver of the round before has deleted it.
pub(crate) async fn a_client_that_saw_all_the_others_has_entered(scene: &Scene) {
    let (one, other, path) = (scene.client().await, scene.client().await, scene.path());
    let barrier = DoubleBarrier::new(&one, &path, 2);
    let entering = tokio::spawn(async move { barrier.enter().await });
    scene.until_children(&other, &path, 1).await;
    let ready = format!("{path}/ready");
    let come_and_gone = async {
        // As often as it takes: the member is there before its watch is.
        while !entering.is_finished() {
            let both = other.transaction();
            let both = both.create(&ready, b"", Acl::open(), CreateMode::Persistent);
            both.delete(&ready, Version::Any).commit().await.unwrap();
            sleep(SHORT).await;
        }
    };
    timeout(LONG, come_and_gone).await.expect("it waits for ever");
    let entered = entering.await.unwrap().unwrap();
    entered.leave().await.unwrap();
}

pub(crate) async fn barriers_survive_cancels_and_lost_replies(scene: &Scene) {
    let (one, other, path) = (scene.client().await, scene.client().await, scene.path());
    // Enough that a cancelled one, which is still seen for a moment, does not complete them.
    let barrier = DoubleBarrier::new(&one, &path, 9);
    let left = async || scene.until_children(&other, &path, 0).await;
    cancelled_at_every_await(|| barrier.enter(), left).await;
    let other = &other;
    scene
        .under_every_fault(async |client, path| {
            let member = DoubleBarrier::new(other, &path, 2);
            let second = tokio::spawn(async move { member.enter().await.unwrap().leave().await });
            DoubleBarrier::new(&client, &path, 2).enter().await.unwrap().leave().await.unwrap();
            second.await.unwrap().unwrap();
        })
        .await;
}

/// The reply of a remove is lost, somebody sets the barrier up again, and it is not removed again.
pub(crate) async fn a_barrier_that_is_set_again_stays(scene: &Scene) {
    let other = scene.client().await;
    for after in 0.. {
        let path = scene.path();
        let proxy = Proxy::start(&scene.servers).await.unwrap();
        let barrier = Barrier::new(&connect(&proxy.connect_string()).await, &path);
        let again = Barrier::new(&other, &path);
        barrier.set().await.unwrap();
        scene.catch_up(&other).await;
        proxy.strike(Fault::Reply, after);
        let removing = tokio::spawn(async move { barrier.remove().await });
        timeout(LONG, again.wait()).await.unwrap().unwrap();
        again.set().await.unwrap();
        timeout(LONG, removing).await.unwrap().unwrap().unwrap();
        scene.catch_up(&other).await;
        assert!(other.exists(&path).await.unwrap().is_some(), "the new one is gone");
        if !proxy.calm() {
            assert!(after > 0, "nothing was lost");
            return;
        }
    }
}

/// The fast members are in the next round while the slow ones still leave the last one.
pub(crate) async fn a_double_barrier_is_used_again(scene: &Scene) {
    const MEMBERS: usize = 3;
    const ROUNDS: usize = 12;
    let (watcher, path) = (scene.client().await, scene.path());
    let mut members = JoinSet::new();
    for number in 0..MEMBERS {
        let barrier = DoubleBarrier::new(&scene.client().await, &path, MEMBERS);
        members.spawn(async move {
            for round in 0..ROUNDS {
                let entered = barrier.enter().await.unwrap();
                if round % MEMBERS == number {
                    sleep(Duration::from_millis(30)).await;
                }
                entered.leave().await.unwrap();
            }
        });
    }
    let all = async {
        while let Some(ended) = members.join_next().await {
            ended.unwrap();
        }
    };
    timeout(LONG * 3, all).await.expect("the members of two rounds wait for each other");
    scene.until_children(&watcher, &path, 0).await;
}

pub(crate) async fn a_member_leaves_in_time_or_alone(scene: &Scene) {
    let (one, other, path) = (scene.client().await, scene.client().await, scene.path());
    let barriers = [DoubleBarrier::new(&one, &path, 2), DoubleBarrier::new(&other, &path, 2)];
    for polls in 1.. {
        let (a, b) = tokio::join!(barriers[0].enter(), barriers[1].enter());
        let stays = b.unwrap();
        let leave = timeout(SHORT, dropped_after(polls, a.unwrap().leave())).await;
        // The other one does not wait for a member that has gone by itself.
        assert!(stays.leave_timeout(LONG).await.unwrap());
        scene.until_children(&one, &path, 0).await;
        if leave.is_err() {
            break;
        }
    }
    let (a, b) = tokio::join!(barriers[0].enter(), barriers[1].enter());
    let stays = b.unwrap();
    assert!(!a.unwrap().leave_timeout(SHORT).await.unwrap());
    assert!(stays.leave_timeout(LONG).await.unwrap());
    scene.until_children(&one, &path, 0).await;
}

pub(crate) async fn barriers_are_tried(scene: &Scene) {
    let (one, other, path) = (scene.client().await, scene.client().await, scene.path());
    let (sets, tries) = (Barrier::new(&one, &path), Barrier::new(&other, &path));
    assert!(tries.try_wait().await.unwrap());
    sets.set().await.unwrap();
    scene.caught_up().await;
    assert!(!tries.try_wait().await.unwrap());
    sets.remove().await.unwrap();
    scene.caught_up().await;
    assert!(tries.try_wait().await.unwrap());

    let path = scene.path();
    let (waits, tries) = (DoubleBarrier::new(&one, &path, 2), DoubleBarrier::new(&other, &path, 2));
    assert!(tries.try_enter().await.unwrap().is_none());
    scene.catch_up(&one).await;
    assert!(one.exists(&path).await.unwrap().is_none(), "nothing was written");
    let entering = tokio::spawn({
        let waits = waits.clone();
        async move { waits.enter().await }
    });
    scene.until_children(&other, &path, 1).await;
    scene.caught_up().await;
    let last = tries.try_enter().await.unwrap().expect("the other one is there");
    let first = timeout(LONG, entering).await.unwrap().unwrap().unwrap();
    scene.caught_up().await;
    // A member that finds all inside does not wait either.
    let third = waits.try_enter().await.unwrap().expect("they are ready");
    scene.caught_up().await;
    assert!(!third.try_leave().await.unwrap());
    scene.caught_up().await;
    assert!(!first.try_leave().await.unwrap());
    scene.caught_up().await;
    assert!(last.try_leave().await.unwrap());
    scene.until_children(&one, &path, 0).await;

    for polls in 1.. {
        let (a, b) = tokio::join!(waits.enter(), tries.enter());
        let ended = dropped_after(polls, a.unwrap().try_leave()).await.is_some();
        assert!(b.unwrap().leave_timeout(LONG).await.unwrap());
        scene.until_children(&one, &path, 0).await;
        if ended {
            break;
        }
    }
    let other = &other;
    scene
        .under_every_fault(async |client, path| {
            let member = DoubleBarrier::new(other, &path, 2);
            let second = tokio::spawn(async move { member.enter().await.unwrap().leave().await });
            let tries = DoubleBarrier::new(&client, &path, 2);
            let entered = loop {
                if let Some(entered) = tries.try_enter().await.unwrap() {
                    break entered;
                }
                sleep(Duration::from_millis(5)).await;
            };
            entered.try_leave().await.unwrap();
            second.await.unwrap().unwrap();
            scene.until_children(other, &path, 0).await;
        })
        .await;
}

/// The other member comes and goes: it is there when the try looks, and has left when it has entered.
pub(crate) async fn a_try_whose_partner_leaves_leaves_too(scene: &Scene) {
    let (one, other, path) = (scene.client().await, scene.client().await, scene.path());
    one.create(&path, b"", CreateMode::Persistent).await.unwrap();
    let (partner, ready) = (format!("{path}/x"), format!("{path}/ready"));
    let tries = DoubleBarrier::new(&other, &path, 2);
    let mut watch = one.add_watch(&path, AddWatchMode::PersistentRecursive).await.unwrap();
    let comes_and_goes = async {
        loop {
            one.create(&partner, b"", CreateMode::Ephemeral).await.unwrap();
            sleep(Duration::from_micros(300)).await;
            one.delete(&partner, Version::Any).await.unwrap();
        }
    };
    let tried = async {
        let (mut entered, mut left) = (0, 0);
        while entered == 0 || left == 0 {
            let outcome = tries.try_enter().await.unwrap();
            scene.catch_up(&one).await;
            let is_ready = one.exists(&ready).await.unwrap().is_some();
            assert_eq!(outcome.is_some(), is_ready, "one is notified, and the other is not");
            if let Some(outcome) = outcome {
                outcome.try_leave().await.unwrap();
                // The partner does not know of a barrier.
                let _ = one.delete(&ready, Version::Any).await;
                entered += 1;
            } else {
                while let Some(Ok(event)) = watch.changed().now_or_never() {
                    let name = event.path.rsplit('/').next().unwrap();
                    left += usize::from(name.len() == 36);
                }
            }
        }
    };
    tokio::select! {
        never = comes_and_goes => never,
        ended = timeout(LONG * 3, tried) => ended.expect("tries enter and leave"),
    }
    let _ = one.delete(&partner, Version::Any).await;
    scene.until_children(&one, &path, 0).await;
}

/// Their paths are longer together than a request may be.
pub(crate) async fn more_members_come_together_than_fit_into_a_request(scene: &Scene) {
    const OTHERS: usize = 300;
    let (client, path) = (scene.client().await, scene.path());
    client.create(&path, b"", CreateMode::Persistent).await.unwrap();
    let path = format!("{path}/{}", "long".repeat(1000));
    client.create(&path, b"", CreateMode::Persistent).await.unwrap();
    for number in 0..OTHERS {
        let member = format!("{path}/{number}");
        client.create(&member, b"", CreateMode::Ephemeral).await.unwrap();
    }
    let barrier = DoubleBarrier::new(&client, &path, OTHERS + 1);
    let entered = timeout(LONG, barrier.enter()).await.expect("it waits for ever").unwrap();
    assert_eq!(scene.children(&client, &path).await.len(), OTHERS + 2);
    drop(entered);
    scene.until_children(&client, &path, OTHERS + 1).await;
}
