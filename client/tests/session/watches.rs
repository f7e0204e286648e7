//! Watches as the server knows them: registered anew, removed, and below a chroot.

use futures_util::stream::FusedStream;
use futures_util::{FutureExt, StreamExt};
use zoolet_client::recipes::Cache;
use zoolet_client::{
    AddWatchMode, Client, CreateMode, ErrorCode, ErrorKind, EventType, OneshotWatcher,
    PersistentWatcher, Stat, Version, WatcherType,
};
use zoolet_jute::{Reply, Request, WatchesRequest, Xid};

use crate::script::{Connection, Servers, TIMEOUT};

async fn watch_data(client: &Client, connection: &mut Connection, path: &str) -> OneshotWatcher {
    let call = client.get_watched(path);
    let (xid, _) = connection.request().await;
    connection.answer(xid, Ok(Reply::Data(None, Stat::default()))).await;
    call.await.unwrap().2
}

async fn watch_all(client: &Client, connection: &mut Connection, path: &str) -> PersistentWatcher {
    let call = client.add_watch(path, AddWatchMode::PersistentRecursive);
    let (xid, _) = connection.request().await;
    connection.answer(xid, Ok(Reply::AddWatch(0))).await;
    call.await.unwrap()
}

fn removal(path: &str, kind: WatcherType) -> Request {
    Request::RemoveWatches(WatchesRequest { path: path.to_owned(), watcher_type: kind })
}

#[tokio::test(start_paused = true)]
async fn watches_are_registered_anew_in_frames_that_every_server_accepts() {
    let mut servers = Servers::new();
    let (client, mut connection) = servers.client().await;
    let auth = client.add_auth("digest", b"alice:secret");
    connection.request().await;
    connection.answer(Xid::AUTH, Ok(Reply::Empty)).await;
    auth.await.unwrap();
    let mut watchers = Vec::new();
    for number in 0..3000 {
        let path = format!("/{}{number}", "x".repeat(600));
        watchers.push(watch_data(&client, &mut connection, &path).await);
    }
    let mut lasting = Vec::new();
    for number in 0..300 {
        let path = format!("/{}{number}", "y".repeat(600));
        lasting.push(watch_all(&client, &mut connection, &path).await);
    }
    drop(connection);

    let mut connection = servers.serve().await;
    assert!(matches!(connection.request().await.1, Request::Auth(_)), "identities come first");
    let call = client.delete("/a", Version::Any);
    let (mut once, mut always, mut frames) = (0, 0, 0);
    loop {
        let (xid, request) = connection.request().await;
        let mut bytes = bytes::BytesMut::new();
        request.encode_with(xid, &mut bytes);
        assert!(bytes.len() < 256 * 1024, "{} bytes", bytes.len());
        match request {
            Request::SetWatches(body) => once += body.data_watches.len(),
            Request::SetWatches2(body) => always += body.persistent_recursive_watches.len(),
            Request::Delete(_) => break,
            other => panic!("{other:?}"),
        }
        frames += 1;
        assert_eq!(xid, Xid::SET_WATCHES);
        connection.answer(xid, Ok(Reply::Empty)).await;
    }
    assert_eq!((once, always), (3000, 300));
    assert!(frames >= 16, "{frames} frames");
    drop(call);
}

#[tokio::test(start_paused = true)]
async fn watches_that_a_server_does_not_take_over_end_and_the_others_go_on() {
    let mut servers = Servers::new();
    let (client, mut connection) = servers.client().await;
    let once = watch_data(&client, &mut connection, "/a").await;
    let mut always = watch_all(&client, &mut connection, "/a").await;
    drop(connection);
    let mut connection = servers.serve().await;
    for answer in [Ok(Reply::Empty), Err(ErrorCode::Unimplemented)] {
        let (xid, _) = connection.request().await;
        connection.answer(xid, answer).await;
    }
    let ended = always.changed().await.unwrap_err();
    assert_eq!(ended.kind(), &ErrorKind::WatchEnded);
    assert!(!ended.ends_session());
    connection.event(EventType::NodeDataChanged, "/a").await;
    assert_eq!(once.changed().await.unwrap().event_type, EventType::NodeDataChanged);
}

#[tokio::test(start_paused = true)]
async fn a_watch_whose_last_watcher_is_dropped_is_removed_from_the_server() {
    let mut servers = Servers::new();
    let (client, mut connection) = servers.client().await;
    let one = watch_data(&client, &mut connection, "/a").await;
    let other = watch_data(&client, &mut connection, "/a").await;
    let always = watch_all(&client, &mut connection, "/b").await;
    drop(one);
    assert!(connection.silent_for(TIMEOUT / 4).await, "the other one waits");
    drop(other);
    let (xid, request) = connection.request().await;
    assert_eq!(request, removal("/a", WatcherType::Data));
    connection.answer(xid, Ok(Reply::Empty)).await;
    drop(always);
    let (_, request) = connection.request().await;
    assert_eq!(request, removal("/b", WatcherType::PersistentRecursive));
}

#[tokio::test(start_paused = true)]
async fn a_watched_read_that_is_dropped_leaves_no_watch() {
    let mut servers = Servers::new();
    let (client, mut connection) = servers.client().await;
    // Before the answer has come, and before it was read.
    for answer_first in [false, true] {
        let call = client.children_watched("/a");
        let (xid, _) = connection.request().await;
        let answer = Ok(Reply::ChildrenStat(Vec::new(), Stat::default()));
        if answer_first {
            connection.answer(xid, answer).await;
            assert!(connection.silent_for(TIMEOUT / 10).await);
            drop(call);
        } else {
            drop(call);
            connection.answer(xid, answer).await;
        }
        let (xid, request) = connection.request().await;
        assert_eq!(request, removal("/a", WatcherType::Children));
        connection.answer(xid, Ok(Reply::Empty)).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_watcher_that_is_dropped_while_disconnected_is_not_registered_anew() {
    let mut servers = Servers::new();
    let (client, mut connection) = servers.client().await;
    let stays = watch_data(&client, &mut connection, "/stays").await;
    let goes = watch_data(&client, &mut connection, "/goes").await;
    drop(connection);
    let mut connection = servers.accept().await;
    drop(goes);
    connection.hello().await;
    connection.grant().await;
    let (xid, request) = connection.request().await;
    let Request::SetWatches(body) = request else { panic!("{request:?}") };
    assert_eq!(body.data_watches, ["/stays"]);
    connection.answer(xid, Ok(Reply::Empty)).await;
    assert!(connection.silent_for(TIMEOUT / 4).await);
    drop(stays);
}

#[tokio::test(start_paused = true)]
async fn below_a_chroot_paths_go_in_and_come_out_as_the_client_calls_them() {
    let mut servers = Servers::new();
    let options = servers.options();
    let (client, mut connection) = servers.start_on("one:1/app", options).await;
    assert_eq!(client.chroot(), "/app");
    let create = client.create("/a-", b"", CreateMode::PersistentSequential);
    let (xid, request) = connection.request().await;
    assert!(matches!(&request, Request::Create2(body) if body.path == "/app/a-"), "{request:?}");
    let created = Reply::PathStat("/app/a-0000000000".into(), Stat::default());
    connection.answer(xid, Ok(created)).await;
    assert_eq!(create.await.unwrap().0, "/a-0000000000");

    let root = watch_data(&client, &mut connection, "/").await;
    let inner = client.chrooted("/inner").unwrap();
    assert_eq!(inner.chroot(), "/app/inner");
    let mut always = watch_all(&inner, &mut connection, "/").await;
    let mut beside = watch_all(&client, &mut connection, "/inner").await;
    connection.event(EventType::NodeDataChanged, "/app").await;
    connection.event(EventType::NodeCreated, "/app/inner/x").await;
    connection.event(EventType::NodeDeleted, "/app/inner").await;
    assert_eq!(root.changed().await.unwrap().path, "/");
    assert_eq!(always.changed().await.unwrap().path, "/x");
    assert_eq!(always.changed().await.unwrap().path, "/");
    assert_eq!(beside.changed().await.unwrap().path, "/inner/x");

    let ephemerals = client.ephemerals("/");
    let (xid, _) = connection.request().await;
    let paths = ["/app/e", "/apple"].map(str::to_owned).to_vec();
    connection.answer(xid, Ok(Reply::Children(paths))).await;
    assert_eq!(ephemerals.await.unwrap(), ["/e"]);

    let config = client.config_watched();
    let (xid, request) = connection.request().await;
    assert!(matches!(&request, Request::GetData(body) if body.path == "/zookeeper/config"));
    connection.answer(xid, Ok(Reply::Data(None, Stat::default()))).await;
    let (_, _, watch) = config.await.unwrap();
    connection.event(EventType::NodeDataChanged, "/zookeeper/config").await;
    assert_eq!(watch.changed().await.unwrap().path, "/zookeeper/config");
    assert!(client.chrooted("inner").is_err());
}

#[tokio::test(start_paused = true)]
async fn a_slow_watcher_ends_with_its_watch_and_delays_no_other() {
    let mut servers = Servers::new();
    let (client, mut connection) = servers.client().await;
    let mut slow = watch_all(&client, &mut connection, "/a").await;
    for _ in 0..=16 * 1024 {
        connection.event(EventType::NodeDataChanged, "/a").await;
    }
    let (xid, request) = connection.request().await;
    assert_eq!(request, removal("/a", WatcherType::PersistentRecursive));
    connection.answer(xid, Ok(Reply::Empty)).await;
    let call = client.delete("/a", Version::Any);
    let (xid, _) = connection.request().await;
    connection.answer(xid, Ok(Reply::Empty)).await;
    call.await.unwrap();
    for _ in 0..16 * 1024 {
        slow.changed().await.unwrap();
    }
    assert_eq!(slow.changed().await.unwrap_err().kind(), &ErrorKind::WatchEnded);
    drop(slow);
    assert!(connection.silent_for(TIMEOUT / 4).await, "it is removed once");
}

/// The mirror of one znode: it reads the znode and its children.
async fn mirrored(connection: &mut Connection, data: &'static [u8]) {
    for _ in 0..2 {
        let (xid, request) = connection.request().await;
        let answer = match request {
            Request::GetData(_) => Reply::Data(Some(data.into()), Stat::default()),
            Request::GetChildren2(_) => Reply::ChildrenStat(Vec::new(), Stat::default()),
            other => panic!("{other:?}"),
        };
        connection.answer(xid, Ok(answer)).await;
    }
}

async fn cached(client: &Client, connection: &mut Connection) -> Cache {
    let cache = Cache::start(client, "/a");
    let (xid, _) = connection.request().await;
    connection.answer(xid, Ok(Reply::AddWatch(0))).await;
    mirrored(connection, b"before").await;
    cache.ready().await.unwrap();
    cache
}

#[tokio::test(start_paused = true)]
async fn a_cache_whose_watch_has_ended_watches_and_reads_anew() {
    let mut servers = Servers::new();
    let (client, mut connection) = servers.client().await;
    let cache = cached(&client, &mut connection).await;
    // It takes one event, reads, and is not answered while the others come.
    connection.event(EventType::NodeDataChanged, "/a").await;
    let (read, request) = connection.request().await;
    assert!(matches!(request, Request::GetData(_)), "{request:?}");
    for _ in 0..=16 * 1024 {
        connection.event(EventType::NodeDataChanged, "/a").await;
    }
    let (xid, request) = connection.request().await;
    assert_eq!(request, removal("/a", WatcherType::PersistentRecursive));
    connection.answer(read, Err(ErrorCode::NoNode)).await;
    connection.answer(xid, Ok(Reply::Empty)).await;
    // It reads once for each of the events that were kept, and then anew.
    loop {
        let (xid, request) = connection.request().await;
        match request {
            Request::GetData(_) => connection.answer(xid, Err(ErrorCode::NoNode)).await,
            Request::AddWatch(body) => {
                assert_eq!(body.path, "/a");
                connection.answer(xid, Ok(Reply::AddWatch(0))).await;
                break;
            }
            other => panic!("{other:?}"),
        }
    }
    assert!(!cache.is_ready());
    mirrored(&mut connection, b"after").await;
    cache.ready().await.unwrap();
    assert_eq!(cache.get("/a").unwrap().data, b"after".as_ref());
}

/// A znode that went and came again: the connection reported the first, and was gone before the
/// second.
#[tokio::test(start_paused = true)]
async fn events_of_a_lost_connection_do_not_undo_what_a_cache_reads_on_the_next_one() {
    let mut servers = Servers::new();
    let (client, mut connection) = servers.client().await;
    let cache = cached(&client, &mut connection).await;
    // It reads because of one event, and is not answered while the other one comes.
    connection.event(EventType::NodeDataChanged, "/a").await;
    let (_, request) = connection.request().await;
    assert!(matches!(request, Request::GetData(_)), "{request:?}");
    connection.event(EventType::NodeDeleted, "/a").await;
    assert!(connection.silent_for(TIMEOUT / 10).await);
    drop(connection);
    let mut connection = servers.serve().await;
    let (xid, request) = connection.request().await;
    assert!(matches!(request, Request::SetWatches2(_)), "{request:?}");
    connection.answer(xid, Ok(Reply::Empty)).await;
    let (xid, request) = connection.request().await;
    assert!(matches!(request, Request::GetData(_)), "{request:?}");
    connection.answer(xid, Ok(Reply::Data(None, Stat::default()))).await;
    mirrored(&mut connection, b"after").await;
    cache.ready().await.unwrap();
    assert!(connection.silent_for(TIMEOUT / 10).await);
    assert_eq!(cache.get("/a").map(|node| node.data), Some(b"after".as_ref().into()));
}

#[tokio::test(start_paused = true)]
async fn watchers_are_a_future_and_a_stream() {
    let mut servers = Servers::new();
    let (client, mut connection) = servers.client().await;
    let mut once = watch_data(&client, &mut connection, "/a").await;
    let mut always = watch_all(&client, &mut connection, "/b").await;
    assert!((&mut once).now_or_never().is_none() && always.next().now_or_never().is_none());
    for path in ["/a", "/b", "/b/c"] {
        connection.event(EventType::NodeDataChanged, path).await;
    }
    assert_eq!((&mut once).await.unwrap().path, "/a");
    assert!((&mut once).now_or_never().is_none(), "it fires once");
    for path in ["/b", "/b/c"] {
        assert_eq!(always.next().await.unwrap().unwrap().path, path);
    }
    let closed = client.close();
    let (xid, _) = connection.request().await;
    connection.answer(xid, Ok(Reply::Empty)).await;
    closed.await.unwrap();
    assert!(!always.is_terminated());
    let last = always.next().await.unwrap().unwrap_err();
    assert!(last.ends_session(), "{last}");
    assert!(always.next().await.is_none() && always.is_terminated());
}
