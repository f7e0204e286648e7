//! Requests that are short and cost a lot: their client waits for them, and no other one does.

use std::net::SocketAddr;

use bytes::Bytes;
use zoolet_jute::{
    Acl, AuthPacket, CreateRequest, ErrorCode, Id, MultiReadOp, Parts, PathWatchRequest, Reply,
    Request, Xid, perms,
};
use zoolet_tests::four_letter;
use zoolet_tests::raw::{Incoming, RawConnection};

use crate::support::*;

fn create_with(path: &str, acl: Vec<Acl>) -> Request {
    let data = Some(Bytes::new());
    Request::Create(CreateRequest { path: path.to_owned(), data, acl: Some(acl), flags: 0 })
}

fn digests(count: usize) -> Vec<Acl> {
    let entry = |n| Acl { perms: perms::ALL, id: Id::new("digest", format!("{n}:x")) };
    (0..count).map(entry).collect()
}

fn error_of(incoming: &Incoming) -> Option<ErrorCode> {
    let Incoming::Reply(header, _) = incoming else { panic!("{incoming:?}") };
    header.err
}

fn digest(user: usize) -> Request {
    let auth = Some(Bytes::from(format!("user{user}:secret")));
    Request::Auth(AuthPacket { auth_type: 0, scheme: Some("digest".to_owned()), auth })
}

/// A connection that has proved this many identities.
fn with_identities(address: SocketAddr, count: usize) -> RawConnection {
    let mut connection = RawConnection::open(address, 10_000).unwrap();
    for user in 0..count {
        let reply = connection.call(Xid::AUTH, &digest(user)).unwrap().1;
        assert_eq!(error_of(&reply), None);
    }
    connection
}

/// A multiRead of 20,000 parts of a znode with 40,000 ACL entries held the server for 11.5 s.
#[test]
fn a_long_multi_read_of_a_znode_with_a_long_acl_delays_no_other_client() {
    // More than a step has, and few enough for an answer in time on a slow machine.
    const PARTS: usize = 5_000;
    let (servers, address) = server();
    let mut witness = Witness::open(address);
    let mut greedy = with_identities(address, 15);
    let refused = call(&mut greedy, &create_with("/a", digests(257)));
    assert_eq!(error_of(&refused), Some(ErrorCode::InvalidAcl));
    let counted = "zk_limit_acl_entries_refused\t1\n";
    assert!(four_letter::ask(address, "mntr").unwrap().contains(counted));
    let acl = digests(255).into_iter().chain(Acl::open()).collect();
    done(&call(&mut greedy, &create_with("/a", acl)));
    let part = MultiReadOp::GetData(PathWatchRequest { path: "/a".to_owned(), watch: false });
    let read = Request::MultiRead(Parts(vec![part; PARTS]));
    for xid in 1..=3 {
        greedy.send(Xid(xid), &read).unwrap();
    }
    for _ in 0..10 {
        witness.lives();
    }
    for xid in 1..=3 {
        let Incoming::Reply(header, Some(Reply::Multi(parts))) = greedy.receive().unwrap() else {
            panic!("no reply")
        };
        assert_eq!((header.xid, header.err, parts.0.len()), (Xid(xid), None, PARTS));
    }
    witness.ends_well();
    drop(servers);
}

/// Each write carried 60 identities into the log of every server.
#[test]
fn a_connection_that_proves_too_many_identities_is_refused_and_closed() {
    let (servers, address) = server();
    let mut witness = Witness::open(address);
    let mut greedy = with_identities(address, 15);
    let reply = greedy.call(Xid::AUTH, &digest(15)).unwrap().1;
    assert_eq!(error_of(&reply), Some(ErrorCode::AuthFailed));
    assert_eq!(greedy.receive().unwrap(), Incoming::Closed);
    let counted = "zk_limit_session_identities_refused\t1\n";
    assert!(four_letter::ask(address, "mntr").unwrap().contains(counted));
    witness.lives();
    witness.ends_well();
    drop(servers);
}
