//! Seeds one after the other, for a time.

use std::collections::BTreeMap;
use std::time::Duration;

use tokio::runtime::Runtime;

use super::run::{self, Outcome};
use super::{ChaosError, Kind, Night, Options, clock, interrupt, keep};
use crate::faults::netns;
use crate::tools::announce;

/// How many broken promises of a run are printed, and how much of each; the directory has all of it.
const SHOWN_MAX: usize = 10;
const CHARACTERS_SHOWN: usize = 600;

/// What the seeds so far add up to.
#[derive(Debug, Default)]
pub(super) struct Sum {
    pub(super) seeds: u64,
    pub(super) length: Duration,
    /// How many faults have begun, by their kind.
    pub(super) faults: BTreeMap<Kind, u64>,
    /// How much was checked.
    pub(super) checked: BTreeMap<String, u64>,
    /// The seeds that broke a promise.
    pub(super) broken: Vec<u64>,
}

/// Runs seeds. Returns whether all promises were kept.
pub fn night(night: &Night, runtime: &Runtime) -> Result<bool, ChaosError> {
    if let Some(missing) = netns::missing() {
        return Err(missing.into());
    }
    let begun = clock::machine_us();
    let mut sum = Sum::default();
    for number in 0.. {
        let seed = night.options.seed.wrapping_add(number);
        let options = Options { seed, ..night.options.clone() };
        match one(&options, &mut sum, runtime) {
            Err(ChaosError::Interrupted) => break,
            done => done?,
        }
        let spent = Duration::from_micros(clock::machine_us().saturating_sub(begun));
        if night.time.is_none_or(|time| spent >= time) {
            break;
        }
    }
    close(&sum);
    if let Some(ledger) = &night.ledger {
        let added = ledger.add(night.options.seed, &sum);
        added.map_err(ChaosError::file(ledger.file.display()))?;
    }
    interrupt::check()?;
    Ok(sum.broken.is_empty())
}

fn one(options: &Options, sum: &mut Sum, runtime: &Runtime) -> Result<(), ChaosError> {
    let seed = options.seed;
    let home = keep::prepare(seed)?;
    let outcome = match run::run(options, &home, runtime) {
        Ok(outcome) => outcome,
        Err(ChaosError::Interrupted) => {
            keep::remove(&home)?;
            return Err(ChaosError::Interrupted);
        }
        Err(error) => {
            announce(&format!("seed {seed} was not carried out: {}", options.command()));
            return Err(error);
        }
    };
    let Outcome { servers, clients, history, counts, .. } = &outcome;
    let length = run::length(history);
    announce(&format!(
        "seed {seed}: {servers} servers, {clients} clients, {:.1} s; faults: {}; {} transactions, \
         {} writes, {} reads, {} watch events, {} grants checked",
        length.as_secs_f64(),
        named(outcome.faults.iter().copied()),
        counts.transactions,
        counts.writes,
        counts.reads,
        counts.events,
        counts.grants,
    ));
    sum.add(&outcome, length);
    if outcome.violations.is_empty() {
        if options.keeps {
            keep::write(&home, &outcome)?;
            return Ok(());
        }
        return keep::remove(&home);
    }
    sum.broken.push(seed);
    keep::write(&home, &outcome)?;
    announce(&format!("BROKEN seed {seed}: `{}` makes the same plan of faults", options.command()));
    for violation in outcome.violations.iter().take(SHOWN_MAX) {
        let shown: String = violation.chars().take(CHARACTERS_SHOWN).collect();
        announce(&format!("  {shown}"));
    }
    announce(&format!("  the history, the servers' logs and disks are in {}", home.display()));
    Ok(())
}

fn named(faults: impl Iterator<Item = (Kind, u64)>) -> String {
    let all: Vec<String> = faults.map(|(kind, count)| format!("{} {count}", kind.name())).collect();
    all.join(", ")
}

impl Sum {
    fn add(&mut self, outcome: &Outcome, length: Duration) {
        self.seeds += 1;
        self.length += length;
        for (kind, count) in &outcome.faults {
            *self.faults.entry(*kind).or_default() += count;
        }
        for (name, count) in outcome.counts.named() {
            *self.checked.entry(name).or_default() += count;
        }
    }
}

fn close(sum: &Sum) {
    announce(&format!(
        "{} seeds in {:.0} s; faults: {}",
        sum.seeds,
        sum.length.as_secs_f64(),
        named(sum.faults.iter().map(|(kind, count)| (*kind, *count))),
    ));
    announce(&format!("checked: {:?}", sum.checked));
    if sum.broken.is_empty() {
        announce("no promise was broken");
    } else {
        announce(&format!("{} seeds broke a promise: {:?}", sum.broken.len(), sum.broken));
    }
}
