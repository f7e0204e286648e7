//! Requests and replies that are too long.

use std::fmt::Debug;
use std::time::Duration;

use tokio::time::timeout;
use zoolet_client::recipes::{LockOptions, Mutex};
use zoolet_client::{
    Acl, AddWatchMode, CreateMode, Error, ErrorCode, ErrorKind, Id, Stat, Version, perms,
};
use zoolet_jute::{Reply, Request};

use crate::script::{Connection, Servers, TIMEOUT};

const MIB: usize = 1 << 20;

async fn refused<T: Debug>(call: impl Future<Output = Result<T, Error>>) -> (usize, usize) {
    let answer = timeout(Duration::from_secs(1), call).await.expect("it goes on");
    let error = answer.unwrap_err();
    assert!(!error.may_have_happened() && !error.ends_session(), "{error}");
    let ErrorKind::RequestTooLong { bytes, bytes_max } = *error.kind() else { panic!("{error}") };
    assert!(bytes > bytes_max, "{error}");
    (bytes, bytes_max)
}

/// 2 MiB of data were sent, the server closed the connection, and so again and again: for every
/// call of the session.
#[tokio::test(start_paused = true)]
async fn a_request_that_no_server_takes_is_refused_and_not_sent() {
    let mut servers = Servers::new();
    let (client, mut connection) = servers.client().await;
    let data = vec![7; 2 * MIB];
    let path = format!("/{}", "x".repeat(2 * MIB));
    let acl = vec![Acl { perms: perms::ALL, id: Id::new("digest", &path) }];
    let mode = CreateMode::Ephemeral;
    assert_eq!(refused(client.create("/a", &data, mode)).await.1, MIB - 1);
    refused(client.create(&path, b"", mode)).await;
    refused(client.create_with_acl("/a", b"", acl.clone(), mode)).await;
    refused(client.set_data("/a", &data, Version::Any)).await;
    refused(client.set_acl("/a", acl, Version::Any)).await;
    refused(client.get(&path)).await;
    refused(client.exists(&path)).await;
    refused(client.sync(&path)).await;
    refused(client.add_watch(&path, AddWatchMode::Persistent)).await;
    refused(client.get_watched(&path)).await;
    refused(client.add_auth("digest", &data)).await;
    let third = vec![7; 400 * 1024];
    let multi = client.transaction().set_data("/a", &third, Version::Any).set_data(
        "/b",
        &third,
        Version::Any,
    );
    refused(multi.set_data("/c", &third, Version::Any).commit()).await;
    let mut reads = client.reads();
    for _ in 0..20_000 {
        reads = reads.get(&"/a/long/path".repeat(8));
    }
    refused(reads.ask()).await;
    let chrooted = client.chrooted(&path).unwrap();
    refused(chrooted.exists("/a")).await;
    refused(client.call(Request::Sasl(Some(data.clone().into())))).await;

    assert!(connection.silent_for(TIMEOUT / 4).await, "none of them was sent");

    let mutex = Mutex::with_options(&client, "/locks/a", LockOptions::new().data(data.clone()));
    let script = async {
        // The list that goes with the create.
        let (xid, request) = connection.request().await;
        assert!(matches!(request, Request::GetChildren2(_)), "{request:?}");
        connection.answer(xid, Err(ErrorCode::NoNode)).await;
    };
    tokio::join!(refused(mutex.acquire()), script);
    let more = timeout(TIMEOUT / 20, connection.any_request()).await;
    assert!(more.is_err(), "nothing is tried again or cleaned up: {more:?}");
    let exists = client.exists("/a");
    let (xid, _) = connection.request().await;
    connection.answer(xid, Ok(Reply::Stat(Stat::default()))).await;
    assert_eq!(exists.await.unwrap(), Some(Stat::default()));
}

/// A server with another `jute.maxbuffer`.
#[tokio::test(start_paused = true)]
async fn the_limit_of_requests_is_what_the_servers_have() {
    let mut servers = Servers::new();
    let options = servers.options().request_bytes_max(4 * MIB);
    let (client, mut connection) = servers.start(options).await;
    let write = client.set_data("/a", &vec![7; 3 * MIB], Version::Any);
    let (xid, request) = connection.request().await;
    assert!(matches!(request, Request::SetData(_)));
    connection.answer(xid, Ok(Reply::Stat(Stat::default()))).await;
    write.await.unwrap();

    // The watches that are registered again after a reconnect keep to it as well.
    let limit = 10_000;
    let options = servers.options().request_bytes_max(limit);
    let (client, mut connection) = servers.start(options).await;
    refused(client.set_data("/a", &vec![7; limit], Version::Any)).await;
    let mut watches = Vec::new();
    let longest = limit - "header".len() - 50;
    for path in [9, 4_000, 6_000, longest].map(|bytes| format!("/{}", "w".repeat(bytes))) {
        let watch = client.add_watch(&path, AddWatchMode::Persistent);
        let (xid, _) = connection.request().await;
        connection.answer(xid, Ok(Reply::AddWatch(0))).await;
        watches.push(watch.await.unwrap());
    }
    let mut connection = servers.replace(&client, connection).await;
    let mut restored = 0;
    while restored < watches.len() {
        let (xid, request) = connection.request().await;
        let mut frame = bytes::BytesMut::new();
        request.encode_with(xid, &mut frame);
        assert!(frame.len() <= limit, "{}", frame.len());
        let Request::SetWatches2(body) = request else { panic!("{request:?}") };
        restored += body.persistent_watches.len();
        connection.answer(xid, Ok(Reply::Empty)).await;
    }
}

/// A list of children that is longer than the client takes ended the connection, was taken for a
/// lost reply, and was asked for again without end.
#[tokio::test(start_paused = true)]
async fn a_reply_that_is_too_long_fails_its_call_for_good() {
    let mut servers = Servers::new();
    let (client, mut connection) = servers.client().await;
    let (long, short) = (client.children("/a"), client.exists("/b"));
    let (xid, _) = connection.request().await;
    connection.request().await;
    let mut frame = Connection::frame_of(xid, &Reply::Empty);
    frame[..4].copy_from_slice(&i32::MAX.to_be_bytes());
    connection.send(&frame).await;
    let error = long.await.unwrap_err();
    assert!(matches!(error.kind(), ErrorKind::ReplyTooLong { .. }), "{error}");
    assert!(!error.ends_session());
    assert_eq!(short.await.unwrap_err().kind(), &ErrorKind::ConnectionLoss);
    servers.serve().await;
}
