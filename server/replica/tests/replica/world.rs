//! An ensemble of replicas without a network: a log to which their proposals go when the test says
//! so.

use std::collections::{BTreeMap, VecDeque};
use std::net::IpAddr;

use bytes::Bytes;
use zoolet_jute::{ConnectRequest, Request, SessionId, Xid, Zxid};
use zoolet_replica::state::State;
use zoolet_replica::{
    BadRequest, Batch, Boot, Command, ConnectionId, DecodedEntry, InFlight, Input, Now, Options,
    Origin, Output, ProposalNumber, Replica, Role, ServerId, Term,
};

/// The tick of all servers.
pub(crate) const TICK_MS: u64 = 500;

/// How long a lease is.
const LEASE_MS: u64 = 1;

/// All servers, their log, and what the clients have got.
#[derive(Debug)]
pub(crate) struct World {
    pub(crate) servers: Vec<Server>,
    /// Each entry with its term.
    pub(crate) log: Vec<(u64, Bytes)>,
    /// The term of new entries and of new leaders.
    pub(crate) term: u64,
    pub(crate) now_ms: u64,
    /// What came out for clients, in order.
    pub(crate) out: Vec<Output>,
    /// A server whose touches get lost.
    pub(crate) cut: Option<usize>,
    /// Whether the test itself says when a replica goes on, and what clients have read.
    pub(crate) stepwise: bool,
    connections: BTreeMap<ConnectionId, usize>,
    next_connection: u64,
}

/// One server.
#[derive(Debug)]
pub(crate) struct Server {
    pub(crate) replica: Replica,
    /// Proposed, and not in the log yet.
    pub(crate) proposed: VecDeque<Command>,
    /// Asked for, and not answered yet.
    pub(crate) synced: u64,
    /// To be reported to the leader.
    pub(crate) touched: Vec<SessionId>,
    touch: u64,
    stream: u64,
    applied: usize,
    /// Whether its lease is renewed as long as it leads or is led.
    is_renewed: bool,
}

impl World {
    /// `count` servers; the first leads.
    pub(crate) fn new(count: u8, adapt: impl Fn(&mut Options)) -> Self {
        let servers = (1..=count)
            .map(|id| {
                let mut options = Options::new(ServerId(id), Boot(0xb_d0bd_0000 >> 16));
                options.tick_ms = TICK_MS;
                options.session_timeout_ms_min = 1000;
                options.session_timeout_ms_max = 10_000;
                options.leader_loss_limit_ms = 3000;
                adapt(&mut options);
                Server {
                    replica: Replica::new(options, State::new()),
                    proposed: VecDeque::new(),
                    synced: 0,
                    touched: Vec::new(),
                    touch: 0,
                    stream: 0,
                    applied: 0,
                    is_renewed: true,
                }
            })
            .collect();
        let mut world = Self {
            servers,
            log: Vec::new(),
            term: 1,
            now_ms: 0,
            out: Vec::new(),
            cut: None,
            stepwise: false,
            connections: BTreeMap::new(),
            next_connection: 1,
        };
        for index in 0..usize::from(count) {
            let role = if index == 0 { Role::Leader } else { Role::Follower };
            world.take_role(index, role);
        }
        world
    }

    pub(crate) fn step(&mut self, server: usize, input: Input) {
        let mut out = Vec::new();
        let now = self.now();
        self.servers[server].replica.step(now, input, &mut out);
        self.sort_out(server, out);
        self.go_on(server);
    }

    /// Does what the last step has left.
    fn go_on(&mut self, server: usize) {
        while !self.stepwise && self.servers[server].replica.has_work() {
            let (mut out, now) = (Vec::new(), self.now());
            self.servers[server].replica.step(now, Input::GoOn, &mut out);
            self.sort_out(server, out);
        }
    }

    /// Who leads does so in the current term, and looks for a leader before it follows another one. Who
    /// leads or is led has a lease, which each tick renews ([`World::tick`]) and which ends a millisecond
    /// behind it.
    pub(crate) fn take_role(&mut self, server: usize, role: Role) {
        let term = (role == Role::Leader).then_some(Term(self.term));
        let is_led = matches!(role, Role::Follower | Role::Observer);
        if is_led && self.servers[server].replica.role() == Role::Leader {
            self.step(server, Input::Role { role: Role::Looking, term: None });
        }
        if role != Role::Looking {
            self.renew(server);
        }
        self.step(server, Input::Role { role, term });
    }

    /// Renews a lease, unless the test does it from now on.
    fn renew(&mut self, server: usize) {
        if self.servers[server].is_renewed {
            self.step(server, Input::Lease { until_ms: self.now_ms + LEASE_MS });
        }
    }

    /// Gives a server a lease that is not renewed.
    pub(crate) fn lease(&mut self, server: usize, until_ms: u64) {
        self.servers[server].is_renewed = false;
        self.step(server, Input::Lease { until_ms });
    }

    pub(crate) fn connect(&mut self, server: usize, request: ConnectRequest) -> ConnectionId {
        let connection = ConnectionId(self.next_connection);
        self.next_connection += 1;
        self.connections.insert(connection, server);
        let peer = IpAddr::from([127, 0, 0, 1]);
        self.step(server, Input::Connect { connection, peer, proved: [].into(), request });
        connection
    }

    pub(crate) fn request(
        &mut self,
        connection: ConnectionId,
        xid: Xid,
        request: Result<Request, BadRequest>,
    ) {
        let server = self.connections[&connection];
        let in_flight = InFlight::default();
        self.step(server, Input::Request { connection, xid, request, in_flight });
    }

    pub(crate) fn disconnect(&mut self, connection: ConnectionId) {
        let server = self.connections[&connection];
        self.step(server, Input::Disconnect { connection });
    }

    /// Puts proposals of a server into the log, as one entry.
    pub(crate) fn append(&mut self, server: usize, count: usize) {
        let id = self.servers[server].replica.options().server;
        let boot = self.servers[server].replica.options().boot;
        let proposer = &mut self.servers[server];
        let count = count.min(proposer.proposed.len());
        if count > 0 {
            let commands = proposer.proposed.drain(..count).collect();
            let origin = Origin { server: id, boot, stream: proposer.stream };
            let now_ms = self.now().wall_ms;
            self.log.push((self.term, Batch { origin, now_ms, commands }.encode()));
        }
    }

    /// Applies what is in the log on one server.
    pub(crate) fn apply(&mut self, server: usize) {
        while let Some((term, batch)) = self.log.get(self.servers[server].applied).cloned() {
            self.servers[server].applied += 1;
            self.step(
                server,
                Input::Commit { term: Term(term), entry: DecodedEntry::decode(batch) },
            );
        }
    }

    /// Everything that is proposed gets into the log and is applied everywhere.
    pub(crate) fn commit(&mut self) {
        for server in 0..self.servers.len() {
            self.append(server, usize::MAX);
        }
        for server in 0..self.servers.len() {
            self.apply(server);
            self.servers[server].replica.check();
        }
    }

    /// Gives a server's proposals up.
    pub(crate) fn lose(&mut self, server: usize) -> Vec<Command> {
        let proposer = &mut self.servers[server];
        let commands: Vec<_> = proposer.proposed.drain(..).collect();
        proposer.stream += 1;
        let through = commands.last().map_or(ProposalNumber::NONE, |command| command.number);
        self.step(server, Input::Lost { through });
        commands
    }

    /// What was given up gets into the log all the same.
    pub(crate) fn append_late(&mut self, server: usize, commands: Vec<Command>) {
        let options = self.servers[server].replica.options();
        let origin = Origin {
            server: options.server,
            boot: options.boot,
            stream: self.servers[server].stream - 1,
        };
        let now_ms = self.now().wall_ms;
        self.log.push((self.term, Batch { origin, now_ms, commands }.encode()));
    }

    pub(crate) fn synced(&mut self, server: usize) {
        let through = self.servers[server].synced;
        self.step(server, Input::Synced { through });
    }

    /// Time passes, tick by tick of the replicas' clock; touches get to the leader.
    pub(crate) fn pass(&mut self, ms: u64) {
        let end = self.now_ms + ms;
        while self.now_ms < end {
            self.now_ms = (self.now_ms + TICK_MS / 4).min(end);
            self.tick();
        }
    }

    /// One tick of every server, at the time that it is. Leases are renewed with it.
    pub(crate) fn tick(&mut self) {
        for server in 0..self.servers.len() {
            if self.servers[server].replica.role() != Role::Looking {
                self.renew(server);
            }
            self.step(server, Input::Tick);
            self.deliver_touches(server);
        }
    }

    /// A server's touches get to the leader, and what that has counted comes back.
    pub(crate) fn deliver_touches(&mut self, server: usize) {
        if self.cut == Some(server) {
            self.servers[server].touched.clear();
            return;
        }
        let through = self.servers[server].touch;
        let mut sessions = std::mem::take(&mut self.servers[server].touched);
        let is_leader = |server: &Server| server.replica.role() == Role::Leader;
        let Some(leader) = self.servers.iter().position(is_leader) else { return };
        if !sessions.is_empty() {
            self.step(leader, Input::Touched { sessions: sessions.clone() });
            sessions.retain(|session| self.servers[leader].replica.counts(*session));
            self.step(server, Input::Counted { through, sessions });
        }
    }

    /// Replaces a server's state by another's, as a snapshot does.
    pub(crate) fn install(&mut self, server: usize, from: usize) {
        let state = Box::new(self.servers[from].replica.state().clone());
        self.servers[server].applied = self.servers[from].applied;
        self.step(server, Input::Restore { state });
    }

    fn now(&self) -> Now {
        let wall_ms = 1_000_000 + i64::try_from(self.now_ms).expect("a short test");
        Now { mono_ms: self.now_ms, wall_ms }
    }

    fn sort_out(&mut self, at: usize, out: Vec<Output>) {
        let server = &mut self.servers[at];
        let mut full = Vec::new();
        for output in out {
            match output {
                Output::Propose(command) => server.proposed.push_back(command),
                Output::Sync { number } => server.synced = number,
                Output::Touch { number, sessions } => {
                    server.touch = number;
                    server.touched.extend(sessions);
                }
                Output::AwaitRoom { connection } if !self.stepwise => full.push(connection),
                output => self.out.push(output),
            }
        }
        // These clients read at once.
        for connection in full {
            self.step(at, Input::Room { connection, unwritten_bytes: 0 });
        }
    }
}

/// A handshake for a new session.
pub(crate) fn handshake(timeout_ms: i32) -> ConnectRequest {
    ConnectRequest {
        protocol_version: 0,
        last_zxid_seen: Zxid(0),
        timeout_ms,
        session_id: SessionId::NONE,
        password: None,
        read_only: Some(false),
    }
}
