//! What the recorder of zoolet's own client notes.

use std::sync::Arc;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, DuplexStream, duplex};
use tokio::time::timeout;
use zoolet_client::{Connecting, Connector, Transport};
use zoolet_jute::{
    ConnectRequest, ConnectResponse, Encode as _, ErrorCode, EventType, KeeperState, Reply,
    ReplyHeader, Request, SessionId, WatcherEvent, Xid, Zxid, frame,
};
use zoolet_replica::ServerId;

use crate::history::{CallNumber, ClientNumber, Connection, Recorder, What};
use crate::load::ClientMachine;
use crate::load::recorded::Recorded;

/// Connects to the other end of a pipe, which takes a few bytes at a time.
#[derive(Debug)]
struct Narrow(std::sync::Mutex<Option<DuplexStream>>);

impl Connector for Narrow {
    fn connect<'a>(&'a self, _: &'a str) -> Connecting<'a> {
        Box::pin(async move {
            let stream = self.0.lock().unwrap().take().unwrap();
            Ok(Box::new(stream) as Box<dyn Transport>)
        })
    }
}

async fn connect(recorder: &Recorder) -> (Box<dyn Transport>, DuplexStream) {
    let (here, there) = duplex(5);
    let machine = ClientMachine {
        client: ClientNumber(3),
        connector: Arc::new(Narrow(std::sync::Mutex::new(Some(here)))),
        servers: vec![(ServerId(1), "one:1".to_owned()), (ServerId(2), "two:1".to_owned())],
        recorder: recorder.clone(),
        seed: 1,
    };
    (Recorded::of(&machine).connect("two:1").await.unwrap(), there)
}

fn frames(parts: &[&dyn Fn(&mut BytesMut)]) -> Bytes {
    let mut out = BytesMut::new();
    for part in parts {
        frame::put(&mut out, |out| part(out));
    }
    out.freeze()
}

fn handshake(out: &mut BytesMut) {
    let request = ConnectRequest {
        protocol_version: 0,
        last_zxid_seen: Zxid(4),
        timeout_ms: 3000,
        session_id: SessionId(7),
        password: Some(Bytes::from_static(&[0; 16])),
        read_only: Some(false),
    };
    request.encode(out);
}

fn greeting(out: &mut BytesMut) {
    let response = ConnectResponse {
        protocol_version: 0,
        timeout_ms: 3000,
        session_id: SessionId(7),
        password: None,
        read_only: Some(false),
    };
    response.encode(out);
}

async fn pass(from: &mut (impl tokio::io::AsyncWrite + Unpin), to: &mut DuplexStream, all: &[u8]) {
    let mut arrived = vec![0; all.len()];
    let (sent, received) = tokio::join!(from.write_all(all), to.read_exact(&mut arrived));
    sent.unwrap();
    received.unwrap();
    assert_eq!(arrived, all);
}

#[tokio::test]
async fn frames_are_noted_once_in_whatever_pieces_they_pass() {
    let recorder = Recorder::default();
    let (mut client, mut server) = connect(&recorder).await;
    let request = Request::WhoAmI;
    let asked = frames(&[&handshake, &|out| request.encode_with(Xid(1), out), &|out| {
        Request::Ping.encode_with(Xid::PING, out);
    }]);
    pass(&mut client, &mut server, &asked).await;
    let event = WatcherEvent {
        event_type: EventType::NodeDeleted,
        state: KeeperState::SyncConnected,
        path: "/a".to_owned(),
    };
    let header = |xid, zxid, err| ReplyHeader { xid, zxid, err };
    let answered = frames(&[
        &greeting,
        &|out| {
            Reply::Event(event.clone()).encode_with(header(Xid::NOTIFICATION, Zxid(5), None), out);
        },
        &|out| Reply::Empty.encode_with(header(Xid(1), Zxid(6), Some(ErrorCode::NoAuth)), out),
        &|out| Reply::Empty.encode_with(header(Xid::PING, Zxid(6), None), out),
    ]);
    let mut got = vec![0; answered.len()];
    let (sent, received) = tokio::join!(server.write_all(&answered), client.read_exact(&mut got));
    sent.unwrap();
    received.unwrap();
    assert_eq!(got, answered);
    drop(client);
    let (connection, asked) = (Connection(0), SessionId(7));
    let call =
        |number, xid, request| What::Called { call: CallNumber(number), connection, xid, request };
    let returned =
        |number, result| What::Returned { call: CallNumber(number), zxid: Zxid(6), result };
    let expected = [
        call(0, Xid(1), Request::WhoAmI),
        call(1, Xid::PING, Request::Ping),
        What::Connected {
            client: ClientNumber(3),
            connection,
            server: ServerId(2),
            asked,
            session: SessionId(7),
            timeout_ms: 3000,
            last_seen: Zxid(4),
        },
        What::Notified { connection, zxid: Zxid(5), event },
        returned(0, Err(ErrorCode::NoAuth)),
        returned(1, Ok(Reply::Empty)),
        What::Disconnected { connection },
    ];
    let noted: Vec<What> = recorder.take().records.into_iter().map(|record| record.what).collect();
    assert_eq!(noted, expected);
}

/// It may have effects at once, which others see.
#[tokio::test]
async fn a_request_is_noted_before_it_is_on_its_way() {
    let recorder = Recorder::default();
    let (mut client, mut server) = connect(&recorder).await;
    pass(&mut client, &mut server, &frames(&[&handshake])).await;
    let asked = frames(&[&|out| Request::CloseSession.encode_with(Xid(1), out)]);
    let sending = client.write_all(&asked);
    assert!(timeout(Duration::from_millis(1), sending).await.is_err(), "the pipe is full");
    let noted = recorder.history().records;
    assert!(matches!(noted[..], [crate::history::Record { what: What::Called { .. }, .. }]));
}

#[tokio::test]
async fn what_the_protocol_rules_out_is_a_complaint() {
    for wrong in [
        frames(&[&greeting, &|out| out.extend_from_slice(&[0; 3])]),
        frames(&[&|out| out.extend_from_slice(&[0; 3])]),
        Bytes::from_static(&[255; 4]),
    ] {
        let recorder = Recorder::default();
        let (mut client, mut server) = connect(&recorder).await;
        pass(&mut client, &mut server, &frames(&[&handshake])).await;
        let mut got = vec![0; wrong.len()];
        let (sent, received) = tokio::join!(server.write_all(&wrong), client.read_exact(&mut got));
        sent.unwrap();
        received.unwrap();
        let complains = |what: &What| matches!(what, What::Complained { .. });
        let noted = recorder.take().records;
        assert_eq!(noted.iter().filter(|record| complains(&record.what)).count(), 1, "{noted:?}");
    }
}
