//! The host: the lock around the replica, and where its outputs go.
//!
//! Everything that happens to a server takes the lock, steps the replica with an [`Input`], and hands
//! the outputs on in order before the lock is released: replies and watch events into the outboxes
//! of their connections, commands to [`Proposals`]. Tasks that wait for an outbox are woken once per
//! batch, behind the lock. What is not a client's nor an entry of the log comes in by
//! [`Host::input`].

mod deliver;
mod eviction;
mod flow_control;
mod lock;
mod log;
mod outgoing_reply;
mod quota_log;
mod received;
mod records;
mod report;
mod silences;
mod standing;
mod step;
#[cfg(test)]
pub(crate) mod testing;
#[cfg(test)]
mod tests;
mod turns;

use std::collections::{BTreeMap, VecDeque};
use std::fmt::Debug;
use std::net::IpAddr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Weak};
use std::task::Waker;

use tokio::sync::watch;
use tracing::error;
use zoolet_jute::{ConnectRequest, Id, ReconfigRequest, SessionId, Stat};
use zoolet_replica::state::LockEvent;
use zoolet_replica::{Command, ConnectionId, DecodedEntry, Input, Output, Replica};

use self::deliver::SharedEvent;
use self::flow_control::ConnectionLoad;
pub use self::flow_control::{Admission, FlowLimits};
use self::lock::TurnLock;
use self::quota_log::QuotaLog;
pub use self::received::Received;
pub(crate) use self::records::{Audit, Historian};
pub(crate) use self::report::ServerReport;
pub use self::standing::{AdministrationRefused, NoBackup};
pub use self::turns::Turn;
use self::turns::Turns;
use crate::clock::{Clock, Now};
use crate::histogram::Histogram;
use crate::limits::LimitTable;
use crate::metrics::Latency;
use crate::outbox::{Closing, Outbox};

/// The outputs for which room is kept between steps.
const OUTPUTS_KEPT_MAX: usize = 4096;

/// Once so much was applied, the history receives it; otherwise with the next tick. Few enough to be
/// in the caches of the processor still.
const HISTORY_AT_ONCE: usize = 64;

/// Where a replica's wishes go.
///
/// All calls happen under the host's lock and in the order of the outputs, so an implementation
/// only puts what it is given into a queue and returns.
pub trait Proposals: Debug + Send + Sync + 'static {
    /// Puts a command into the log. Its number is one more than the last one's.
    fn propose(&self, command: Command);

    /// Finds out up to where the log is committed now, sees to it that everything up to there is
    /// applied here, and then says [`Input::Synced`].
    fn sync(&self, number: u64);

    /// Has the leader change the ensemble; the outcome comes as
    /// [`Input::Reconfigured`].
    fn reconfig(&self, number: u64, request: ReconfigRequest, identities: Arc<[Id]>);

    /// Reports to the leader that these sessions' clients gave a sign of life; what it has counted
    /// comes as [`Input::Counted`].
    fn touch(&self, number: u64, sessions: Vec<SessionId>);

    /// The memory of the commands that wait to be proposed, those of closed connections too.
    fn queued_bytes(&self) -> usize;
}

/// What the state and the configuration say about changes of the ensemble.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ConfigView {
    /// `reconfigEnabled`.
    pub enabled: bool,
    /// The ACL of `/zookeeper/config` grants them WRITE.
    pub permitted: bool,
    /// The data of `/zookeeper/config`.
    pub text: String,
    /// Its stat.
    pub stat: Stat,
}

/// One server's replica, behind its lock.
#[derive(Debug)]
pub struct Host {
    clock: Arc<dyn Clock>,
    proposals: Arc<dyn Proposals>,
    /// The number of the last connection.
    last_connection: AtomicU64,
    /// What the replica last said about serving, for those who must not wait for the lock.
    serving: AtomicBool,
    /// The same about serving nothing but reads.
    read_only: AtomicBool,
    /// Why the replica cannot go on.
    failure: watch::Sender<Option<String>>,
    limit_table: Arc<LimitTable>,
    turns: Turns,
    inner: TurnLock<Inner>,
}

#[derive(Debug)]
struct Inner {
    replica: Replica,
    limits: FlowLimits,
    /// Those that have sent their `ConnectRequest` and that the replica has not closed.
    connections: BTreeMap<ConnectionId, ConnectionLoad>,
    /// The outboxes of closed connections that are not all written.
    ending: Vec<Weak<Outbox>>,
    /// Requests without a reply, over all connections, and their bytes.
    requests_in_flight: usize,
    bytes_in_flight: usize,
    figures: Figures,
    times: RequestTimes,
    /// When the server was started, milliseconds since 1970.
    started_ms: i64,
    quota_log: QuotaLog,
    audit: Option<Arc<dyn Audit>>,
    history: Option<Arc<dyn Historian>>,
    /// Once it is set, nothing is done any more.
    has_failed: bool,
    /// Empty between steps; kept for its memory.
    outputs: Vec<Output>,
    /// The last long watch event of this hold, encoded.
    shared_event: Option<SharedEvent>,
    /// Of the tasks whose outboxes were filled under this lock.
    wakers: Vec<Waker>,
    /// Connections with due replies whose clients are to read first.
    full: VecDeque<ConnectionId>,
    /// The budget of the log, for several entries together.
    log_turn: Turn,
    /// Whether unfinished work was announced to the task that finishes it.
    has_announced: bool,
}

/// What the whole server did since the last `srst`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Figures {
    /// Frames from clients.
    pub received: u64,
    /// Frames to clients.
    pub sent: u64,
    /// How long requests took.
    pub latency: Latency,
    /// Requests that were refused because they had waited too long.
    pub throttled: u64,
    /// The longest time for which the lock was held, in microseconds.
    pub hold_us_max: u64,
    /// Bytes of requests, and of replies: of the last one, the shortest and the longest.
    pub received_bytes: u64,
    pub reply_bytes: Option<ReplyBytes>,
    /// Connect requests, and connections that have ended behind theirs.
    pub connect_requests: u64,
    pub connections_ended: u64,
    /// Watch events to clients.
    pub watch_events: WatchEvents,
    /// Sessions that this server, as the leader, has found to be without a sign of life.
    pub sessions_expired: u64,
    /// Entries of the log that were applied, and sessions that they were to resume.
    pub entries: u64,
    pub resumed: u64,
}

/// The bytes of replies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReplyBytes {
    /// Of the last one.
    pub last: u64,
    /// Of the shortest.
    pub min: u64,
    /// Of the longest.
    pub max: u64,
}

/// Watch events to clients, by what has happened to the znode.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WatchEvents {
    /// It was created.
    pub created: u64,
    /// It was deleted.
    pub deleted: u64,
    /// Its data was changed.
    pub changed: u64,
    /// Its children were.
    pub children: u64,
}

/// How long requests took, in milliseconds.
#[derive(Clone, Debug, Default)]
struct RequestTimes {
    reads: Histogram,
    updates: Histogram,
    /// How long it took from the leader's log until a batch was applied here.
    propagations: Histogram,
    /// How long locks were held and waited for, by the znodes of their queues.
    lock_holds: Histogram,
    lock_waits: Histogram,
    /// Locks whose holder's session has expired.
    locks_expired: u64,
    /// Locks that went from a holder to those who waited.
    locks_handed_over: u64,
}

impl RequestTimes {
    fn note_locks(&mut self, events: Vec<LockEvent>) {
        for event in events {
            match event {
                LockEvent::Held(ms) => self.lock_holds.record(ms),
                LockEvent::Waited(ms) => self.lock_waits.record(ms),
                LockEvent::Expired => self.locks_expired += 1,
                LockEvent::HandedOver => self.locks_handed_over += 1,
            }
        }
    }
}

impl Inner {
    /// Counts an entry of the log that is applied now.
    fn note_entry(&mut self, now: Now, entry: &DecodedEntry) {
        self.figures.entries += 1;
        self.figures.resumed += entry.resumed() as u64;
        // What was put into the log before the start was not on its way until now.
        if let Some(stamped_ms) = entry.stamped_ms().filter(|stamped| *stamped >= self.started_ms) {
            let took_ms = now.wall_ms.saturating_sub(stamped_ms);
            // The clocks of two servers may differ.
            self.times.propagations.record(u64::try_from(took_ms).unwrap_or(0));
        }
    }
}

impl Host {
    /// A host.
    pub fn new(
        replica: Replica,
        clock: Arc<dyn Clock>,
        proposals: Arc<dyn Proposals>,
        limits: FlowLimits,
        limit_table: Arc<LimitTable>,
    ) -> Arc<Self> {
        limits.register(replica.options(), &limit_table);
        let serving = AtomicBool::new(replica.serving());
        let inner = Inner {
            replica,
            limits,
            connections: BTreeMap::new(),
            ending: Vec::new(),
            requests_in_flight: 0,
            bytes_in_flight: 0,
            figures: Figures::default(),
            times: RequestTimes::default(),
            started_ms: clock.now().wall_ms,
            quota_log: QuotaLog::default(),
            audit: None,
            history: None,
            has_failed: false,
            outputs: Vec::new(),
            shared_event: None,
            wakers: Vec::new(),
            full: VecDeque::new(),
            log_turn: Turn::default(),
            has_announced: false,
        };
        let (last_connection, read_only) = (AtomicU64::new(0), AtomicBool::new(false));
        let (failure, inner) = (watch::Sender::new(None), TurnLock::new(inner));
        Arc::new(Self {
            clock,
            proposals,
            last_connection,
            serving,
            read_only,
            failure,
            limit_table,
            turns: Turns::default(),
            inner,
        })
    }

    /// Why the replica cannot go on, once that is so. The server is to be stopped.
    pub fn failure(&self) -> watch::Receiver<Option<String>> {
        self.failure.subscribe()
    }

    /// A number for a new connection.
    pub fn number_connection(&self) -> ConnectionId {
        ConnectionId(self.last_connection.fetch_add(1, Ordering::Relaxed) + 1)
    }

    /// Both clocks, now.
    pub fn now(&self) -> Now {
        self.clock.now()
    }

    /// Whether a client would be served now.
    pub fn serving(&self) -> bool {
        self.serving.load(Ordering::Relaxed)
    }

    /// Whether only reads are served, for want of a leader.
    pub fn read_only(&self) -> bool {
        self.read_only.load(Ordering::Relaxed)
    }

    /// Takes what happened to the server as a whole. What happens to one connection has methods of
    /// its own, because requests are admitted and counted here, and so have entries of the log,
    /// which are applied in several holds of the lock.
    pub fn input(&self, input: Input) {
        let mut next = Some(input);
        while let Some(mut input) = next {
            next = input.split_off();
            self.locked(|inner, _| self.take_input(inner, input));
        }
    }

    /// Takes a client's `ConnectRequest`; the answer goes to the outbox when the session is in the
    /// log. While the queue of proposals is full, nothing is done and the caller is to try again
    /// later: each session puts a command into that queue, and a client that connects again and
    /// again leaves them there.
    pub fn connect(
        &self,
        connection: ConnectionId,
        outbox: &Arc<Outbox>,
        (peer, proved): (IpAddr, &Arc<[Id]>),
        request: &ConnectRequest,
    ) -> Admission {
        self.locked(|inner, _| {
            if inner.has_failed {
                inner.wakers.extend(outbox.close(Closing::Finished));
                return Admission::Closed;
            }
            if self.proposals.queued_bytes() >= inner.limits.bytes_max {
                return Admission::Busy;
            }
            inner.figures.received += 1;
            inner.figures.connect_requests += 1;
            outbox.count(|traffic| traffic.received += 1);
            inner.connections.insert(connection, ConnectionLoad::new(Arc::clone(outbox)));
            let (request, proved) = (request.clone(), Arc::clone(proved));
            self.step(inner, Input::Connect { connection, peer, proved, request });
            Admission::Open
        })
    }

    /// Takes requests off the front in one hold of the lock, as many as the limits and the turn of the
    /// connection's task admit.
    pub fn requests(
        &self,
        connection: ConnectionId,
        requests: &mut VecDeque<Received>,
        turn: &mut Turn,
    ) -> Admission {
        self.locked(|inner, now| self.take((inner, now), connection, requests, turn))
    }

    fn take_input(&self, inner: &mut Inner, input: Input) {
        self.step(inner, input);
        self.publish_serving(inner);
    }

    fn take(
        &self,
        (inner, now): (&mut Inner, Now),
        connection: ConnectionId,
        requests: &mut VecDeque<Received>,
        turn: &mut Turn,
    ) -> Admission {
        if let Some(entry) = inner.connections.get(&connection) {
            let unwritten_bytes = entry.outbox.unwritten_bytes();
            self.step(inner, Input::Unread { connection, unwritten_bytes });
        }
        let mut taken = 0;
        // What is taken here is in the books of the connection.
        let queue_is_full = self.proposals.queued_bytes() >= inner.limits.bytes_max;
        let throttled = inner.figures.throttled;
        let admission = loop {
            if turn.is_over() && !requests.is_empty() {
                break Admission::Turn;
            }
            let before = inner.replica.work_done();
            match inner.admit(now, connection, requests, queue_is_full) {
                Ok((Received { xid, request, sasl, bytes, .. }, in_flight)) => {
                    taken += 1;
                    inner.figures.received_bytes += bytes as u64;
                    let input = match sasl {
                        Some(step) => Input::Sasl { connection, xid, step, in_flight },
                        None => Input::Request { connection, xid, request, in_flight },
                    };
                    self.step(inner, input);
                    turn.spend(Turn::REQUEST + inner.replica.work_done() - before);
                }
                Err(admission) => break admission,
            }
        };
        self.note_throttled(now, inner.figures.throttled - throttled);
        inner.count_received(connection, taken);
        admission
    }

    /// A client has read replies, and further ones are due.
    pub fn room(&self, connection: ConnectionId) {
        self.locked(|inner, _| self.refill(inner, connection));
    }

    /// A client waits for its request to be read: its session stays alive.
    pub(crate) fn alive(&self, connection: ConnectionId) {
        self.locked(|inner, _| self.step(inner, Input::Alive { connection }));
    }

    /// A connection is gone; harmless if the replica has closed it itself.
    pub fn disconnect(&self, connection: ConnectionId) {
        self.locked(|inner, _| {
            if inner.forget(connection).is_some() {
                self.step(inner, Input::Disconnect { connection });
            }
        });
    }

    /// What decides whether these identities may change the ensemble now.
    pub fn config_view(&self, identities: &[Id]) -> ConfigView {
        self.locked(|inner, _| ConfigView {
            enabled: inner.replica.options().policy.reconfig,
            permitted: inner.replica.may_reconfigure(identities),
            text: inner.replica.config_data(),
            stat: inner.replica.config_stat().unwrap_or_default(),
        })
    }

    fn publish_serving(&self, inner: &Inner) {
        let serves = !inner.has_failed && inner.replica.serving();
        self.read_only.store(inner.replica.read_only(), Ordering::Relaxed);
        self.serving.store(serves, Ordering::Relaxed);
    }

    /// The replica cannot follow the log: no client is served by it any more, not even until the
    /// server has stopped.
    fn fail(&self, inner: &mut Inner, why: String) {
        error!(why, "this server cannot go on");
        inner.has_failed = true;
        self.publish_serving(inner);
        let connections: Vec<_> = inner.connections.keys().copied().collect();
        for connection in connections {
            inner.close(connection);
        }
        self.failure.send_replace(Some(why));
    }
}
