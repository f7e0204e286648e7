//! The model against examples of the protocol, and against the servers' state, command by command.

mod random;

use std::sync::Arc;

use bytes::Bytes;
use zoolet_jute::{
    Acl, CreateRequest, ErrorCode, MultiOp, MultiResult, Parts, PathVersionRequest, Reply, Request,
    SessionId, SetDataRequest, Xid, Zxid,
};
use zoolet_replica::{Boot, Command, Op, Origin, Policy, ProposalNumber, ServerId, Stamp, Term};

use super::{Outcome, State};

const SESSION: SessionId = SessionId(7);
const ORIGIN: Origin = Origin { server: ServerId(1), boot: Boot(1), stream: 1 };

fn command(session: SessionId, op: Op) -> Command {
    Command {
        number: ProposalNumber(1),
        session,
        attachment: ProposalNumber(1),
        cxid: Xid(1),
        policy: Policy { extended_types: true, ..Policy::default() },
        identities: Arc::from([]),
        op,
    }
}

/// A state with one session.
fn state() -> State {
    let mut state = State::default();
    apply(&mut state, 1, Op::CreateSession { timeout_ms: 1000 });
    state
}

fn apply(state: &mut State, term: u64, op: Op) -> Outcome {
    let stamp = Stamp { term: Term(term), now_ms: 1_000_000 };
    state.apply(stamp, ORIGIN, &command(SESSION, op))
}

fn write(state: &mut State, request: Request) -> Result<Reply, ErrorCode> {
    apply(state, 1, Op::Write(request)).result
}

fn create_body(path: &str, flags: i32) -> CreateRequest {
    CreateRequest { path: path.into(), data: Some(Bytes::new()), acl: Some(Acl::open()), flags }
}

fn create(state: &mut State, path: &str, flags: i32) -> Result<Reply, ErrorCode> {
    write(state, Request::Create(create_body(path, flags)))
}

fn path_version(path: &str, version: i32) -> PathVersionRequest {
    PathVersionRequest { path: path.into(), version }
}

#[test]
fn the_first_tree_has_four_znodes_and_counts_of_apache() {
    let state = State::default();
    let paths: Vec<&str> = state.tree.iter().map(|(path, _)| path).collect();
    assert_eq!(paths, ["/", "/zookeeper", "/zookeeper/config", "/zookeeper/quota"]);
    assert_eq!(state.tree.get("").unwrap().stat().cversion, -1);
    assert_eq!(state.tree.get("/zookeeper").unwrap().stat().cversion, -2);
}

#[test]
fn zxids_begin_anew_with_a_term_and_the_first_configuration_has_zero() {
    let mut state = State::default();
    let config = |term| Op::SetConfig { term: Term(term), text: "a".into(), is_first: true };
    assert_eq!(apply(&mut state, 3, config(3)).zxid, Zxid::new(3, 0));
    let data = state.tree.get("/zookeeper/config").unwrap().data.clone().unwrap();
    assert_eq!(data, "a\nversion=300000000");
    assert_eq!(apply(&mut state, 3, config(3)).zxid, Zxid::new(3, 1));
    let late = apply(&mut state, 5, config(4));
    assert_eq!((late.zxid, late.result), (Zxid::new(5, 1), Err(ErrorCode::BadVersion)));
    assert_eq!(apply(&mut state, 4, config(4)).zxid, Zxid::new(5, 2));
}

#[test]
fn numbers_count_every_create_and_no_delete() {
    let mut state = state();
    create(&mut state, "/q", 0).unwrap();
    create(&mut state, "/q/plain", 0).unwrap();
    write(&mut state, Request::Delete(path_version("/q/plain", -1))).unwrap();
    let path = Reply::Path("/q/n-0000000001".into());
    assert_eq!(create(&mut state, "/q/n-", 2), Ok(path));
    assert_eq!(create(&mut state, "/q/", 3), Ok(Reply::Path("/q/0000000002".into())));
    assert_eq!(create(&mut state, "/q/0000000002/x", 0), Err(ErrorCode::NoChildrenForEphemerals));
    let stat = state.tree.get("/q").unwrap().stat();
    assert_eq!((stat.cversion, stat.num_children, stat.version), (4, 2, 0));
}

#[test]
fn checks_come_in_the_order_of_the_protocol() {
    let mut state = state();
    for (path, flags, expected) in [
        ("/a//b", 0, ErrorCode::NoNode),
        ("/", 0, ErrorCode::NodeExists),
        ("a", 0, ErrorCode::BadArguments),
        ("//a", 0, ErrorCode::BadArguments),
        ("/a", 7, ErrorCode::BadArguments),
        ("/a", 5, ErrorCode::BadArguments),
        ("/\u{e000}", 0, ErrorCode::BadArguments),
    ] {
        assert_eq!(create(&mut state, path, flags), Err(expected), "{path} {flags}");
    }
    for (path, expected) in [
        ("/zookeeper", ErrorCode::BadArguments),
        ("//a", ErrorCode::NoNode),
        ("/none/a", ErrorCode::NoNode),
    ] {
        let request = Request::Delete(path_version(path, -1));
        assert_eq!(write(&mut state, request), Err(expected), "{path}");
    }
    create(&mut state, "/a", 0).unwrap();
    let set = |version| SetDataRequest { path: "/a".into(), data: None, version };
    assert_eq!(write(&mut state, Request::SetData(set(3))), Err(ErrorCode::BadVersion));
    let Ok(Reply::Stat(stat)) = write(&mut state, Request::SetData(set(0))) else { panic!() };
    assert_eq!((stat.version, stat.data_length, stat.mzxid), (1, 0, state.last_zxid));
}

#[test]
fn a_refused_multi_leaves_nothing_and_takes_one_zxid() {
    let mut state = state();
    let before = state.clone();
    let parts = vec![
        MultiOp::Create(create_body("/m", 0)),
        MultiOp::Create(create_body("/m/e-", 3)),
        MultiOp::Check(path_version("/none", -1)),
        MultiOp::Delete(path_version("/m", -1)),
    ];
    let outcome = apply(&mut state, 1, Op::Write(Request::Multi(Parts(parts))));
    let expected = [
        MultiResult::Error(None),
        MultiResult::Error(None),
        MultiResult::Error(Some(ErrorCode::NoNode)),
        MultiResult::Error(Some(ErrorCode::RuntimeInconsistency)),
    ];
    assert_eq!(outcome.result, Ok(Reply::Multi(Parts(expected.into()))));
    assert_eq!((outcome.changes, &state.tree), (Vec::new(), &before.tree));
    assert_eq!(state.last_zxid.0, before.last_zxid.0 + 1);
}

#[test]
fn a_session_ends_with_its_ephemeral_znodes_under_one_zxid() {
    let mut state = state();
    create(&mut state, "/b", 1).unwrap();
    create(&mut state, "/a", 1).unwrap();
    let expiry = |generation, term| Op::ExpireSession { generation, term: Term(term) };
    assert_eq!(apply(&mut state, 1, expiry(1, 1)).result, Err(ErrorCode::BadVersion));
    assert_eq!(apply(&mut state, 2, expiry(0, 1)).result, Err(ErrorCode::BadVersion));
    let outcome = apply(&mut state, 2, expiry(0, 2));
    assert_eq!((outcome.changes.len(), outcome.ended), (2, Some(SESSION)));
    assert_eq!(state.tree.get("/").unwrap().pzxid, outcome.zxid);
    assert_eq!(create(&mut state, "/c", 0), Err(ErrorCode::SessionExpired));
    let resume = apply(&mut state, 2, Op::ResumeSession { timeout_ms: 1 });
    assert_eq!(resume.result, Err(ErrorCode::SessionExpired));
}

#[test]
fn a_write_of_an_older_attachment_is_refused_as_moved() {
    let mut state = state();
    let mut resume = command(SESSION, Op::ResumeSession { timeout_ms: 500 });
    resume.attachment = ProposalNumber(9);
    let stamp = Stamp { term: Term(1), now_ms: 1 };
    assert_eq!(state.apply(stamp, ORIGIN, &resume).result, Ok(Reply::Empty));
    assert_eq!(create(&mut state, "/c", 0), Err(ErrorCode::SessionMoved));
    let close = apply(&mut state, 1, Op::CloseSession);
    assert_eq!((close.result, close.ended), (Err(ErrorCode::SessionMoved), None));
}

#[test]
fn a_container_goes_when_it_is_empty_and_a_ttl_when_its_time_is_over() {
    let mut state = state();
    write(&mut state, Request::CreateContainer(create_body("/c", 0))).unwrap();
    create(&mut state, "/c/x", 0).unwrap();
    create(&mut state, "/p", 0).unwrap();
    let reap = |path: &str| Op::DeleteContainer { path: path.into() };
    assert_eq!(apply(&mut state, 1, reap("/c")).result, Err(ErrorCode::NotEmpty));
    assert_eq!(apply(&mut state, 1, reap("/p")).result, Err(ErrorCode::BadVersion));
    write(&mut state, Request::Delete(path_version("/c/x", -1))).unwrap();
    assert_eq!(apply(&mut state, 1, reap("/c")).result, Ok(Reply::Empty));
    let CreateRequest { path, data, acl, .. } = create_body("/t", 0);
    let ttl = zoolet_jute::CreateTtlRequest { path, data, acl, flags: 5, ttl_ms: 10 };
    write(&mut state, Request::CreateTtl(ttl)).unwrap();
    assert_eq!(apply(&mut state, 1, reap("/t")).result, Err(ErrorCode::BadVersion));
    let stamp = Stamp { term: Term(1), now_ms: 1_000_011 };
    let reaped = state.apply(stamp, ORIGIN, &command(SessionId::NONE, reap("/t")));
    assert_eq!(reaped.result, Ok(Reply::Empty));
}
