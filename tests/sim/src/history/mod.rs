//! What happened in a run, as clients saw it and as servers applied it: what the checks read.

mod steps;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use zoolet_jute::{ErrorCode, Reply, Request, SessionId, WatcherEvent, Xid, Zxid};
use zoolet_replica::ServerId;

pub use self::steps::{LockStep, RecipeStep};

use crate::SimTime;
use crate::faults::{Kind, Lost};
use crate::trace;

/// A client of a run, from 0: one program that holds one session after another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ClientNumber(pub u32);

/// A connection of a client, from 0 over all clients; a session has one after another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Connection(pub u64);

/// A request, from 0 over all clients.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct CallNumber(pub u64);

/// What has happened, in the order in which it has happened in the whole world.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    /// The true time.
    pub at: SimTime,
    /// What it was.
    pub what: What,
}

/// What a client has done or seen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum What {
    /// A server has answered a handshake: a session was begun or resumed, or it has expired
    /// (`session` is [`SessionId::NONE`]). A client that does not wait for the answer has called before.
    Connected {
        /// Who.
        client: ClientNumber,
        /// The new connection.
        connection: Connection,
        /// Whose server it is.
        server: ServerId,
        /// The session that was asked for; [`SessionId::NONE`] for a new one.
        asked: SessionId,
        /// The session that was granted.
        session: SessionId,
        /// The timeout that was granted, in milliseconds.
        timeout_ms: u32,
        /// `lastZxidSeen` of the handshake.
        last_seen: Zxid,
    },
    /// A connection has ended, on whichever side.
    Disconnected {
        /// Which.
        connection: Connection,
    },
    /// A request was handed to the connection.
    Called {
        /// Its number.
        call: CallNumber,
        /// Where.
        connection: Connection,
        /// The xid of its frame.
        xid: Xid,
        /// What was asked.
        request: Request,
    },
    /// Its reply has arrived. The outcome of a call without one is unknown.
    Returned {
        /// The number of the request.
        call: CallNumber,
        /// The zxid in the reply's header.
        zxid: Zxid,
        /// The body, or the error.
        result: Result<Reply, ErrorCode>,
    },
    /// A watch event has arrived.
    Notified {
        /// Where.
        connection: Connection,
        /// The zxid in its header.
        zxid: Zxid,
        /// What it says.
        event: WatcherEvent,
    },
    /// A client has seen what the protocol or its own work rules out: a frame that cannot be decoded, a
    /// reply to another request than the oldest one, a mirror that missed an event. Each one is a
    /// defect.
    Complained {
        /// Who.
        client: ClientNumber,
        /// What was wrong.
        why: String,
    },
    /// What a lock's contender has done or learned; checks K1 to K8.
    Lock {
        /// Who.
        client: ClientNumber,
        /// The lock's path.
        lock: String,
        /// What.
        step: LockStep,
    },
    /// What a user of another recipe has done or learned; check K8.
    Recipe {
        /// Who.
        client: ClientNumber,
        /// The path of the queue, the counter, the barrier or the tree.
        path: String,
        /// What.
        step: RecipeStep,
    },
    /// A program was started anew, or ended: its sessions are left to their timeouts.
    ClientDied {
        /// Who.
        client: ClientNumber,
    },
}

/// An entry of the log that a server has applied.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Applied {
    /// When.
    pub at: SimTime,
    /// Its place in the log.
    pub index: u64,
    /// The term of its leader.
    pub term: u64,
    /// A batch of commands: see `zoolet_replica::Batch`.
    pub batch: Bytes,
}

/// A server's state at a place in the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Digest {
    /// When.
    pub at: SimTime,
    /// The last entry that it has.
    pub index: u64,
    /// The last transaction.
    pub zxid: Zxid,
    /// The digest of the state.
    pub digest: u64,
}

/// A server has taken the state of a snapshot over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Restore {
    /// When.
    pub at: SimTime,
    /// The last transaction of that state.
    pub zxid: Zxid,
    /// How many entries the server had applied before.
    pub applied_before: usize,
}

/// What one server has applied, over all its lives. After a restart it applies again what its snapshot
/// lacks.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ServerLog {
    /// The entries, in the order in which they were applied.
    pub applied: Vec<Applied>,
    /// The states in between.
    pub digests: Vec<Digest>,
    /// The snapshots of others that it has taken over.
    pub restored: Vec<Restore>,
}

/// How much of something a server has, and how much it may have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Gauge {
    /// When.
    pub at: SimTime,
    /// Whose.
    pub server: ServerId,
    /// Of what.
    pub name: &'static str,
    /// How much.
    pub value: u64,
    /// How much the server may have at most; `None` if that is not limited.
    pub limit: Option<u64>,
    /// Whether there is none of it when all clients have ended.
    pub is_of_clients: bool,
}

/// A time in which a client's machine stood still, its clock too or not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stop {
    /// Whose.
    pub client: ClientNumber,
    /// From when on.
    pub from: SimTime,
    /// Until when.
    pub until: SimTime,
}

/// Something that should not happen on a machine that nothing is done to: a line of a log with the level
/// ERROR, a panic, or the end of a server that was not asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Trouble {
    /// When.
    pub at: SimTime,
    /// The server, if it is one's.
    pub server: Option<ServerId>,
    /// What was said about it.
    pub text: String,
}

/// A fault of one server's disk, which may make trouble there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Strike {
    /// Which.
    pub kind: Kind,
    /// Whose disk.
    pub server: ServerId,
    /// From when on.
    pub from: SimTime,
    /// Until when.
    pub until: SimTime,
}

/// A loss of durable data in a server's log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Loss {
    /// The time of the loss.
    pub at: SimTime,
    /// The server that had the log.
    pub server: ServerId,
    /// The lost files.
    pub lost: Lost,
    /// The first time at which the server ran with the rest of the log.
    pub ran_at: Option<SimTime>,
    /// True once the server has an empty disk.
    pub is_replaced: bool,
}

/// A walk over the whole tree through one server, with a write at its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Walk {
    /// When it has begun.
    pub begun_at: SimTime,
    /// When it was done, and how many znodes there were.
    pub done: Option<(SimTime, u64)>,
}

/// All that is known of a run.
#[derive(Clone, Debug, Default)]
pub struct History {
    /// What clients did and saw.
    pub records: Vec<Record>,
    /// What servers applied.
    pub servers: BTreeMap<ServerId, ServerLog>,
    /// What servers have of things that are limited.
    pub gauges: Vec<Gauge>,
    /// When clients' machines stood still.
    pub stops: Vec<Stop>,
    /// What servers and clients have logged as errors, and servers that have ended by themselves.
    pub troubles: Vec<Trouble>,
    /// The walks over the tree at the end, each through one server.
    pub walks: BTreeMap<ServerId, Walk>,
    /// The faults of disks.
    pub strikes: Vec<Strike>,
    /// The losses of logs.
    pub losses: Vec<Loss>,
    /// From when on and until when no program of a client ran, and servers have noticed that; `None` if
    /// there was no such time.
    pub quiet: Option<(SimTime, SimTime)>,
    /// From when on no fault was under way; the end of the run follows.
    pub healed_at: SimTime,
    /// When the run ended.
    pub ended_at: SimTime,
}

/// Where all parts of a world write what happens. Clones are the same recorder.
#[derive(Clone, Debug, Default)]
pub struct Recorder {
    shared: Arc<Mutex<Recording>>,
    /// Where the time of the world is read, if no one sets it.
    clock: Option<fn() -> SimTime>,
}

#[derive(Debug, Default)]
struct Recording {
    now: SimTime,
    calls: u64,
    connections: u64,
    history: History,
}

impl Recorder {
    /// A recorder of the real world, whose time goes on by itself. What it notes is in no trace.
    pub fn real(clock: fn() -> SimTime) -> Self {
        Self { shared: Arc::default(), clock: Some(clock) }
    }

    fn recording(&self) -> MutexGuard<'_, Recording> {
        let mut recording = self.shared.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(clock) = self.clock {
            // Behind the lock, so that the order of the records is that of their times.
            recording.now = clock();
        }
        recording
    }

    fn trace(&self, what: &What) {
        if self.clock.is_none() {
            trace::record(what);
        }
    }

    /// The world's time goes on; what is noted from now on happens then.
    pub fn set_now(&self, now: SimTime) {
        self.recording().now = now;
    }

    /// The time of the world.
    pub fn now(&self) -> SimTime {
        self.recording().now
    }

    /// The number of a new connection.
    pub fn connection(&self) -> Connection {
        let mut recording = self.recording();
        recording.connections += 1;
        Connection(recording.connections - 1)
    }

    /// Notes something.
    pub fn note(&self, what: What) {
        self.trace(&what);
        let mut recording = self.recording();
        let at = recording.now;
        recording.history.records.push(Record { at, what });
    }

    /// Whether what has happened so far is enough for a test.
    #[cfg(test)]
    pub(crate) fn is_enough(&self, is_enough: impl Fn(&[Record]) -> bool) -> bool {
        is_enough(&self.recording().history.records)
    }

    /// Notes a request, and returns its number.
    pub fn call(&self, connection: Connection, xid: Xid, request: Request) -> CallNumber {
        let mut recording = self.recording();
        let call = CallNumber(recording.calls);
        recording.calls += 1;
        let at = recording.now;
        let what = What::Called { call, connection, xid, request };
        self.trace(&what);
        recording.history.records.push(Record { at, what });
        call
    }

    /// Notes an entry that a server has applied.
    pub fn applied(&self, server: ServerId, index: u64, term: u64, batch: Bytes) {
        let mut recording = self.recording();
        let at = recording.now;
        let log = recording.history.servers.entry(server).or_default();
        log.applied.push(Applied { at, index, term, batch });
    }

    /// Notes a server's state.
    pub fn digest(&self, server: ServerId, index: u64, zxid: Zxid, digest: u64) {
        let mut recording = self.recording();
        let at = recording.now;
        let log = recording.history.servers.entry(server).or_default();
        log.digests.push(Digest { at, index, zxid, digest });
    }

    /// Notes that a server has taken the state of a snapshot over.
    pub fn restored(&self, server: ServerId, zxid: Zxid) {
        let mut recording = self.recording();
        let at = recording.now;
        let log = recording.history.servers.entry(server).or_default();
        log.restored.push(Restore { at, zxid, applied_before: log.applied.len() });
    }

    /// Notes that a client's machine stands still.
    pub fn stopped(&self, client: ClientNumber, from: SimTime, until: SimTime) {
        self.recording().history.stops.push(Stop { client, from, until });
    }

    /// Notes how much of something a server has now.
    pub fn gauge(&self, gauge: Gauge) {
        let mut recording = self.recording();
        let at = recording.now;
        recording.history.gauges.push(Gauge { at, ..gauge });
    }

    /// Notes that a client begins to walk over the tree through this server.
    pub fn walk_begins(&self, server: ServerId) {
        let mut recording = self.recording();
        let walk = Walk { begun_at: recording.now, done: None };
        recording.history.walks.insert(server, walk);
    }

    /// Notes that it has walked over this number of znodes, and has written.
    pub fn walk_ends(&self, server: ServerId, znodes: u64) {
        let mut recording = self.recording();
        let now = recording.now;
        if let Some(walk) = recording.history.walks.get_mut(&server) {
            walk.done = Some((now, znodes));
        }
    }

    /// Whether all walks have ended.
    pub fn is_walked(&self) -> bool {
        self.recording().history.walks.values().all(|walk| walk.done.is_some())
    }

    /// Returns a copy of what was noted so far.
    pub fn history(&self) -> History {
        self.recording().history.clone()
    }

    /// Takes what was noted.
    pub fn take(&self) -> History {
        std::mem::take(&mut self.recording().history)
    }
}
