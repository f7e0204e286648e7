//! What goes wrong in a run, and when: drawn from its seed before it begins.
//!
//! A run has two to six kinds of faults, each with a rate of its own, so that rare combinations come
//! up. A fault is an act, or a state that ends after a while; several are under way at a time.

mod act;
mod draw;
mod event;
mod exchange;
mod kind;
mod losses;
mod rot;
mod strike;
mod voters;
mod waits;

use std::fmt;
use std::time::Duration;

use zoolet_replica::ServerId;
use zoolet_storage::{Fault as DiskFault, Survival};

pub(crate) use self::act::Nemesis;
pub use self::draw::{Frame, draw};
pub use self::event::Event;
pub use self::kind::Kind;
use crate::SimTime;
use crate::network::{Conditions, LaneFault, MachineId};
use crate::world::Point;

/// What a server says that has read something damaged on its disk.
pub(crate) const DAMAGED: &str = "damaged";
/// What a server says whose log goes on behind a snapshot that is not there.
pub(crate) const SNAPSHOT_MISSING: &str = "no snapshot reaches so far";
/// Part of the error of a server whose log is missing.
pub(crate) const LOG_MISSING: &str = "but its log is not in";
/// What a server says that is started with the directory of another one.
pub(crate) const OF_ANOTHER: &str = "belongs to server";

/// A fault, and when it begins.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Planned {
    /// Its place in the plan, which names it to the minimizer.
    pub number: usize,
    /// When it begins; the earliest time if it waits.
    pub at: SimTime,
    /// How long it lasts.
    pub span: Duration,
    /// What it is.
    pub fault: Fault,
    /// What it waits for.
    pub wait: Option<Wait>,
}

/// A fault begins behind an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Wait {
    /// The event.
    pub event: Event,
    /// How long behind it.
    pub behind: Duration,
}

/// What goes wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fault {
    /// A server ends as `kill -9` does it, after some turns of its tasks; it is started again
    /// behind the span.
    Kill {
        /// Whom.
        server: Whom,
        /// The turns.
        turns: u64,
    },
    /// A server ends in the midst of its work, if it comes to that point within ten seconds; it is
    /// started again behind the span.
    EndAt {
        /// Whom.
        server: Whom,
        /// Where.
        point: Point,
        /// What of the unsynced survives; `None` if it ends as `kill -9` does it.
        survival: Option<Survival>,
    },
    /// Servers lose their power at the same moment.
    PowerCut {
        /// Whom.
        servers: Vec<ServerId>,
        /// What of the unsynced survives.
        survival: Survival,
        /// The turns of their tasks before that.
        turns: u64,
    },
    /// A server is restarted in good order.
    Restart {
        /// Whom.
        server: Whom,
    },
    /// A server stands still.
    Stop {
        /// Whom.
        server: Whom,
    },
    /// Links between servers are cut, each of one direction.
    Cut {
        /// The shape, for the trace.
        shape: &'static str,
        /// From and to.
        links: Vec<(MachineId, MachineId)>,
    },
    /// The server that leads when it begins is cut off from these other servers, in both directions,
    /// or in one.
    CutLeader {
        /// What it sends is cut.
        out: bool,
        /// What it hears is cut.
        into: bool,
    },
    /// Links are slow, lossy, or narrow.
    Links {
        /// From and to.
        links: Vec<(MachineId, MachineId)>,
        /// How they are.
        conditions: Conditions,
    },
    /// Connections between a server and others are slow, or lose long pieces, in one direction.
    Lanes {
        /// Whose.
        server: Whom,
        /// Whether the direction to it fails, and not the one from it.
        into: bool,
        /// The connections with this many other servers, those that follow it by their numbers.
        others: u8,
        /// How.
        fault: LaneFault,
    },
    /// Connections between two machines break.
    Reset {
        /// One of them.
        one: MachineId,
        /// The other.
        other: MachineId,
        /// Of a thousand, how many.
        permille: u64,
    },
    /// Connects arrive twice.
    ConnectTwice {
        /// From and to.
        links: Vec<(MachineId, MachineId)>,
        /// Of a thousand, how many.
        permille: u64,
    },
    /// A server's program has its turn at one of several milliseconds alone.
    SlowCpu {
        /// Whose.
        server: Whom,
        /// At each of which.
        every: u64,
    },
    /// A server's disk is slow to sync.
    SlowDisk {
        /// Whose.
        server: Whom,
        /// How long a sync takes, in microseconds.
        sync_us: (u64, u64),
    },
    /// A server's disk does nothing.
    Stall {
        /// Whose.
        server: Whom,
    },
    /// A server's disk is full.
    Full {
        /// Whose.
        server: ServerId,
    },
    /// The disk refuses a change, one of those from now on.
    DiskError {
        /// Whose.
        server: ServerId,
        /// Which change.
        change: u64,
        /// How.
        fault: DiskFault,
    },
    /// A server loses its power, and when it is back a bit of what it has stored is another one.
    BitRot {
        /// Whose.
        server: Whom,
        /// Of which files.
        files: Files,
        /// Which bit, by a number that is taken to the files that there are.
        place: u64,
    },
    /// A server loses its power and its disk, and is started with an empty one.
    DiskLoss {
        /// Whose.
        server: ServerId,
    },
    /// The clocks of a server go at this rate, in parts of a million.
    ClockRate {
        /// Whose.
        server: ServerId,
        /// The rate.
        rate: u64,
        /// Whether all promises hold with it.
        is_tolerated: bool,
    },
    /// A server's wall clock jumps, and jumps back behind the span.
    ClockJump {
        /// Whose.
        server: ServerId,
        /// By how much, in milliseconds.
        by_ms: i64,
    },
    /// A client's machine stands still.
    StopClient {
        /// Whose.
        client: u8,
    },
    /// A client's program ends, and is started anew.
    KillClient {
        /// Whose.
        client: u8,
    },
    /// A client is cut off from servers.
    CutClient {
        /// Whose.
        client: u8,
        /// From and to.
        links: Vec<(MachineId, MachineId)>,
    },
    /// A server is restarted with another highest feature level.
    Level {
        /// Whom.
        server: ServerId,
        /// Zero for that of the release.
        level: u32,
    },
    /// A read of the disk fails, one of those from now on.
    ReadError {
        /// Whose.
        server: Whom,
        /// Which read.
        read: u64,
    },
    /// A server loses its power, or stops cleanly if the end of its log is lost. Then it loses files and
    /// is started again.
    LostFile {
        /// Whose.
        server: Whom,
        /// The lost files.
        lost: Lost,
    },
    /// A server is started with a copy of the directory of another one, and with its own one behind the
    /// span.
    WrongDisk {
        /// Whom.
        server: ServerId,
        /// Whose directory it is.
        of: ServerId,
    },
}

/// Files of a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Files {
    /// All.
    Any,
    /// The log, and in it the vote.
    Log,
    /// The newest snapshot.
    NewestSnapshot,
}

/// A loss of files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lost {
    /// The newest snapshot.
    Snapshot {
        /// Where it is cut, by a number that is taken to its length; it is missing without.
        cut_at: Option<u64>,
    },
    /// The end of a log that was closed cleanly.
    LogEnd {
        /// The number of sectors, counted from the end of those in use.
        sectors: u64,
        /// True if the segment is cut there; otherwise they become zeros.
        is_cut: bool,
    },
    /// All segments of the log.
    Segments,
    /// All files but the identity of the directory.
    AllButIdentity,
}

/// A server by its number, or by its part when the fault begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Whom {
    /// This one.
    Server(ServerId),
    /// The leader.
    Leader,
    /// The server of the event that the fault waits for.
    There,
}

impl Fault {
    /// The server that it strikes; `None` if it strikes several, or what is not a server.
    #[allow(clippy::wildcard_enum_match_arm, reason = "the others do not strike one server")]
    fn whom(&self) -> Option<Whom> {
        match self {
            Self::Full { server }
            | Self::DiskError { server, .. }
            | Self::DiskLoss { server }
            | Self::ClockRate { server, .. }
            | Self::ClockJump { server, .. }
            | Self::Level { server, .. }
            | Self::WrongDisk { server, .. } => Some(Whom::Server(*server)),
            _ => self.clone().whom_mut().copied(),
        }
    }
}

impl Fault {
    /// Whether it strikes this server; one that strikes the leader may.
    pub fn may_strike(&self, server: ServerId) -> bool {
        if let Self::PowerCut { servers, .. } = self {
            return servers.contains(&server);
        }
        match self.whom() {
            Some(Whom::Server(struck)) => struck == server,
            Some(Whom::Leader) => true,
            Some(Whom::There) | None => false,
        }
    }
}

impl fmt::Display for Planned {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "fault {} for {} ms: {:?}", self.number, self.span.as_millis(), self.fault)?;
        match self.wait {
            None => Ok(()),
            Some(Wait { event, behind }) => {
                write!(f, ", {} ms behind {event:?}", behind.as_millis())
            }
        }
    }
}

#[cfg(test)]
mod tests;
