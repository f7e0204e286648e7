//! Watches over reconnects, their removal, and below a chroot.

use tokio::time::timeout;
use zoolet_client::recipes::Mutex;
use zoolet_client::{
    AddWatchMode, Client, CreateMode, ErrorCode, EventType, OneshotWatcher, SessionState, Version,
    WatcherType,
};
use zoolet_tests::scenes::{SOON, Scene, options, soon};
use zoolet_torture::proxy::Proxy;

async fn event_of(watcher: OneshotWatcher) -> (EventType, String) {
    let event = timeout(SOON, watcher.changed()).await.unwrap().unwrap();
    (event.event_type, event.path)
}

/// Cuts a client off and waits until it knows.
async fn cut(proxy: &Proxy, client: &Client) {
    proxy.cut();
    let mut state = client.state();
    let gone = |state: &SessionState| *state == SessionState::Disconnected;
    timeout(SOON, state.wait_for(gone)).await.unwrap().unwrap();
}

pub(crate) async fn every_kind_of_watch_reports_what_happened_meanwhile(scene: &Scene) {
    let (proxy, other) = (Proxy::start(&scene.servers).await.unwrap(), scene.client().await);
    let client = options().connect(&proxy.connect_string()).await.unwrap();
    let root = scene.path();
    let path = |name: &str| format!("{root}/{name}");
    client.create(&root, b"", CreateMode::Persistent).await.unwrap();
    for name in ["written", "deleted", "parent", "still"] {
        client.create(&path(name), b"", CreateMode::Persistent).await.unwrap();
    }
    let (_, _, written) = client.get_watched(&path("written")).await.unwrap();
    let (_, deleted) = client.exists_watched(&path("deleted")).await.unwrap();
    let (_, created) = client.exists_watched(&path("created")).await.unwrap();
    let (_, _, parent) = client.children_watched(&path("parent")).await.unwrap();
    let (_, _, still) = client.get_watched(&path("still")).await.unwrap();
    let mode = AddWatchMode::PersistentRecursive;
    let mut lasting = client.add_watch(&path("still"), mode).await.unwrap();

    cut(&proxy, &client).await;
    other.sync(&root).await.unwrap();
    other.set_data(&path("written"), b"new", Version::Any).await.unwrap();
    other.delete(&path("deleted"), Version::Any).await.unwrap();
    other.create(&path("created"), b"", CreateMode::Persistent).await.unwrap();
    other.create(&path("parent/x"), b"", CreateMode::Persistent).await.unwrap();
    proxy.heal();
    assert_eq!(event_of(written).await, (EventType::NodeDataChanged, path("written")));
    assert_eq!(event_of(deleted).await, (EventType::NodeDeleted, path("deleted")));
    assert_eq!(event_of(created).await, (EventType::NodeCreated, path("created")));
    assert_eq!(event_of(parent).await, (EventType::NodeChildrenChanged, path("parent")));

    // What was not touched goes on.
    other.create(&path("still/x"), b"", CreateMode::Persistent).await.unwrap();
    other.set_data(&path("still"), b"new", Version::Any).await.unwrap();
    assert_eq!(event_of(still).await, (EventType::NodeDataChanged, path("still")));
    for wanted in [EventType::NodeCreated, EventType::NodeDataChanged] {
        let event = timeout(SOON, lasting.changed()).await.unwrap().unwrap();
        assert_eq!(event.event_type, wanted);
    }
}

pub(crate) async fn more_watches_than_fit_into_a_frame_outlive_a_connection(scene: &Scene) {
    let (proxy, other) = (Proxy::start(&scene.servers).await.unwrap(), scene.client().await);
    let client = options().connect(&proxy.connect_string()).await.unwrap();
    let root = scene.path();
    let path = |number: usize| format!("{root}{}{number}", "x".repeat(600));
    let calls: Vec<_> = (0..3000).map(|number| client.exists_watched(&path(number))).collect();
    let mut watchers = Vec::new();
    for call in calls {
        watchers.push(call.await.unwrap().1);
    }
    cut(&proxy, &client).await;
    proxy.heal();
    client.sync(&root).await.unwrap();
    for number in [0, 1500, 2999] {
        assert!(client.check_watches(&path(number), WatcherType::Data).await.unwrap(), "{number}");
    }
    other.create(&path(2999), b"", CreateMode::Ephemeral).await.unwrap();
    let last = watchers.pop().unwrap();
    assert_eq!(event_of(last).await, (EventType::NodeCreated, path(2999)));
}

pub(crate) async fn a_dropped_watcher_is_removed_from_the_server(scene: &Scene) {
    let (client, path) = (scene.client().await, scene.path());
    client.create(&path, b"", CreateMode::Persistent).await.unwrap();
    let (_, _, data) = client.get_watched(&path).await.unwrap();
    let (_, _, children) = client.children_watched(&path).await.unwrap();
    let lasting = client.add_watch(&path, AddWatchMode::Persistent).await.unwrap();
    let is_watched = async |kind| client.check_watches(&path, kind).await.unwrap();
    for kind in [WatcherType::Data, WatcherType::Children, WatcherType::Persistent] {
        assert!(is_watched(kind).await, "{kind:?}");
    }
    drop((data, children, lasting));
    soon("no watches", async || !is_watched(WatcherType::Any).await).await;
    // Nor does a read whose reply is dropped leave one.
    drop(client.get_watched(&path));
    client.sync(&path).await.unwrap();
    soon("no watches", async || !is_watched(WatcherType::Any).await).await;
}

pub(crate) async fn a_chroot_is_the_whole_tree(scene: &Scene) {
    let (outside, root) = (scene.client().await, scene.path());
    outside.create(&root, b"", CreateMode::Persistent).await.unwrap();
    let servers = format!("{}{root}", scene.servers);
    let client = options().connect(&servers).await.unwrap();
    assert_eq!(client.chroot(), root);
    let mut all = client.add_watch("/", AddWatchMode::PersistentRecursive).await.unwrap();
    let (path, _) = client.create("/e-", b"", CreateMode::EphemeralSequential).await.unwrap();
    assert_eq!(path, "/e-0000000000");
    let event = timeout(SOON, all.changed()).await.unwrap().unwrap();
    assert_eq!((event.event_type, event.path), (EventType::NodeCreated, path.clone()));
    assert_eq!(client.ephemerals("/").await.unwrap(), [path.as_str()]);
    assert_eq!(client.children("/").await.unwrap().0, ["e-0000000000"]);
    assert_eq!(client.all_children_number("/").await.unwrap(), 1);
    scene.catch_up(&outside).await;
    assert!(outside.exists(&format!("{root}{path}")).await.unwrap().is_some());

    let inner = client.chrooted("/inner").unwrap();
    let commit = client
        .transaction()
        .create("/inner", b"", zoolet_client::Acl::open(), CreateMode::Persistent)
        .check("/inner", Version::Exactly(0));
    commit.commit().await.unwrap();
    let (_, _, watch) = inner.get_watched("/").await.unwrap();
    client.set_data("/inner", b"new", Version::Any).await.unwrap();
    assert_eq!(event_of(watch).await, (EventType::NodeDataChanged, "/".to_owned()));
    let reads = inner.reads().get("/").ask().await.unwrap();
    assert!(matches!(&reads[0], Ok(zoolet_client::Read::Data(data, _)) if data == "new"));

    let quota = zoolet_client::Quota { count: Some(9), ..Default::default() };
    inner.set_quota("/", &quota).await.unwrap();
    let (limits, _) = outside_quota(&outside, &format!("{root}/inner")).await;
    assert_eq!(limits, quota);
    assert!(client.delete_quota("/inner").await.unwrap());
    let (text, _) = client.config().await.unwrap();
    assert!(text.starts_with(b"server."), "it is the ensemble's");

    let guard = Mutex::new(&inner, "/lock").acquire().await.unwrap();
    assert!(guard.path().starts_with("/lock/"), "{}", guard.path());
    guard.write("/", b"held", Version::Any).await.unwrap();
    assert!(guard.release().await.unwrap());
    let nowhere = client.chrooted("/nowhere").unwrap();
    let error = Mutex::new(&nowhere, "/lock").acquire().await.unwrap_err();
    assert_eq!(error.code(), Some(ErrorCode::NoNode));
}

async fn outside_quota(
    client: &Client,
    path: &str,
) -> (zoolet_client::Quota, zoolet_client::Quota) {
    client.sync("/").await.unwrap();
    client.quota(path).await.unwrap().unwrap()
}
