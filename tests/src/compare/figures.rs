//! How fast the ways are, and what they cost their stores.

use std::collections::BTreeSet;
use std::fs;
use std::process::Command;
use std::time::Duration;

use tokio::runtime::Handle;

use super::error::CompareError;
use super::referee::Referee;
use super::store::Store;
use super::way::{Client, Way};
use crate::bench::statistics::percentile;

/// Of the clock in `/proc`.
const TICKS_PER_SECOND: f64 = 100.0;
/// How long a lock is held where hand-overs are measured.
const HOLD: Duration = Duration::from_millis(2);
/// Before each measurement.
const WARM_UP: Duration = Duration::from_millis(200);

/// Contenders, and the locks that they share.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Case {
    pub(super) name: &'static str,
    pub(super) title: &'static str,
    pub(super) contenders: usize,
    /// Whether each has a lock of its own.
    own_locks: bool,
    pub(super) hands_over: bool,
    /// Whether a short form measures it.
    pub(super) is_main: bool,
}

const fn case(
    name: &'static str,
    title: &'static str,
    contenders: usize,
    own_locks: bool,
    is_main: bool,
) -> Case {
    Case { name, title, contenders, own_locks, hands_over: false, is_main }
}

const fn hand_over(case: Case) -> Case {
    Case { hands_over: true, ..case }
}

pub(super) const CASES: [Case; 7] = [
    case("alone", "1 client", 1, false, true),
    case("one:8", "8 clients, one lock", 8, false, true),
    case("one:64", "64 clients, one lock", 64, false, false),
    case("many:8", "8 clients, a lock each", 8, true, true),
    case("many:64", "64 clients, a lock each", 64, true, false),
    hand_over(case("hand-over:1", "hand-over, 1 waiter", 2, false, true)),
    hand_over(case("hand-over:100", "hand-over, 100 waiters", 101, false, false)),
];

/// One measurement.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Figure {
    pub(super) way: &'static str,
    pub(super) case: &'static str,
    pub(super) round: usize,
    /// By name, see below.
    pub(super) values: Vec<(&'static str, f64)>,
}

pub(super) const PER_SECOND: &str = "per_second";
pub(super) const P50_US: &str = "p50_us";
pub(super) const P99_US: &str = "p99_us";
/// CPU of all servers for each acquisition and release.
pub(super) const CPU_US: &str = "cpu_us";
/// How many times there are for the percentiles.
pub(super) const SAMPLES: &str = "samples";
const P99_SAMPLES_MIN: usize = 100;
/// After which a program tried again.
pub(super) const ERRORS: &str = "errors";
pub(super) const MEMORY_MIB: &str = "memory_mib";

/// Measures one case of one way; `None` for the hand-over of a way that excludes no contender.
pub(super) fn measure(
    store: &dyn Store,
    command: &Command,
    runtime: &Handle,
    (way, case, round): (&'static Way, Case, usize),
    window: Duration,
) -> Result<Option<Figure>, CompareError> {
    if case.hands_over && !way.excludes {
        return Ok(None);
    }
    let mut referee = Referee::new(runtime.clone());
    let lock = |number| {
        let number = if case.own_locks { number } else { 0 };
        format!("figures-{}-{round}-{number}-{}", case.name.replace(':', "-"), way.name)
    };
    let contenders = (0..case.contenders).map(|number| (way, lock(number))).collect();
    let process = referee.start(command, &store.addresses(), contenders, false)?;
    let hold = if case.hands_over { HOLD } else { Duration::ZERO };
    // A program that compiles itself while it runs needs more time for that.
    let warm_up = if way.client == Client::Curator { window } else { WARM_UP.min(window) };
    referee.run(process, warm_up, hold)?;
    let before = cpu_seconds(&store.pids());
    let (cycles, hand_overs, errors) = referee.run(process, window, hold)?;
    let cpu = cpu_seconds(&store.pids()) - before;
    let times = if case.hands_over { &hand_overs } else { &cycles };
    #[allow(clippy::cast_precision_loss, reason = "counts of cycles")]
    let (count, samples) = (cycles.len() as f64, times.len() as f64);
    let mut values = vec![(SAMPLES, samples)];
    if !case.hands_over {
        values.push((PER_SECOND, count / window.as_secs_f64()));
    }
    for (name, percent) in [(P50_US, 50), (P99_US, 99)] {
        // The highest of a few says nothing about a hundredth.
        if name == P50_US || times.len() >= P99_SAMPLES_MIN {
            values.extend(percentile(times, percent).map(|time| (name, time)));
        }
    }
    if count > 0.0 {
        values.push((CPU_US, cpu * 1e6 / count));
    }
    if errors > 0.0 {
        values.push((ERRORS, errors));
    }
    values.push((MEMORY_MIB, memory_mib(&store.pids())));
    Ok(Some(Figure { way: way.name, case: case.name, round, values }))
}

/// Has the servers of a store compile what they run.
pub(super) fn warm(
    store: &dyn Store,
    command: &Command,
    runtime: &Handle,
    way: &'static Way,
    long: Duration,
) -> Result<(), CompareError> {
    let mut referee = Referee::new(runtime.clone());
    let contenders = (0..8).map(|number| (way, format!("warm-{number}"))).collect();
    let process = referee.start(command, &store.addresses(), contenders, false)?;
    referee.run(process, long, Duration::ZERO).map(drop)
}

/// What `/proc` has of one process.
#[derive(Debug, PartialEq, Eq)]
struct Process {
    pid: u32,
    parent: u32,
    /// Of itself and of its children that have ended.
    ticks: u64,
}

/// Parses a `stat` file; the name of the program in it may hold anything.
fn parse(stat: &str) -> Option<Process> {
    let (pid, rest) = (stat.split_once(' ')?.0.parse().ok()?, stat.rsplit_once(')')?.1);
    let fields: Vec<&str> = rest.split_whitespace().collect();
    let ticks = fields.get(11..15)?.iter().filter_map(|ticks| ticks.parse::<u64>().ok()).sum();
    Some(Process { pid, parent: fields.get(1)?.parse().ok()?, ticks })
}

/// Some processes and all their children.
fn with_children(roots: &[u32]) -> Vec<Process> {
    let Ok(entries) = fs::read_dir("/proc") else { return Vec::new() };
    let stats =
        entries.flatten().filter_map(|entry| fs::read_to_string(entry.path().join("stat")).ok());
    let all: Vec<Process> = stats.filter_map(|stat| parse(&stat)).collect();
    let mut chosen: BTreeSet<u32> = roots.iter().copied().collect();
    loop {
        let count = chosen.len();
        chosen.extend(
            all.iter()
                .filter(|it| chosen.contains(&it.parent))
                .map(|it| it.pid)
                .collect::<Vec<_>>(),
        );
        if chosen.len() == count {
            return all.into_iter().filter(|it| chosen.contains(&it.pid)).collect();
        }
    }
}

fn cpu_seconds(pids: &[u32]) -> f64 {
    let ticks: u64 = with_children(pids).iter().map(|process| process.ticks).sum();
    #[allow(clippy::cast_precision_loss, reason = "CPU time of a run")]
    let ticks = ticks as f64;
    ticks / TICKS_PER_SECOND
}

/// The memory of processes; what several share counts once.
fn memory_mib(pids: &[u32]) -> f64 {
    let kib = with_children(pids).into_iter().filter_map(|process| {
        let rollup = fs::read_to_string(format!("/proc/{}/smaps_rollup", process.pid)).ok()?;
        let line = rollup.lines().find_map(|line| line.strip_prefix("Pss:"))?;
        line.split_whitespace().next()?.parse::<f64>().ok()
    });
    kib.sum::<f64>() / 1024.0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stat_file_is_parsed_whatever_the_program_is_called() {
        let stat = "42 (a) b (c)) S 7 42 42 0 -1 4194560 100 0 0 0 5 6 7 8 20 0 1 0 100 1 1";
        assert_eq!(parse(stat), Some(Process { pid: 42, parent: 7, ticks: 26 }));
        assert_eq!(parse("42 (a"), None);
    }

    #[test]
    fn the_children_of_a_process_are_found() {
        let mut child = Command::new("sleep").arg("60").spawn().unwrap();
        let own = std::process::id();
        let found: Vec<u32> = with_children(&[own]).iter().map(|process| process.pid).collect();
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(found.contains(&own) && found.contains(&child.id()), "{found:?}");
        assert!(memory_mib(&[own]) > 0.0);
    }
}
