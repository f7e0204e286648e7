//! No step is long, whatever a client asks for. The cost model alone cannot show that, because it does
//! not see work that it does not charge: the elementary work of each step is counted, too (`probe`).

#![allow(clippy::wildcard_enum_match_arm, reason = "the other outputs are no replies")]

use std::net::IpAddr;
use std::sync::Arc;

use bytes::Bytes;
use zoolet_jute::{
    Acl, AddWatchMode, AddWatchRequest, AuthPacket, ConnectRequest, CreateRequest, Id, MultiOp,
    MultiReadOp, Parts, PathRequest, PathVersionRequest, PathWatchRequest, Request, SessionId,
    SetDataRequest, SetWatchesRequest, WatcherType, WatchesRequest, Xid, Zxid, perms,
};

use super::*;

/// The most work of a step, in units of its budget, and the most elementary work. The budget is
/// 1000 units; a step may exceed it by one thing that it does not divide.
const UNITS_MAX: u64 = 4000;
const PROBES_MAX: usize = 30_000;

/// The most outputs of a step.
const OUTPUTS_MAX: usize = 1000;

/// A server that leads alone, and whose every step is measured.
struct Measured {
    replica: Replica,
    proposed: Vec<Command>,
    now_ms: u64,
    connections: u64,
    replies: usize,
    events: usize,
    closed: usize,
    steps: usize,
    probes: usize,
}

impl Measured {
    fn new() -> Self {
        let replica = Replica::new(Options::new(ServerId(1), Boot(1)), State::new());
        let (proposed, now_ms) = (Vec::new(), 0);
        let mut server = Self {
            replica,
            proposed,
            now_ms,
            connections: 0,
            replies: 0,
            events: 0,
            closed: 0,
            steps: 0,
            probes: 0,
        };
        server.step(Input::Lease { until_ms: u64::MAX });
        server.step(Input::Role { role: Role::Leader, term: Some(Term(1)) });
        server
    }

    fn step(&mut self, input: Input) {
        let (mut out, before) = (Vec::new(), self.replica.work_done());
        probe::take();
        let named: String = format!("{input:?}").chars().take(100).collect();
        let now = Now { mono_ms: self.now_ms, wall_ms: 0 };
        self.replica.step(now, input, &mut out);
        let (units, probes) = (self.replica.work_done() - before, probe::take());
        assert!(units <= UNITS_MAX, "{units} units in the step {named}");
        assert!(probes <= PROBES_MAX, "{probes} pieces of work in the step {named}");
        assert!(out.len() <= OUTPUTS_MAX, "{} outputs of the step {named}", out.len());
        self.steps += 1;
        self.probes += probes;
        for output in out {
            match output {
                Output::Propose(command) => self.proposed.push(command),
                Output::Reply { .. } | Output::ReplyLong { .. } => self.replies += 1,
                Output::Notify { .. } => self.events += 1,
                Output::Close { .. } => self.closed += 1,
                Output::AwaitRoom { connection } => {
                    self.step(Input::Room { connection, unwritten_bytes: 0 });
                }
                _ => {}
            }
        }
    }

    fn settle(&mut self) {
        while self.replica.has_work() {
            self.step(Input::GoOn);
        }
    }

    fn commit(&mut self) {
        while !self.proposed.is_empty() {
            let commands = std::mem::take(&mut self.proposed);
            let origin = Origin { server: ServerId(1), boot: Boot(1), stream: 1 };
            let batch = Batch { origin, now_ms: 1, commands }.encode();
            self.step(Input::Commit { term: Term(1), entry: DecodedEntry::decode(batch) });
            self.settle();
        }
    }

    fn connect(&mut self) -> ConnectionId {
        self.connections += 1;
        let connection = ConnectionId(self.connections);
        let request = ConnectRequest {
            protocol_version: 0,
            last_zxid_seen: Zxid(0),
            timeout_ms: 10_000,
            session_id: SessionId::NONE,
            password: None,
            read_only: None,
        };
        let (peer, proved) = (IpAddr::from([127, 0, 0, 1]), Arc::default());
        self.step(Input::Connect { connection, peer, proved, request });
        self.commit();
        connection
    }

    fn send(&mut self, connection: ConnectionId, request: Request) {
        let (xid, in_flight) = (Xid(1), InFlight::default());
        self.step(Input::Request { connection, xid, request: Ok(request), in_flight });
    }

    /// Sends a request, and returns once it is answered.
    fn ask(&mut self, connection: ConnectionId, request: Request) {
        let before = self.replies;
        self.send(connection, request);
        self.settle();
        self.commit();
        assert_eq!(self.replies, before + 1);
    }

    fn create(&mut self, connection: ConnectionId, path: &str, acl: Vec<Acl>) {
        self.ask(connection, Request::Create(create(path, acl, 0)));
        assert!(self.replica.state().stat(path).is_some(), "{path:.100} is not created");
    }
}

fn create(path: &str, acl: Vec<Acl>, flags: i32) -> CreateRequest {
    CreateRequest { path: path.to_owned(), data: Some(Bytes::new()), acl: Some(acl), flags }
}

fn get(path: &str) -> PathWatchRequest {
    PathWatchRequest { path: path.to_owned(), watch: false }
}

fn check(path: &str) -> MultiOp {
    MultiOp::Check(PathVersionRequest { path: path.to_owned(), version: -1 })
}

fn set(path: &str) -> Request {
    let (path, data) = (path.to_owned(), Some(Bytes::new()));
    Request::SetData(SetDataRequest { path, data, version: -1 })
}

/// As many entries as are allowed, of which the last one grants everything.
fn long_acl() -> Vec<Acl> {
    long_acl_of(0)
}

/// The same; lists of different numbers differ.
fn long_acl_of(number: usize) -> Vec<Acl> {
    let entry = |n| Acl { perms: perms::ALL, id: Id::new("digest", format!("{number}.{n}:x")) };
    (1..LONG_ACL).map(entry).chain(Acl::open()).collect()
}

const LONG_ACL: usize = 256;

const DEPTH: usize = 1000;

/// A server with a znode `/acl` that has a long ACL, a deep znode, and a client with as many
/// identities as it may have.
fn world() -> (Measured, ConnectionId, String) {
    let mut server = Measured::new();
    let client = server.connect();
    for user in 0..15 {
        let auth = Some(Bytes::from(format!("user{user}:secret")));
        let packet = AuthPacket { auth_type: 0, scheme: Some("digest".to_owned()), auth };
        server.ask(client, Request::Auth(packet));
    }
    server.create(client, "/acl", long_acl());
    let mut deep = String::new();
    for _ in 0..DEPTH {
        deep.push_str("/d");
        server.create(client, &deep, Acl::open());
    }
    (server, client, deep)
}

/// The part of a request that was repeated, and how often.
fn read_parts(path: &str, count: usize) -> Request {
    Request::MultiRead(Parts(vec![MultiReadOp::GetData(get(path)); count]))
}

/// Creates znodes with one long ACL each, and returns their paths.
fn with_long_acls(server: &mut Measured, client: ConnectionId, count: usize) -> Vec<String> {
    let create = |number: usize| {
        let path = format!("/acl{number}");
        server.create(client, &path, long_acl_of(number + 1));
        path
    };
    (0..count).map(create).collect()
}

/// One multiRead of 20,000 parts held the lock for 11.5 s: a count of requests bounded the step.
#[test]
fn no_step_is_long_whatever_is_read() {
    let (mut server, client, deep) = world();
    let paths = with_long_acls(&mut server, client, 300);
    let since = (server.steps, server.probes);
    server.ask(client, read_parts("/acl", 20_000));
    let parts = paths.iter().map(|path| MultiReadOp::GetData(get(path))).collect();
    server.ask(client, Request::MultiRead(Parts(parts)));
    server.ask(client, read_parts(&deep, 400));
    let watches = |path: &str, count: usize| SetWatchesRequest {
        relative_zxid: Zxid(0),
        data_watches: vec![path.to_owned(); count],
        exist_watches: Vec::new(),
        child_watches: Vec::new(),
    };
    server.ask(client, Request::SetWatches(watches("/acl", 5000)));
    server.ask(client, Request::SetWatches(watches(&deep, 400)));
    let (steps, probes) = (server.steps - since.0, server.probes - since.1);
    assert!(steps > 450 && probes > 5300 * LONG_ACL, "{steps} steps, {probes} pieces of work");
}

#[test]
fn no_step_is_long_whatever_is_written() {
    let (mut server, client, deep) = world();
    let paths = with_long_acls(&mut server, client, 300);
    server.ask(client, Request::Multi(Parts(vec![check("/acl"); 5000])));
    server.ask(client, Request::Multi(Parts(paths.iter().map(|path| check(path)).collect())));
    server.ask(client, Request::Multi(Parts(vec![check(&deep); 400])));
    // All of it is undone, because the last part fails.
    let part = |n: usize| MultiOp::Create(create(&format!("{deep}/{n}"), long_acl(), 0));
    let parts = (0..50).map(part).chain([check("/nothing")]).collect();
    server.ask(client, Request::Multi(Parts(parts)));
    // The end of the session.
    for n in 0..200 {
        let body = create(&format!("{deep}/e{n}"), Acl::open(), 1);
        server.ask(client, Request::Create(body));
    }
    server.ask(client, Request::CloseSession);
    assert_eq!(server.replica.state().ephemerals_count(), 0);
}

/// One multi of 55,000 checks of a znode with a long ACL took 4.3 s, and nothing is served between
/// the steps of a multi.
#[test]
fn an_acl_is_searched_once_for_all_parts_of_a_request() {
    const PARTS: usize = 20_000;
    let (mut server, client, _) = world();
    let requests = [Request::Multi(Parts(vec![check("/acl"); PARTS])), read_parts("/acl", PARTS)];
    for request in requests {
        let named = format!("{:?}", request.op_code());
        let since = (server.probes, server.replica.work_done());
        server.ask(client, request);
        let (probes, units) = (server.probes - since.0, server.replica.work_done() - since.1);
        // The part itself, its name and its verdict. A search would cost 90 units.
        assert!(probes < 4 * PARTS + 2 * LONG_ACL, "{named}: {probes} pieces of work");
        assert!(units < 5 * PARTS as u64, "{named}: {units} units");
    }
}

/// Reads that wait for a write of their connection are all answered before its next one is applied,
/// in steps as well.
#[test]
fn no_step_is_long_whatever_waits_for_a_write() {
    let (mut server, client, deep) = world();
    let before = server.replies;
    server.send(client, set("/acl"));
    for _ in 0..500 {
        server.send(client, Request::GetAcl(PathRequest { path: "/acl".to_owned() }));
        server.send(client, Request::GetData(get(&deep)));
    }
    server.send(client, set("/acl"));
    server.commit();
    assert_eq!(server.replies, before + 1002);
    // A write after a long read is proposed when the read is answered.
    server.send(client, set("/acl"));
    server.send(client, read_parts("/acl", 5000));
    server.send(client, set("/acl"));
    assert_eq!(server.proposed.len(), 1);
    server.commit();
    assert_eq!(server.replies, before + 1005);
}

#[test]
fn no_step_is_long_for_any_watcher() {
    let (mut server, client, _) = world();
    for _ in 0..300 {
        let watcher = server.connect();
        let watch = PathWatchRequest { path: "/acl".to_owned(), watch: true };
        server.ask(watcher, Request::GetData(watch));
    }
    server.ask(client, set("/acl"));
}

fn add_watch(path: &str, mode: AddWatchMode) -> Request {
    Request::AddWatch(AddWatchRequest { path: path.to_owned(), mode })
}

/// Requests that add, check and remove watches cost nothing, however long their paths were, and the
/// watches of a closed connection were removed by their number. Requests for watches on paths of a
/// megabyte made a leader step down.
#[test]
fn no_step_is_long_however_long_watched_paths_are() {
    const WATCHES: usize = 200;
    let (mut server, client, _) = world();
    let path = |number| format!("/{number}{}", "p".repeat(64 << 10));
    let (before, add) = (server.replies, |path: &str| add_watch(path, AddWatchMode::Persistent));
    server.send(client, set("/acl"));
    for path in (0..WATCHES).map(path) {
        server.send(client, add(&path));
        let watches = WatchesRequest { path, watcher_type: WatcherType::Any };
        server.send(client, Request::CheckWatches(watches.clone()));
        server.send(client, Request::RemoveWatches(watches));
    }
    server.commit();
    assert_eq!((server.replies, server.replica.watches.len()), (before + 1 + 3 * WATCHES, 0));
    for path in (0..WATCHES).map(path) {
        server.ask(client, add(&path));
    }
    server.step(Input::Disconnect { connection: client });
    server.settle();
    assert_eq!(server.replica.watches.len(), 0);
}

/// A server that lost its leader, or was removed, closed all its connections in one step, and
/// removed more than a hundred watches of each.
#[test]
fn no_step_is_long_when_all_connections_are_closed() {
    const CONNECTIONS: usize = 2000;
    const WATCHES: usize = 20;
    let mut server = Measured::new();
    let mut last = ConnectionId(0);
    for _ in 0..CONNECTIONS {
        last = server.connect();
        for number in 0..WATCHES {
            server.ask(last, add_watch(&format!("/{number}"), AddWatchMode::Persistent));
        }
    }
    server.step(Input::Role { role: Role::Looking, term: None });
    let (steps, replies) = (server.steps, server.replies);
    server.step(Input::Removed);
    assert!(server.closed < CONNECTIONS, "all are closed in one step");
    server.send(last, Request::GetData(get("/")));
    server.settle();
    assert!(server.steps > steps + 40, "{} steps", server.steps - steps);
    assert_eq!((server.closed, server.replies), (CONNECTIONS, replies));
    assert_eq!(server.replica.watches.len(), 0);
    server.replica.check();
}

/// The connections of all commands that are lost were closed in one step.
#[test]
fn no_step_is_long_when_proposals_are_lost() {
    const CONNECTIONS: usize = 2000;
    let mut server = Measured::new();
    for _ in 0..CONNECTIONS {
        let client = server.connect();
        server.ask(client, add_watch("/", AddWatchMode::Persistent));
    }
    for number in 1..=server.connections {
        server.send(ConnectionId(number), set("/"));
    }
    let through = server.replica.last_proposed();
    server.step(Input::Lost { through });
    assert!(server.closed < CONNECTIONS, "all are closed in one step");
    server.settle();
    assert_eq!((server.closed, server.replica.watches.len()), (CONNECTIONS, 0));
    server.replica.check();
}

/// The changes of a multi were handed on to its watchers in its last step, all at once.
#[test]
fn no_step_is_long_for_the_watchers_of_a_multi() {
    const PARTS: usize = 5000;
    const WATCHERS: usize = 100;
    let mut server = Measured::new();
    let client = server.connect();
    server.create(client, "/w", Acl::open());
    for _ in 0..WATCHERS {
        let watcher = server.connect();
        server.ask(watcher, add_watch("/", AddWatchMode::PersistentRecursive));
    }
    let Request::SetData(part) = set("/w") else { return };
    server.ask(client, Request::Multi(Parts(vec![MultiOp::SetData(part); PARTS])));
    assert_eq!(server.events, WATCHERS * PARTS);
}

/// Clients whose long reads are under way take turns.
#[test]
fn a_long_read_does_not_keep_those_of_others_waiting() {
    let (mut server, first, _) = world();
    let second = server.connect();
    let before = server.replies;
    server.send(first, read_parts("/acl", 20_000));
    server.send(second, read_parts("/acl", 2000));
    let mut steps = 0;
    while server.replies == before {
        server.step(Input::GoOn);
        steps += 1;
    }
    let left = server.replica.queued(first);
    assert!((1..200).contains(&steps) && left == 1, "{steps} steps, {left} left");
    server.settle();
}

/// A client that waits for its large request to be read cannot send pings.
#[test]
fn a_client_that_waits_to_be_read_keeps_its_session() {
    let mut server = Measured::new();
    let waiting = server.connect();
    server.connect();
    for _ in 0..20 {
        server.now_ms += 1000;
        server.step(Input::Lease { until_ms: u64::MAX });
        server.step(Input::Alive { connection: waiting });
        server.step(Input::Tick);
        server.commit();
    }
    let connected: Vec<_> = server.replica.connections.keys().copied().collect();
    assert_eq!((connected, server.closed), (vec![waiting], 1), "the silent session expires");
}
