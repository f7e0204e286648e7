//! What goes wrong in a run.

use std::fmt;
use std::time::Duration;

use crate::faults::netns::OUTSIDE;

zoolet_sim::fault_kinds! {
    /// `kill -9` of a server.
    Kill = "kill",
    /// `kill -9` of all servers at once.
    KillAll = "kill-all",
    /// SIGTERM.
    Restart = "restart",
    /// SIGSTOP.
    Stop = "stop",
    /// Links between servers lose everything.
    Cut = "cut",
    /// The leader is cut off from the others.
    CutLeader = "cut-leader",
    /// A server is cut off from all clients.
    CutClients = "cut-clients",
    /// A server loses its data directory.
    Wipe = "wipe",
    /// A client ends, and is started anew.
    KillClient = "kill-client",
    /// Syncs take long.
    SlowDisk = "slow-disk",
    /// A disk has no room.
    Full = "full",
    /// A wall clock jumps.
    ClockJump = "clock-jump",
    /// Clocks go too fast or too slow.
    ClockRate = "clock-rate",
    /// Links lose packets.
    Loss = "loss",
    /// What a server receives comes late.
    Delay = "delay",
}

/// A fault, and when it begins.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Planned {
    /// Since the begin of the faults.
    pub(super) at: Duration,
    /// How long it lasts.
    pub(super) span: Duration,
    pub(super) fault: Fault,
}

/// A server by its place from 0, or by its part when the fault begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Whom {
    Server(usize),
    Leader,
}

/// A direction between two servers, by their places; see [`OUTSIDE`] for clients.
pub(super) type Link = (usize, usize);

/// What goes wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Fault {
    Kill { server: Whom },
    KillAll,
    Restart { server: Whom },
    Stop { server: Whom },
    Cut { shape: &'static str, links: Vec<Link> },
    CutLeader { out: bool, into: bool },
    CutClients { server: usize, out: bool, into: bool },
    Wipe { server: usize },
    KillClient { client: u32 },
    SlowDisk { server: Whom, each: Duration },
    Full { server: usize },
    ClockJump { server: usize, by_ms: i64 },
    ClockRate { server: usize, ppm: i64 },
    Loss { links: Vec<Link>, permille: u64 },
    Delay { server: Whom, us: (u64, u64) },
}

impl Fault {
    pub(super) const fn kind(&self) -> Kind {
        match self {
            Self::Kill { .. } => Kind::Kill,
            Self::KillAll => Kind::KillAll,
            Self::Restart { .. } => Kind::Restart,
            Self::Stop { .. } => Kind::Stop,
            Self::Cut { .. } => Kind::Cut,
            Self::CutLeader { .. } => Kind::CutLeader,
            Self::CutClients { .. } => Kind::CutClients,
            Self::Wipe { .. } => Kind::Wipe,
            Self::KillClient { .. } => Kind::KillClient,
            Self::SlowDisk { .. } => Kind::SlowDisk,
            Self::Full { .. } => Kind::Full,
            Self::ClockJump { .. } => Kind::ClockJump,
            Self::ClockRate { .. } => Kind::ClockRate,
            Self::Loss { .. } => Kind::Loss,
            Self::Delay { .. } => Kind::Delay,
        }
    }
}

/// The links from a server to others, and from them to it.
pub(super) fn links_of(server: usize, others: &[usize], (out, into): (bool, bool)) -> Vec<Link> {
    let mut links = Vec::new();
    for other in others {
        links.extend(out.then_some((server, *other)));
        links.extend(into.then_some((*other, server)));
    }
    links
}

/// The links between a server and all clients.
pub(super) fn links_to_clients(server: usize, directions: (bool, bool)) -> Vec<Link> {
    links_of(server, &[OUTSIDE], directions)
}

impl fmt::Display for Planned {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "at {:?} for {:?}: {:?}", self.at, self.span, self.fault)
    }
}
