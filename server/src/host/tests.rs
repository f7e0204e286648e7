//! The host around a replica that leads alone.

mod turns;

use std::net::IpAddr;
use std::sync::Mutex;
use std::sync::atomic::AtomicUsize;
use std::task::{Context, Waker};

use bytes::{Buf, Bytes, BytesMut};
use zoolet_jute::{
    Acl, CreateRequest, Decode, ErrorCode, NullablePathRequest, PathWatchRequest, ReplyHeader,
    Request, SetWatchesRequest, Xid, Zxid, frame,
};
use zoolet_replica::state::State;
use zoolet_replica::{Batch, Boot, Options, Origin, Role, ServerId, Term};

use super::*;
use crate::clock::RealClock;
use crate::outbox::{Chunk, HIGH_WATER_BYTES};

/// Keeps what is proposed.
#[derive(Debug, Default)]
struct Kept {
    commands: Mutex<Vec<Command>>,
    queued_bytes: AtomicUsize,
}

impl Proposals for Kept {
    fn propose(&self, command: Command) {
        self.commands.lock().unwrap().push(command);
    }

    fn sync(&self, _: u64) {}

    fn reconfig(&self, _: u64, _: ReconfigRequest, _: Arc<[Id]>) {}

    fn touch(&self, _: u64, _: Vec<SessionId>) {}

    fn queued_bytes(&self) -> usize {
        self.queued_bytes.load(Ordering::Relaxed)
    }
}

/// A clock that a test sets.
#[derive(Debug, Default)]
struct Hands(AtomicU64);

impl Clock for Hands {
    fn now(&self) -> Now {
        Now { mono_ms: self.0.load(Ordering::Relaxed), wall_ms: 0 }
    }
}

/// A clock that moves by some milliseconds each time it is read.
#[derive(Debug, Default)]
struct Running {
    now_ms: AtomicU64,
    step_ms: AtomicU64,
}

impl Clock for Running {
    fn now(&self) -> Now {
        let step_ms = self.step_ms.load(Ordering::Relaxed);
        Now { mono_ms: self.now_ms.fetch_add(step_ms, Ordering::Relaxed), wall_ms: 0 }
    }
}

struct Bench {
    host: Arc<Host>,
    kept: Arc<Kept>,
}

impl Bench {
    fn new() -> Self {
        Self::with(Arc::new(RealClock::new()), FlowLimits::default())
    }

    fn with(clock: Arc<dyn Clock>, limits: FlowLimits) -> Self {
        let kept = Arc::new(Kept::default());
        let replica = Replica::new(Options::new(ServerId(1), Boot(1)), State::new());
        let proposals: Arc<dyn Proposals> = Arc::clone(&kept) as _;
        let host = Host::new(replica, clock, proposals, limits, Arc::default());
        host.input(Input::Lease { until_ms: u64::MAX });
        host.input(Input::Role { role: Role::Leader, term: Some(Term(1)) });
        Self { host, kept }
    }

    /// Applies what is proposed, and finishes the work.
    fn commit(&self) {
        self.commit_entry();
        self.finish();
    }

    /// Applies what is proposed.
    fn commit_entry(&self) {
        let commands = std::mem::take(&mut *self.kept.commands.lock().unwrap());
        let origin = Origin { server: ServerId(1), boot: Boot(1), stream: 1 };
        self.host.commit_many([(Term(1), Batch { origin, now_ms: 1, commands }.encode())]);
    }

    fn connect(&self) -> (ConnectionId, Arc<Outbox>) {
        let (connection, outbox, admission) = self.try_connect();
        assert_eq!(admission, Admission::Open);
        self.commit();
        assert!(outbox.accepted().is_some());
        (connection, outbox)
    }

    fn try_connect(&self) -> (ConnectionId, Arc<Outbox>, Admission) {
        let (connection, outbox) = (self.host.number_connection(), Arc::new(Outbox::new(64 << 20)));
        let request = ConnectRequest {
            protocol_version: 0,
            last_zxid_seen: Zxid(0),
            timeout_ms: 10_000,
            session_id: SessionId::NONE,
            password: None,
            read_only: None,
        };
        let peer = IpAddr::from([127, 0, 0, 1]);
        let admission = self.host.connect(connection, &outbox, (peer, &Arc::default()), &request);
        (connection, outbox, admission)
    }

    /// Offers requests; returns how many were not taken.
    fn ask(&self, connection: ConnectionId, asked: Vec<Request>) -> usize {
        let mut asked = self.received(asked);
        self.offer(connection, &mut asked);
        asked.len()
    }

    /// Offers requests, turn by turn, and finishes the work.
    fn offer(&self, connection: ConnectionId, requests: &mut VecDeque<Received>) -> Admission {
        loop {
            let admission = self.host.requests(connection, requests, &mut Turn::default());
            self.finish();
            if admission != Admission::Turn {
                return admission;
            }
        }
    }

    /// Does what a server's task for unfinished work does.
    fn finish(&self) {
        while self.host.go_on() {}
    }

    /// Takes what happened to the server, and finishes the work.
    fn input(&self, input: Input) {
        self.host.input(input);
        self.finish();
    }

    /// Requests that come now.
    fn received(&self, asked: Vec<Request>) -> VecDeque<Received> {
        let received = |request: Request| Received {
            sasl: None,
            xid: Xid(1),
            op: Some(request.op_code()),
            request: Ok(request),
            bytes: 100,
            is_large: false,
            since_ms: self.host.now().mono_ms,
        };
        asked.into_iter().map(received).collect()
    }
}

fn sync() -> Request {
    Request::Sync(NullablePathRequest { path: None })
}

fn list() -> Request {
    Request::GetChildren(PathWatchRequest { path: "/".into(), watch: false })
}

#[test]
fn the_long_reads_that_wait_behind_a_sync_are_limited() {
    let bench = Bench::new();
    let (connection, outbox) = bench.connect();
    assert_eq!(bench.ask(connection, vec![list(); 500]), 0, "nothing is in front of them");
    outbox.written(outbox.unwritten_bytes(), 0);
    let mut asked = vec![list(); 500];
    asked.insert(0, sync());
    assert_eq!(bench.ask(connection, asked), 500 - 32);
    assert!(outbox.unwritten_bytes() < HIGH_WATER_BYTES);
    bench.input(Input::Synced { through: 1 });
    assert_eq!(bench.ask(connection, vec![list(); 500]), 0, "they are answered");
}

/// While two clients set watches on 60,000 paths each, again and again, the log used each of its turns up
/// for their requests: no other client's write was applied.
#[test]
fn entries_of_the_log_are_applied_while_long_requests_are_under_way() {
    let bench = Bench::new();
    let (connection, _outbox) = bench.connect();
    let watches = Request::SetWatches(SetWatchesRequest {
        relative_zxid: Zxid(0),
        data_watches: Vec::new(),
        exist_watches: (0..60_000).map(|number| format!("/watched-{number}")).collect(),
        child_watches: Vec::new(),
    });
    let mut watches = bench.received(vec![watches]);
    bench.host.requests(connection, &mut watches, &mut Turn::default());
    let (_, outbox, _) = bench.try_connect();
    let before = bench.host.work_done();
    bench.commit_entry();
    assert!(outbox.accepted().is_some());
    let work = bench.host.work_done() - before;
    assert!(work <= 2 * Turn::WORK, "{work} units of work for one entry");
    assert!(bench.host.go_on(), "the long request is under way");
    bench.finish();
}

/// A sync and 32 short requests took 1.2 GiB, and the lock for 2.5 s: all lists were put together
/// and encoded when the sync was done.
#[test]
fn long_lists_behind_a_sync_are_written_when_the_client_reads() {
    let bench = Bench::new();
    let (connection, outbox) = bench.connect();
    for batch in 0..20 {
        let names = (0..500).map(|number| format!("/{:0>100}", batch * 500 + number));
        let create = |path| CreateRequest { path, data: None, acl: Some(Acl::open()), flags: 0 };
        bench.ask(connection, names.map(|path| Request::Create(create(path))).collect());
        bench.commit();
        outbox.written(outbox.unwritten_bytes(), 0);
    }
    let mut chunks = VecDeque::new();
    let mut context = Context::from_waker(Waker::noop());
    assert!(outbox.poll_take(&mut context, &mut chunks).is_ready());
    chunks.clear();
    let mut asked = vec![list(); 32];
    asked.insert(0, sync());
    assert_eq!(bench.ask(connection, asked), 0);
    bench.input(Input::Synced { through: 1 });
    let (mut replies, mut rounds) = (BytesMut::new(), 0);
    loop {
        // One passes the high-water mark, and is the last.
        assert!(outbox.unwritten_bytes() < HIGH_WATER_BYTES + (2 << 20));
        let ready = outbox.poll_take(&mut context, &mut chunks).is_ready();
        for chunk in chunks.drain(..) {
            let pieces: Vec<Bytes> = match chunk {
                Chunk::Bytes(bytes) | Chunk::Uncounted { bytes, .. } => vec![bytes],
                Chunk::Later(later) => later.pieces.collect(),
            };
            for piece in pieces {
                assert!(piece.len() < 1 << 20, "a list comes in pieces");
                outbox.written(piece.len(), 0);
                replies.extend_from_slice(&piece);
            }
        }
        if outbox.take_room() {
            bench.host.room(connection);
            bench.finish();
        } else if !ready {
            break;
        }
        rounds += 1;
    }
    assert_eq!(outbox.unwritten_bytes(), 0, "as many bytes came as were announced");
    assert!(rounds > 10, "{rounds} rounds");
    let mut lists = 0;
    while let Some(mut payload) = frame::split(&mut replies, 1 << 30).unwrap() {
        payload.advance(16);
        if payload.len() > 4 {
            let names = Vec::<String>::decode(&mut payload, "children").unwrap();
            assert_eq!(names.len(), 10_001);
            lists += 1;
        }
    }
    assert_eq!((lists, replies.len()), (32, 0));
}

/// What closed connections have asked for still waits in the queue of proposals. A client that
/// connected again and again could fill the memory with it.
#[test]
fn a_full_queue_of_proposals_admits_one_request_of_a_connection_at_a_time() {
    let bench = Bench::new();
    let (connection, _outbox) = bench.connect();
    bench.kept.queued_bytes.store(FlowLimits::default().bytes_max, Ordering::Relaxed);
    assert_eq!(bench.ask(connection, vec![sync(); 5]), 4);
    assert_eq!(bench.ask(connection, vec![sync(); 5]), 5);
    bench.kept.queued_bytes.store(0, Ordering::Relaxed);
    assert_eq!(bench.ask(connection, vec![sync(); 5]), 0);
}

/// Takes what is written to a client.
fn taken(outbox: &Outbox) -> BytesMut {
    let (mut chunks, mut replies) = (VecDeque::new(), BytesMut::new());
    let mut context = Context::from_waker(Waker::noop());
    while outbox.poll_take(&mut context, &mut chunks).is_ready() {}
    for chunk in chunks {
        match chunk {
            Chunk::Bytes(bytes) | Chunk::Uncounted { bytes, .. } => {
                replies.extend_from_slice(&bytes);
            }
            Chunk::Later(later) => later.pieces.for_each(|piece| replies.extend_from_slice(&piece)),
        }
    }
    outbox.written(replies.len(), 0);
    replies
}

/// Takes what is written to a client, and returns the error of each reply.
fn errors(outbox: &Outbox) -> Vec<Option<ErrorCode>> {
    let mut replies = taken(outbox);
    let mut errors = Vec::new();
    while let Some(mut payload) = frame::split(&mut replies, 1 << 30).unwrap() {
        errors.push(ReplyHeader::decode(&mut payload, "header").unwrap().err);
    }
    errors
}

fn throttling(hands: &Arc<Hands>) -> (Bench, ConnectionId, Arc<Outbox>) {
    let limits = FlowLimits { requests_max: 1, wait_ms_max: 100, ..FlowLimits::default() };
    let bench = Bench::with(Arc::clone(hands) as _, limits);
    let (connection, outbox) = bench.connect();
    taken(&outbox);
    (bench, connection, outbox)
}

/// `throttled_op_wait_time` was read from a `zoo.cfg` and did nothing.
#[test]
fn requests_that_have_waited_too_long_are_refused_in_their_places() {
    let hands = Arc::new(Hands::default());
    let (bench, connection, outbox) = throttling(&hands);
    let watches = SetWatchesRequest {
        relative_zxid: Zxid(0),
        data_watches: Vec::new(),
        exist_watches: Vec::new(),
        child_watches: Vec::new(),
    };
    let waiting = vec![sync(), list(), Request::Ping, Request::SetWatches(watches), list()];
    let mut waiting = bench.received(waiting);
    assert_eq!(bench.offer(connection, &mut waiting), Admission::Busy);
    assert_eq!(waiting.len(), 4, "they wait for the sync");
    hands.0.store(101, Ordering::Relaxed);
    bench.input(Input::Synced { through: 1 });
    assert_eq!(bench.offer(connection, &mut waiting), Admission::Open);
    assert_eq!(bench.ask(connection, vec![list()]), 0);
    let throttled = Some(ErrorCode::ThrottledOp);
    assert_eq!(errors(&outbox), [None, throttled, None, None, throttled, None]);
    assert_eq!(bench.host.report().figures.throttled, 2);
    bench.host.reset_figures();
    assert_eq!(bench.host.report().figures.throttled, 0);
}

#[test]
fn no_request_is_refused_for_a_wait_for_its_own_client() {
    let hands = Arc::new(Hands::default());
    let (bench, connection, outbox) = throttling(&hands);
    let unread = Bytes::from(vec![0; HIGH_WATER_BYTES + 1]);
    let _waker = outbox.push(|out| out.put_shared(unread));
    let mut waiting = bench.received(vec![list()]);
    assert_eq!(bench.offer(connection, &mut waiting), Admission::Busy);
    outbox.written(HIGH_WATER_BYTES + 1, 0);
    // The connection offers them again when everything is written.
    hands.0.store(1050, Ordering::Relaxed);
    assert_eq!(bench.offer(connection, &mut waiting), Admission::Open);
    assert_eq!(bench.host.report().figures.throttled, 0);
}

/// Clients that connect, hang up and connect again left a command in the queue each time, however
/// full it was.
#[test]
fn a_full_queue_of_proposals_admits_no_handshake() {
    let bench = Bench::new();
    bench.kept.queued_bytes.store(FlowLimits::default().bytes_max, Ordering::Relaxed);
    let (connection, outbox, admission) = bench.try_connect();
    assert!(bench.kept.commands.lock().unwrap().is_empty(), "nothing is proposed");
    assert_eq!(admission, Admission::Busy);
    bench.host.disconnect(connection);
    bench.commit();
    assert!(outbox.accepted().is_none());
    bench.kept.queued_bytes.store(0, Ordering::Relaxed);
    bench.connect();
}

#[test]
fn an_entry_that_cannot_be_read_ends_the_service() {
    let bench = Bench::new();
    let (connection, outbox) = bench.connect();
    assert!(bench.host.serving());
    bench.host.commit_many([(Term(1), Bytes::from_static(b"of a later version"))]);
    let why = bench.host.failure().borrow().clone().expect("it has failed");
    assert!(why.contains("cannot be read"), "{why}");
    assert_eq!(bench.offer(connection, &mut VecDeque::new()), Admission::Closed);
    assert!(!bench.host.serving());
    bench.input(Input::Role { role: Role::Leader, term: Some(Term(2)) });
    bench.input(Input::Tick);
    assert!(!bench.host.serving(), "not even with a role to serve in");
    let before = bench.host.digest();
    bench.commit();
    assert_eq!(bench.host.digest(), before);
    drop(outbox);
}

#[test]
fn room_for_a_burst_of_outputs_is_given_back() {
    let bench = Bench::new();
    bench.host.locked(|inner, now| {
        let outputs = Vec::with_capacity(100_000);
        bench.host.dispatch(inner, now, outputs);
        assert!(inner.outputs.capacity() <= OUTPUTS_KEPT_MAX);
        bench.host.dispatch(inner, now, Vec::with_capacity(100));
        assert!(inner.outputs.capacity() >= 100, "the usual room is kept");
    });
}

/// The clock was read once for each hold of the lock, so a read late in a long hold could be served from
/// a state that was too old.
#[test]
fn each_read_of_a_hold_is_judged_by_the_time_of_its_own() {
    const READS: usize = 20;
    let clock = Arc::new(Running::default());
    let bench = Bench::with(Arc::clone(&clock) as _, FlowLimits::default());
    let (connection, outbox) = bench.connect();
    taken(&outbox);
    bench.input(Input::Lease { until_ms: 0 });
    let limit_ms = Options::new(ServerId(1), Boot(1)).leader_loss_limit_ms;
    // The requests are stamped first, each by a reading of its own.
    clock.step_ms.store(limit_ms / 30, Ordering::Relaxed);
    bench.ask(connection, vec![list(); READS]);
    let served = errors(&outbox).len();
    assert!((1..READS / 2 + 1).contains(&served), "{served} of {READS}");
    clock.step_ms.store(0, Ordering::Relaxed);
    bench.input(Input::Lease { until_ms: u64::MAX });
    bench.input(Input::Tick);
    assert_eq!(errors(&outbox).len() + served, READS, "the others have waited");
}

#[test]
fn the_longest_hold_of_the_lock_is_shown_until_a_reset() {
    let hands = Arc::new(Hands::default());
    let bench = Bench::with(Arc::clone(&hands) as _, FlowLimits::default());
    for until_ms in [5, 8] {
        bench.host.locked(|_, _| hands.0.store(until_ms, Ordering::Relaxed));
    }
    assert_eq!(bench.host.report().figures.hold_us_max, 5000);
    bench.host.reset_figures();
    assert_eq!(bench.host.report().figures.hold_us_max, 0);
}
