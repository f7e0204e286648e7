//! [`Barrier`], [`DoubleBarrier`], [`Cache`], [`PersistentNode`] and [`GroupMember`].

use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};
use zoolet_client::recipes::{
    Barrier, Cache, CacheChange, DoubleBarrier, GroupMember, PersistentNode,
};
use zoolet_client::torture::proxy::{Fault, Proxy};
use zoolet_client::{Acl, CreateMode, Id};
use zoolet_jute::perms;

use crate::harness::{Scene, cancelled_at_every_await, connect, dropped_after, soon};

const LONG: Duration = Duration::from_secs(10);
const SHORT: Duration = Duration::from_millis(200);

pub(crate) async fn a_barrier_holds_everybody_up(scene: &Scene) {
    let (one, other, path) = (scene.client().await, scene.client().await, scene.path());
    let barrier = Barrier::new(&one, &path);
    barrier.set().await.unwrap();
    barrier.set().await.unwrap();
    let data = one.get(&path).await.unwrap().0;
    assert!(std::str::from_utf8(&data).unwrap().parse::<IpAddr>().is_ok(), "as Curator's");
    let waiting = Barrier::new(&other, &path);
    other.sync(&path).await.unwrap();
    assert!(!waiting.wait_timeout(SHORT).await.unwrap());
    let waiter = tokio::spawn(async move { waiting.wait().await });
    barrier.remove().await.unwrap();
    timeout(LONG, waiter).await.unwrap().unwrap().unwrap();
    barrier.wait().await.unwrap();
    barrier.remove().await.unwrap();
    scene
        .under_every_fault(async |client, path| {
            let barrier = Barrier::new(&client, &format!("{path}-barrier"));
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
            assert_eq!(entering.load(Ordering::SeqCst), MEMBERS, "nobody enters alone");
            leaving.fetch_add(1, Ordering::SeqCst);
            entered.leave().await.unwrap();
            assert_eq!(leaving.load(Ordering::SeqCst), MEMBERS, "nobody leaves alone");
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
    watcher.delete(&format!("{path}/ready"), -1).await.unwrap();
}

/// Its `ready` may be gone again when it looks: a slow leaver of the round before has deleted it.
pub(crate) async fn who_was_told_that_all_are_there_has_entered(scene: &Scene) {
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
            both.delete(&ready, -1).commit().await.unwrap();
            sleep(SHORT).await;
        }
    };
    timeout(LONG, come_and_gone).await.expect("it waits for ever");
    let entered = entering.await.unwrap().unwrap();
    entered.leave().await.unwrap();
}

pub(crate) async fn barriers_survive_cancels_and_lost_replies(scene: &Scene) {
    let (one, other, path) = (scene.client().await, scene.client().await, scene.path());
    // So many that a cancelled one, seen for a moment yet, does not complete them.
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

pub(crate) async fn a_cache_follows_the_tree(scene: &Scene) {
    let (writer, path) = (scene.client().await, scene.path());
    let proxy = Proxy::start(&scene.servers).await.unwrap();
    let cache = Cache::start(&connect(&proxy.connect_string()).await, &path);
    timeout(LONG, cache.ready()).await.unwrap().unwrap();
    assert!(cache.snapshot().is_empty());
    let mut changes = cache.subscribe();
    for (node, data) in [("", "root"), ("/a", "1"), ("/a/b", "2"), ("/c", "3")] {
        let mode = CreateMode::Persistent;
        writer.create(&format!("{path}{node}"), data.as_bytes(), mode).await.unwrap();
    }
    soon("four znodes", async || cache.snapshot().len() == 4).await;
    assert_eq!(cache.children(&path), ["a", "c"]);
    assert_eq!(cache.get(&format!("{path}/a/b")).unwrap().data.as_ref(), b"2");
    for _ in 0..4 {
        assert!(matches!(changes.recv().await.unwrap(), CacheChange::Created(..)));
    }
    writer.set_data(&format!("{path}/c"), b"4", -1).await.unwrap();
    let CacheChange::Changed(at, node) = changes.recv().await.unwrap() else { panic!("a change") };
    assert_eq!((at, node.data.as_ref()), (format!("{path}/c"), b"4".as_ref()));
    writer.delete(&format!("{path}/c"), -1).await.unwrap();
    assert!(matches!(changes.recv().await.unwrap(), CacheChange::Deleted(..)));

    // What happens while it is cut off is found afterwards.
    proxy.cut();
    writer.delete(&format!("{path}/a/b"), -1).await.unwrap();
    writer.set_data(&format!("{path}/a"), b"5", -1).await.unwrap();
    writer.create(&format!("{path}/d"), b"", CreateMode::Persistent).await.unwrap();
    proxy.heal();
    soon("the missed changes", async || {
        let nodes = cache.snapshot();
        nodes.len() == 3
            && nodes.contains_key(&format!("{path}/d"))
            && nodes[&format!("{path}/a")].data.as_ref() == b"5"
    })
    .await;
    timeout(LONG, cache.ready()).await.unwrap().unwrap();
}

pub(crate) async fn a_cache_survives_lost_replies(scene: &Scene) {
    let writer = &scene.client().await;
    scene
        .under_every_fault(async |client, path| {
            let path = format!("{path}-tree");
            writer.create(&path, b"0", CreateMode::Persistent).await.unwrap();
            let cache = Cache::start(&client, &path);
            cache.ready().await.unwrap();
            writer.set_data(&path, b"1", -1).await.unwrap();
            let child = format!("{path}/child");
            writer.create(&child, b"", CreateMode::Persistent).await.unwrap();
            soon("the changes", async || {
                cache.get(&path).is_some_and(|node| node.data.as_ref() == b"1")
                    && cache.get(&child).is_some()
            })
            .await;
        })
        .await;
}

pub(crate) async fn a_persistent_node_comes_back(scene: &Scene) {
    let (one, other, path) = (scene.client().await, scene.client().await, scene.path());
    let at = format!("{path}/deep/node");
    let node = PersistentNode::start(&one, &at, CreateMode::Ephemeral, b"1").unwrap();
    assert_eq!(timeout(LONG, node.path()).await.unwrap().unwrap(), at);
    other.sync(&at).await.unwrap();
    other.delete(&at, -1).await.unwrap();
    let data = async |wanted: &[u8]| {
        other.sync(&at).await.unwrap();
        other.get(&at).await.is_ok_and(|(data, _)| data.as_ref() == wanted)
    };
    soon("it is back", async || data(b"1").await).await;
    node.set_data(b"2");
    soon("it is written", async || data(b"2").await).await;
    other.set_data(&at, b"mine", -1).await.unwrap();
    sleep(SHORT).await;
    assert!(data(b"mine").await, "what others write stays");
    node.set_data(b"3");
    soon("it is written again", async || data(b"3").await).await;
    timeout(LONG, node.close()).await.unwrap().unwrap();
    scene.until_bare(&other, &path).await;

    let mode = CreateMode::EphemeralSequential;
    let node = PersistentNode::start(&one, &format!("{path}/n-"), mode, b"").unwrap();
    let first = node.path().await.unwrap();
    assert!(first.starts_with(&format!("{path}/_c_")) && first.contains("-n-00"), "{first}");
    other.sync(&first).await.unwrap();
    let before = other.exists(&first).await.unwrap().unwrap();
    other.delete(&first, -1).await.unwrap();
    soon("it is back under its number", async || {
        other.sync(&first).await.unwrap();
        other.exists(&first).await.unwrap().is_some_and(|stat| stat.czxid != before.czxid)
    })
    .await;
    drop(node);
    scene.until_bare(&other, &path).await;
}

pub(crate) async fn a_persistent_node_survives_lost_replies(scene: &Scene) {
    scene
        .under_every_fault(async |client, path| {
            for mode in [CreateMode::Ephemeral, CreateMode::EphemeralSequential] {
                let node = PersistentNode::start(&client, &format!("{path}/n"), mode, b"1");
                let node = node.unwrap();
                node.path().await.unwrap();
                node.close().await.unwrap();
            }
            // One that is dropped at once leaves nothing behind.
            let at = format!("{path}/dropped");
            drop(PersistentNode::start(&client, &at, CreateMode::Persistent, b"").unwrap());
        })
        .await;
}

pub(crate) async fn members_know_each_other(scene: &Scene) {
    let (one, other, path) = (scene.client().await, scene.client().await, scene.path());
    let first = GroupMember::join_with_data(&one, &path, "first", b"1").unwrap();
    let second = GroupMember::join(&other, &path, "second").unwrap();
    timeout(LONG, first.ready()).await.unwrap().unwrap();
    timeout(LONG, second.ready()).await.unwrap().unwrap();
    soon("they see each other", async || first.members().len() == 2 && second.members().len() == 2)
        .await;
    assert_eq!(second.members()["first"].as_ref(), b"1");
    let address = first.members()["second"].clone();
    assert!(std::str::from_utf8(&address).unwrap().parse::<IpAddr>().is_ok(), "as Curator's");
    first.set_data(b"2");
    soon("the new data", async || second.members()["first"].as_ref() == b"2").await;
    scene.expire(&other).await;
    soon("the second is gone", async || first.members().len() == 1).await;
    timeout(LONG, first.leave()).await.unwrap().unwrap();
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
        other.sync(&path).await.unwrap();
        proxy.strike(Fault::Reply, after);
        let removing = tokio::spawn(async move { barrier.remove().await });
        timeout(LONG, again.wait()).await.unwrap().unwrap();
        again.set().await.unwrap();
        timeout(LONG, removing).await.unwrap().unwrap().unwrap();
        other.sync(&path).await.unwrap();
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

pub(crate) async fn a_cache_leaves_out_what_it_may_not_read(scene: &Scene) {
    let (writer, path) = (scene.client().await, scene.path());
    writer.add_auth("digest", b"me:secret").await.unwrap();
    let mode = CreateMode::Persistent;
    for name in ["", "/a", "/z"] {
        writer.create(&format!("{path}{name}"), b"", mode).await.unwrap();
    }
    let closed = vec![Acl { perms: perms::ALL, id: Id::new("auth", "") }];
    let secret = format!("{path}/secret");
    writer.create_with_acl(&secret, b"", closed, mode).await.unwrap();
    writer.create(&format!("{secret}/below"), b"", mode).await.unwrap();
    let reader = scene.client().await;
    reader.sync(&path).await.unwrap();
    let cache = Cache::start(&reader, &path);
    timeout(LONG, cache.ready()).await.unwrap().unwrap();
    assert_eq!(cache.children(&path), ["a", "z"]);
    writer.set_data(&secret, b"changed", -1).await.unwrap();
    writer.create(&format!("{path}/b"), b"", mode).await.unwrap();
    soon("what comes later", async || cache.children(&path) == ["a", "b", "z"]).await;
}

/// Two programs with one id: each would restore its own data for ever.
pub(crate) async fn persistent_nodes_of_one_name_do_not_fight(scene: &Scene) {
    let (one, other, path) = (scene.client().await, scene.client().await, scene.path());
    let at = format!("{path}/persistent");
    let first = PersistentNode::start(&one, &at, CreateMode::Persistent, b"1").unwrap();
    timeout(LONG, first.path()).await.unwrap().unwrap();
    let second = PersistentNode::start(&other, &at, CreateMode::Persistent, b"2").unwrap();
    timeout(LONG, second.path()).await.unwrap().unwrap();
    sleep(SHORT).await;
    other.sync(&at).await.unwrap();
    let (data, stat) = other.get(&at).await.unwrap();
    assert_eq!((data.as_ref(), stat.version), (b"2".as_ref(), 1), "it was taken over once");
    timeout(LONG, first.close()).await.unwrap().unwrap();
    timeout(LONG, second.close()).await.unwrap().unwrap();
    scene.until_children(&other, &path, 0).await;

    // One that goes with another session is neither taken over nor deleted, but waited for.
    let at = format!("{path}/ephemeral");
    let first = PersistentNode::start(&one, &at, CreateMode::Ephemeral, b"1").unwrap();
    timeout(LONG, first.path()).await.unwrap().unwrap();
    let second = PersistentNode::start(&other, &at, CreateMode::Ephemeral, b"2").unwrap();
    assert!(timeout(SHORT, second.path()).await.is_err(), "the znode is another session's");
    let third = PersistentNode::start(&other, &at, CreateMode::Ephemeral, b"3").unwrap();
    timeout(LONG, third.close()).await.unwrap().unwrap();
    other.sync(&at).await.unwrap();
    let (data, stat) = other.get(&at).await.unwrap();
    assert_eq!((data.as_ref(), stat.version), (b"1".as_ref(), 0));
    scene.expire(&one).await;
    timeout(LONG, second.path()).await.unwrap().unwrap();
    other.sync(&at).await.unwrap();
    let (data, stat) = other.get(&at).await.unwrap();
    assert_eq!((data.as_ref(), stat.ephemeral_owner), (b"2".as_ref(), other.session().id));
    timeout(LONG, second.close()).await.unwrap().unwrap();
    assert!(first.close().await.unwrap_err().ends_session());
}
