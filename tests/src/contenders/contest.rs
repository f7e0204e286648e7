//! The course of a contest.

use std::io;
use std::mem;
use std::process::{Command, ExitStatus};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};

use thiserror::Error;
use zoolet_torture::reported::{Doubts, Entry, Grant, ReportedLock};
use zoolet_torture::{Mode, Violation};

use super::process::{Event, LINES_MAX, Program};
use super::{Contender, Group, SEMAPHORE_PERMITS};
use crate::foreign::EnsembleError;
use crate::servers::{LEADER_MAX, Servers, ServersError};

/// Long enough for the loss of a leader, short enough for a test that waits for an expiry.
const SESSION_TIMEOUT: Duration = Duration::from_secs(6);
/// How long the whole contest may take.
const CONTEST_MAX: Duration = Duration::from_mins(3);
/// Turns of each contender between two events of the contest.
const TURNS: u64 = 3;

/// The process that contends to the end.
const LIVING: usize = 0;
/// The process that is killed.
const VICTIM: usize = 1;

/// Why a contest was not won.
#[derive(Debug, Error)]
pub enum ContestError {
    /// The locks did not keep their promise.
    #[error("{0}")]
    Broken(#[from] Violation),
    /// The same, and which process is which.
    #[error("{0}; the processes: {1}")]
    BrokenAmong(Violation, String),
    #[error("the program said {0:?}")]
    Unexpected(String),
    #[error("{0} ended too early; its stderr:\n{1}")]
    Ended(&'static str, String),
    #[error("the program ended with {0}")]
    Exit(ExitStatus),
    #[error("no end after {0:?} while waiting for {1}; the program's stderr:\n{2}")]
    TooLong(Duration, &'static str, String),
    #[error(transparent)]
    Servers(#[from] ServersError),
    #[error("{0}")]
    Ensemble(EnsembleError),
    #[error("harness: {0}")]
    Io(#[from] io::Error),
}

/// Whether the ensemble loses a server under the contention.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Loss {
    /// The leader is killed and comes back.
    Leader,
    /// No server is lost.
    Nothing,
}

/// What a contest has shown.
#[derive(Clone, Copy, Debug)]
pub struct Outcome {
    /// Grants of all locks.
    pub grants: u64,
    /// From the victim's death until the last of its locks was granted again.
    pub handed_over: Duration,
}

/// Runs the contest of a program's recipes on an ensemble; `last` is what the ensemble loses in the
/// end.
pub fn contest(
    program: &dyn Fn() -> Command,
    groups: &[Group],
    servers: &mut Servers,
    last: Loss,
) -> Result<Outcome, ContestError> {
    let mut contest = Contest::start(program, groups, &servers.connect_string())?;
    contest.until("the sessions", |contest| contest.ready == 2)?;
    contest.send(LIVING, "GO")?;
    contest.until("turns before any loss", |contest| contest.all_had(TURNS))?;
    contest.send(VICTIM, "GO")?;
    contest.until("the victim's holding all locks", |contest| {
        contest.locks.iter().all(|lock| lock.holders().any(|who| who.process == VICTIM))
    })?;
    contest.until("semaphores with two holders", |contest| {
        let mut locks = contest.groups.iter().zip(&contest.locks);
        locks.all(|(group, lock)| group.permits != SEMAPHORE_PERMITS || lock.holders_max() == 2)
    })?;
    let handed_over = contest.kill_victim()?;
    contest.count_anew();
    contest.until("turns without the victim", |contest| contest.all_had(TURNS))?;
    if last == Loss::Leader {
        let leader = servers.wait_for_leader(LEADER_MAX)?;
        servers.kill(leader)?;
        contest.count_anew();
        contest.until("turns without the leader", |contest| contest.all_had(TURNS))?;
        servers.restart(leader)?;
        contest.count_anew();
        contest.until("turns with the server back", |contest| contest.all_had(TURNS))?;
    }
    contest.finish()?;
    let grants = contest.locks.iter().map(ReportedLock::grants).sum();
    Ok(Outcome { grants, handed_over })
}

struct Contest {
    groups: Vec<Group>,
    locks: Vec<ReportedLock<Contender>>,
    doubts: Doubts<Contender>,
    programs: Vec<Program>,
    events: Receiver<(usize, Event)>,
    deadline: Instant,
    ready: usize,
    /// Turns of the living contenders since the last event of the contest.
    turns: Vec<u64>,
    /// How long after the victim's death another had what it had held.
    regained: Vec<Option<Duration>>,
    /// Those that hold a permit until others have regained the dead one's.
    kept: Vec<Contender>,
    done: bool,
}

impl Contest {
    #[allow(clippy::disallowed_methods, reason = "a deadline for real processes")]
    fn start(
        program: &dyn Fn() -> Command,
        groups: &[Group],
        connect: &str,
    ) -> Result<Self, ContestError> {
        let living = groups.iter().flat_map(|group| group.contenders.map(|r| (r, group.path)));
        let victims = groups.iter().map(|group| (group.victim, group.path));
        let (sender, events) = mpsc::sync_channel(LINES_MAX);
        let mut programs = Vec::new();
        let arguments: [Vec<_>; 2] = [living.collect(), victims.collect()];
        for (number, contenders) in arguments.iter().enumerate() {
            let mut command = program();
            command.args(contenders.iter().map(|(recipe, path)| format!("{recipe}:{path}")));
            command.env("ZK_CONNECT", connect);
            command.env("ZK_SESSION_TIMEOUT_MS", SESSION_TIMEOUT.as_millis().to_string());
            programs.push(Program::start(&mut command, number, sender.clone())?);
        }
        Ok(Self {
            groups: groups.to_vec(),
            locks: groups.iter().map(|it| ReportedLock::new(it.path, it.permits)).collect(),
            doubts: Doubts::new(SESSION_TIMEOUT),
            programs,
            events,
            deadline: Instant::now() + CONTEST_MAX,
            ready: 0,
            turns: vec![0; groups.len() * 3],
            regained: vec![None; groups.len()],
            kept: Vec::new(),
            done: false,
        })
    }

    /// Handles lines until something is reached.
    fn until(
        &mut self,
        what: &'static str,
        reached: impl Fn(&Self) -> bool,
    ) -> Result<(), ContestError> {
        while !reached(self) {
            self.step(what)?;
        }
        Ok(())
    }

    #[allow(clippy::disallowed_methods, reason = "a deadline for real processes")]
    fn step(&mut self, what: &'static str) -> Result<(), ContestError> {
        let left = self.deadline.saturating_duration_since(Instant::now());
        match self.events.recv_timeout(left) {
            Ok((process, Event::Said(line))) => self.handle_line(process, &line),
            Ok((LIVING, Event::Ended)) if !self.done => {
                Err(ContestError::Ended("the living", self.errors(LIVING)))
            }
            Ok((VICTIM, Event::Ended)) if self.programs.len() > VICTIM => {
                Err(ContestError::Ended("the victim", self.errors(VICTIM)))
            }
            Ok((_, Event::Ended)) => Ok(()),
            Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => {
                let turns = format!("turns {:?}, regained {:?}\n", self.turns, self.regained);
                Err(ContestError::TooLong(CONTEST_MAX, what, turns + &self.errors(LIVING)))
            }
        }
    }

    fn handle_line(&mut self, process: usize, line: &str) -> Result<(), ContestError> {
        let unexpected = || ContestError::Unexpected(line.to_owned());
        let who = |number| Contender { process, number };
        let words: Vec<&str> = line.split_whitespace().collect();
        match *words.as_slice() {
            ["READY"] => self.ready += 1,
            ["DONE"] => self.done = true,
            // What a dead process had said is not true any more.
            ["HELD" | "WRITE" | "FREE", ..]
                if process == VICTIM && self.programs.len() == VICTIM => {}
            ["HELD", number, mode, ref token @ ..] => {
                let number = number.parse().map_err(|_| unexpected())?;
                let mode = match mode {
                    "exclusive" => Mode::Exclusive,
                    "shared" => Mode::Shared,
                    _ => return Err(unexpected()),
                };
                let token = token.first().map(|token| token.parse()).transpose();
                let token = token.map_err(|_| unexpected())?;
                self.held(Grant { contender: who(number), mode, token })?;
            }
            ["WRITE", number, token] => {
                let number = number.parse().map_err(|_| unexpected())?;
                self.wrote(who(number), token.parse().map_err(|_| unexpected())?)?;
            }
            ["FREE", number] => {
                let number = number.parse().map_err(|_| unexpected())?;
                self.free(who(number))?;
            }
            _ => return Err(unexpected()),
        }
        Ok(())
    }

    #[allow(clippy::disallowed_methods, reason = "the time of a real hand-over")]
    fn held(&mut self, grant: Grant<Contender>) -> Result<(), ContestError> {
        let who = grant.contender;
        let place = place(who);
        let lock = self.locks.get_mut(place).ok_or_else(|| no_contender(who))?;
        let entry = lock.enter(grant, &self.doubts, Instant::now())?;
        if let Entry::TakenOver(_, after) = entry
            && let Some(regained) = self.regained.get_mut(place)
        {
            *regained = Some(after);
        }
        if who.process == LIVING {
            self.kept.push(who);
        }
        // The victim never receives an answer: it dies with what it holds.
        self.answer_kept()
    }

    /// Answers those whose turn goes on. While a dead one has a permit of a semaphore, the holder of the
    /// other keeps it: that the first is free again shows when two of the living hold one, and where
    /// turns are short and servers busy they may never do so by themselves.
    fn answer_kept(&mut self) -> Result<(), ContestError> {
        let victim_is_dead = self.programs.len() == VICTIM;
        let is_awaited = |who: &Contender| {
            let place = place(*who);
            victim_is_dead
                && self.groups.get(place).is_some_and(|it| it.permits == SEMAPHORE_PERMITS)
                && self.regained.get(place).is_some_and(Option::is_none)
        };
        let (kept, go_on): (Vec<_>, Vec<_>) =
            mem::take(&mut self.kept).into_iter().partition(is_awaited);
        self.kept = kept;
        go_on.into_iter().try_for_each(|who| self.answer(who))
    }

    /// A holder writes to what the lock guards, which accepts it: no other has shown a token since.
    fn wrote(&mut self, who: Contender, token: i64) -> Result<(), ContestError> {
        let lock = self.locks.get(place(who)).ok_or_else(|| no_contender(who))?;
        lock.wrote(&who, token, true, &self.doubts)?;
        self.answer(who)
    }

    fn free(&mut self, who: Contender) -> Result<(), ContestError> {
        let place = place(who);
        let lock = self.locks.get_mut(place).ok_or_else(|| no_contender(who))?;
        lock.leave(&who, &self.doubts)?;
        if let Some(turns) = self.turns.get_mut(who.number) {
            *turns += 1;
        }
        self.answer(who)
    }

    fn answer(&mut self, who: Contender) -> Result<(), ContestError> {
        self.send(who.process, &format!("OK {}", who.number))
    }

    fn all_had(&self, turns: u64) -> bool {
        self.turns.iter().all(|had| *had >= turns)
    }

    fn count_anew(&mut self) {
        self.turns.fill(0);
    }

    /// Kills the process that holds all locks, and waits until others hold each of them. Returns
    /// the longest time that this took.
    #[allow(clippy::disallowed_methods, reason = "the time of a real hand-over")]
    fn kill_victim(&mut self) -> Result<Duration, ContestError> {
        if let Some(mut victim) = self.programs.pop() {
            victim.kill()?;
        }
        let died = Instant::now();
        for number in 0..self.groups.len() {
            self.doubts.begin(Contender { process: VICTIM, number }, died);
        }
        self.until("the locks of the dead", |contest| {
            contest.regained.iter().all(Option::is_some)
        })?;
        Ok(self.regained.iter().flatten().max().copied().unwrap_or_default())
    }

    /// Has every contender end its turn, and the program exit with code 0.
    fn finish(&mut self) -> Result<(), ContestError> {
        self.send(LIVING, "STOP")?;
        self.until("the end of the program", |contest| contest.done)?;
        let Some(living) = self.programs.get_mut(LIVING) else { return Ok(()) };
        let status = living.wait()?;
        if status.success() { Ok(()) } else { Err(ContestError::Exit(status)) }
    }

    fn send(&mut self, process: usize, line: &str) -> Result<(), ContestError> {
        let Some(program) = self.programs.get_mut(process) else { return Ok(()) };
        program.send(line).map_err(|error| {
            // The program's own last words say more than a broken pipe.
            ContestError::Unexpected(format!("{error}; {}", program.errors()))
        })
    }

    fn errors(&mut self, process: usize) -> String {
        self.programs.get_mut(process).map(Program::errors).unwrap_or_default()
    }
}

fn no_contender(who: Contender) -> ContestError {
    ContestError::Unexpected(format!("there is no {who:?}"))
}

/// Which lock a contender contends for.
fn place(who: Contender) -> usize {
    if who.process == VICTIM { who.number } else { who.number / 3 }
}
