//! One-shot, persistent and recursive watches.

use zookeeper_client::{Acls, AddWatchMode, CreateMode, EventType, WatchedEvent};

use crate::harness::{Servers, equal, fired, next, ok};

pub async fn run(servers: &Servers) {
    let watcher = servers.connect().await;
    let writer = servers.connect().await;
    let persistent = CreateMode::Persistent.with_acls(Acls::anyone_all());
    ok(writer.create("/rust/watched", b"0", &persistent).await, "create");
    ok(watcher.sync("/rust").await, "sync");

    let (_, _, data) = ok(watcher.get_and_watch_data("/rust/watched").await, "watch data");
    let (_, _, list) = ok(watcher.get_and_watch_children("/rust/watched").await, "watch children");
    let (found, born) = ok(watcher.check_and_watch_stat("/rust/watched/c").await, "watch exists");
    equal(found, None, "what is not there yet");

    let (created, _) = ok(writer.create("/rust/watched/c", b"", &persistent).await, "create");
    let event = fired(born, "exists").await;
    equal(event, event_of(EventType::NodeCreated, "/rust/watched/c", created.czxid), "the event");
    let event = fired(list, "children").await;
    let expected = event_of(EventType::NodeChildrenChanged, "/rust/watched", created.czxid);
    equal(event, expected, "the event");

    let changed = ok(writer.set_data("/rust/watched", b"1", None).await, "set");
    let event = fired(data, "data").await;
    equal(event, event_of(EventType::NodeDataChanged, "/rust/watched", changed.mzxid), "the event");

    // A read after the event returns nothing older than it.
    let (value, _, data) = ok(watcher.get_and_watch_data("/rust/watched").await, "read after it");
    equal(value, b"1".to_vec(), "the data after the event");
    ok(writer.delete("/rust/watched/c", None).await, "delete the child");
    ok(writer.delete("/rust/watched", None).await, "delete");
    equal(fired(data, "the end").await.event_type, EventType::NodeDeleted, "the event");

    permanent(servers).await;
}

async fn permanent(servers: &Servers) {
    let watcher = servers.connect().await;
    let writer = servers.connect().await;
    let dir = CreateMode::Persistent.with_acls(Acls::anyone_all());

    // A watch may stand on a path that does not exist yet.
    let mut tree =
        ok(watcher.watch("/rust/tree", AddWatchMode::PersistentRecursive).await, "watch a tree");
    let mut node = ok(watcher.watch("/rust/tree", AddWatchMode::Persistent).await, "watch a node");

    let (root, _) = ok(writer.create("/rust/tree", b"", &dir).await, "create");
    let (leaf, _) = ok(writer.create("/rust/tree/leaf", b"", &dir).await, "create below");
    let leaf_set = ok(writer.set_data("/rust/tree/leaf", b"1", None).await, "set below");
    let root_set = ok(writer.set_data("/rust/tree", b"1", None).await, "set");
    ok(writer.delete("/rust/tree/leaf", None).await, "delete below");
    ok(writer.delete("/rust/tree", None).await, "delete");

    let expected = [
        event_of(EventType::NodeCreated, "/rust/tree", root.czxid),
        event_of(EventType::NodeCreated, "/rust/tree/leaf", leaf.czxid),
        event_of(EventType::NodeDataChanged, "/rust/tree/leaf", leaf_set.mzxid),
        event_of(EventType::NodeDataChanged, "/rust/tree", root_set.mzxid),
    ];
    for event in expected {
        equal(next(&mut tree, "the tree's events").await, event, "an event of the tree");
    }
    let event = next(&mut tree, "the leaf's end").await;
    equal((event.event_type, event.path.as_str()), (EventType::NodeDeleted, "/rust/tree/leaf"), "");
    let event = next(&mut tree, "the tree's end").await;
    equal((event.event_type, event.path.as_str()), (EventType::NodeDeleted, "/rust/tree"), "");

    let types = [
        EventType::NodeCreated,
        EventType::NodeChildrenChanged,
        EventType::NodeDataChanged,
        EventType::NodeChildrenChanged,
        EventType::NodeDeleted,
    ];
    for expected in types {
        let event = next(&mut node, "the node's events").await;
        equal((event.event_type, event.path.as_str()), (expected, "/rust/tree"), "the node's");
    }
}

fn event_of(event_type: EventType, path: &str, zxid: i64) -> WatchedEvent {
    WatchedEvent::new(event_type, path).with_zxid(zxid)
}
