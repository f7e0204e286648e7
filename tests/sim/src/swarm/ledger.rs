//! The ledger: what all runs so far add up to, a line of JSON for each night.

use std::collections::BTreeMap;
use std::fs::OpenOptions;
use std::io::{self, Write};
use std::path::Path;

use serde::Serialize;

/// A line.
#[derive(Clone, Debug, Default, Serialize)]
pub(crate) struct Line {
    /// The commit, as the caller names it.
    pub(crate) commit: String,
    /// The first seed, and how many there were.
    pub(crate) from: u64,
    pub(crate) seeds: u64,
    /// The simulated time, in hours.
    pub(crate) simulated_hours: f64,
    /// The processor time, in hours.
    pub(crate) cpu_hours: f64,
    pub(crate) faults: BTreeMap<String, u64>,
    pub(crate) checked: BTreeMap<String, u64>,
    /// In how many seeds each situation came up.
    pub(crate) situations: BTreeMap<String, u64>,
    /// How many seeds broke a promise.
    pub(crate) violations: u64,
    /// Which.
    pub(crate) broken: Vec<u64>,
}

/// Adds a line.
pub(crate) fn add(path: &Path, line: &Line) -> io::Result<()> {
    if let Some(directory) = path.parent() {
        std::fs::create_dir_all(directory)?;
    }
    let mut text = serde_json::to_string(line)?;
    text.push('\n');
    OpenOptions::new().create(true).append(true).open(path)?.write_all(text.as_bytes())
}
