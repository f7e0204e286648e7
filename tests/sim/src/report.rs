//! What a run says about itself, in one line of JSON.

use std::collections::BTreeMap;
use std::fs;

use serde::{Deserialize, Serialize};

use crate::checks;
use crate::run::Outcome;

/// A report.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Report {
    /// The seed of the run.
    pub seed: u64,
    /// How many servers there were.
    pub servers: u8,
    /// How many clients.
    pub clients: u8,
    /// The simulated time, in milliseconds.
    pub simulated_ms: u64,
    /// The processor time that the run took, in milliseconds.
    pub cpu_ms: u64,
    /// How many faults there were, by their kind.
    pub faults: BTreeMap<String, u64>,
    /// What was checked, and how often.
    pub checked: BTreeMap<String, u64>,
    /// The situations that came up.
    pub situations: Vec<String>,
    /// The names of the promises that were broken, once each, in the order in which they were.
    pub promises: Vec<String>,
    /// What broke them.
    pub violations: Vec<String>,
    /// The hash of the trace.
    pub trace: String,
}

impl Report {
    /// Makes the report of a run.
    pub fn of(
        seed: u64,
        outcome: &Outcome,
        checked: &checks::Report,
        situations: Vec<String>,
    ) -> Self {
        let mut promises: Vec<String> = Vec::new();
        for violation in &checked.violations {
            if !promises.iter().any(|known| known == violation.promise) {
                promises.push(violation.promise.to_owned());
            }
        }
        let faults = outcome.faults.iter().map(|(kind, count)| (kind.name().to_owned(), *count));
        Self {
            seed,
            servers: outcome.servers,
            clients: outcome.clients,
            simulated_ms: u64::try_from(outcome.simulated.as_millis()).unwrap_or(u64::MAX),
            cpu_ms: cpu_ms(),
            faults: faults.collect(),
            checked: checked.counts.named(),
            situations,
            promises,
            violations: checked.violations.iter().map(ToString::to_string).collect(),
            trace: format!("{:016x} of {} lines", outcome.trace.0, outcome.trace.1),
        }
    }
}

/// The processor time of this thread so far, in milliseconds; 0 if the system does not say it.
fn cpu_ms() -> u64 {
    let text = fs::read_to_string("/proc/self/schedstat").unwrap_or_default();
    let ns = text.split_whitespace().next().and_then(|ns| ns.parse::<u64>().ok());
    ns.unwrap_or(0) / 1_000_000
}
