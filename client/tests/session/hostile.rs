//! Servers that break the protocol: the connection ends, the session does not.

use std::time::Duration;

use bytes::BytesMut;
use zoolet_client::{ErrorCode, ErrorKind, SessionState, Version};
use zoolet_jute::{Reply, ReplyHeader, Xid, Zxid, frame};

use crate::script::{SESSION, Servers};

/// A frame of any bytes.
fn framed(payload: &[u8]) -> Vec<u8> {
    let mut out = BytesMut::new();
    frame::put(&mut out, |out| out.extend_from_slice(payload));
    out.to_vec()
}

/// A frame with a reply's header, and any bytes behind it.
fn headed(xid: Xid, body: &[u8]) -> Vec<u8> {
    let mut out = BytesMut::new();
    frame::put(&mut out, |out| {
        Reply::Empty.encode_with(ReplyHeader { xid, zxid: Zxid(1), err: None }, out);
        out.extend_from_slice(body);
    });
    out.to_vec()
}

#[tokio::test(start_paused = true)]
async fn a_server_that_talks_nonsense_is_left_and_the_session_goes_on() {
    let nonsense: [(&str, Vec<u8>); 9] = [
        ("a negative length", (-2i32).to_be_bytes().to_vec()),
        ("an oversized frame", (64 * 1024 * 1024 + 1i32).to_be_bytes().to_vec()),
        ("the longest frame", i32::MAX.to_be_bytes().to_vec()),
        ("an empty frame", framed(b"")),
        ("half a header", framed(&[0; 15])),
        ("a reply out of order", headed(Xid(2), b"")),
        ("an event that is none", headed(Xid::NOTIFICATION, &[0xff; 12])),
        ("a pong without a ping", headed(Xid::PING, b"")),
        ("credentials that were not sent", headed(Xid::AUTH, b"")),
    ];
    for (what, bytes) in nonsense {
        let mut servers = Servers::new();
        let (client, mut connection) = servers.client().await;
        let call = client.exists("/a");
        connection.request().await;
        connection.send(&bytes).await;
        let error = call.await.unwrap_err();
        assert_eq!(error.kind(), &ErrorKind::ConnectionLoss, "{what}");
        connection.until_hung_up().await;

        let again = client.delete("/a", Version::Any);
        let mut connection = servers.accept().await;
        assert_eq!(connection.hello().await.session_id, SESSION, "{what}");
        connection.grant().await;
        let (xid, _) = connection.request().await;
        connection.answer(xid, Ok(Reply::Empty)).await;
        again.await.unwrap();
        assert_eq!(*client.state().borrow(), SessionState::Connected, "{what}");
    }
}

#[tokio::test(start_paused = true)]
async fn an_answer_that_cannot_be_read_fails_its_call_alone() {
    let mut servers = Servers::new();
    let (client, mut connection) = servers.client().await;
    let (garbled, fine) = (client.get("/a"), client.delete("/b", Version::Any));
    let (first, _) = connection.request().await;
    let (second, _) = connection.request().await;
    connection.send(&headed(first, &[0x7f; 9])).await;
    connection.answer(second, Ok(Reply::Empty)).await;
    let error = garbled.await.unwrap_err();
    assert!(matches!(error.kind(), ErrorKind::Protocol(_)), "{error}");
    assert!(error.may_have_happened() && !error.ends_session());
    fine.await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_handshake_that_goes_wrong_is_tried_elsewhere() {
    let mut servers = Servers::new();
    let options = servers.options();
    let answers: [&[u8]; 3] = [b"", &(-1i32).to_be_bytes(), &framed(&[1; 7])];
    let script = async {
        let mut addresses = Vec::new();
        for answer in answers {
            let mut connection = servers.accept().await;
            connection.hello().await;
            connection.send(answer).await;
            addresses.push(connection.address);
        }
        addresses.sort();
        addresses.dedup();
        assert_eq!(addresses.len(), 3, "each server once");
        servers.serve().await
    };
    let (client, _connection) = tokio::join!(options.connect(crate::script::SERVERS), script);
    assert_eq!(client.unwrap().session().id, SESSION);
}

#[tokio::test(start_paused = true)]
async fn a_server_that_accepts_and_is_silent_delays_no_other() {
    let mut servers = Servers::new();
    let began_at = tokio::time::Instant::now();
    let options = servers.options();
    let script = async {
        let silent = servers.accept().await;
        let next = servers.serve().await;
        (silent, next)
    };
    let (client, (_silent, _next)) = tokio::join!(options.connect(crate::script::SERVERS), script);
    drop(client.unwrap());
    let limit = Duration::from_secs(6) / 3;
    let took = began_at.elapsed();
    assert!(took >= limit && took < limit + Duration::from_millis(10), "{took:?}");
}

#[tokio::test(start_paused = true)]
async fn a_session_that_another_client_has_taken_is_taken_back() {
    let mut servers = Servers::new();
    let (client, mut connection) = servers.client().await;
    let call = client.delete("/a", Version::Any);
    let (xid, _) = connection.request().await;
    connection.answer(xid, Err(ErrorCode::SessionMoved)).await;
    let error = call.await.unwrap_err();
    assert_eq!(error.code(), Some(ErrorCode::SessionMoved));
    assert!(!error.may_have_happened() && !error.ends_session());
    connection.until_hung_up().await;
    assert_eq!(servers.accept().await.hello().await.session_id, SESSION);
}
