//! A tree and a replica for programs that measure them.

#![allow(dead_code, reason = "each program uses a part")]

use std::net::IpAddr;
use std::sync::Arc;

use bytes::Bytes;
use zoolet_jute::{
    Acl, AddWatchMode, AddWatchRequest, ConnectRequest, CreateRequest, PathVersionRequest, Request,
    SessionId, SetDataRequest, Xid, Zxid,
};
use zoolet_replica::state::State;
use zoolet_replica::{
    Batch, Boot, Command, ConnectionId, DecodedEntry, InFlight, Input, Now, Op, Options, Origin,
    Output, Policy, ProposalNumber, Replica, Role, ServerId, Stamp, Term,
};

const ORIGIN: Origin = Origin { server: ServerId(1), boot: Boot(1), stream: 1 };

/// The creation of a znode with 100 bytes of data.
pub(crate) fn create(path: String) -> Request {
    let data = Some(Bytes::from_static(&[7; 100]));
    Request::Create(CreateRequest { path, data, acl: Some(Acl::open()), flags: 0 })
}

/// A state, and the number of its last command.
pub(crate) struct Tree(pub(crate) State, u64);

impl Tree {
    pub(crate) fn new() -> Self {
        let mut tree = Self(State::new(), 0);
        tree.apply(Op::CreateSession { timeout_ms: 40_000 });
        tree
    }

    pub(crate) fn apply(&mut self, op: Op) {
        self.1 += 1;
        let stamp = Stamp { term: Term(1), now_ms: 1_700_000_000_000 };
        let command = command(self.1, SessionId(7), ProposalNumber::NONE, op);
        assert!(self.0.admit(ORIGIN, command.number, 1));
        self.0.apply(stamp, ORIGIN, command).result.unwrap();
    }

    pub(crate) fn create(&mut self, path: String) {
        self.apply(Op::Write(create(path)));
    }

    pub(crate) fn set(&mut self, path: String, data: &'static [u8]) {
        let data = Some(Bytes::from_static(data));
        self.apply(Op::Write(Request::SetData(SetDataRequest { path, data, version: -1 })));
    }

    pub(crate) fn delete(&mut self, path: String) {
        let body = PathVersionRequest { path, version: -1 };
        self.apply(Op::Write(Request::Delete(body)));
    }
}

fn command(number: u64, session: SessionId, attachment: ProposalNumber, op: Op) -> Command {
    Command {
        number: ProposalNumber(number),
        session,
        attachment,
        cxid: Xid(0),
        policy: Policy::default(),
        identities: Arc::from([]),
        op,
    }
}

/// A replica, its outputs, and the number of its last command.
pub(crate) struct Server(Replica, Vec<Output>);

impl Server {
    pub(crate) fn new() -> Self {
        let mut options = Options::new(ServerId(1), Boot(1));
        options.watches_per_connection_max = usize::MAX;
        options.watches_max = usize::MAX;
        options.watch_bytes_per_connection_max = usize::MAX;
        options.watch_bytes_max = usize::MAX;
        let mut server = Self(Replica::new(options, State::new()), Vec::new());
        server.step(Input::Lease { until_ms: u64::MAX });
        server.step(Input::Role { role: Role::Leader, term: Some(Term(1)) });
        server
    }

    /// Takes a step, and those of the commits of what it proposes. Returns how many other outputs
    /// there were.
    fn step(&mut self, input: Input) -> usize {
        self.0.step(Now { mono_ms: 1, wall_ms: 1 }, input, &mut self.1);
        let outputs = self.1.len();
        let proposed = self.1.drain(..).filter_map(|output| {
            let Output::Propose(command) = output else { return None };
            Some(command)
        });
        let proposed: Vec<_> = proposed.collect();
        let mut others = outputs - proposed.len();
        for command in proposed {
            let batch = Batch { origin: ORIGIN, now_ms: 1, commands: vec![command] };
            let entry = DecodedEntry::decode(batch.encode());
            others += self.step(Input::Commit { term: Term(1), entry });
        }
        others
    }

    pub(crate) fn connect(&mut self, number: u64) {
        let request = ConnectRequest {
            protocol_version: 0,
            last_zxid_seen: Zxid(0),
            timeout_ms: 40_000,
            session_id: SessionId::NONE,
            password: None,
            read_only: None,
        };
        let (connection, peer) = (ConnectionId(number), IpAddr::from([127, 0, 0, 1]));
        self.step(Input::Connect { connection, peer, proved: [].into(), request });
    }

    pub(crate) fn watch(&mut self, number: u64, path: String) {
        let body = AddWatchRequest { path, mode: AddWatchMode::Persistent };
        self.request(number, Request::AddWatch(body));
    }

    /// Has a connection ask for something; returns the replies and events.
    pub(crate) fn request(&mut self, number: u64, request: Request) -> usize {
        let (connection, request) = (ConnectionId(number), Ok(request));
        let in_flight = InFlight::default();
        self.step(Input::Request { connection, xid: Xid(1), request, in_flight })
    }
}
