//! Programs of several languages on the same locks, while processes are stopped, cut off and killed,
//! and servers stopped and killed.
//!
//! Each process reaches the servers through lossy proxies of its own, one for each server. The referee
//! is outside of the ensemble and is what the locks guard: it takes writes with the token of a
//! grant, and refuses those below the highest one. A holder that a fault hits for longer than its
//! session gets no reply until another has its lock; then it goes on with its write, which is stale.

mod client_process;
mod protocol;
mod report;

pub use report::ContentionReport;

use std::collections::BTreeMap;
use std::fmt;
use std::process::Command;
use std::sync::mpsc::{self, Receiver, SyncSender};
use std::time::{Duration, Instant};

use tokio::runtime::{Builder, Runtime};
use zoolet_torture::ClaimId;
use zoolet_torture::reported::{Doubts, Grant, ReportedLock};

use self::client_process::ClientProcess;
use self::report::Record;
use super::Contender;
use super::contest::ContestError;
use super::process::{Event, LINES_MAX};
use crate::faults::Seed;
use crate::servers::{LEADER_MAX, Servers};

/// Far longer than the loss of a leader, on a busy machine too: a client that no fault hits
/// keeps its session.
const SESSION_TIMEOUT: Duration = Duration::from_secs(8);
/// A fault that is far shorter than a session, though one may end by it on a busy machine: a ping
/// came up to a third of the timeout before it, and a client may take a second to come back.
const SHORT: Duration = Duration::from_secs(1);
/// How long a server is down.
const DOWN: Duration = Duration::from_secs(1);
/// How long contenders may take to get their turns when nothing goes wrong any more.
const SETTLED_MAX: Duration = Duration::from_mins(2);
/// Turns of each contender between two faults: a contender that had them has a session.
const TURNS: u64 = 3;
/// How often it is looked whether replies were lost.
const LOOK_AGAIN: Duration = Duration::from_millis(50);
/// One reply is lost within this many requests.
const LOST_WITHIN: usize = 6;

/// What happens to a process between itself and the servers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Harm {
    /// It stands still.
    Stopped,
    /// Its connections are cut, and new ones refused.
    CutOff,
    /// Its connections stay, and nothing passes.
    Silenced,
}

/// What goes wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Fault {
    /// For less than a session timeout.
    Short(Harm),
    /// To a holder, until its session has ended and another has its lock.
    Long(Harm),
    /// A holder is killed.
    Kill,
    /// The reply of a request that was carried out is lost, and the connection with it.
    ReplyLost,
    /// A follower stands still for a while.
    FollowerStop,
    /// A follower is killed, and comes back.
    FollowerKill,
    /// The leader is killed right when a lock was granted, and comes back.
    LeaderKillAtGrant,
}

/// All of them. Those that strike a holder stand together, and those that are short: each of them
/// strikes another family then.
pub const FAULTS: [Fault; 11] = [
    Fault::Long(Harm::Stopped),
    Fault::Long(Harm::CutOff),
    Fault::Long(Harm::Silenced),
    Fault::Kill,
    Fault::Short(Harm::Stopped),
    Fault::Short(Harm::CutOff),
    Fault::Short(Harm::Silenced),
    Fault::ReplyLost,
    Fault::FollowerStop,
    Fault::FollowerKill,
    Fault::LeaderKillAtGrant,
];

impl Fault {
    /// Whether it strikes processes of every family, as their turn comes.
    pub fn strikes_processes(self) -> bool {
        matches!(self, Self::Short(_) | Self::Long(_) | Self::Kill)
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Short(Harm::Stopped) => "stopped within the session",
            Self::Short(Harm::CutOff) => "cut off within the session",
            Self::Short(Harm::Silenced) => "silenced within the session",
            Self::Long(Harm::Stopped) => "holder stopped",
            Self::Long(Harm::CutOff) => "holder cut off",
            Self::Long(Harm::Silenced) => "holder silenced",
            Self::Kill => "holder killed",
            Self::ReplyLost => "reply lost",
            Self::FollowerStop => "follower stopped",
            Self::FollowerKill => "follower killed",
            Self::LeaderKillAtGrant => "leader killed at a grant",
        })
    }
}

/// A program, and the contenders in one process of it.
#[derive(Debug)]
pub struct Side {
    /// The family: whose locks these are.
    pub name: &'static str,
    /// What is started.
    pub program: Command,
    /// Recipe and path.
    pub contenders: Vec<(&'static str, &'static str)>,
    /// Whether its lock goes on when the reply of a request is lost.
    pub survives_lost_replies: bool,
}

/// Has the sides contend for mutexes for a time, under faults of theirs and of the servers. Every
/// kind of fault comes once in a round, and there is one round at least.
pub fn contend(
    sides: &[Side],
    servers: &mut Servers,
    seed: &Seed,
    duration: Duration,
) -> Result<ContentionReport, ContestError> {
    let mut contention = Contention::start(sides, servers)?;
    let outcome = contention.run(servers, seed, duration);
    Ok(contention.record.close(seed.number, outcome))
}

#[allow(clippy::disallowed_methods, reason = "the time of real processes")]
fn now() -> Instant {
    Instant::now()
}

struct Contention<'a> {
    sides: &'a [Side],
    /// Where each server listens.
    targets: Vec<String>,
    /// Where the proxies live.
    runtime: Runtime,
    /// By the number of the process; a process that is started again has another one.
    clients: BTreeMap<usize, ClientProcess>,
    next_process: usize,
    sender: SyncSender<(usize, Event)>,
    events: Receiver<(usize, Event)>,
    locks: BTreeMap<&'static str, ReportedLock<Contender>>,
    doubts: Doubts<Contender>,
    /// What strikes the next grant of a lock to a side.
    wanted: BTreeMap<&'static str, (usize, Fault)>,
    /// The holders that were struck, until others have their locks and their own writes were refused.
    struck: Vec<(Grant<Contender>, Fault)>,
    /// The grants that were not given back.
    claims: BTreeMap<Contender, ClaimId>,
    /// Turns since they were counted anew, by side and contender.
    turns: BTreeMap<(usize, usize), u64>,
    /// The server that dies at the next grant.
    doomed: Option<usize>,
    record: Record,
}

impl<'a> Contention<'a> {
    fn start(sides: &'a [Side], servers: &Servers) -> Result<Self, ContestError> {
        let (sender, events) = mpsc::sync_channel(LINES_MAX);
        let paths = sides.iter().flat_map(|side| side.contenders.iter().map(|(_, path)| *path));
        let mut contention = Self {
            sides,
            targets: servers.connect_string().split(',').map(str::to_owned).collect(),
            runtime: Builder::new_multi_thread().worker_threads(1).enable_all().build()?,
            clients: BTreeMap::new(),
            next_process: 0,
            sender,
            events,
            locks: paths.map(|path| (path, ReportedLock::new(path, 1))).collect(),
            doubts: Doubts::new(SESSION_TIMEOUT),
            wanted: BTreeMap::new(),
            struck: Vec::new(),
            claims: BTreeMap::new(),
            turns: BTreeMap::new(),
            doomed: None,
            record: Record::new(sides),
        };
        for side in 0..sides.len() {
            contention.bring(side)?;
        }
        Ok(contention)
    }

    fn run(
        &mut self,
        servers: &mut Servers,
        seed: &Seed,
        duration: Duration,
    ) -> Result<(), ContestError> {
        self.settle(servers, "turns before the first fault")?;
        let mut random = seed.generator(1);
        let mut order = self.families();
        for families in order.values_mut() {
            random.shuffle(families);
        }
        let start = now();
        while self.record.rounds == 0 || start.elapsed() < duration {
            let mut deck: Vec<(usize, Fault)> = FAULTS.into_iter().enumerate().collect();
            random.shuffle(&mut deck);
            for (place, fault) in deck {
                let victims = self.victims(&order, place + self.record.rounds, &mut random);
                self.suffer(fault, &victims, servers, &mut random)?;
                self.settle(servers, "turns after a fault")?;
            }
            self.record.rounds += 1;
        }
        self.finish(servers)
    }

    /// The families that contend for each lock.
    fn families(&self) -> BTreeMap<&'static str, Vec<&'static str>> {
        let mut families: BTreeMap<_, Vec<_>> = BTreeMap::new();
        for side in self.sides {
            for (_, path) in &side.contenders {
                let known = families.entry(*path).or_default();
                if !known.contains(&side.name) {
                    known.push(side.name);
                }
            }
        }
        families
    }

    /// For each lock a side of the family whose turn it is.
    fn victims(
        &self,
        order: &BTreeMap<&'static str, Vec<&'static str>>,
        turn: usize,
        random: &mut fastrand::Rng,
    ) -> BTreeMap<&'static str, usize> {
        let mut victims = BTreeMap::new();
        for (path, families) in order {
            let Some(family) = families.get(turn % families.len().max(1)) else { continue };
            let sides = self.sides.iter().enumerate().filter(|(number, side)| {
                side.name == *family
                    && side.contenders.iter().any(|(_, other)| other == path)
                    && victims.values().all(|chosen| chosen != number)
            });
            let sides: Vec<usize> = sides.map(|(number, _)| number).collect();
            if let Some(side) = random.choice(sides) {
                victims.insert(*path, side);
            }
        }
        victims
    }

    fn suffer(
        &mut self,
        fault: Fault,
        victims: &BTreeMap<&'static str, usize>,
        servers: &mut Servers,
        random: &mut fastrand::Rng,
    ) -> Result<(), ContestError> {
        self.record.mark(fault);
        match fault {
            Fault::Short(harm) => self.shake(harm, victims, servers),
            Fault::Long(_) | Fault::Kill => {
                self.wanted = victims.iter().map(|(path, side)| (*path, (*side, fault))).collect();
                self.until(servers, "a grant to strike", |contention| {
                    contention.wanted.is_empty()
                })?;
                self.until(servers, "the locks of the struck", |contention| {
                    contention.struck.is_empty()
                })
            }
            Fault::ReplyLost => self.lose_replies(servers, random),
            Fault::FollowerStop | Fault::FollowerKill => {
                let leader = servers.wait_for_leader(LEADER_MAX)?;
                let others = (0..self.targets.len()).filter(|one| *one != leader);
                let Some(victim) = random.choice(others.collect::<Vec<_>>()) else { return Ok(()) };
                self.record.count(fault, "servers", 1);
                if fault == Fault::FollowerKill {
                    servers.kill(victim)?;
                    self.listen_for(DOWN, servers)?;
                    return Ok(servers.spawn(victim)?);
                }
                servers.signal(victim, "STOP")?;
                let listened = self.listen_for(DOWN, servers);
                servers.signal(victim, "CONT")?;
                listened
            }
            Fault::LeaderKillAtGrant => {
                let leader = servers.wait_for_leader(LEADER_MAX)?;
                self.doomed = Some(leader);
                self.until(servers, "a grant", |contention| contention.doomed.is_none())?;
                self.record.count(fault, "servers", 1);
                self.listen_for(DOWN, servers)?;
                Ok(servers.spawn(leader)?)
            }
        }
    }

    /// Harms processes for a moment, wherever they stand.
    fn shake(
        &mut self,
        harm: Harm,
        victims: &BTreeMap<&'static str, usize>,
        servers: &mut Servers,
    ) -> Result<(), ContestError> {
        let numbers: Vec<usize> = self
            .clients
            .iter()
            .filter(|(_, client)| victims.values().any(|side| *side == client.side))
            .map(|(number, _)| *number)
            .collect();
        for number in &numbers {
            let Some(client) = self.clients.get(number) else { continue };
            client.harm(harm)?;
            let side = client.side;
            self.begin_doubts(*number, side);
            self.count(Fault::Short(harm), side, 1);
        }
        self.listen_for(SHORT, servers)?;
        for number in numbers {
            self.relieve(number, harm)?;
        }
        Ok(())
    }

    /// Loses a reply of every side that stands it.
    fn lose_replies(
        &mut self,
        servers: &mut Servers,
        random: &mut fastrand::Rng,
    ) -> Result<(), ContestError> {
        let mut before = BTreeMap::new();
        for (number, client) in &self.clients {
            if self.sides.get(client.side).is_some_and(|side| side.survives_lost_replies) {
                client.lose_reply(random.usize(..LOST_WITHIN));
                before.insert(*number, client.replies_lost());
            }
        }
        let deadline = now() + SETTLED_MAX;
        let is_waiting = |contention: &Self| {
            let mut clients = before.iter().filter_map(|(number, lost)| {
                contention.clients.get(number).map(|client| client.replies_lost() == *lost)
            });
            clients.any(|waits| waits)
        };
        while is_waiting(self) && now() < deadline {
            self.listen_for(LOOK_AGAIN, servers)?;
        }
        for (number, before) in before {
            let Some(client) = self.clients.get(&number) else { continue };
            client.calm();
            let (side, lost) = (client.side, client.replies_lost() - before);
            self.count(Fault::ReplyLost, side, lost);
        }
        Ok(())
    }

    /// The contenders of a process.
    fn contenders(&self, process: usize, side: usize) -> impl Iterator<Item = Contender> + use<> {
        let count = self.sides.get(side).map_or(0, |side| side.contenders.len());
        (0..count).map(move |number| Contender { process, number })
    }

    /// Notes that the servers receive nothing any more from a process.
    fn begin_doubts(&mut self, process: usize, side: usize) {
        let now = now();
        for contender in self.contenders(process, side) {
            self.doubts.begin(contender, now);
        }
    }

    /// Ends what harms a process.
    fn relieve(&mut self, process: usize, harm: Harm) -> Result<(), ContestError> {
        let Some(client) = self.clients.get(&process) else { return Ok(()) };
        for contender in self.contenders(process, client.side) {
            self.doubts.end(&contender);
        }
        Ok(client.relieve(harm)?)
    }

    /// Counts what has struck a side.
    fn count(&mut self, fault: Fault, side: usize, times: usize) {
        let name = self.sides.get(side).map_or("", |side| side.name);
        self.record.count(fault, name, times);
    }
}
