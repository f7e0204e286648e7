//! Every operation of the protocol, once right and once wrong.

use std::time::Duration;

use tokio::time::timeout;
use zoolet_client::{
    Acl, AddWatchMode, ConfigChange, CreateMode, ErrorCode, EventType, Id, Quota, Read, Version,
    WatcherType, perms,
};
use zoolet_tests::scenes::{SOON, Scene, soon};

pub(crate) async fn znodes_are_created_read_written_and_deleted(scene: &Scene) {
    let (client, path) = (scene.client().await, scene.path());
    let (created, stat) = client.create(&path, b"one", CreateMode::Persistent).await.unwrap();
    assert_eq!((created.as_str(), stat.version, stat.data_length), (path.as_str(), 0, 3));
    let twice = client.create(&path, b"", CreateMode::Persistent).await.unwrap_err();
    assert_eq!(twice.code(), Some(ErrorCode::NodeExists));
    assert!(!twice.may_have_happened() && !twice.ends_session());

    assert_eq!(client.get(&path).await.unwrap(), (b"one".as_ref().into(), stat));
    assert_eq!(client.set_data(&path, b"two", Version::Exactly(0)).await.unwrap().version, 1);
    let stale = client.set_data(&path, b"three", Version::Exactly(0)).await.unwrap_err();
    assert_eq!(stale.code(), Some(ErrorCode::BadVersion));
    assert_eq!(client.exists(&path).await.unwrap().unwrap().version, 1);

    client.create(&format!("{path}/x"), b"", CreateMode::Persistent).await.unwrap();
    let (children, stat) = client.children(&path).await.unwrap();
    assert_eq!((children, stat.num_children), (vec!["x".to_owned()], 1));
    assert_eq!(
        client.delete(&path, Version::Any).await.unwrap_err().code(),
        Some(ErrorCode::NotEmpty)
    );
    client.delete(&format!("{path}/x"), Version::Exactly(0)).await.unwrap();
    client.delete(&path, Version::Exactly(1)).await.unwrap();
    assert_eq!(client.exists(&path).await.unwrap(), None);
    assert_eq!(client.get(&path).await.unwrap_err().code(), Some(ErrorCode::NoNode));
    client.close().await.unwrap();
}

pub(crate) async fn every_mode_of_create_makes_its_znode(scene: &Scene) {
    let (client, path) = (scene.client().await, scene.path());
    let session = client.session().id;
    let owned = async |mode| client.create(&path, b"", mode).await.unwrap();
    let (name, stat) = owned(CreateMode::PersistentSequential).await;
    assert_eq!((name.len(), stat.ephemeral_owner.0), (path.len() + 10, 0));
    let (name, stat) = owned(CreateMode::EphemeralSequential).await;
    assert_eq!((name.len(), stat.ephemeral_owner), (path.len() + 10, session));
    let (name, stat) = owned(CreateMode::Ephemeral).await;
    assert_eq!((name.as_str(), stat.ephemeral_owner), (path.as_str(), session));
    client.delete(&path, Version::Any).await.unwrap();
    let (name, _) = owned(CreateMode::Container).await;
    assert_eq!(name, path);

    let hour = Duration::from_hours(1);
    let below = format!("{path}/x");
    let live = async |mode, ttl| client.create_with_ttl(&below, b"", Acl::open(), mode, ttl).await;
    let (name, stat) = live(CreateMode::PersistentWithTtl, hour).await.unwrap();
    assert_eq!((name.as_str(), stat.version), (below.as_str(), 0));
    let (name, _) = live(CreateMode::PersistentSequentialWithTtl, hour).await.unwrap();
    assert_eq!(name.len(), below.len() + 10);
    let none = live(CreateMode::PersistentSequentialWithTtl, Duration::ZERO).await.unwrap_err();
    assert_eq!(none.code(), Some(ErrorCode::BadArguments));
    let ever = live(CreateMode::PersistentSequentialWithTtl, Duration::MAX).await.unwrap_err();
    assert_eq!(ever.code(), Some(ErrorCode::BadArguments));
}

pub(crate) async fn identities_and_acls(scene: &Scene) {
    let (client, path) = (scene.client().await, scene.path());
    client.add_auth("digest", b"alice:secret").await.unwrap();
    let users = client.who_am_i().await.unwrap();
    assert!(users.iter().any(|user| (&*user.auth_scheme, &*user.user) == ("digest", "alice")));
    let mine = vec![Acl { perms: perms::ALL, id: Id::new("auth", "") }];
    let persistent = CreateMode::Persistent;
    client.create_with_acl(&path, b"", mine.clone(), persistent).await.unwrap();
    let (acl, stat) = client.acl(&path).await.unwrap();
    assert_eq!((acl.len(), stat.aversion), (1, 0));
    assert_eq!(acl[0].id.scheme.as_deref(), Some("digest"));

    let stranger = scene.client().await;
    scene.catch_up(&stranger).await;
    assert_eq!(stranger.get(&path).await.unwrap_err().code(), Some(ErrorCode::NoAuth));
    assert_eq!(client.set_acl(&path, Acl::open(), Version::Exactly(0)).await.unwrap().aversion, 1);
    scene.catch_up(&stranger).await;
    assert_eq!(stranger.get(&path).await.unwrap().0, b"".as_ref());
    let stale = client.set_acl(&path, mine, Version::Exactly(0)).await.unwrap_err();
    assert_eq!(stale.code(), Some(ErrorCode::BadVersion));

    let refused = stranger.add_auth("no-such-scheme", b"").await.unwrap_err();
    assert!(refused.ends_session(), "{refused}");
}

pub(crate) async fn reads_come_several_at_once(scene: &Scene) {
    let (client, path) = (scene.client().await, scene.path());
    client.create(&path, b"data", CreateMode::Persistent).await.unwrap();
    client.create(&format!("{path}/x"), b"", CreateMode::Persistent).await.unwrap();
    let missing = format!("{path}/none");
    let reads = client.reads().get(&path).get(&missing).children(&path).ask().await.unwrap();
    let [Ok(Read::Data(data, stat)), Err(absent), Ok(Read::Children(names))] = reads.as_slice()
    else {
        panic!("{reads:?}")
    };
    assert_eq!((data.as_ref(), stat.num_children), (b"data".as_ref(), 1));
    assert_eq!(absent.code(), Some(ErrorCode::NoNode));
    assert_eq!(names.as_slice(), ["x"]);
}

pub(crate) async fn a_transaction_happens_or_does_not(scene: &Scene) {
    let (client, path) = (scene.client().await, scene.path());
    let (hour, open) = (Duration::from_hours(1), Acl::open);
    let (_, results) = client
        .transaction()
        .create(&path, b"", open(), CreateMode::Persistent)
        .create(&format!("{path}/c"), b"", open(), CreateMode::Container)
        .create(&format!("{path}/s-"), b"", open(), CreateMode::PersistentSequential)
        .create_with_ttl(&format!("{path}/t"), b"", open(), CreateMode::PersistentWithTtl, hour)
        .set_data(&path, b"new", Version::Exactly(0))
        .check(&path, Version::Exactly(1))
        .delete(&format!("{path}/c"), Version::Any)
        .commit()
        .await
        .unwrap();
    assert_eq!(results.len(), 7);
    let (mut children, _) = client.children(&path).await.unwrap();
    children.sort();
    assert_eq!(children, ["s-0000000001", "t"]);

    let failed = client
        .transaction()
        .set_data(&path, b"never", Version::Any)
        .check(&path, Version::Exactly(7))
        .commit()
        .await;
    assert_eq!(failed.unwrap_err().code(), Some(ErrorCode::BadVersion));
    assert_eq!(client.get(&path).await.unwrap().0, b"new".as_ref());
    assert!(client.transaction().commit().await.unwrap().1.is_empty());
}

pub(crate) async fn a_session_lists_its_ephemerals_and_counts_descendants(scene: &Scene) {
    let (client, path) = (scene.client().await, scene.path());
    client.create(&path, b"", CreateMode::Persistent).await.unwrap();
    for name in ["a", "b"] {
        client.create(&format!("{path}/{name}"), b"", CreateMode::Ephemeral).await.unwrap();
    }
    let (one, two) = (format!("{path}/a"), format!("{path}/b"));
    let mut all = client.ephemerals("/").await.unwrap();
    all.sort();
    assert_eq!(all, [one.clone(), two]);
    assert_eq!(client.ephemerals(&one).await.unwrap(), [one]);
    assert!(scene.client().await.ephemerals("/").await.unwrap().is_empty());
    assert_eq!(client.all_children_number(&path).await.unwrap(), 2);
    assert_eq!(
        client.all_children_number(&format!("{path}/none")).await.unwrap_err().code(),
        Some(ErrorCode::NoNode)
    );
}

pub(crate) async fn watches_are_checked_and_removed(scene: &Scene) {
    let (client, path) = (scene.client().await, scene.path());
    let mode = AddWatchMode::PersistentRecursive;
    let mut lasting = client.add_watch(&path, mode).await.unwrap();
    let (_, once) = client.exists_watched(&path).await.unwrap();
    for kind in [WatcherType::Data, WatcherType::PersistentRecursive, WatcherType::Any] {
        assert!(client.check_watches(&path, kind).await.unwrap(), "{kind:?}");
    }
    for kind in [WatcherType::Children, WatcherType::Persistent] {
        assert!(!client.check_watches(&path, kind).await.unwrap(), "{kind:?}");
        assert!(!client.remove_watches(&path, kind).await.unwrap(), "{kind:?}");
    }
    client.create(&path, b"", CreateMode::Persistent).await.unwrap();
    assert_eq!(lasting.changed().await.unwrap().event_type, EventType::NodeCreated);
    assert_eq!(once.changed().await.unwrap().event_type, EventType::NodeCreated);

    let (_, _, data) = client.get_watched(&path).await.unwrap();
    assert!(client.remove_watches(&path, WatcherType::Any).await.unwrap());
    assert!(!client.check_watches(&path, WatcherType::Any).await.unwrap());
    timeout(SOON, data.changed()).await.unwrap().unwrap_err();
    timeout(SOON, lasting.changed()).await.unwrap().unwrap_err();
}

pub(crate) async fn a_quota_is_set_used_and_taken_away(scene: &Scene) {
    let (client, path) = (scene.client().await, scene.path());
    client.create(&path, b"four", CreateMode::Persistent).await.unwrap();
    assert_eq!(client.quota(&path).await.unwrap(), None);
    assert!(!client.delete_quota(&path).await.unwrap());
    let soft = Quota { bytes: Some(1), ..Quota::default() };
    client.set_quota(&path, &soft).await.unwrap();
    let hard = Quota { count_hard: Some(2), bytes_hard: Some(8), ..soft };
    client.set_quota(&path, &hard).await.unwrap();
    client.create(&format!("{path}/x"), b"12", CreateMode::Persistent).await.unwrap();
    let (limits, used) = client.quota(&path).await.unwrap().unwrap();
    assert_eq!(limits, hard);
    assert_eq!((used.count, used.bytes), (Some(2), Some(6)));
    let third = client.create(&format!("{path}/y"), b"", CreateMode::Persistent).await;
    assert_eq!(third.unwrap_err().code(), Some(ErrorCode::QuotaExceeded));
    assert!(client.delete_quota(&path).await.unwrap());
    assert_eq!(client.exists(&format!("/zookeeper/quota{path}")).await.unwrap(), None);
    client.create(&format!("{path}/y"), b"", CreateMode::Persistent).await.unwrap();
    let root = client.set_quota("/", &soft).await.unwrap_err();
    assert_eq!(root.code(), Some(ErrorCode::BadArguments));
}

pub(crate) async fn the_ensemble_is_read_and_changed(scene: &Scene) {
    let client = scene.client().await;
    let (text, stat, watch) = client.config_watched().await.unwrap();
    assert_eq!(client.config().await.unwrap(), (text.clone(), stat));
    let text = String::from_utf8(text.to_vec()).unwrap();
    assert_eq!(text.matches("server.").count(), 3, "{text}");
    let removal = ConfigChange::Some { joining: "", leaving: "9" };
    let denied = client.reconfig(removal, Version::Any).await.unwrap_err();
    assert_eq!(denied.code(), Some(ErrorCode::NoAuth));
    client.add_auth("digest", b"super:test").await.unwrap();
    let stale = client.reconfig(removal, Version::Exactly(77)).await.unwrap_err();
    assert_eq!(stale.code(), Some(ErrorCode::BadVersion));
    // The same servers again are a new version.
    let servers: Vec<&str> = text.lines().filter(|line| line.starts_with("server.")).collect();
    let (changed, _) =
        client.reconfig(ConfigChange::All(&servers.join(",")), Version::Any).await.unwrap();
    assert_ne!(changed, text.as_bytes());
    let event = timeout(SOON, watch.changed()).await.unwrap().unwrap();
    assert_eq!((event.event_type, &*event.path), (EventType::NodeDataChanged, "/zookeeper/config"));
    soon("the new configuration", async || client.config().await.unwrap().0 == changed).await;
}
