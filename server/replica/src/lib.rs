//! The replica: the whole service as a pure state machine.
//!
//! No clock, task, socket, disk, random number or hash order is here. Time comes in with each
//! input, chance in the commands. What it wants done comes out as [`Output`]s, in order.

#[macro_use]
mod planted;
#[macro_use]
mod invariant;
#[macro_use]
mod probe;

mod administer;
mod audit;
mod audit_event;
mod byte_map;
mod check;
mod command;
mod cost;
mod entry;
mod history;
mod input;
mod level;
mod limit;
mod network;
mod now;
mod numbers;
mod options;
mod path_table;
mod policy;
mod progress;
mod proposals;
mod reconfig;
mod report;
mod session;
mod size;
mod sorted_map;
pub mod state;
#[cfg(test)]
mod tests;
mod watch;
mod written;

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use zoolet_jute::SessionId;

pub use progress::Garbage;
use progress::{Applying, CLOSE_WORK, Rest};
use proposals::{OpenProposals, ProposalOwner};
use session::{Client, Expiry, Reaper, SessionHolders, SilentSessions};
use state::{Admitted, State};
use watch::{Jump, Storm, WatchTable};

pub use audit_event::{AuditEvent, AuditOperation, AuditedChange};
pub use command::{Batch, BatchHead, Command, Op, Origin, Stamp};
pub use entry::DecodedEntry;
use history::HistoryItems;
pub use history::{HistoryCause, HistoryChange, HistoryEvent, HistoryItem};
pub use input::{BadRequest, ConnectionId, Input, Output, Role, SaslStep};
pub use level::{FeatureLevel, Levels};
pub use limit::{Limit, Refusal, Refused};
pub use now::Now;
pub use numbers::{Boot, ProposalNumber, ServerId, Term};
pub use options::{DigestAlgorithm, Options, ticker_period_ms};
pub use policy::Policy;
pub use report::{ConnectionReport, SessionReport, WatchedPaths};
pub use session::{InFlight, ReplyTo, Silence, Silences};
pub use watch::WatchPlace;
pub use written::Written;

/// The service, as one server has it: the replicated state, and this server's own connections,
/// watches and proposals.
#[derive(Debug)]
pub struct Replica {
    options: Options,
    state: State,
    /// The time of the step that is being taken.
    now: Now,
    role: Role,
    /// The term in which this server leads, if it does.
    term: Option<Term>,
    /// Whether clients are served: there is a leader, or there was one a moment ago.
    serving: bool,
    /// Whether reads are served without a leader. Invariant: not with `serving`, and then all
    /// connections are of sessions that only this server knows.
    read_only: bool,
    /// The first session id of this time of serving nothing but reads.
    read_only_from: SessionId,
    /// Until when this server is led, or as leader may count signs of life; see [`Input::Lease`].
    lease_until_ms: u64,
    last_step_ms: Option<u64>,
    // Boxed, because the nodes of a map are half empty where keys only rise.
    connections: BTreeMap<ConnectionId, Box<Client>>,
    // Invariant: the connections behind their handshake, each under its session.
    sessions: BTreeMap<SessionId, ConnectionId>,
    session_next: SessionId,
    holders: SessionHolders,
    watches: WatchTable,
    proposals: OpenProposals,
    /// The syncs without an outcome, in the order of their numbers.
    syncs: VecDeque<(u64, ConnectionId)>,
    sync_last: u64,
    /// Syncs up to this number are done or have lost their connection.
    synced: u64,
    /// The reconfigurations without an outcome, and who waits for them.
    reconfigs: BTreeMap<u64, ConnectionId>,
    reconfig_last: u64,
    expiry: Expiry,
    silent: SilentSessions,
    /// Nothing is decided to have expired before this time.
    expire_from_ms: u64,
    /// Sessions with signs of life since the last report to the leader.
    touched: Vec<SessionId>,
    touch_round: u64,
    last_touch_ms: u64,
    /// The number of the last touch.
    touch_last: u64,
    // Invariant: the connections with pings that are held.
    pinging: BTreeSet<ConnectionId>,
    reaper: Reaper,
    /// Whether this leadership has looked at `/zookeeper/config`.
    config_proposed: bool,
    /// The agreed feature level behind the last command, and how often it has fallen.
    level: FeatureLevel,
    level_falls: u64,
    /// The level that it wanted to agree on last as leader, and its term then.
    level_proposed: Option<(Term, FeatureLevel)>,
    /// The batch that is being applied.
    applying: Option<Applying>,
    /// What of its current command watchers are not notified of.
    storm: Storm,
    /// The look behind a snapshot that is under way.
    jump: Option<Jump>,
    rest: Rest,
    garbage: Garbage,
    history: HistoryItems,
    /// Refusals by limits in this step.
    refusals: Vec<Refusal>,
    /// The work that is left in the step that is being taken.
    budget: usize,
    work_done: u64,
}

impl Replica {
    /// A replica that serves no client until a leader is known.
    pub fn new(options: Options, state: State) -> Self {
        Self {
            now: Now::default(),
            role: Role::Looking,
            term: None,
            serving: false,
            read_only: false,
            read_only_from: SessionId::NONE,
            lease_until_ms: 0,
            last_step_ms: None,
            connections: BTreeMap::new(),
            sessions: BTreeMap::new(),
            session_next: session::first_session(&options),
            holders: SessionHolders::default(),
            watches: WatchTable::default(),
            proposals: OpenProposals::new(),
            syncs: VecDeque::new(),
            sync_last: 0,
            synced: 0,
            reconfigs: BTreeMap::new(),
            reconfig_last: 0,
            expiry: Expiry::new(options.tick_ms),
            silent: SilentSessions::default(),
            expire_from_ms: 0,
            touched: Vec::new(),
            touch_round: 0,
            last_touch_ms: 0,
            touch_last: 0,
            pinging: BTreeSet::new(),
            reaper: Reaper::default(),
            config_proposed: false,
            level: state.level(),
            level_falls: 0,
            level_proposed: None,
            applying: None,
            storm: Storm::default(),
            jump: None,
            rest: Rest::default(),
            garbage: Garbage::default(),
            history: HistoryItems::default(),
            refusals: Vec::new(),
            budget: 0,
            work_done: 0,
            options,
            state,
        }
    }

    /// Takes one input, and adds what must be done about it to `out`: the only way to change a
    /// replica. What would take long is left for [`Input::GoOn`], as long as [`Replica::has_work`].
    pub fn step(&mut self, now: Now, input: Input, out: &mut Vec<Output>) {
        self.now = now;
        self.begin_step();
        self.notice_pause();
        match input {
            Input::Connect { connection, peer, proved, request } => {
                self.on_connect(connection, (peer, &proved), &request, out);
            }
            Input::Request { connection, xid, request, in_flight } => {
                let since_ms = self.now.mono_ms;
                self.on_request(ReplyTo { connection, xid, since_ms, in_flight }, request, out);
            }
            Input::Sasl { connection, xid, step, in_flight } => {
                let since_ms = self.now.mono_ms;
                self.on_sasl(ReplyTo { connection, xid, since_ms, in_flight }, step, out);
            }
            Input::Disconnect { connection } => self.on_disconnect(connection, out),
            Input::Commit { term, entry } => self.on_commit(term, entry, out),
            Input::Lost { through } => self.on_lost(through, out),
            Input::Started { boot } => self.on_started(boot, out),
            Input::Synced { through } => self.on_synced(through, out),
            Input::SyncLost { through } => self.on_sync_lost(through, out),
            Input::Touched { sessions } => self.on_touched(&sessions),
            Input::Silences { silences } => self.on_silences(&silences),
            Input::Counted { through, sessions } => self.on_counted(through, &sessions, out),
            Input::Removed => self.on_removed(out),
            Input::Diverged => self.on_diverged(out),
            Input::Reconfigured { number, result } => self.on_reconfigured(number, result, out),
            Input::ReconfigLost { number } => self.on_reconfig_lost(number, out),
            Input::Members { text, write } => self.on_members(text, write, out),
            Input::Level { level } => self.on_level(level, out),
            Input::Role { role, term } => self.on_role(role, term, out),
            Input::Lease { until_ms } => self.on_lease(until_ms, out),
            Input::Expire { session } => self.on_expire(session, out),
            Input::Tick => self.on_tick(out),
            Input::Room { connection, unwritten_bytes } => {
                self.on_room(connection, unwritten_bytes, out);
            }
            Input::Alive { connection } => self.touch(connection),
            Input::Unread { connection, unwritten_bytes } => {
                self.on_unread(connection, unwritten_bytes);
            }
            Input::Restore { state } => self.on_restore(*state, out),
            Input::GoOn => self.go_on(out),
        }
    }

    /// What was replaced, to be freed where no request waits for it; `None` if there is nothing.
    pub fn take_garbage(&mut self) -> Option<Garbage> {
        let has_any = self.garbage.state.is_some() || self.garbage.deadlines.is_some();
        has_any.then(|| std::mem::take(&mut self.garbage))
    }

    /// Returns the refusals since the last call.
    pub fn take_refusals(&mut self) -> Vec<Refusal> {
        std::mem::take(&mut self.refusals)
    }

    /// Notes that a limit has refused something to the client of a connection.
    fn refuse(&mut self, limit: Limit, connection: ConnectionId, refused: Refused) {
        if let Some(client) = self.connections.get(&connection) {
            let (peer, session) = (client.peer, client.session);
            self.refusals.push(Refusal { limit, peer, session, refused });
        }
    }

    /// The replicated state.
    pub fn state(&self) -> &State {
        &self.state
    }

    /// What the configuration decides.
    pub fn options(&self) -> &Options {
        &self.options
    }

    /// The feature levels that are agreed and offered.
    pub fn levels(&self) -> Levels {
        Levels {
            agreed: self.state.level(),
            offered: self.options.level_offered(),
            falls: self.level_falls,
        }
    }

    /// Counts a fall of the agreed feature level. Called where the state may have got another one.
    fn note_level(&mut self) {
        let level = self.state.level();
        self.level_falls += u64::from(level < self.level);
        self.level = level;
    }

    /// How far this server's commands were admitted by the state.
    pub fn admitted(&self) -> Admitted {
        self.state.admitted(self.options.server)
    }

    /// The number of the last command that was proposed.
    pub fn last_proposed(&self) -> ProposalNumber {
        self.proposals.last()
    }

    /// A connection is gone; its session lives on. What it has asked for is still done.
    fn on_disconnect(&mut self, connection: ConnectionId, out: &mut Vec<Output>) {
        let Some(gone) = self.forget(connection) else { return };
        for mut draft in gone.into_held() {
            match draft.lower_to(self.level_max()) {
                Ok(()) => {
                    self.propose(ProposalOwner::Connection(connection), draft, out);
                }
                Err(code) => self.audit_refused_draft(&draft, code, out),
            }
        }
    }

    /// Closes a connection, and forgets it.
    fn close(&mut self, connection: ConnectionId, out: &mut Vec<Output>) {
        let gone = self.rest.closing.remove(&connection).or_else(|| self.detach(connection));
        if let Some(gone) = gone {
            self.clear_away(connection);
            drop(gone);
            out.push(Output::Close { connection });
        }
    }

    /// Closes one of many connections: it is not served any more, and is closed in a later step if
    /// the budget of this one is used up.
    fn close_soon(&mut self, connection: ConnectionId, out: &mut Vec<Output>) {
        let Some(gone) = self.detach(connection) else { return };
        self.rest.closing.insert(connection, gone);
        if self.budget > 0 {
            self.close(connection, out);
        }
    }

    fn forget(&mut self, connection: ConnectionId) -> Option<Box<Client>> {
        let gone = self.detach(connection)?;
        self.clear_away(connection);
        Some(gone)
    }

    fn detach(&mut self, connection: ConnectionId) -> Option<Box<Client>> {
        let gone = self.connections.remove(&connection)?;
        self.rest.due.remove(&connection);
        self.pinging.remove(&connection);
        if self.sessions.get(&gone.session) == Some(&connection) {
            self.sessions.remove(&gone.session);
        }
        self.note_hang_up(&gone);
        Some(gone)
    }

    fn clear_away(&mut self, connection: ConnectionId) {
        probe!();
        self.spend(CLOSE_WORK);
        self.watches.leave(connection);
        self.remove_watches_of(connection);
    }

    /// The session of a connection.
    fn session_of(&self, connection: ConnectionId) -> SessionId {
        self.connections.get(&connection).map_or(SessionId::NONE, |known| known.session)
    }
}
