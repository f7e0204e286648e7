//! Measures for how long the host's lock is held by what takes longest: `cargo run --release
//! --example lock_holds`. Prints the longest hold of each case. On a busy machine that is
//! mostly the time for which the holder did not run.

#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "a program that measures")]

use std::cell::Cell;
use std::collections::VecDeque;
use std::net::IpAddr;
use std::sync::{Arc, Mutex};

use zoolet_jute::{
    Acl, ConnectRequest, CreateRequest, ErrorCode, Id, MultiOp, NullablePathRequest, Parts,
    PathVersionRequest, PathWatchRequest, ReconfigRequest, Request, SessionId, SetDataRequest,
    SetWatchesRequest, Xid, Zxid,
};
use zoolet_replica::state::State;
use zoolet_replica::{
    Batch, Boot, Command, ConnectionId, Input, Op, Options, Origin, Policy, ProposalNumber,
    Replica, Role, ServerId, Term,
};
use zoolet_server::internals::{
    Admission, FlowLimits, Host, Outbox, Proposals, RealClock, Received, Turn,
};

/// Keeps what is proposed.
#[derive(Debug, Default)]
struct Kept(Mutex<Vec<Command>>);

impl Proposals for Kept {
    fn propose(&self, command: Command) {
        self.0.lock().unwrap().push(command);
    }

    fn sync(&self, _: u64) {}

    fn reconfig(&self, _: u64, _: ReconfigRequest, _: Arc<[Id]>) {}

    fn touch(&self, _: u64, _: Vec<SessionId>) {}

    fn queued_bytes(&self) -> usize {
        0
    }
}

struct Bench {
    host: Arc<Host>,
    kept: Arc<Kept>,
    /// The number of the last command of the other server.
    last: Cell<u64>,
}

type Client = (ConnectionId, Arc<Outbox>);

/// The session of a client of the other server.
const FOREIGN: SessionId = SessionId(7);

impl Bench {
    fn new() -> Self {
        let kept = Arc::new(Kept::default());
        let mut options = Options::new(ServerId(1), Boot(1));
        options.watches_per_connection_max = 1_000_000;
        let replica = Replica::new(options, State::new());
        let proposals: Arc<dyn Proposals> = Arc::clone(&kept) as _;
        let (clock, limits) = (Arc::new(RealClock::new()), FlowLimits::default());
        let host = Host::new(replica, clock, proposals, limits, Arc::default());
        host.input(Input::Lease { until_ms: u64::MAX });
        host.input(Input::Role { role: Role::Leader, term: Some(Term(1)) });
        let bench = Self { host, kept, last: Cell::new(0) };
        bench.foreign([Op::CreateSession { timeout_ms: 40_000 }]);
        bench
    }

    /// Applies commands of a client of another server.
    fn foreign(&self, ops: impl IntoIterator<Item = Op>) {
        self.foreign_of(ops.into_iter().map(|op| (FOREIGN, op)));
    }

    /// Applies commands of clients of another server.
    fn foreign_of(&self, ops: impl IntoIterator<Item = (SessionId, Op)>) {
        let ops: Vec<_> = ops.into_iter().collect();
        for ops in ops.chunks(1000) {
            let commands = ops.iter().map(|(session, op)| {
                self.last.set(self.last.get() + 1);
                Command {
                    number: ProposalNumber(self.last.get()),
                    session: *session,
                    attachment: ProposalNumber::NONE,
                    cxid: Xid(0),
                    policy: Policy::default(),
                    identities: Arc::from([]),
                    op: op.clone(),
                }
            });
            let origin = Origin { server: ServerId(2), boot: Boot(1), stream: 1 };
            self.host.commit_many([(
                Term(1),
                Batch { origin, now_ms: 0, commands: commands.collect() }.encode(),
            )]);
        }
    }

    /// Creates znodes.
    fn create(&self, paths: impl IntoIterator<Item = String>, flags: i32) {
        self.foreign(paths.into_iter().map(|path| Op::Write(create(path, flags))));
    }

    fn connect(&self) -> Client {
        let (connection, outbox) = (self.host.number_connection(), Arc::new(Outbox::new(1 << 30)));
        let request = ConnectRequest {
            protocol_version: 0,
            last_zxid_seen: Zxid(0),
            timeout_ms: 40_000,
            session_id: SessionId::NONE,
            password: None,
            read_only: None,
        };
        let peer = IpAddr::from([127, 0, 0, 1]);
        let _ = self.host.connect(connection, &outbox, (peer, &Arc::default()), &request);
        self.commit();
        assert!(outbox.accepted().is_some());
        (connection, outbox)
    }

    /// Applies what this server has proposed.
    fn commit(&self) {
        let commands = std::mem::take(&mut *self.kept.0.lock().unwrap());
        let origin = Origin { server: ServerId(1), boot: Boot(1), stream: 1 };
        self.host.commit_many([(Term(1), Batch { origin, now_ms: 0, commands }.encode())]);
    }

    /// Sends requests, of which all are taken.
    fn ask(&self, client: &Client, asked: impl IntoIterator<Item = Request>) {
        let mut asked: VecDeque<_> = asked
            .into_iter()
            .map(|request| Received {
                sasl: None,
                xid: Xid(1),
                op: Some(request.op_code()),
                request: Ok(request),
                bytes: 100,
                is_large: false,
                since_ms: self.host.now().mono_ms,
            })
            .collect();
        while self.host.requests(client.0, &mut asked, &mut Turn::default()) == Admission::Turn {
            self.finish();
        }
        self.finish();
        assert!(asked.is_empty(), "{} requests are not taken", asked.len());
    }

    /// Has a client watch for the end of znodes.
    fn watch(&self, client: &Client, paths: impl IntoIterator<Item = String>) {
        self.set_watches(client, paths.into_iter().collect(), Vec::new());
    }

    /// Has a client watch for the creation of znodes.
    fn watch_new(&self, client: &Client, paths: impl IntoIterator<Item = String>) {
        self.set_watches(client, Vec::new(), paths.into_iter().collect());
    }

    fn set_watches(&self, client: &Client, data_watches: Vec<String>, exist_watches: Vec<String>) {
        let (relative_zxid, child_watches) = (Zxid(i64::MAX), Vec::new());
        let body = SetWatchesRequest { relative_zxid, data_watches, exist_watches, child_watches };
        self.ask(client, [Request::SetWatches(body)]);
    }

    /// What `wchs`, `wchc` and `wchp` do.
    fn look_at_watches(&self) {
        self.host.watched_paths(|_, _| {});
    }

    /// Does what a server's task for unfinished work does.
    fn finish(&self) {
        while self.host.go_on() {}
    }

    fn measure(&self, case: &str, work: impl FnOnce()) {
        self.host.reset_figures();
        work();
        self.finish();
        let hold_us = self.host.report().figures.hold_us_max;
        println!("{case:52} longest hold {hold_us:8} us");
    }
}

fn create(path: String, flags: i32) -> Request {
    Request::Create(CreateRequest { path, data: None, acl: Some(Acl::open()), flags })
}

fn list(path: &str) -> Request {
    Request::GetChildren(PathWatchRequest { path: path.to_owned(), watch: false })
}

fn long_lists(bench: &Bench) {
    bench.create(["/l".to_owned()], 0);
    let name = "x".repeat(60);
    bench.create((0..200_000).map(|n| format!("/l/{name}{n:06}")), 0);
    let reader = bench.connect();
    bench.measure("one getChildren of 200,000 names", || bench.ask(&reader, [list("/l")]));
    let reader = bench.connect();
    let sync = Request::Sync(NullablePathRequest { path: None });
    bench.ask(&reader, std::iter::once(sync).chain((0..32).map(|_| list("/l"))));
    bench.measure("32 of them behind a sync", || {
        bench.host.input(Input::Synced { through: 1_000_000 });
    });
}

fn session_ends(bench: &Bench) {
    bench.create(["/e".to_owned()], 0);
    let path = |n| format!("/e/{n:06}");
    bench.create((0..100_000).map(path), 1);
    let watcher = bench.connect();
    bench.measure("a setWatches of 100,000 paths", || {
        bench.watch(&watcher, (0..100_000).map(path));
    });
    bench.measure("a session with 100,000 watched ephemerals ends", || {
        bench.foreign([Op::CloseSession]);
    });
}

fn multis(bench: &Bench) {
    bench.create(["/m".to_owned()], 0);
    bench.create((0..30_000).map(|n| format!("/m/{n:05}")), 0);
    let delete = |path| MultiOp::Delete(PathVersionRequest { path, version: -1 });
    let mut parts: Vec<_> = (0..30_000).map(|n| delete(format!("/m/{n:05}"))).collect();
    parts.push(delete("/none".to_owned()));
    let multi = |parts: &Vec<_>| Op::Write(Request::Multi(Parts(parts.clone())));
    bench.measure("a multi of 30,000 deletes that fails", || bench.foreign([multi(&parts)]));
    parts.pop();
    bench.measure("a multi of 30,000 deletes", || bench.foreign([multi(&parts)]));
}

fn storms(bench: &Bench) {
    bench.create(["/s".to_owned()], 0);
    for _ in 0..20_000 {
        bench.watch(&bench.connect(), ["/s".to_owned()]);
    }
    let set = SetDataRequest { path: "/s".to_owned(), data: None, version: -1 };
    let set = Op::Write(Request::SetData(set));
    bench.measure("the watch words on a path with 20,000 watchers", || bench.look_at_watches());
    bench.measure("a change with 20,000 watchers", || bench.foreign([set]));
    bench.create((0..100_000).map(|n| format!("/s/{n}")), 0);
    let watcher = bench.connect();
    bench.watch(&watcher, (0..100_000).map(|n| format!("/s/{n}")));
    bench.measure("a connection with 100,000 watches ends", || bench.host.disconnect(watcher.0));
}

fn installs(bench: &Bench) {
    bench.create(["/i".to_owned()], 0);
    bench.create((0..500_000).map(|n| format!("/i/{n:06}")), 0);
    let watcher = bench.connect();
    let mut view = None;
    bench.measure("a snapshot of 500,000 znodes is begun", || view = Some(bench.host.snapshot()));
    let pieces: Vec<_> = view.unwrap().collect();
    let state = State::restore(pieces.iter().cloned().map(Ok::<_, ErrorCode>)).unwrap();
    bench.watch(&watcher, (0..100_000).map(|n| format!("/i/{n:06}")));
    bench.measure("a snapshot under 100,000 watches is installed", || bench.host.restore(state));
}

fn sessions(bench: &Bench) {
    let session = |n: i64| SessionId(1000 + n);
    let opened = Op::CreateSession { timeout_ms: 40_000 };
    bench.foreign_of((0..100_000).map(|n| (session(n), opened.clone())));
    let owned = |n| (session(n), Op::Write(create(format!("/o{n:06}"), 1)));
    bench.measure("the end of a leadership over 100,000 sessions", || {
        bench.host.input(Input::Role { role: Role::Follower, term: None });
    });
    bench.measure("a leadership over 100,000 sessions begins", || {
        bench.host.input(Input::Role { role: Role::Leader, term: Some(Term(2)) });
    });
    bench.foreign_of((0..100_000).map(owned));
    bench.measure("dump of 100,000 sessions with ephemerals", || drop(bench.host.sessions()));
    bench.measure("mntr of 100,000 sessions with ephemerals", || {
        let _ = bench.host.report();
    });
}

fn own_ephemerals(bench: &Bench) {
    let owner = bench.connect();
    // As many as fit into the replies that may wait for a client that does not read.
    for thousand in 0..45 {
        let create = |n| CreateRequest {
            path: format!("/{thousand:02}{n:03}"),
            data: None,
            acl: Some(Acl::open()),
            flags: 1,
        };
        let parts = (0..1000).map(|n| MultiOp::Create(create(n))).collect();
        bench.ask(&owner, [Request::Multi(Parts(parts))]);
        bench.commit();
    }
    let of = |prefix: &str| {
        Request::GetEphemerals(NullablePathRequest { path: Some(prefix.to_owned()) })
    };
    bench.measure("getEphemerals of some of 45,000", || bench.ask(&owner, [of("/40")]));
    bench.measure("getEphemerals of 45,000", || bench.ask(&owner, [of("/")]));
}

fn a_million_watches(bench: &Bench) {
    for client in 0..10 {
        bench.watch_new(&bench.connect(), (0..100_000).map(|n| format!("/client{client}/{n:06}")));
    }
    bench.measure("the watch words on a million watches", || bench.look_at_watches());
}

fn main() {
    let rest = [sessions, own_ephemerals, a_million_watches];
    for case in [long_lists, session_ends, multis, storms, installs].into_iter().chain(rest) {
        case(&Bench::new());
    }
}
