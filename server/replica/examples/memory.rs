//! Measures the memory of znodes and watches, and the time of commands: `cargo run --release -p
//! zoolet-replica --example memory CASE`. Bytes are the growth of the resident memory, divided by the
//! count.

#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "a program that measures")]
#![allow(clippy::disallowed_methods, clippy::disallowed_types, reason = "it reads a clock")]

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Instant;

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

const ZNODES: u64 = 1_000_000;
const ORIGIN: Origin = Origin { server: ServerId(1), boot: Boot(1), stream: 1 };

fn resident_bytes() -> u64 {
    let statm = std::fs::read_to_string("/proc/self/statm").unwrap();
    statm.split(' ').nth(1).unwrap().parse::<u64>().unwrap() * 4096
}

/// Prints by how much the resident memory grows.
fn grow<T>(case: &str, count: u64, build: impl FnOnce() -> T) -> T {
    let before = resident_bytes();
    let built = build();
    let grown = resident_bytes().saturating_sub(before);
    println!("{case:56} {:6} B each", grown / count);
    built
}

/// Prints how long each of some commands takes.
fn time(case: &str, count: u64, work: impl FnOnce()) {
    let begun = Instant::now();
    work();
    println!("{case:56} {:6} ns each", begun.elapsed().as_nanos() / u128::from(count));
}

/// A state, and the number of its last command.
struct Tree(State, u64);

impl Tree {
    fn new() -> Self {
        let mut tree = Self(State::new(), 0);
        tree.apply(Op::CreateSession { timeout_ms: 40_000 });
        tree
    }

    fn apply(&mut self, op: Op) {
        self.1 += 1;
        let stamp = Stamp { term: Term(1), now_ms: 1_700_000_000_000 };
        let command = command(self.1, SessionId(7), ProposalNumber::NONE, op);
        assert!(self.0.admit(ORIGIN, command.number, 1));
        self.0.apply(stamp, ORIGIN, command).result.unwrap();
    }

    fn create(&mut self, path: String) {
        let data = Some(Bytes::from_static(&[7; 100]));
        let body = CreateRequest { path, data, acl: Some(Acl::open()), flags: 0 };
        self.apply(Op::Write(Request::Create(body)));
    }

    fn set(&mut self, path: String, data: &'static [u8]) {
        let data = Some(Bytes::from_static(data));
        self.apply(Op::Write(Request::SetData(SetDataRequest { path, data, version: -1 })));
    }

    fn delete(&mut self, path: String) {
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

/// The path of a znode among 1000 parents.
fn path(n: u64) -> String {
    format!("/load/p{:03}/n{n:09}", n % 1000)
}

fn parents(tree: &mut Tree) {
    tree.create("/load".to_owned());
    (0..1000).for_each(|n| tree.create(format!("/load/p{n:03}")));
}

fn flat() {
    let mut tree = Tree::new();
    tree.create("/load".to_owned());
    let tree = grow("a znode with 100 bytes of data, one parent", ZNODES, || {
        (0..ZNODES).for_each(|n| tree.create(format!("/load/n{n:09}")));
        tree
    });
    drop(tree);
}

fn wide() {
    let mut tree = Tree::new();
    parents(&mut tree);
    let tree = grow("a znode with 100 bytes of data, 1000 parents", ZNODES, || {
        (0..ZNODES).for_each(|n| tree.create(path(n)));
        tree
    });
    drop(tree);
}

fn chain() {
    let mut tree = Tree::new();
    let tree = grow("a znode with 100 bytes of data, each with a child", ZNODES, || {
        for n in 0..ZNODES / 10 {
            let top = format!("/n{n:09}");
            tree.create(top.clone());
            (1..10).fold(top, |parent, level| {
                let path = format!("{parent}/child{level:05}");
                tree.create(path.clone());
                path
            });
        }
        tree
    });
    drop(tree);
}

fn commands() {
    const COUNT: u64 = 100_000;
    let mut tree = Tree::new();
    parents(&mut tree);
    // An order that is not the one of the names.
    let order = |n: u64| n * 7919 % COUNT;
    time("create", COUNT, || (0..COUNT).for_each(|n| tree.create(path(order(n)))));
    time("set of the same length", COUNT, || {
        (0..COUNT).for_each(|n| tree.set(path(order(n)), &[8; 100]));
    });
    time("set of another length", COUNT, || {
        (0..COUNT).for_each(|n| tree.set(path(order(n)), &[9; 120]));
    });
    time("begin of a snapshot", 1, || drop(tree.0.snapshot()));
    let view = tree.0.snapshot();
    time("set beside a snapshot", COUNT, || {
        (0..COUNT).for_each(|n| tree.set(path(order(n)), &[8; 100]));
    });
    time("a znode of a snapshot", COUNT, || drop(view.collect::<Vec<_>>()));
    time("delete", COUNT, || (0..COUNT).for_each(|n| tree.delete(path(order(n)))));
}

/// A replica, its outputs, and the number of its last command.
struct Server(Replica, Vec<Output>);

impl Server {
    fn new() -> Self {
        let mut options = Options::new(ServerId(1), Boot(1));
        options.watches_per_connection_max = usize::MAX;
        options.watches_max = usize::MAX;
        options.watch_bytes_per_connection_max = usize::MAX;
        options.watch_bytes_max = usize::MAX;
        let mut server = Self(Replica::new(options, State::new()), Vec::new());
        server.step(Input::Role { role: Role::Leader, term: Some(Term(1)) });
        server
    }

    fn step(&mut self, input: Input) {
        self.0.step(Now { mono_ms: 1, wall_ms: 1 }, input, &mut self.1);
        let proposed = self.1.drain(..).filter_map(|output| {
            let Output::Propose(command) = output else { return None };
            Some(command)
        });
        let proposed: Vec<_> = proposed.collect();
        for command in proposed {
            let batch = Batch { origin: ORIGIN, now_ms: 1, commands: vec![command] };
            let entry = DecodedEntry::decode(batch.encode());
            self.step(Input::Commit { term: Term(1), entry });
        }
    }

    fn connect(&mut self, number: u64) {
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

    fn watch(&mut self, number: u64, path: String) {
        let body = AddWatchRequest { path, mode: AddWatchMode::Persistent };
        let (connection, request) = (ConnectionId(number), Ok(Request::AddWatch(body)));
        let in_flight = InFlight { op: None, bytes: 0, long_reads: 0 };
        self.step(Input::Request { connection, xid: Xid(1), request, in_flight });
    }
}

fn watches(connections: u64, watches: u64) {
    let mut server = Server::new();
    let case = format!("a session of the replica, {connections} of them");
    let mut server = grow(&case, connections, || {
        (1..=connections).for_each(|number| server.connect(number));
        server
    });
    let case = format!("a watch of a path of 21 bytes, {connections} connections");
    let server = grow(&case, watches, || {
        (0..watches).for_each(|n| server.watch(n % connections + 1, path(n)));
        server
    });
    drop(server);
}

fn main() {
    // Each case in a process of its own measures no holes that another has left.
    match std::env::args().nth(1).as_deref() {
        Some("flat") => flat(),
        Some("wide") => wide(),
        Some("chain") => chain(),
        Some("commands") => commands(),
        Some("watches") => watches(1000, 1_000_000),
        Some("few-watches") => watches(100_000, 100_000),
        _ => println!("one of: flat, wide, chain, commands, watches, few-watches"),
    }
}
