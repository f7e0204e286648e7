//! The lock programs under way, and what each of their contenders is at.

use std::collections::BTreeMap;
use std::io;
use std::net::SocketAddr;
use std::process::Command;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, SyncSender};
use std::time::{Duration, Instant};

use tokio::runtime::Handle;

use super::error::CompareError;
use super::link::Link;
use super::resource::{Resource, Who};
use super::way::Way;
use super::{LEASE, POLL};
use crate::contenders::process::{Event, LINES_MAX, Program};
use crate::tools;

/// How long a program may take to connect all contenders, on a busy machine.
const READY_MAX: Duration = Duration::from_mins(1);

/// How long programs may take to close their clients.
const STOPPED_MAX: Duration = LEASE.saturating_mul(2);

/// How far a contender is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Phase {
    #[default]
    Idle,
    Asked,
    Held,
    /// It was sent on: it writes and releases.
    Leaving,
    /// Its acquisition has failed.
    Failed,
}

/// How a release went.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Released {
    Kept,
    /// The lock was not held any more.
    Gone,
    Failed(String),
}

/// The latest turn of a contender.
#[derive(Clone, Debug, Default)]
pub(super) struct Turn {
    pub(super) phase: Phase,
    pub(super) token: i64,
    pub(super) asked_at: Option<Instant>,
    pub(super) held_at: Option<Instant>,
    /// When its client noticed that the lock may be lost.
    pub(super) lost_at: Option<Instant>,
    /// When it was sent on.
    pub(super) left_at: Option<Instant>,
    pub(super) freed_at: Option<Instant>,
    pub(super) released: Option<Released>,
    /// The reply to the request to acquire once more.
    pub(super) again: Option<String>,
    pub(super) why_failed: String,
    pub(super) wrote_stale: Option<bool>,
    /// Its process was killed.
    pub(super) is_dead: bool,
}

impl Turn {
    pub(super) fn holds(&self) -> bool {
        self.phase == Phase::Held
    }
}

/// A process of contenders, behind links of its own.
#[derive(Debug)]
struct ClientProcess {
    program: Program,
    links: Vec<Link>,
    contenders: Vec<(&'static Way, String)>,
    is_ready: bool,
    is_done: bool,
    /// What a run of its own has measured.
    errors: f64,
    cycles: Option<Vec<f64>>,
    hand_overs: Option<Vec<f64>>,
}

/// Who was granted a lock while another believed to hold it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Overlap {
    pub(super) lock: String,
}

/// The referee of some lock programs.
#[derive(Debug)]
pub(super) struct Referee {
    runtime: Handle,
    sender: SyncSender<(usize, Event)>,
    events: Receiver<(usize, Event)>,
    processes: BTreeMap<usize, ClientProcess>,
    next: usize,
    turns: BTreeMap<Who, Turn>,
    pub(super) resource: Resource,
    pub(super) overlaps: Vec<Overlap>,
}

#[allow(clippy::disallowed_methods, reason = "the time of real processes")]
pub(super) fn now() -> Instant {
    Instant::now()
}

impl Referee {
    pub(super) fn new(runtime: Handle) -> Self {
        let (sender, events) = mpsc::sync_channel(LINES_MAX);
        Self {
            runtime,
            sender,
            events,
            processes: BTreeMap::new(),
            next: 0,
            turns: BTreeMap::new(),
            resource: Resource::default(),
            overlaps: Vec::new(),
        }
    }

    /// Starts a process with a contender for each way and lock; `linked` puts links between it and
    /// the servers. Returns its number when every contender is connected.
    pub(super) fn start(
        &mut self,
        command: &Command,
        servers: &[SocketAddr],
        contenders: Vec<(&'static Way, String)>,
        linked: bool,
    ) -> Result<usize, CompareError> {
        let number = self.next;
        self.next += 1;
        let mut links = Vec::new();
        if linked {
            let started = servers.iter().map(|server| Link::start(&self.runtime, *server));
            links = started.collect::<io::Result<Vec<_>>>()?;
        }
        let reached: Vec<String> = if linked {
            links.iter().map(|link| link.address().to_string()).collect()
        } else {
            servers.iter().map(ToString::to_string).collect()
        };
        let mut command = tools::copy(command);
        command.args(contenders.iter().map(|(way, lock)| format!("{}:{lock}", way.recipe)));
        command.env("COMPARE_SERVERS", reached.join(","));
        command.env("COMPARE_LEASE_MS", LEASE.as_millis().to_string());
        command.env("COMPARE_POLL_MS", POLL.as_millis().to_string());
        let program = Program::start(&mut command, number, self.sender.clone())?;
        for contender in 0..contenders.len() {
            self.turns.insert(Who { process: number, number: contender }, Turn::default());
        }
        let process = ClientProcess {
            program,
            links,
            contenders,
            is_ready: false,
            is_done: false,
            errors: 0.0,
            cycles: None,
            hand_overs: None,
        };
        self.processes.insert(number, process);
        let ready =
            self.until(READY_MAX, |it| it.process_is(number, |process| process.is_ready))?;
        if ready { Ok(number) } else { Err(self.failed(number, "it does not connect".to_owned())) }
    }

    fn process_is(&self, number: usize, is: impl Fn(&ClientProcess) -> bool) -> bool {
        self.processes.get(&number).is_some_and(is)
    }

    pub(super) fn turn(&self, who: Who) -> Turn {
        self.turns.get(&who).cloned().unwrap_or_default()
    }

    /// Has a contender acquire its lock.
    pub(super) fn ask(&mut self, who: Who) -> Result<(), CompareError> {
        let turn = Turn { phase: Phase::Asked, asked_at: Some(now()), ..Turn::default() };
        self.turns.insert(who, turn);
        self.send(who.process, &format!("ASK {}", who.number))
    }

    /// Has a holder acquire its lock once more.
    pub(super) fn ask_again(&mut self, who: Who) -> Result<(), CompareError> {
        self.send(who.process, &format!("AGAIN {}", who.number))
    }

    /// Has a holder write and release.
    pub(super) fn go_on(&mut self, who: Who) -> Result<(), CompareError> {
        if let Some(turn) = self.turns.get_mut(&who) {
            turn.phase = Phase::Leaving;
            turn.left_at = Some(now());
        }
        self.send(who.process, &format!("OK {}", who.number))
    }

    /// Has all of these that hold something write and release, and waits for the ends of their turns.
    pub(super) fn leave(&mut self, all: &[Who], limit: Duration) -> Result<(), CompareError> {
        let holders: Vec<Who> = all.iter().copied().filter(|who| self.turn(*who).holds()).collect();
        for who in &holders {
            self.go_on(*who)?;
        }
        let freed = |it: &Self| holders.iter().all(|who| it.turn(*who).freed_at.is_some());
        self.until(limit, freed).map(drop)
    }

    /// Handles lines until something is so; `false` when it is not after `limit`.
    pub(super) fn until(
        &mut self,
        limit: Duration,
        is_so: impl Fn(&Self) -> bool,
    ) -> Result<bool, CompareError> {
        let deadline = now() + limit;
        while !is_so(self) {
            if !self.step(deadline)? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Has contenders acquire, again if that fails, until all hold; returns whether they do.
    pub(super) fn until_held(
        &mut self,
        all: &[Who],
        limit: Duration,
    ) -> Result<bool, CompareError> {
        let deadline = now() + limit;
        loop {
            for who in all {
                if [Phase::Idle, Phase::Failed].contains(&self.turn(*who).phase) {
                    self.ask(*who)?;
                }
            }
            let left = deadline.saturating_duration_since(now());
            let step = left.min(POLL);
            if self.until(step, |it| all.iter().all(|who| it.turn(*who).holds()))? {
                return Ok(true);
            }
            if left.is_zero() {
                return Ok(false);
            }
        }
    }

    /// Handles lines for a while.
    pub(super) fn listen(&mut self, long: Duration) -> Result<(), CompareError> {
        self.until(long, |_| false).map(drop)
    }

    /// Handles the next line; `false` when there is none until the deadline.
    fn step(&mut self, deadline: Instant) -> Result<bool, CompareError> {
        match self.events.recv_timeout(deadline.saturating_duration_since(now())) {
            Ok((process, Event::Said(line))) => {
                if self.processes.contains_key(&process) {
                    self.handle(process, &line)?;
                }
                Ok(true)
            }
            Ok((process, Event::Ended)) => {
                if self.process_is(process, |process| !process.is_done) {
                    return Err(self.failed(process, "it has ended".to_owned()));
                }
                Ok(true)
            }
            Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => Ok(false),
        }
    }

    fn handle(&mut self, process: usize, line: &str) -> Result<(), CompareError> {
        let (word, rest) = line.split_once(' ').unwrap_or((line, ""));
        let Some(own) = self.processes.get_mut(&process) else { return Ok(()) };
        match word {
            "READY" => own.is_ready = true,
            "DONE" => own.is_done = true,
            "ERRORS" => own.errors = rest.parse().unwrap_or(0.0),
            "CYCLES" => own.cycles = Some(numbers(rest)),
            "HANDOVERS" => own.hand_overs = Some(numbers(rest)),
            _ => {
                let (number, rest) = rest.split_once(' ').unwrap_or((rest, ""));
                let Ok(number) = number.parse() else {
                    return Err(self.failed(process, format!("it said {line:?}")));
                };
                return self.handle_of(Who { process, number }, word, rest);
            }
        }
        Ok(())
    }

    fn handle_of(&mut self, who: Who, word: &str, rest: &str) -> Result<(), CompareError> {
        let Some((way, lock)) = self.place(who) else {
            return Err(self.failed(who.process, format!("contender {} is unknown", who.number)));
        };
        match word {
            "HELD" => {
                let token = rest.parse().unwrap_or(0);
                self.held(who, way, &lock, token);
            }
            "WRITE" => {
                if way.excludes {
                    let stale = self.resource.write(&lock, who, rest.parse().unwrap_or(0));
                    self.change(who, |turn| turn.wrote_stale = Some(stale));
                }
                self.change(who, |turn| turn.phase = Phase::Leaving);
                self.send(who.process, &format!("OK {}", who.number))?;
            }
            "LOST" => self.change(who, |turn| turn.lost_at = Some(now())),
            "AGAIN" => self.change(who, |turn| turn.again = Some(rest.to_owned())),
            "FREED" => {
                if !way.excludes {
                    let stale = self.resource.committed(&lock, who, rest == "true");
                    self.change(who, |turn| turn.wrote_stale = Some(stale));
                }
                self.change(who, |turn| {
                    turn.phase = Phase::Idle;
                    turn.freed_at = Some(now());
                    turn.released = Some(match rest {
                        "true" => Released::Kept,
                        "false" => Released::Gone,
                        why => Released::Failed(why.trim_start_matches("failed ").to_owned()),
                    });
                });
            }
            "FAILED" => self.change(who, |turn| {
                turn.phase = Phase::Failed;
                rest.clone_into(&mut turn.why_failed);
            }),
            _ => return Err(self.failed(who.process, format!("it said {word} {rest}"))),
        }
        Ok(())
    }

    fn held(&mut self, who: Who, way: &Way, lock: &str, token: i64) {
        let believers = self.turns.iter().filter(|(other, turn)| {
            **other != who && turn.holds() && !turn.is_dead && turn.lost_at.is_none()
        });
        let believers: Vec<Who> = believers.map(|(other, _)| *other).collect();
        for believer in believers {
            if self.place(believer).is_some_and(|(_, other)| other == lock) {
                self.overlaps.push(Overlap { lock: lock.to_owned() });
            }
        }
        self.resource.granted(lock, who, if way.excludes { token } else { 0 });
        self.change(who, |turn| {
            turn.phase = Phase::Held;
            turn.token = token;
            turn.held_at = Some(now());
        });
    }

    fn change(&mut self, who: Who, change: impl FnOnce(&mut Turn)) {
        if let Some(turn) = self.turns.get_mut(&who) {
            change(turn);
        }
    }

    fn place(&self, who: Who) -> Option<(&'static Way, String)> {
        self.processes.get(&who.process)?.contenders.get(who.number).cloned()
    }

    fn send(&mut self, process: usize, line: &str) -> Result<(), CompareError> {
        let Some(own) = self.processes.get_mut(&process) else { return Ok(()) };
        own.program.send(line).map_err(|error| self.failed(process, error.to_string()))
    }

    /// The error of a program, with what it wrote to stderr.
    fn failed(&mut self, process: usize, what: String) -> CompareError {
        let Some(own) = self.processes.get_mut(&process) else {
            return CompareError::Program { way: process.to_string(), what };
        };
        let ways: Vec<&str> = own.contenders.iter().map(|(way, _)| way.name).collect();
        let errors = own.program.errors();
        let (way, what) = (ways.first().copied().unwrap_or_default(), format!("{what}\n{errors}"));
        CompareError::Program { way: way.to_owned(), what }
    }

    pub(super) fn links(&self, process: usize) -> &[Link] {
        self.processes.get(&process).map(|process| process.links.as_slice()).unwrap_or_default()
    }

    pub(super) fn signal(&self, process: usize, name: &str) -> io::Result<()> {
        self.processes.get(&process).map_or(Ok(()), |process| process.program.signal(name))
    }

    /// `kill -9`: its contenders believe nothing any more.
    pub(super) fn kill(&mut self, process: usize) -> io::Result<()> {
        for (_, turn) in self.turns.iter_mut().filter(|(who, _)| who.process == process) {
            turn.is_dead = true;
        }
        self.processes.remove(&process).map_or(Ok(()), |mut own| own.program.kill().map(drop))
    }

    /// Has all contenders of a process run by themselves. Returns the times of cycles and of
    /// hand-overs, in microseconds and in order, and the number of errors.
    pub(super) fn run(
        &mut self,
        process: usize,
        long: Duration,
        hold: Duration,
    ) -> Result<(Vec<f64>, Vec<f64>, f64), CompareError> {
        self.send(process, &format!("RUN {} {}", long.as_millis(), hold.as_millis()))?;
        let limit = long * 4 + READY_MAX;
        let ended =
            self.until(limit, |it| it.process_is(process, |own| own.hand_overs.is_some()))?;
        let Some(own) = self.processes.get_mut(&process).filter(|_| ended) else {
            return Err(self.failed(process, "its run does not end".to_owned()));
        };
        let (cycles, hand_overs) = (own.cycles.take(), own.hand_overs.take());
        Ok((cycles.unwrap_or_default(), hand_overs.unwrap_or_default(), own.errors))
    }
}

impl Drop for Referee {
    fn drop(&mut self) {
        // Programs close their clients; one that has ended, or does not do so in time, is killed.
        for process in self.processes.values_mut().filter(|process| process.is_ready) {
            process.is_done = process.program.send("STOP").is_err();
        }
        let ended = |it: &Self| it.processes.values().all(|own| own.is_done || !own.is_ready);
        let _ = self.until(STOPPED_MAX, ended);
    }
}

fn numbers(text: &str) -> Vec<f64> {
    text.split_whitespace().filter_map(|number| number.parse().ok()).collect()
}
