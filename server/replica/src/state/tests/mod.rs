//! The state from the outside: commands in, replies, changes and Stats out.

#![allow(clippy::wildcard_enum_match_arm, reason = "any other reply fails the test")]

mod access;
mod config;
mod exchange;
mod ops;
mod quota;
mod random;
mod snapshot;

use bytes::Bytes;
use zoolet_jute::{
    Acl, CreateMode, CreateRequest, CreateTtlRequest, ErrorCode, Id, MultiOp, MultiResult, Parts,
    PathRequest, PathVersionRequest, PathWatchRequest, Reply, Request, SessionId, SetAclRequest,
    SetDataRequest, Stat, Xid, Zxid,
};

use super::*;
use crate::{Boot, Op, Policy, ProposalNumber, ServerId, Stamp, Term};

pub(super) const ORIGIN: Origin = Origin { server: ServerId(1), boot: Boot(7), stream: 0 };
pub(super) const SESSION: SessionId = SessionId(0x0100_0000_0000_0001);

/// A state with one session, and what its commands carry.
pub(super) struct Bench {
    pub(super) state: State,
    pub(super) session: SessionId,
    pub(super) origin: Origin,
    pub(super) now_ms: i64,
    pub(super) policy: Policy,
    pub(super) identities: Vec<Id>,
    pub(super) changes: Vec<Change>,
}

impl Bench {
    pub(super) fn new() -> Self {
        let mut bench = Self {
            state: State::new(),
            session: SESSION,
            origin: ORIGIN,
            now_ms: 1000,
            policy: Policy::default(),
            identities: vec![Id::new("ip", "127.0.0.1")],
            changes: Vec::new(),
        };
        bench.run(Op::CreateSession { timeout_ms: 6000 }).expect("a new session");
        bench
    }

    pub(super) fn command(&self, op: Op) -> Command {
        Command {
            number: ProposalNumber(1),
            session: self.session,
            attachment: ProposalNumber(1),
            cxid: Xid(1),
            policy: self.policy,
            identities: self.identities.clone().into(),
            op,
        }
    }

    /// Applies, and holds every command to what is true of all: it takes one zxid, a refused one
    /// changes nothing but that, and the digest is the one that the whole state has.
    pub(super) fn run(&mut self, op: Op) -> Result<Reply, ErrorCode> {
        let before = self.state.tree.digest();
        let last = self.state.last_zxid();
        let applied = self.state.apply(
            Stamp { term: Term(1), now_ms: self.now_ms },
            self.origin,
            self.command(op),
        );
        assert_eq!(applied.zxid, self.state.last_zxid());
        assert!(applied.zxid > last);
        if applied.result.is_err() {
            assert_eq!(applied.changes, []);
            assert_eq!(self.state.tree.digest(), before);
        }
        self.state.check();
        self.changes = applied.changes;
        applied.result
    }

    pub(super) fn write(&mut self, request: Request) -> Result<Reply, ErrorCode> {
        self.run(Op::Write(request))
    }

    pub(super) fn read(&self, request: &Request) -> Result<Reply, ErrorCode> {
        self.state.read(request, self.session, &self.identities, self.policy.skip_acl)
    }

    pub(super) fn create(&mut self, path: &str, mode: CreateMode) -> Result<String, ErrorCode> {
        match self.write(Request::Create(create_body(path, b"", mode)))? {
            Reply::Path(path) => Ok(path),
            other => panic!("a create answered {other:?}"),
        }
    }

    pub(super) fn delete(&mut self, path: &str, version: i32) -> Result<(), ErrorCode> {
        let reply =
            self.write(Request::Delete(PathVersionRequest { path: path.into(), version }))?;
        assert_eq!(reply, Reply::Empty);
        Ok(())
    }

    pub(super) fn set(&mut self, path: &str, data: &[u8], version: i32) -> Result<Stat, ErrorCode> {
        match self.write(Request::SetData(set_body(path, data, version)))? {
            Reply::Stat(stat) => Ok(stat),
            other => panic!("a setData answered {other:?}"),
        }
    }

    pub(super) fn set_acl(&mut self, path: &str, acl: Vec<Acl>) -> Result<Stat, ErrorCode> {
        let body = SetAclRequest { path: path.into(), acl: Some(acl), version: -1 };
        match self.write(Request::SetAcl(body))? {
            Reply::Stat(stat) => Ok(stat),
            other => panic!("a setACL answered {other:?}"),
        }
    }

    pub(super) fn multi(&mut self, ops: Vec<MultiOp>) -> Vec<MultiResult> {
        match self.write(Request::Multi(Parts(ops))) {
            Ok(Reply::Multi(results)) => results.0,
            other => panic!("a multi answered {other:?}"),
        }
    }

    pub(super) fn stat(&self, path: &str) -> Stat {
        self.state.stat(path).unwrap_or_else(|| panic!("{path} is missing"))
    }

    pub(super) fn text(&self, path: &str) -> String {
        String::from_utf8(self.state.data(path).expect("data").into()).expect("text")
    }

    pub(super) fn zxid(&self) -> Zxid {
        self.state.last_zxid()
    }
}

pub(super) fn create_body(path: &str, data: &[u8], mode: CreateMode) -> CreateRequest {
    CreateRequest {
        path: path.into(),
        data: Some(Bytes::copy_from_slice(data)),
        acl: Some(Acl::open()),
        flags: mode as i32,
    }
}

pub(super) fn ttl_body(path: &str, mode: CreateMode, ttl_ms: i64) -> CreateTtlRequest {
    let CreateRequest { path, data, acl, flags } = create_body(path, b"", mode);
    CreateTtlRequest { path, data, acl, flags, ttl_ms }
}

pub(super) fn set_body(path: &str, data: &[u8], version: i32) -> SetDataRequest {
    SetDataRequest { path: path.into(), data: Some(Bytes::copy_from_slice(data)), version }
}

pub(super) fn get(path: &str) -> PathWatchRequest {
    PathWatchRequest { path: path.into(), watch: false }
}

pub(super) fn at(path: &str) -> PathRequest {
    PathRequest { path: path.into() }
}

pub(super) fn versioned(path: &str, version: i32) -> PathVersionRequest {
    PathVersionRequest { path: path.into(), version }
}
