//! The record of a contention as it grows, and the report made of it: text, JSON and pictures.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use serde_json::json;
use zoolet_torture::{Claim, ClaimId, Lock, Mode, Recipe, RunHistory, RunRecorder, Times, draw};

use super::{Fault, SESSION_TIMEOUT, Side};
use crate::contenders::contest::ContestError;

/// The result of a contention.
#[derive(Debug)]
pub struct ContentionReport {
    /// What decided the faults.
    pub seed: u64,
    /// How often every kind of fault has come.
    pub rounds: usize,
    /// How long it took.
    pub took: Duration,
    /// Grants by family.
    pub grants: BTreeMap<&'static str, u64>,
    /// What has struck, and how often which family, or the servers.
    pub faults: BTreeMap<Fault, BTreeMap<&'static str, usize>>,
    /// The stale writes by family; none was accepted.
    pub refused: BTreeMap<&'static str, u64>,
    /// From the blow that struck a holder until another had its lock.
    pub taken_over: Times,
    /// How it ended.
    pub outcome: Result<(), ContestError>,
    /// One for each lock, with the names of its contenders.
    histories: Vec<(RunHistory, Vec<&'static str>)>,
}

impl ContentionReport {
    /// How often a fault has struck a family, or the servers.
    pub fn struck(&self, fault: Fault, family: &str) -> usize {
        self.faults.get(&fault).and_then(|families| families.get(family)).copied().unwrap_or(0)
    }

    /// Everything but the pictures, as a JSON object.
    pub fn json(&self) -> serde_json::Value {
        let faults: BTreeMap<String, _> =
            self.faults.iter().map(|(fault, families)| (fault.to_string(), families)).collect();
        json!({
            "seed": self.seed,
            "passed": self.outcome.is_ok(),
            "failure": self.outcome.as_ref().err().map(ToString::to_string),
            "seconds": self.took.as_secs_f64(),
            "rounds": self.rounds,
            "session_timeout_ms": SESSION_TIMEOUT.as_millis(),
            "grants": self.grants,
            "grants_total": self.grants.values().sum::<u64>(),
            "faults": faults,
            "stale_writes_refused": self.refused,
            "stale_writes_refused_total": self.refused.values().sum::<u64>(),
            "taken_over": self.taken_over.json(),
        })
    }

    /// The holders of each lock over time, as SVG pictures by the last names of the locks.
    pub fn svgs(&self) -> Vec<(&str, String)> {
        let histories = self.histories.iter().filter_map(|(history, names)| {
            let lock = history.locks.first()?;
            let name =
                |contender: usize| names.get(contender).copied().unwrap_or_default().to_owned();
            Some((lock.path.rsplit('/').next().unwrap_or_default(), draw(history, name)))
        });
        histories.collect()
    }
}

impl fmt::Display for ContentionReport {
    /// What a person wants to know.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { seed, rounds, took, grants, refused, taken_over, .. } = self;
        writeln!(f, "seed {seed}: {rounds} rounds of faults in {took:.0?}")?;
        writeln!(f, "  grants {}: {grants:?}", grants.values().sum::<u64>())?;
        for (fault, families) in &self.faults {
            writeln!(f, "  {fault}: {families:?}")?;
        }
        writeln!(
            f,
            "  taken over {} times: median {:.1?}, all within {:.1?}",
            taken_over.count(),
            taken_over.per_mille(500),
            taken_over.per_mille(1000)
        )?;
        write!(f, "  stale writes refused {}: {refused:?}", refused.values().sum::<u64>())
    }
}

/// A contender: its side, and its number in a process of it.
type Seat = (usize, usize);

/// The record of a contention that runs.
pub(super) struct Record {
    pub(super) rounds: usize,
    /// What the locks guard, and the clock.
    recorder: RunRecorder,
    /// The place of each contender in the picture of its lock, its family and the lock.
    lanes: BTreeMap<Seat, (usize, &'static str, &'static str)>,
    /// The families in these places.
    names: BTreeMap<&'static str, Vec<&'static str>>,
    grants: BTreeMap<&'static str, u64>,
    faults: BTreeMap<Fault, BTreeMap<&'static str, usize>>,
    refused: BTreeMap<&'static str, u64>,
    takeovers_us: Vec<u64>,
    marks: Vec<(Duration, String)>,
}

impl Record {
    pub(super) fn new(sides: &[Side]) -> Self {
        let mut lanes = BTreeMap::new();
        let mut names: BTreeMap<_, Vec<_>> = BTreeMap::new();
        for (number, side) in sides.iter().enumerate() {
            for (contender, (_, path)) in side.contenders.iter().enumerate() {
                let names = names.entry(*path).or_default();
                lanes.insert((number, contender), (names.len(), side.name, *path));
                names.push(side.name);
            }
        }
        Self {
            rounds: 0,
            recorder: RunRecorder::new(),
            lanes,
            names,
            grants: sides.iter().map(|side| (side.name, 0)).collect(),
            faults: BTreeMap::new(),
            refused: sides.iter().map(|side| (side.name, 0)).collect(),
            takeovers_us: Vec::new(),
            marks: Vec::new(),
        }
    }

    /// Begins what is drawn as a line over all lanes.
    pub(super) fn mark(&mut self, fault: Fault) {
        self.marks.push((Duration::from_micros(self.recorder.now_us()), fault.to_string()));
    }

    /// Counts what has struck a family, or the servers.
    pub(super) fn count(&mut self, fault: Fault, name: &'static str, times: usize) {
        *self.faults.entry(fault).or_default().entry(name).or_default() += times;
    }

    /// Notes a grant.
    pub(super) fn claim(&mut self, seat: Seat, token: i64) -> ClaimId {
        let (contender, family, path) = self.lane(seat);
        *self.grants.entry(family).or_default() += 1;
        let now_us = self.recorder.now_us();
        self.recorder.claim(Claim {
            lock: path.to_owned(),
            contender,
            mode: Mode::Exclusive,
            path: String::new(),
            token,
            seen: token,
            granted_us: now_us,
            believed_until_us: now_us,
            released: false,
            dropped: false,
        })
    }

    /// Notes the end of a holder's belief, and whether it was right until then.
    pub(super) fn ended(&self, claim: ClaimId, held: bool) {
        self.recorder.believed_until(claim, self.recorder.now_us());
        if held {
            self.recorder.released(claim);
        }
    }

    /// Writes to what the lock guards; returns whether the write was accepted.
    pub(super) fn write(&mut self, seat: Seat, token: i64) -> bool {
        let (contender, family, path) = self.lane(seat);
        let accepted = self.recorder.write(path, contender, token);
        *self.refused.entry(family).or_default() += u64::from(!accepted);
        accepted
    }

    pub(super) fn taken_over(&mut self, after: Duration) {
        self.takeovers_us.push(u64::try_from(after.as_micros()).unwrap_or(u64::MAX));
    }

    fn lane(&self, seat: Seat) -> (usize, &'static str, &'static str) {
        self.lanes.get(&seat).copied().unwrap_or((usize::MAX, "", ""))
    }

    pub(super) fn close(self, seed: u64, outcome: Result<(), ContestError>) -> ContentionReport {
        let took = Duration::from_micros(self.recorder.now_us());
        let kept = self.recorder.take();
        let histories = self.names.into_iter().map(|(path, names)| {
            let history = RunHistory {
                locks: vec![Lock::new(Recipe::Mutex, path.to_owned())],
                claims: kept.claims.clone(),
                writes: kept.writes.clone(),
                marks: self.marks.clone(),
                ..RunHistory::default()
            };
            (history, names)
        });
        ContentionReport {
            seed,
            rounds: self.rounds,
            took,
            grants: self.grants,
            faults: self.faults,
            refused: self.refused,
            taken_over: Times::new(self.takeovers_us),
            outcome,
            histories: histories.collect(),
        }
    }
}
