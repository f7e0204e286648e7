//! Seeds one after the other on all cores, for a time.

use std::collections::BTreeMap;
use std::io;
use std::path::PathBuf;
use std::sync::Mutex;
use std::sync::PoisonError;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use super::child::{Child, Ended, arguments};
use super::ledger::{self, Line};
use crate::report::Report;
use crate::run::Options;
use crate::situations;

/// What is run.
#[derive(Clone, Debug)]
pub struct Night {
    /// The first seed.
    pub from: u64,
    /// For how long new runs begin.
    pub time: Duration,
    /// How many runs there are at most.
    pub seeds_max: u64,
    /// How many runs go on side by side.
    pub jobs: usize,
    /// How many of the first seeds are run twice, to compare their traces.
    pub twice: u64,
    /// What each run is made of, but for its seed.
    pub options: Options,
    /// Where a line is added at the end.
    pub ledger: Option<PathBuf>,
    /// The commit that the line names.
    pub commit: String,
    /// Whether a situation that did not come up is a failure.
    pub all_situations: bool,
    /// No run begins behind one with a violation whose line has this text.
    pub stop_at: Option<String>,
}

impl Night {
    /// Whether these violations end the night.
    fn ends_with(&self, violations: &[String]) -> bool {
        let Some(text) = &self.stop_at else { return false };
        violations.iter().any(|violation| violation.contains(text.as_str()))
    }
}

#[derive(Debug, Default)]
struct Sum {
    seeds: u64,
    simulated_ms: u64,
    cpu_ms: u64,
    faults: BTreeMap<String, u64>,
    checked: BTreeMap<String, u64>,
    situations: BTreeMap<String, u64>,
    broken: Vec<(u64, Vec<String>)>,
}

impl Sum {
    fn add(&mut self, report: &Report) {
        self.seeds += 1;
        self.simulated_ms += report.simulated_ms;
        self.cpu_ms += report.cpu_ms;
        for (sums, counts) in
            [(&mut self.faults, &report.faults), (&mut self.checked, &report.checked)]
        {
            for (name, count) in counts {
                *sums.entry(name.clone()).or_default() += count;
            }
        }
        for situation in &report.situations {
            *self.situations.entry(situation.clone()).or_default() += 1;
        }
    }
}

/// Runs seeds for a time. `say` is given what a person should read. Returns whether all promises were
/// kept.
pub fn night(night: &Night, say: &(dyn Fn(String) + Sync)) -> io::Result<bool> {
    let sum = Mutex::new(Sum::default());
    let next = AtomicU64::new(0);
    let begun = now();
    let failure = Mutex::new(None);
    let is_over = AtomicBool::new(false);
    thread::scope(|scope| {
        for _ in 0..night.jobs.max(1) {
            scope.spawn(|| {
                while begun.elapsed() < night.time && !is_over.load(Ordering::Relaxed) {
                    let number = next.fetch_add(1, Ordering::Relaxed);
                    if number >= night.seeds_max {
                        return;
                    }
                    let seed = night.from.wrapping_add(number);
                    match run_one(night, seed, number < night.twice, &sum, say) {
                        Ok(violations) if night.ends_with(&violations) => {
                            is_over.store(true, Ordering::Relaxed);
                        }
                        Ok(_) => {}
                        Err(error) => {
                            let mut failure =
                                failure.lock().unwrap_or_else(PoisonError::into_inner);
                            failure.get_or_insert(error);
                            return;
                        }
                    }
                }
            });
        }
    });
    if let Some(error) = failure.into_inner().unwrap_or_else(PoisonError::into_inner) {
        return Err(error);
    }
    let sum = sum.into_inner().unwrap_or_else(PoisonError::into_inner);
    close(night, &sum, say)
}

/// Returns the promises that the run has broken.
fn run_one(
    night: &Night,
    seed: u64,
    twice: bool,
    sum: &Mutex<Sum>,
    say: &(dyn Fn(String) + Sync),
) -> io::Result<Vec<String>> {
    let child = Child { options: Options { seed, ..night.options.clone() } };
    let ended = child.run()?;
    let mut violations = ended.violations();
    if twice {
        violations.extend(difference(&ended, &child.run()?));
    }
    let mut sum = sum.lock().unwrap_or_else(PoisonError::into_inner);
    if let Ended::Reported(report) = &ended {
        sum.add(report);
    }
    if !violations.is_empty() {
        let command = arguments(&child.options).join(" ");
        say(format!("BROKEN seed {seed}: repeat it with `make sim SEED={seed}` ({command})"));
        for violation in &violations {
            say(format!("  {violation}"));
        }
        sum.broken.push((seed, violations.clone()));
    }
    if sum.seeds.is_multiple_of(50) {
        let hours = hours(sum.simulated_ms);
        say(format!(
            "{} seeds, {hours:.2} simulated hours, {} broken",
            sum.seeds,
            sum.broken.len()
        ));
    }
    Ok(violations)
}

/// How the second of two runs with one seed differs from the first one.
fn difference(first: &Ended, second: &Ended) -> Option<String> {
    let end = |run: &Ended| match run {
        Ended::Reported(report) => format!("the trace {}", report.trace),
        Ended::Died(why) => format!("its death: {why}"),
    };
    let (first, second) = (end(first), end(second));
    (first != second).then(|| format!("repeatable: the first run has {first}, the second {second}"))
}

/// Milliseconds as hours.
fn hours(ms: u64) -> f64 {
    Duration::from_millis(ms).as_secs_f64() / 3600.0
}

fn close(night: &Night, sum: &Sum, say: &(dyn Fn(String) + Sync)) -> io::Result<bool> {
    let rate = sum.simulated_ms / sum.cpu_ms.max(1);
    say(format!(
        "{} seeds from {}: {:.2} simulated hours in {:.2} hours of processor time, {rate} times life",
        sum.seeds,
        night.from,
        hours(sum.simulated_ms),
        hours(sum.cpu_ms),
    ));
    say(format!("faults: {:?}", sum.faults));
    say(format!("checked: {:?}", sum.checked));
    let missed: Vec<&str> =
        situations::names().filter(|name| !sum.situations.contains_key(*name)).collect();
    let all = situations::names().count();
    say(format!("situations: {} of {all} came up", all - missed.len()));
    if !missed.is_empty() {
        say(format!("situations that did not: {}", missed.join("; ")));
    }
    if let Some(path) = &night.ledger {
        let line = Line {
            commit: night.commit.clone(),
            from: night.from,
            seeds: sum.seeds,
            simulated_hours: hours(sum.simulated_ms),
            cpu_hours: hours(sum.cpu_ms),
            faults: sum.faults.clone(),
            checked: sum.checked.clone(),
            situations: sum.situations.clone(),
            violations: sum.broken.len() as u64,
            broken: sum.broken.iter().map(|(seed, _)| *seed).collect(),
        };
        ledger::add(path, &line)?;
    }
    let seeds: Vec<String> = sum.broken.iter().map(|(seed, _)| seed.to_string()).collect();
    if seeds.is_empty() {
        say("no promise was broken".to_owned());
    } else {
        say(format!("{} seeds broke a promise: {}", seeds.len(), seeds.join(" ")));
    }
    Ok(seeds.is_empty() && (missed.is_empty() || !night.all_situations))
}

#[allow(clippy::disallowed_methods, reason = "a night ends by the clock of the machine")]
fn now() -> Instant {
    Instant::now()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::Report;

    #[test]
    fn a_second_run_that_is_another_one_or_dies_is_found() {
        let run = |trace: &str| {
            let trace = trace.to_owned();
            Ended::Reported(Box::new(Report { trace, ..Report::default() }))
        };
        assert_eq!(difference(&run("a"), &run("a")), None);
        assert!(difference(&run("a"), &run("b")).is_some_and(|why| why.starts_with("repeatable")));
        let died = Ended::Died("out of memory".to_owned());
        assert!(difference(&run("a"), &died).is_some_and(|why| why.contains("out of memory")));
    }
}
