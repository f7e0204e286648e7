//! The order of calls, their withdrawal, and what becomes of those that are under way.

use std::sync::atomic::Ordering;
use std::time::Duration;

use tokio::time::timeout;
use zoolet_client::{CreateMode, ErrorCode, ErrorKind, Stat, Version, Zxid};
use zoolet_jute::{Reply, Request, Xid};

use crate::script::{SESSION, Servers, TIMEOUT};

fn deleted(request: &Request) -> &str {
    let Request::Delete(body) = request else { panic!("{request:?}") };
    &body.path
}

#[tokio::test(start_paused = true)]
async fn calls_keep_the_order_in_which_they_were_made_and_not_awaited() {
    let mut servers = Servers::new();
    let (client, mut connection) = servers.client().await;
    let other = client.clone();
    let first = client.delete("/1", Version::Any);
    let second = other.delete("/2", Version::Any);
    let third = client.transaction().delete("/3", Version::Any).commit();
    let fourth = client.add_watch("/4", zoolet_client::AddWatchMode::Persistent);
    let script = async {
        for path in ["/1", "/2"] {
            let (xid, request) = connection.request().await;
            assert_eq!(deleted(&request), path);
            connection.answer(xid, Ok(Reply::Empty)).await;
        }
        let (xid, request) = connection.request().await;
        assert!(matches!(request, Request::Multi(_)), "{request:?}");
        connection.answer(xid, Err(ErrorCode::MarshallingError)).await;
        let (xid, request) = connection.request().await;
        assert!(matches!(request, Request::AddWatch(_)), "{request:?}");
        connection.answer(xid, Ok(Reply::AddWatch(0))).await;
    };
    let awaited = async {
        drop(fourth.await.unwrap());
        assert_eq!(third.await.unwrap_err().code(), Some(ErrorCode::MarshallingError));
        second.await.unwrap();
        first.await.unwrap();
    };
    tokio::join!(script, awaited);
}

#[tokio::test(start_paused = true)]
async fn a_lost_reply_is_reported_and_the_next_call_finds_another_server() {
    let mut servers = Servers::new();
    let (client, mut connection) = servers.client().await;
    let create = client.create("/a", b"", CreateMode::Ephemeral);
    connection.request().await;
    let first = connection.address.clone();
    drop(connection);
    let error = create.await.unwrap_err();
    assert_eq!(error.kind(), &ErrorKind::ConnectionLoss);
    assert!(error.may_have_happened() && !error.ends_session());

    let exists = client.exists("/a");
    let mut connection = servers.accept().await;
    assert_ne!(connection.address, first);
    let hello = connection.hello().await;
    assert_eq!((hello.session_id, hello.password.unwrap().len()), (SESSION, 16));
    connection.grant().await;
    let (xid, _) = connection.request().await;
    connection.answer(xid, Err(ErrorCode::NoNode)).await;
    assert_eq!(exists.await.unwrap(), None);
}

#[tokio::test(start_paused = true)]
async fn a_call_that_is_given_up_before_it_was_sent_is_not_carried_out() {
    let mut servers = Servers::new();
    let (client, connection) = servers.client().await;
    servers.vanish(&client, connection).await;
    let impatient = timeout(TIMEOUT / 10, client.delete("/never", Version::Any)).await;
    assert!(impatient.is_err(), "no server has answered");
    let patient = client.delete("/later", Version::Any);
    servers.network.down.store(false, Ordering::Relaxed);
    let mut connection = servers.serve().await;
    let (xid, request) = connection.request().await;
    assert_eq!(deleted(&request), "/later");
    connection.answer(xid, Ok(Reply::Empty)).await;
    patient.await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_client_without_replies_sends_a_limited_number_of_requests() {
    let mut servers = Servers::new();
    let (client, mut connection) = servers.client().await;
    let calls: Vec<_> = (0..5000).map(|_| client.exists("/a")).collect();
    let mut sent = 0;
    while let Ok(Some(_)) = timeout(Duration::from_millis(10), connection.any_request()).await {
        sent += 1;
    }
    assert_eq!(sent, 4096);
    let script = async {
        for xid in 1..=5000 {
            connection.answer(Xid(xid), Ok(Reply::Stat(Stat::default()))).await;
        }
    };
    let awaited = async {
        for call in calls {
            assert_eq!(call.await.unwrap(), Some(Stat::default()));
        }
    };
    tokio::join!(script, awaited);
}

#[tokio::test(start_paused = true)]
async fn a_client_resumes_with_the_newest_zxid_that_it_saw() {
    let mut servers = Servers::new();
    let (client, mut connection) = servers.client().await;
    for zxid in [Zxid(5), Zxid(3), Zxid(-1)] {
        let call = client.delete("/a", Version::Any);
        let (xid, _) = connection.request().await;
        connection.answer_at(xid, zxid, Ok(Reply::Empty)).await;
        call.await.unwrap();
    }
    drop(connection);
    assert_eq!(servers.accept().await.hello().await.last_zxid_seen, Zxid(5));
}

#[tokio::test(start_paused = true)]
async fn the_failed_part_of_a_transaction_is_named() {
    let mut servers = Servers::new();
    let (client, mut connection) = servers.client().await;
    let commit = client
        .transaction()
        .delete("/a", Version::Any)
        .check("/b", Version::Exactly(7))
        .delete("/c", Version::Any)
        .commit();
    let (xid, _) = connection.request().await;
    let results = [None, Some(ErrorCode::BadVersion), Some(ErrorCode::RuntimeInconsistency)];
    let results = results.map(zoolet_jute::MultiResult::Error).to_vec();
    connection.answer(xid, Ok(Reply::Multi(zoolet_jute::Parts(results)))).await;
    let error = commit.await.unwrap_err();
    assert_eq!((error.code(), error.part()), (Some(ErrorCode::BadVersion), Some(1)));
    assert!(!error.may_have_happened());
}

/// On the wire, −1 is any version: a write that was to expect it would overwrite what it finds.
#[tokio::test(start_paused = true)]
async fn a_version_that_means_any_on_the_wire_is_not_sent() {
    let mut servers = Servers::new();
    let (client, mut connection) = servers.client().await;
    let write = client.set_data("/a", b"", Version::Exactly(-1)).await.unwrap_err();
    assert!(matches!(write.kind(), ErrorKind::Protocol(_)) && !write.may_have_happened());
    let multi = client.transaction().delete("/a", Version::Any).check("/b", Version::Exactly(-1));
    let multi = multi.delete("/c", Version::Any).commit().await.unwrap_err();
    assert!(matches!(multi.kind(), ErrorKind::Protocol(_)) && !multi.may_have_happened());
    assert_eq!(multi.part(), Some(1));
    // The next request of the session is the first one that servers get.
    let _next = client.exists("/next");
    let (_, request) = connection.request().await;
    assert!(matches!(request, Request::Exists(_)), "{request:?}");
}

#[tokio::test(start_paused = true)]
async fn the_client_s_own_requests_are_not_asked_by_hand() {
    let mut servers = Servers::new();
    let (client, mut connection) = servers.client().await;
    let error = client.call(Request::Ping).await.unwrap_err();
    assert!(matches!(error.kind(), ErrorKind::Protocol(_)) && !error.may_have_happened());
    assert!(connection.silent_for(TIMEOUT / 4).await);
}
