//! [`Cache`], [`PersistentNode`] and [`GroupMember`].

use std::net::IpAddr;
use std::time::Duration;

use tokio::time::{sleep, timeout};
use zoolet_client::recipes::{Cache, CacheChange, GroupMember, PersistentNode};
use zoolet_client::{Acl, CreateMode, Id, Version};
use zoolet_jute::perms;
use zoolet_tests::scenes::{Scene, connect, soon};
use zoolet_torture::proxy::Proxy;

use crate::harness::RecipeScene;

const LONG: Duration = Duration::from_secs(10);
const SHORT: Duration = Duration::from_millis(200);

pub(crate) async fn a_cache_follows_the_tree(scene: &Scene) {
    let (writer, path) = (scene.client().await, scene.path());
    let proxy = Proxy::start(&scene.servers).await.unwrap();
    let cache = Cache::start(&connect(&proxy.connect_string()).await, &path);
    assert!(cache.ready_timeout(LONG).await.unwrap() && cache.is_ready());
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
    writer.set_data(&format!("{path}/c"), b"4", Version::Any).await.unwrap();
    let CacheChange::Changed(at, node) = changes.recv().await.unwrap() else { panic!("a change") };
    assert_eq!((at, node.data.as_ref()), (format!("{path}/c"), b"4".as_ref()));
    writer.delete(&format!("{path}/c"), Version::Any).await.unwrap();
    assert!(matches!(changes.recv().await.unwrap(), CacheChange::Deleted(..)));

    // What happens while it is cut off is found afterwards.
    proxy.cut();
    soon("it falls behind", async || !cache.is_ready()).await;
    assert!(!cache.ready_timeout(SHORT).await.unwrap());
    writer.delete(&format!("{path}/a/b"), Version::Any).await.unwrap();
    writer.set_data(&format!("{path}/a"), b"5", Version::Any).await.unwrap();
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
            writer.set_data(&path, b"1", Version::Any).await.unwrap();
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
    other.delete(&at, Version::Any).await.unwrap();
    let data = async |wanted: &[u8]| {
        other.sync(&at).await.unwrap();
        other.get(&at).await.is_ok_and(|(data, _)| data.as_ref() == wanted)
    };
    soon("it is back", async || data(b"1").await).await;
    node.set_data(b"2");
    soon("it is written", async || data(b"2").await).await;
    other.set_data(&at, b"mine", Version::Any).await.unwrap();
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
    scene.catch_up(&other).await;
    let before = other.exists(&first).await.unwrap().unwrap();
    other.delete(&first, Version::Any).await.unwrap();
    soon("it is back under its number", async || {
        other.sync(&first).await.unwrap();
        other.exists(&first).await.unwrap().is_some_and(|stat| stat.czxid != before.czxid)
    })
    .await;
    drop(node);
    scene.until_bare(&other, &path).await;
}

pub(crate) async fn a_persistent_node_survives_lost_replies(scene: &Scene) {
    let other = &scene.client().await;
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
            // Behind everything that the dropped one has asked for, and its clean-up.
            soon("it is deleted", async || {
                sleep(SHORT / 4).await;
                !scene.children(other, &path).await.contains(&"dropped".to_owned())
            })
            .await;
            let at = format!("{path}/kept");
            let node = PersistentNode::start(&client, &at, CreateMode::Persistent, b"1").unwrap();
            node.path().await.unwrap();
            node.set_data(b"2");
            soon("the new data", async || {
                other.sync(&at).await.unwrap();
                other.get(&at).await.is_ok_and(|(data, _)| data.as_ref() == b"2")
            })
            .await;
            node.close().await.unwrap();
            assert!(!scene.children(other, &path).await.contains(&"kept".to_owned()));
        })
        .await;
}

pub(crate) async fn members_know_each_other(scene: &Scene) {
    let (one, other, path) = (scene.client().await, scene.client().await, scene.path());
    let first = GroupMember::join_with_data(&one, &path, "first", b"1").unwrap();
    let second = GroupMember::join(&other, &path, "second").unwrap();
    timeout(LONG, first.ready()).await.unwrap().unwrap();
    assert!(second.ready_timeout(LONG).await.unwrap() && second.is_ready());
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
    scene
        .under_every_fault(async |client, path| {
            let member = GroupMember::join(&client, &path, "one").unwrap();
            member.ready().await.unwrap();
            soon("it is a member", async || member.cache().get(&format!("{path}/one")).is_some())
                .await;
            member.leave().await.unwrap();
        })
        .await;
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
    scene.catch_up(&reader).await;
    let cache = Cache::start(&reader, &path);
    timeout(LONG, cache.ready()).await.unwrap().unwrap();
    assert_eq!(cache.children(&path), ["a", "z"]);
    writer.set_data(&secret, b"changed", Version::Any).await.unwrap();
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
    scene.catch_up(&other).await;
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
    assert_eq!(second.path_timeout(SHORT).await.unwrap(), None, "the znode is another session's");
    assert_eq!((first.try_path(), second.try_path()), (Some(at.clone()), None));
    let ttl = PersistentNode::start(&other, &at, CreateMode::PersistentWithTtl, b"").unwrap_err();
    assert!(ttl.to_string().contains("time to live"), "{ttl}");
    let third = PersistentNode::start(&other, &at, CreateMode::Ephemeral, b"3").unwrap();
    timeout(LONG, third.close()).await.unwrap().unwrap();
    scene.catch_up(&other).await;
    let (data, stat) = other.get(&at).await.unwrap();
    assert_eq!((data.as_ref(), stat.version), (b"1".as_ref(), 0));
    scene.expire(&one).await;
    timeout(LONG, second.path()).await.unwrap().unwrap();
    scene.catch_up(&other).await;
    let (data, stat) = other.get(&at).await.unwrap();
    assert_eq!((data.as_ref(), stat.ephemeral_owner), (b"2".as_ref(), other.session().id));
    timeout(LONG, second.close()).await.unwrap().unwrap();
    assert!(first.close().await.unwrap_err().ends_session());
}
