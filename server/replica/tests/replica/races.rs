//! What happens at the same time, in every order; and long random runs against a model.

use std::collections::BTreeMap;

use bytes::Bytes;
use zoolet_jute::{
    Acl, ConnectResponse, CreateRequest, EventType, NullablePathRequest, PathWatchRequest, Reply,
    Request, SetDataRequest, Xid, Zxid,
};
use zoolet_replica::state::Owner;
use zoolet_replica::{ConnectionId, Input, Output, ReplyTo};

use crate::world::{World, handshake};

/// What can happen to a session at the same time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Event {
    /// Its client goes on at this server.
    Resume(usize),
    /// The leader has heard nothing of it.
    Expire,
    /// Its client closes it, on the old connection.
    Close,
    /// Its client creates an ephemeral znode, on the old connection.
    Create,
}

const SERVERS: usize = 3;
/// The server of the old connection.
const HOME: usize = 1;

#[test]
fn resume_move_expire_close_and_create_agree_in_every_order() {
    let sets: &[[Event; 3]] = &[
        [Event::Resume(2), Event::Expire, Event::Create],
        [Event::Resume(2), Event::Expire, Event::Close],
        [Event::Resume(2), Event::Resume(0), Event::Expire],
        [Event::Resume(2), Event::Resume(0), Event::Create],
        [Event::Resume(HOME), Event::Expire, Event::Resume(2)],
    ];
    let mut runs = 0;
    for events in sets {
        for order in [[0, 1, 2], [0, 2, 1], [1, 0, 2], [1, 2, 0], [2, 0, 1], [2, 1, 0]] {
            // Which servers apply what is in the log after each append, as bits.
            for applies in 0..(1 << (2 * SERVERS)) {
                race(events.map(|event| (event, proposer(event))), order, applies);
                runs += 1;
            }
        }
    }
    assert_eq!(runs, sets.len() * 6 * 64);
}

/// A client pipelined sync and create, lost its connection and resumed its session on the same
/// server while the sync was open. The create was proposed when the sync was done, behind the
/// resume: a lock client had looked by then, had seen nothing and had created a second znode.
#[test]
fn a_write_held_behind_a_sync_has_no_effect_once_the_session_is_resumed() {
    for last in [create("/f", 1), Request::CloseSession] {
        for between in [None, Some(2)] {
            let mut world = World::new(3, |_| {});
            let (old, finish_handshake) = begin(&mut world);
            let sync = Request::Sync(NullablePathRequest { path: None });
            world.request(old, Xid(1), Ok(sync));
            world.request(old, Xid(2), Ok(last.clone()));
            if let Some(between) = between {
                world.connect(between, resume(&finish_handshake));
                world.append(between, 1);
            }
            let new = world.connect(HOME, resume(&finish_handshake));
            world.synced(HOME);
            world.commit();
            check_late(&mut world, new, &finish_handshake, &format!("{last:?}, {between:?}"));
        }
    }
}

/// Two resumes of one session were under way on one server, and the connection of the first had
/// pipelined a write that was read after the second: the write was applied behind both.
#[test]
fn a_write_of_a_resume_that_was_overtaken_has_no_effect() {
    for last in [create("/f", 1), Request::CloseSession] {
        for applied in [false, true] {
            let mut world = World::new(3, |_| {});
            let (_, finish_handshake) = begin(&mut world);
            let first = world.connect(HOME, resume(&finish_handshake));
            if applied {
                world.append(HOME, 1);
            }
            let second = world.connect(HOME, resume(&finish_handshake));
            world.request(first, Xid(1), Ok(last.clone()));
            world.commit();
            check_late(&mut world, second, &finish_handshake, &format!("{last:?}, {applied}"));
        }
    }
}

/// A session at `HOME`.
fn begin(world: &mut World) -> (ConnectionId, ConnectResponse) {
    let connection = world.connect(HOME, handshake(1000));
    world.commit();
    (connection, welcome_of(&world.out, connection).expect("welcome"))
}

/// What came late has no effect, and the newest connection serves the session.
fn check_late(
    world: &mut World,
    new: ConnectionId,
    finish_handshake: &ConnectResponse,
    context: &str,
) {
    let has_f = |world: &World| {
        let there = |server: &crate::world::Server| server.replica.state().stat("/f").is_some();
        world.servers.iter().map(there).collect::<Vec<_>>()
    };
    assert_eq!(has_f(world), [false; SERVERS], "a late write was applied: {context}");
    assert!(welcome_of(&world.out, new).is_some_and(|it| it.timeout_ms > 0), "{context}");
    world.request(new, Xid(1), Ok(create("/f", 1)));
    world.commit();
    assert_eq!(has_f(world), [true; SERVERS], "{context}");
    check_transcripts(&world.out, context);
    for server in &world.servers {
        let state = server.replica.state();
        assert!(state.session(finish_handshake.session_id).is_some(), "{context}");
        assert_eq!(state.digest(), state.digest_recomputed(), "{context}");
        assert_eq!(state.digest(), world.servers[0].replica.state().digest(), "{context}");
    }
}

/// The server through which an event gets into the log.
fn proposer(event: Event) -> usize {
    match event {
        Event::Resume(server) => server,
        Event::Expire => 0,
        Event::Close | Event::Create => HOME,
    }
}

fn race(events: [(Event, usize); 3], order: [usize; 3], applies: usize) {
    let context = format!("{events:?} in the order {order:?}, applied {applies:#b}");
    let mut world = World::new(3, |_| {});
    let old = world.connect(HOME, handshake(1000));
    world.commit();
    let finish_handshake = welcome_of(&world.out, old).expect("welcome");
    world.request(old, Xid(1), Ok(create("/e", 1)));
    world.commit();
    for index in order {
        let (event, server) = events[index];
        match event {
            Event::Resume(_) => {
                world.connect(server, resume(&finish_handshake));
            }
            Event::Expire => {
                world.now_ms = 1500;
                world.step(0, Input::Tick);
            }
            Event::Close => world.request(old, Xid(2), Ok(Request::CloseSession)),
            Event::Create => world.request(old, Xid(2), Ok(create("/f", 1))),
        }
        let step = order.iter().position(|at| *at == index).expect("one of them");
        world.append(server, usize::MAX);
        for replica in 0..SERVERS {
            if step < 2 && applies >> (step * SERVERS + replica) & 1 == 1 {
                world.apply(replica);
            }
        }
    }
    world.commit();
    check_session(&world, &finish_handshake, &context);
    check_transcripts(&world.out, &context);
}

/// The servers agree; the session's znodes are there if and only if it is; only its owner's
/// newest connection is left.
fn check_session(world: &World, finish_handshake: &ConnectResponse, context: &str) {
    let session = finish_handshake.session_id;
    let digests: Vec<u64> =
        world.servers.iter().map(|server| server.replica.state().digest()).collect();
    assert!(digests.windows(2).all(|pair| pair[0] == pair[1]), "digests differ: {context}");
    let state = world.servers[0].replica.state();
    assert_eq!(state.digest(), state.digest_recomputed(), "{context}");
    let alive = state.session(session).copied();
    assert_eq!(state.stat("/e").is_some(), alive.is_some(), "ephemerals: {context}");
    if alive.is_none() {
        assert!(state.stat("/f").is_none(), "an ephemeral znode without an owner: {context}");
    }
    let mut held = 0;
    for server in &world.servers {
        let options = server.replica.options();
        let owner = Owner { server: options.server, boot: options.boot };
        let here = server.replica.connections();
        held += here.len();
        if alive.is_none_or(|alive| alive.owner != owner) {
            assert_eq!(here, [], "a connection without its session: {context}");
        }
    }
    assert!(held <= 1, "two connections hold one session: {context}");
    assert_eq!(held == 1, alive.is_some(), "a session without its connection: {context}");
}

/// Nothing comes behind a close, replies come in order, and no connection gets anything but the
/// handshake's answer first.
fn check_transcripts(out: &[Output], context: &str) {
    let mut last: BTreeMap<ConnectionId, Option<Xid>> = BTreeMap::new();
    let mut closed = Vec::new();
    for output in out {
        let connection = match output {
            Output::Accept { connection, .. } => {
                assert!(last.insert(*connection, None).is_none(), "welcome twice: {context}");
                *connection
            }
            Output::Reply { to: ReplyTo { connection, xid, .. }, .. } => {
                let before = last.insert(*connection, Some(*xid)).expect("welcome first");
                assert!(before < Some(*xid), "replies out of order: {context}");
                *connection
            }
            Output::Notify { connection, .. } => *connection,
            Output::Close { connection } => {
                assert!(!closed.contains(connection), "closed twice: {context}");
                closed.push(*connection);
                continue;
            }
            other => panic!("{other:?}"),
        };
        assert!(!closed.contains(&connection), "an output behind the close: {context}");
    }
}

/// Connections that write, read, watch and sync as they like, with commits cut anywhere: each sees
/// exactly its own writes (P2), and is notified of a change before it sees it (P3, P4).
#[test]
fn every_connection_sees_its_own_writes_in_order_and_events_before_data() {
    for seed in 1..=200 {
        Run::new(seed).go();
    }
}

struct Run {
    seed: u64,
    world: World,
    clients: Vec<Client>,
    random: u64,
}

/// A client and what it must get.
struct Client {
    connection: ConnectionId,
    next_xid: i32,
    /// How often it has written its own znode.
    writes: u32,
    /// What the answers must be, in order.
    expected: Vec<(Xid, Expected)>,
    answered: usize,
    zxid: Zxid,
    /// The version of `/shared` of which it knows, and whether its watch is set.
    seen: i32,
    watching: bool,
}

#[derive(Clone, Copy, Debug)]
enum Expected {
    /// A write or a sync.
    Done,
    /// Its own znode, after this many writes.
    Own(u32),
    /// The znode that all sessions write, with a watch.
    Shared,
}

impl Run {
    fn new(seed: u64) -> Self {
        let mut world = World::new(2, |_| {});
        let clients = (0..4)
            .map(|index| {
                let connection = world.connect(index % 2, handshake(10_000));
                world.commit();
                world.request(connection, Xid(0), Ok(create(&format!("/{}", connection.0), 0)));
                world.commit();
                Client {
                    connection,
                    next_xid: 1,
                    writes: 0,
                    expected: Vec::new(),
                    answered: 0,
                    zxid: Zxid(0),
                    seen: -1,
                    watching: false,
                }
            })
            .collect::<Vec<_>>();
        world.request(clients[0].connection, Xid(0), Ok(create("/shared", 0)));
        world.commit();
        world.out.clear();
        Self { seed, world, clients, random: seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) }
    }

    fn go(&mut self) {
        for _ in 0..300 {
            let client = self.pick(4);
            match self.pick(10) {
                0..=2 => self.write_own(client),
                3..=5 => self.read_own(client),
                6 => self.write_shared(client),
                7 => self.read_shared(client),
                8 => self.sync(client),
                _ => self.deliver(),
            }
            self.check();
        }
        for _ in 0..100 {
            self.world.commit();
            self.world.synced(0);
            self.world.synced(1);
        }
        self.check();
        for client in &self.clients {
            assert_eq!(client.answered, client.expected.len(), "seed {}: unanswered", self.seed);
        }
    }

    fn write_own(&mut self, client: usize) {
        self.clients[client].writes += 1;
        let data = self.clients[client].writes.to_string();
        let path = self.own(client);
        self.send(client, set(&path, data), Expected::Done);
    }

    fn read_own(&mut self, client: usize) {
        let path = self.own(client);
        let expected = Expected::Own(self.clients[client].writes);
        self.send(client, Request::GetData(PathWatchRequest { path, watch: false }), expected);
    }

    fn write_shared(&mut self, client: usize) {
        self.send(client, set("/shared", String::new()), Expected::Done);
    }

    fn read_shared(&mut self, client: usize) {
        let path = "/shared".to_owned();
        let request = Request::GetData(PathWatchRequest { path, watch: true });
        self.send(client, request, Expected::Shared);
    }

    fn sync(&mut self, client: usize) {
        let request = Request::Sync(NullablePathRequest { path: None });
        self.send(client, request, Expected::Done);
    }

    /// Something of what is on its way arrives.
    fn deliver(&mut self) {
        let server = self.pick(2);
        match self.pick(4) {
            0 => self.world.append(server, 1),
            1 => self.world.append(server, 5),
            2 => self.world.apply(server),
            _ => self.world.synced(server),
        }
    }

    fn send(&mut self, client: usize, request: Request, expected: Expected) {
        let client = &mut self.clients[client];
        let xid = Xid(client.next_xid);
        client.next_xid += 1;
        client.expected.push((xid, expected));
        let connection = client.connection;
        self.world.request(connection, xid, Ok(request));
    }

    fn check(&mut self) {
        let seed = self.seed;
        for output in std::mem::take(&mut self.world.out) {
            match output {
                Output::Reply { to: ReplyTo { connection, xid, .. }, zxid, result } => {
                    self.client(connection).answer(seed, xid, zxid, result.expect("success"));
                }
                Output::Notify { connection, zxid, event } => {
                    assert_eq!(event.event_type, EventType::NodeDataChanged);
                    let client = self.client(connection);
                    assert!(client.watching, "seed {seed}: an event without a watch");
                    client.watching = false;
                    assert!(zxid > client.zxid, "seed {seed}: the event came behind its data");
                }
                other => panic!("seed {seed}: {other:?}"),
            }
        }
    }

    fn client(&mut self, connection: ConnectionId) -> &mut Client {
        self.clients.iter_mut().find(|client| client.connection == connection).expect("known")
    }

    fn own(&self, client: usize) -> String {
        format!("/{}", self.clients[client].connection.0)
    }

    fn pick(&mut self, below: usize) -> usize {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        usize::try_from(self.random % below as u64).expect("a small number")
    }
}

impl Client {
    fn answer(&mut self, seed: u64, xid: Xid, zxid: Zxid, reply: Reply) {
        let (expected_xid, expected) = self.expected[self.answered];
        self.answered += 1;
        assert_eq!(xid, expected_xid, "seed {seed}: replies out of order");
        assert!(zxid >= self.zxid, "seed {seed}: time went back");
        self.zxid = zxid;
        match (expected, reply) {
            (Expected::Done, _) => {}
            (Expected::Own(writes), Reply::Data(data, _)) => {
                let wanted = if writes == 0 { String::new() } else { writes.to_string() };
                assert_eq!(data.as_deref(), Some(wanted.as_bytes()), "seed {seed}: own write");
            }
            (Expected::Shared, Reply::Data(_, stat)) => {
                let unchanged = stat.version == self.seen;
                assert!(unchanged || !self.watching, "seed {seed}: data before its event");
                self.seen = stat.version;
                self.watching = true;
            }
            (expected, reply) => panic!("seed {seed}: {expected:?} got {reply:?}"),
        }
    }
}

fn welcome_of(out: &[Output], of: ConnectionId) -> Option<ConnectResponse> {
    out.iter().find_map(|output| match output {
        Output::Accept { connection, response } if *connection == of => Some(response.clone()),
        _ => None,
    })
}

fn resume(finish_handshake: &ConnectResponse) -> zoolet_jute::ConnectRequest {
    zoolet_jute::ConnectRequest {
        session_id: finish_handshake.session_id,
        password: finish_handshake.password.clone(),
        ..handshake(1000)
    }
}

fn create(path: &str, flags: i32) -> Request {
    let (path, data, acl) = (path.to_owned(), Some(Bytes::new()), Some(Acl::open()));
    Request::Create(CreateRequest { path, data, acl, flags })
}

fn set(path: &str, data: String) -> Request {
    let data = Some(Bytes::from(data));
    Request::SetData(SetDataRequest { path: path.to_owned(), data, version: -1 })
}
