//! What clients see: P2, P5, P11, P12, reads, linearizability, convergence.

use std::net::IpAddr;

use bytes::Bytes;
use zoolet_jute::{
    Acl, AuthPacket, ClientInfo, CreateRequest, ErrorCode, Id, NullablePathRequest, Reply, Request,
    SessionId, Zxid, perms,
};

use super::{
    Client, Options, Story, accepted, all, create, delete, get_data, lie, look, refused, set_data,
    without,
};
use crate::history::{ClientNumber, Restore, What};
use crate::model::access::identities;

fn story() -> (Story, Client) {
    let mut story = Story::new();
    let client = story.connect(0, 1);
    story.create(client, "/a", 0);
    (story, client)
}

fn sync() -> Request {
    Request::Sync(NullablePathRequest { path: Some("/".to_owned()) })
}

fn answer_to_sync() -> Reply {
    Reply::Sync(Some("/".to_owned()))
}

/// Of the identities that are shown, one is the address of the connection.
#[test]
fn identities_that_were_not_proved_or_are_not_shown_are_found() {
    let shown = |ids: &[(&str, &str)]| {
        let (mut story, client) = story();
        let packet = AuthPacket {
            auth_type: 0,
            scheme: Some("digest".to_owned()),
            auth: Some(Bytes::from_static(b"ann:secret")),
        };
        story.answered(client, Request::Auth(packet), Reply::Empty);
        let info = |(scheme, user): &(&str, &str)| ClientInfo {
            auth_scheme: (*scheme).to_owned(),
            user: (*user).to_owned(),
        };
        story.answered(client, Request::WhoAmI, Reply::WhoAmI(ids.iter().map(info).collect()));
        story.end()
    };
    let (address, ann) = (("ip", "10.0.0.101"), ("digest", "ann"));
    accepted(&shown(&[address, ann]));
    refused(&shown(&[address]), "reads");
    refused(&shown(&[address, ann, ("digest", "bob")]), "reads");
    refused(&shown(&[address, address, ann]), "reads");
    // Where addresses are known, it is the one of the client.
    let known = |_: ClientNumber| IpAddr::from([10, 0, 0, 101]);
    let options = Options { address_of: Some(known), ..Options::default() };
    assert!(all(&shown(&[address, ann]), &options).violations.is_empty());
    assert!(!all(&shown(&[("ip", "10.0.0.102"), ann]), &options).violations.is_empty());
}

#[test]
fn a_read_that_is_refused_to_an_address_that_may_is_found() {
    let (mut story, client) = story();
    let acl = Some(vec![Acl { perms: perms::ALL, id: Id::new("ip", "10.0.0.96/28") }]);
    let body = CreateRequest { path: "/net".to_owned(), data: None, acl, flags: 0 };
    let (_, created) = story.write(client, Request::Create(body));
    let (call, _) = story.call(client, get_data("/net"));
    story.returned(call, created.zxid, Err(ErrorCode::NoAuth));
    let history = story.end();
    let found = |address: fn(ClientNumber) -> IpAddr| {
        let options = Options { address_of: Some(address), ..Options::default() };
        all(&history, &options).violations.len()
    };
    assert_eq!(found(|_| IpAddr::from([10, 0, 0, 112])), 0);
    assert_eq!(found(|_| IpAddr::from([10, 0, 0, 101])), 1);
}

#[test]
fn a_write_whose_reply_says_something_else_than_the_log_is_found() {
    let (mut story, client) = story();
    let (call, _) = story.write(client, set_data("/a", "b"));
    let (gone, _) = story.write(client, delete("/none"));
    let good = story.end();
    accepted(&good);
    refused(&lie(&good, call, |_, result| *result = Err(ErrorCode::BadVersion)), "P2 replies");
    refused(&lie(&good, gone, |_, result| *result = Ok(Reply::Empty)), "P2 replies");
    refused(&lie(&good, call, |zxid, _| zxid.0 += 1), "P2 replies");
    let bad = lie(&good, call, |_, result| {
        if let Ok(Reply::Stat(stat)) = result {
            stat.version += 1;
        }
    });
    refused(&bad, "P2 replies");
}

#[test]
fn replies_out_of_order_are_found() {
    let (mut story, client) = story();
    let (first, _) = story.call(client, get_data("/a"));
    let (second, _) = story.call(client, Request::Exists(look("/none", false)));
    let zxid = story.state.last_zxid;
    story.returned(second, zxid, Err(ErrorCode::NoNode));
    let stat = story.state.tree.get("/a").unwrap().stat();
    story.returned(first, zxid, Ok(Reply::Data(Some(Bytes::from_static(b"data")), stat)));
    refused(&story.end(), "P2 replies");
}

#[test]
fn a_ping_may_be_answered_out_of_turn() {
    let (mut story, client) = story();
    let (first, _) = story.call(client, Request::Exists(look("/none", false)));
    story.ping(client);
    let zxid = story.state.last_zxid;
    story.returned(first, zxid, Err(ErrorCode::NoNode));
    accepted(&story.end());
}

#[test]
fn an_error_that_no_command_gives_is_found() {
    let (mut story, client) = story();
    let (call, _) = story.call(client, create("/b", 0));
    let zxid = story.state.last_zxid;
    story.returned(call, zxid, Err(ErrorCode::NodeExists));
    refused(&story.end(), "P2 replies");
}

#[test]
fn reads_that_are_not_the_state_at_their_zxid_are_found() {
    let (mut story, client) = story();
    let old = story.read(client, get_data("/a"));
    story.write(client, set_data("/a", "new"));
    let children = story.read(client, Request::GetChildren2(look("/", false)));
    let exists = story.read(client, Request::Exists(look("/b", false)));
    story.create(client, "/b", 1);
    let own = Request::GetEphemerals(NullablePathRequest { path: None });
    let own = story.read(client, own);
    let newest = story.state.last_zxid;
    let good = story.end();
    assert_eq!(accepted(&good).reads, 4);
    // Data of the past, under a new zxid.
    refused(&lie(&good, old, |zxid, _| zxid.0 += 1), "reads");
    refused(&lie(&good, exists, |zxid, _| *zxid = newest), "reads");
    let bad = lie(&good, children, |_, result| {
        if let Ok(Reply::ChildrenStat(names, _)) = result {
            names.pop();
        }
    });
    refused(&bad, "reads");
    let bad = lie(&good, own, |_, result| *result = Ok(Reply::Children(Vec::new())));
    refused(&bad, "reads");
    // No order is promised for the names.
    let other = lie(&good, children, |_, result| {
        if let Ok(Reply::ChildrenStat(names, _)) = result {
            names.reverse();
        }
    });
    accepted(&other);
}

#[test]
fn a_read_that_an_acl_forbids_must_be_refused() {
    let mut story = Story::new();
    let client = story.connect(0, 1);
    let acl = vec![Acl { perms: perms::ALL, id: Id::new("digest", "u:abc") }];
    let body = CreateRequest { path: "/secret".into(), data: None, acl: Some(acl), flags: 0 };
    story.write(client, Request::Create(body));
    let read = story.read(client, get_data("/secret"));
    let good = story.end();
    accepted(&good);
    let stat = zoolet_jute::Stat { czxid: Zxid::new(1, 2), ..Default::default() };
    let bad = lie(&good, read, |_, result| *result = Ok(Reply::Data(None, stat)));
    refused(&bad, "reads");
}

#[test]
fn an_identity_counts_from_its_proof_on() {
    let mut story = Story::new();
    let client = story.connect(0, 1);
    // printf u:p | openssl dgst -binary -sha1 | base64
    let id = Id::new("digest", identities(&auth_packet(), None)[0].id.clone().unwrap());
    let acl = vec![Acl { perms: perms::ALL, id: id.clone() }];
    let body = CreateRequest { path: "/mine".into(), data: None, acl: Some(acl), flags: 0 };
    story.write(client, Request::Create(body));
    let before = story.read(client, get_data("/mine"));
    let (call, _) = story.call(client, Request::Auth(auth_packet()));
    story.returned(call, Zxid(0), Ok(Reply::Empty));
    let (call, _) = story.call(client, get_data("/mine"));
    let stat = story.state.tree.get("/mine").unwrap().stat();
    let zxid = story.state.last_zxid;
    story.returned(call, zxid, Ok(Reply::Data(None, stat)));
    let good = story.end();
    accepted(&good);
    refused(&lie(&good, before, |_, result| *result = Ok(Reply::Data(None, stat))), "reads");
    refused(&lie(&good, call, |_, result| *result = Err(ErrorCode::NoAuth)), "reads");
}

pub(super) fn auth_packet() -> AuthPacket {
    let auth = Some(Bytes::from_static(b"u:p"));
    AuthPacket { auth_type: 0, scheme: Some("digest".to_owned()), auth }
}

#[test]
fn a_digest_is_that_of_the_servers() {
    let auth = Some(Bytes::from_static(b"super:admin"));
    let packet = AuthPacket { auth_type: 0, scheme: Some("digest".to_owned()), auth };
    let digest = "super:xQJmxLMiHGwaqBvst5y6rkB6HQs=";
    let ids = identities(&packet, Some(digest));
    assert_eq!(ids, [Id::new("super", ""), Id::new("digest", digest)]);
}

#[test]
fn a_session_that_goes_back_in_time_is_found() {
    let (mut story, client) = story();
    let seen = story.state.last_zxid;
    story.read(client, get_data("/a"));
    let again = story.resume(client, 2, seen);
    let late = story.read(again, get_data("/a"));
    let good = story.end();
    accepted(&good);
    // It is answered from before its resume.
    refused(&lie(&good, late, |zxid, _| *zxid = seen), "P11 no way back");
    refused(&lie(&good, late, |zxid, _| zxid.0 -= 2), "P11 no way back");
    refused(&lie(&good, late, |zxid, _| zxid.0 += 9), "P5 zxids");
}

#[test]
fn a_client_is_not_served_from_before_what_it_has_seen() {
    let (mut story, client) = story();
    let again = story.resume(client, 2, Zxid::new(7, 7));
    story.read(again, get_data("/a"));
    refused(&story.end(), "P11 no way back");
}

#[test]
fn a_session_that_the_log_does_not_know_is_found() {
    let (story, _) = story();
    let mut history = story.end();
    for record in &mut history.records {
        if let What::Connected { session, .. } = &mut record.what {
            *session = SessionId(0x999);
        }
    }
    refused(&history, "P11 sessions");
}

#[test]
fn a_write_in_front_of_what_had_been_seen_before_its_call_is_found() {
    let (mut story, client) = story();
    let other = story.connect(1, 2);
    let (call, xid) = story.call(other, create("/b", 0));
    let outcome = story.commit(other, xid, create("/b", 0));
    // Meanwhile the first client sees a state behind it, before the second has called.
    story.read(client, get_data("/b"));
    story.returned(call, outcome.zxid, outcome.result);
    let good = story.end();
    accepted(&good);
    let mut bad = good;
    let is_call =
        |what: &What| matches!(what, What::Called { call: number, .. } if *number == call);
    let at = bad.records.iter().position(|record| is_call(&record.what)).unwrap();
    let record = bad.records.remove(at);
    bad.records.insert(at + 2, record);
    refused(&bad, "linearizable writes");
}

#[test]
fn a_sync_that_misses_what_had_been_seen_is_found() {
    let (mut story, client) = story();
    let other = story.connect(1, 2);
    let behind = story.state.last_zxid;
    story.create(client, "/new", 0);
    let call = story.answered(other, sync(), answer_to_sync());
    let read = story.read(other, Request::Exists(look("/new", false)));
    let good = story.end();
    assert_eq!(accepted(&good).syncs, 1);
    refused(&lie(&good, call, |zxid, _| *zxid = behind), "P12 sync");
    let bad = lie(&good, read, |zxid, result| {
        *zxid = behind;
        *result = Err(ErrorCode::NoNode);
    });
    refused(&bad, "P12 sync");
    let bad = lie(&good, call, |_, result| *result = Ok(Reply::Sync(None)));
    refused(&bad, "P2 replies");
    // Without a sync a read may be old.
    let (mut story, client) = self::story();
    let other = story.connect(1, 2);
    let behind = story.state.last_zxid;
    story.create(client, "/new", 0);
    let (call, _) = story.call(other, Request::Exists(look("/new", false)));
    story.returned(call, behind, Err(ErrorCode::NoNode));
    accepted(&story.end());
}

#[test]
fn servers_and_calls_that_do_not_come_to_an_end_are_found() {
    let (mut story, client) = story();
    story.create(client, "/b", 0);
    let closes = Request::CloseSession;
    story.write(client, closes);
    let good = story.end_late();
    accepted(&good);
    let mut bad = good.clone();
    let log = bad.servers.get_mut(&zoolet_replica::ServerId(3)).unwrap();
    log.applied.truncate(2);
    log.digests.truncate(2);
    refused(&bad, "convergence");
    // It has come there by a snapshot, if nothing followed that.
    for (applied_before, is_enough) in [(2, true), (1, false)] {
        let log = bad.servers.get_mut(&zoolet_replica::ServerId(3)).unwrap();
        log.restored = vec![Restore { at: bad.healed_at, zxid: Zxid(i64::MAX), applied_before }];
        if is_enough {
            accepted(&bad);
        } else {
            refused(&bad, "convergence");
        }
    }
    let call = crate::history::CallNumber(1);
    let is_reply =
        |what: &What| matches!(what, What::Returned { call: number, .. } if *number == call);
    refused(&without(&good, is_reply), "convergence");
}

#[test]
fn what_a_client_complains_of_is_a_violation() {
    let (mut story, _) = story();
    story.note(What::Complained { client: ClientNumber(0), why: "nonsense".to_owned() });
    refused(&story.end(), "complaint");
}
