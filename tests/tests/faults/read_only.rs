//! Read-only mode (protocol §7.9): one server of three, alone, serves reads to clients that asked
//! for it, and sends them away when it has a leader again. The same on Apache `ZooKeeper`.

use std::net::SocketAddr;
use std::time::Duration;

use bytes::Bytes;
use zoolet_jute::{
    Acl, ConnectRequest, CreateRequest, ErrorCode, NullablePathRequest, PathWatchRequest, Reply,
    Request, SessionId, Xid, Zxid,
};
use zoolet_tests::four_letter;
use zoolet_tests::raw::{self, Incoming, RawConnection};
use zoolet_tests::servers::{LEADER_MAX, Servers};
use zoolet_tests::tools;
use zoolet_tests::wait;

/// An election, the time that a server looks for a leader, and as much again for a busy machine.
const CHANGE_MAX: Duration = Duration::from_mins(1);

#[test]
fn zoolet_alone_serves_reads() {
    let mut servers =
        Servers::zoolet().servers(3).property("readonlymode.enabled", "true").start().unwrap();
    serves_reads_alone(&mut servers);
}

#[test]
fn apache_alone_serves_reads() {
    if !tools::require_foreign("read_only", &["java", "mvn"]).unwrap() {
        return;
    }
    // It has sessions for its read-only mode only where it has local ones.
    let mut servers = Servers::apache()
        .servers(3)
        .jvm_option("-Dreadonlymode.enabled=true")
        .property("localSessionsEnabled", "true")
        .start()
        .unwrap();
    serves_reads_alone(&mut servers);
}

#[test]
fn without_the_switch_a_server_alone_serves_no_clients() {
    let mut servers = Servers::zoolet().servers(3).start().unwrap();
    let survivor = lose_the_others(&mut servers);
    eventually("silence", || four_letter::ask(survivor, "isro").unwrap() == "null");
    assert!(RawConnection::handshake(survivor, &handshake(true)).is_err());
}

fn serves_reads_alone(servers: &mut Servers) {
    let first = servers.client_address(0).unwrap();
    let mut writer = RawConnection::handshake(first, &handshake(false)).unwrap();
    assert_eq!(writer.session.read_only, Some(false), "there is a leader");
    done(call(&mut writer, &create("/kept", 0)));
    let sync = Request::Sync(NullablePathRequest { path: Some("/".into()) });
    for index in 0..3 {
        let server = servers.client_address(index).unwrap();
        let mut elsewhere = RawConnection::handshake(server, &handshake(false)).unwrap();
        done(call(&mut elsewhere, &sync));
    }

    let survivor = lose_the_others(servers);
    eventually("read-only mode", || four_letter::ask(survivor, "isro").unwrap() == "ro");
    let text = four_letter::ask(survivor, "srvr").unwrap();
    assert!(text.contains("Mode: read-only\n"), "{text}");
    assert_eq!(text.lines().nth(1), Some("READ-ONLY mode; serving only read-only clients"));

    let refused = RawConnection::handshake(survivor, &handshake(false));
    assert!(refused.is_err(), "a client that may want to write is sent away: {refused:?}");
    let mut reader = RawConnection::handshake(survivor, &handshake(true)).unwrap();
    assert_eq!(reader.session.read_only, Some(true));
    assert_ne!(reader.session.session_id, SessionId::NONE);

    let look = PathWatchRequest { path: "/kept".into(), watch: true };
    let read = done(call(&mut reader, &Request::GetData(look.clone())));
    assert!(matches!(read, Some(Reply::Data(Some(data), _)) if data == "data"));
    done(call(&mut reader, &Request::Exists(look.clone())));
    done(call(&mut reader, &Request::GetChildren(PathWatchRequest { path: "/".into(), ..look })));
    done(call(&mut reader, &Request::Ping));
    for flags in 0..4 {
        assert_eq!(refusal(&call(&mut reader, &create("/new", flags))), ErrorCode::NotReadOnly);
    }
    assert_eq!(refusal(&call(&mut reader, &sync)), ErrorCode::NotReadOnly);
    let mut leaving = RawConnection::handshake(survivor, &handshake(true)).unwrap();
    assert_ne!(leaving.session.session_id, reader.session.session_id);
    done(call(&mut leaving, &Request::CloseSession));

    let lost: Vec<usize> = (0..3).filter(|index| servers.pid(*index).is_none()).collect();
    for index in &lost {
        servers.spawn(*index).unwrap();
    }
    eventually("a leader", || four_letter::ask(survivor, "isro").unwrap() == "rw");
    assert_eq!(reader.receive().unwrap(), Incoming::Closed, "its client is to look for more");
    let again = reader.resume_request(Zxid(0));
    let again = RawConnection::handshake(survivor, &again).unwrap();
    assert_eq!(again.session.timeout_ms, 0, "the session has ended");
    let mut writer = RawConnection::handshake(survivor, &handshake(true)).unwrap();
    assert_eq!(writer.session.read_only, Some(false));
    done(call(&mut writer, &create("/new", 0)));
}

/// Kills all but a follower, whose client address it answers.
fn lose_the_others(servers: &mut Servers) -> SocketAddr {
    let leader = servers.wait_for_leader(LEADER_MAX).unwrap();
    let survivor = (leader + 1) % 3;
    for index in (0..3).filter(|index| *index != survivor) {
        servers.kill(index).unwrap();
    }
    servers.client_address(survivor).unwrap()
}

fn eventually(what: &str, mut reached: impl FnMut() -> bool) {
    let found = wait::until(CHANGE_MAX, || reached().then_some(()));
    assert!(found.is_some(), "no {what}");
}

fn handshake(read_only: bool) -> ConnectRequest {
    ConnectRequest { read_only: Some(read_only), ..raw::new_session(10_000) }
}

fn create(path: &str, flags: i32) -> Request {
    let (path, data) = (path.to_owned(), Some(Bytes::from_static(b"data")));
    Request::Create(CreateRequest { path, data, acl: Some(Acl::open()), flags })
}

fn call(connection: &mut RawConnection, request: &Request) -> Incoming {
    let xid = if *request == Request::Ping { Xid::PING } else { Xid(1) };
    connection.call(xid, request).unwrap().1
}

fn done(incoming: Incoming) -> Option<Reply> {
    match incoming {
        Incoming::Reply(header, reply) if header.err.is_none() => reply,
        Incoming::Reply(..) | Incoming::Event(..) | Incoming::Closed => panic!("{incoming:?}"),
    }
}

fn refusal(incoming: &Incoming) -> ErrorCode {
    match incoming {
        Incoming::Reply(header, _) if header.err.is_some() => header.err.unwrap(),
        Incoming::Reply(..) | Incoming::Event(..) | Incoming::Closed => panic!("{incoming:?}"),
    }
}
