//! Programs of several languages on the same locks, while processes are stopped and killed, and
//! servers with them.
//!
//! The other programs have no fencing tokens, so the referee judges by what they say: a process that
//! goes on within its session still holds what it held, and one that stands still for longer never
//! goes on. It is killed and started again, and its locks are free, though not before its session
//! may have ended.

use std::collections::BTreeMap;
use std::process::Command;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, SyncSender};
use std::time::{Duration, Instant};

use super::contest::ContestError;
use super::process::{Event, LINES_MAX, Program};
use super::referee::{Contender, Lock, Mode};
use crate::faults::Seed;
use crate::servers::{Servers, ServersError};
use crate::tools;

/// Longer than the loss of a leader.
const SESSION_TIMEOUT: Duration = Duration::from_secs(4);
/// A client pings at least every third of its timeout, so no session ends earlier after its last
/// sign of life than this.
const EXPIRY_MIN: Duration = Duration::from_secs(2);
/// A stop that no session may end by.
const SHORT_STOP: Duration = Duration::from_millis(1600);
/// A stop that ends every session.
const LONG_STOP: Duration = Duration::from_secs(6);
/// How long a server is down.
const DOWN: Duration = Duration::from_secs(1);
/// What comes between two faults: as long as reconnects take, so that a stop does not come on top.
const CALM: Duration = Duration::from_millis(1500);
/// How long contenders may take to get their turns when nothing goes wrong any more.
const SETTLED_MAX: Duration = Duration::from_mins(2);
/// Turns of each contender before the first fault, and after the last one.
const TURNS: u64 = 3;

/// What goes wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Fault {
    /// A process stands still, and goes on before its session may have ended.
    ShortStop,
    /// A process stands still for longer than its session.
    LongStop,
    /// A process is killed.
    Kill,
    /// A follower is killed, and comes back.
    FollowerKill,
    /// The leader is killed right when a lock was granted, and comes back.
    LeaderKillAtGrant,
}

/// All of them.
pub const FAULTS: [Fault; 5] =
    [Fault::ShortStop, Fault::LongStop, Fault::Kill, Fault::FollowerKill, Fault::LeaderKillAtGrant];

/// A program, and the contenders in one process of it.
#[derive(Debug)]
pub struct Side {
    pub name: &'static str,
    pub program: Command,
    /// Recipe and path.
    pub contenders: Vec<(&'static str, &'static str)>,
}

/// What a crowd has shown.
#[derive(Debug, Default)]
pub struct Crowded {
    /// Grants by program.
    pub grants: BTreeMap<&'static str, u64>,
    pub faults: BTreeMap<Fault, usize>,
    /// The longest wait for a dead holder's lock.
    pub regained_max: Duration,
}

/// Lets the sides contend for mutexes for so long, and hurts them and the servers meanwhile; every
/// kind of fault comes once at least.
pub fn crowd(
    sides: &[Side],
    servers: &mut Servers,
    seed: &Seed,
    duration: Duration,
) -> Result<Crowded, ContestError> {
    let mut crowd = Crowd::start(sides, &servers.connect_string())?;
    crowd.settle(servers, "turns before the first fault")?;
    let mut random = seed.generator(1);
    let start = now();
    let mut deck = FAULTS.to_vec();
    random.shuffle(&mut deck);
    while let Some(fault) = deck.pop() {
        crowd.suffer(fault, servers, &mut random)?;
        *crowd.shown.faults.entry(fault).or_default() += 1;
        crowd.listen_for(CALM, servers)?;
        if deck.is_empty() && start.elapsed() < duration {
            deck.extend(FAULTS);
            random.shuffle(&mut deck);
        }
    }
    crowd.settle(servers, "turns after the last fault")?;
    crowd.finish(servers)?;
    Ok(crowd.shown)
}

#[allow(clippy::disallowed_methods, reason = "the time of real processes")]
fn now() -> Instant {
    Instant::now()
}

struct Crowd<'a> {
    sides: &'a [Side],
    connect: String,
    /// By the number of the process; a process that is started again has another one.
    programs: BTreeMap<usize, Running>,
    next_process: usize,
    sender: SyncSender<(usize, Event)>,
    events: Receiver<(usize, Event)>,
    locks: BTreeMap<&'static str, Lock>,
    /// When the holder of a lock was heard of for the last time, if it is dead.
    graves: BTreeMap<&'static str, Instant>,
    /// Turns since they were counted anew, by side and contender.
    turns: BTreeMap<(usize, usize), u64>,
    /// The leader dies at the next grant.
    is_doomed: bool,
    killed: Option<usize>,
    shown: Crowded,
}

struct Running {
    side: usize,
    program: Program,
    is_done: bool,
}

impl<'a> Crowd<'a> {
    fn start(sides: &'a [Side], connect: &str) -> Result<Self, ContestError> {
        let (sender, events) = mpsc::sync_channel(LINES_MAX);
        let paths = sides.iter().flat_map(|side| side.contenders.iter().map(|(_, path)| *path));
        let mut crowd = Self {
            sides,
            connect: connect.to_owned(),
            programs: BTreeMap::new(),
            next_process: 0,
            sender,
            events,
            locks: paths.map(|path| (path, Lock::exclusive(path))).collect(),
            graves: BTreeMap::new(),
            turns: BTreeMap::new(),
            is_doomed: false,
            killed: None,
            shown: Crowded::default(),
        };
        for side in 0..sides.len() {
            crowd.bring(side)?;
        }
        Ok(crowd)
    }

    /// Starts a process of a side.
    fn bring(&mut self, side: usize) -> Result<(), ContestError> {
        let Some(of) = self.sides.get(side) else { return Ok(()) };
        let mut command = tools::copy(&of.program);
        command.args(of.contenders.iter().map(|(recipe, path)| format!("{recipe}:{path}")));
        command.env("ZK_CONNECT", &self.connect);
        command.env("ZK_SESSION_TIMEOUT_MS", SESSION_TIMEOUT.as_millis().to_string());
        let number = self.next_process;
        self.next_process += 1;
        let program = Program::start(&mut command, number, self.sender.clone())?;
        self.programs.insert(number, Running { side, program, is_done: false });
        for contender in 0..of.contenders.len() {
            self.turns.insert((side, contender), 0);
        }
        Ok(())
    }

    fn suffer(
        &mut self,
        fault: Fault,
        servers: &mut Servers,
        random: &mut fastrand::Rng,
    ) -> Result<(), ContestError> {
        match fault {
            Fault::ShortStop | Fault::LongStop | Fault::Kill => {
                let numbers: Vec<usize> = self.programs.keys().copied().collect();
                let Some(number) = random.choice(numbers) else { return Ok(()) };
                self.hurt(fault, number, servers)
            }
            Fault::FollowerKill => {
                let leader = servers.leader();
                let others = (0..servers.client_ports().len()).filter(|one| Some(*one) != leader);
                let Some(victim) = random.choice(others.collect::<Vec<_>>()) else { return Ok(()) };
                servers.kill(victim)?;
                self.listen_for(DOWN, servers)?;
                self.raise(victim, servers)
            }
            Fault::LeaderKillAtGrant => {
                self.is_doomed = true;
                let deadline = now() + SETTLED_MAX;
                while self.is_doomed {
                    self.step("a grant", deadline, servers)?;
                }
                self.listen_for(DOWN, servers)?;
                match self.killed.take() {
                    Some(victim) => self.raise(victim, servers),
                    None => Ok(()),
                }
            }
        }
    }

    /// Starts a server again, and waits for all sides to have had a turn since.
    fn raise(&mut self, server: usize, servers: &mut Servers) -> Result<(), ContestError> {
        servers.spawn(server)?;
        self.settle(servers, "turns with the server back")
    }

    fn hurt(
        &mut self,
        fault: Fault,
        number: usize,
        servers: &mut Servers,
    ) -> Result<(), ContestError> {
        let Some(victim) = self.programs.get_mut(&number) else { return Ok(()) };
        let side = victim.side;
        if fault == Fault::ShortStop {
            victim.program.signal("STOP")?;
            self.listen_for(SHORT_STOP, servers)?;
            let Some(victim) = self.programs.get_mut(&number) else { return Ok(()) };
            victim.program.signal("CONT")?;
            return Ok(());
        }
        if fault == Fault::LongStop {
            victim.program.signal("STOP")?;
        } else {
            victim.program.kill()?;
        }
        // What a dead process had said is not true any more.
        let dead = self.programs.remove(&number);
        let died = now();
        for (path, lock) in &mut self.locks {
            if lock.is_held_by(number) {
                lock.bury(number);
                self.graves.insert(path, died);
            }
        }
        self.listen_for(LONG_STOP, servers)?;
        drop(dead);
        self.bring(side)?;
        self.settle(servers, "turns with the process back")
    }

    /// Lets the contest go on for so long.
    fn listen_for(&mut self, long: Duration, servers: &mut Servers) -> Result<(), ContestError> {
        let end = now() + long;
        while self.step_until(end, servers)? {}
        Ok(())
    }

    /// Lets it go on until every contender has had its turns.
    fn settle(&mut self, servers: &mut Servers, what: &'static str) -> Result<(), ContestError> {
        for turns in self.turns.values_mut() {
            *turns = 0;
        }
        let deadline = now() + SETTLED_MAX;
        while self.turns.values().any(|turns| *turns < TURNS) {
            self.step(what, deadline, servers)?;
        }
        Ok(())
    }

    fn step(
        &mut self,
        what: &'static str,
        deadline: Instant,
        servers: &mut Servers,
    ) -> Result<(), ContestError> {
        if self.step_until(deadline, servers)? {
            return Ok(());
        }
        let missing: Vec<_> = self.turns.iter().filter(|(_, turns)| **turns < TURNS).collect();
        let errors: String =
            self.programs.values_mut().map(|running| running.program.errors()).collect();
        Err(ContestError::TooLong(what, format!("missing turns {missing:?}\n{errors}")))
    }

    /// Waits for the next thing that a process does; `false` when the time is over.
    fn step_until(&mut self, end: Instant, servers: &mut Servers) -> Result<bool, ContestError> {
        match self.events.recv_timeout(end.saturating_duration_since(now())) {
            Ok((process, Event::Said(line))) => {
                self.heard(process, &line, servers)?;
                Ok(true)
            }
            Ok((process, Event::Ended)) => match self.programs.get_mut(&process) {
                Some(running) if !running.is_done => {
                    let name = self.sides.get(running.side).map_or("", |side| side.name);
                    Err(ContestError::Ended(name, running.program.errors()))
                }
                Some(_) | None => Ok(true),
            },
            Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => Ok(false),
        }
    }

    fn heard(
        &mut self,
        process: usize,
        line: &str,
        servers: &mut Servers,
    ) -> Result<(), ContestError> {
        // The dead are not listened to.
        let Some(running) = self.programs.get_mut(&process) else { return Ok(()) };
        let unexpected = || ContestError::Unexpected(line.to_owned());
        let words: Vec<&str> = line.split_whitespace().collect();
        let number = words.get(1).and_then(|word| word.parse().ok()).ok_or_else(unexpected);
        match *words.as_slice() {
            ["READY"] => return Ok(running.program.tell("GO")?),
            ["DONE"] => {
                running.is_done = true;
                return Ok(());
            }
            ["HELD", _, "exclusive"] => self.held(process, number?, servers)?,
            ["FREE", _] => self.free(process, number?)?,
            _ => return Err(unexpected()),
        }
        let Some(running) = self.programs.get_mut(&process) else { return Ok(()) };
        Ok(running.program.tell(&format!("OK {}", words.get(1).unwrap_or(&"")))?)
    }

    fn held(
        &mut self,
        process: usize,
        number: usize,
        servers: &mut Servers,
    ) -> Result<(), ContestError> {
        let (name, path) = self.place(process, number)?;
        let lock = self.locks.get_mut(path).ok_or(ContestError::Ended(name, String::new()))?;
        let who = Contender { process, number };
        let entered = lock.enter(who, Mode::Exclusive);
        entered.map_err(|why| ContestError::Broken(format!("{why} ({name})")))?;
        *self.shown.grants.entry(name).or_default() += 1;
        if let Some(died) = self.graves.remove(path) {
            let after = died.elapsed();
            if after < EXPIRY_MIN {
                let why = format!("{path}: {name} got it {after:?} after its holder's death");
                return Err(ContestError::Broken(why));
            }
            self.shown.regained_max = self.shown.regained_max.max(after);
        }
        if std::mem::take(&mut self.is_doomed) {
            let leader = servers.leader().ok_or(ServersError::NoServer(0))?;
            servers.kill(leader)?;
            self.killed = Some(leader);
        }
        Ok(())
    }

    fn free(&mut self, process: usize, number: usize) -> Result<(), ContestError> {
        let (name, path) = self.place(process, number)?;
        let lock = self.locks.get_mut(path).ok_or(ContestError::Ended(name, String::new()))?;
        lock.leave(Contender { process, number }).map_err(ContestError::Broken)?;
        if let Some(running) = self.programs.get(&process)
            && let Some(turns) = self.turns.get_mut(&(running.side, number))
        {
            *turns += 1;
        }
        Ok(())
    }

    /// Which program a contender belongs to, and what it contends for.
    fn place(
        &self,
        process: usize,
        number: usize,
    ) -> Result<(&'static str, &'static str), ContestError> {
        let side = self.programs.get(&process).and_then(|running| self.sides.get(running.side));
        let place = side.and_then(|side| Some((side.name, side.contenders.get(number)?.1)));
        place.ok_or_else(|| ContestError::Unexpected(format!("a contender {process}.{number}")))
    }

    /// Lets every contender end its turn, and every process end well.
    fn finish(&mut self, servers: &mut Servers) -> Result<(), ContestError> {
        for running in self.programs.values_mut() {
            running.program.tell("STOP")?;
        }
        let deadline = now() + SETTLED_MAX;
        while self.programs.values().any(|running| !running.is_done) {
            self.step("the end of the programs", deadline, servers)?;
        }
        for running in self.programs.values_mut() {
            let status = running.program.wait()?;
            if !status.success() {
                return Err(ContestError::Exit(status));
            }
        }
        Ok(())
    }
}
