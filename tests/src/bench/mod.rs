//! The bench of `docs/performance.md`: zoolet beside Apache `ZooKeeper` in one run, so that the
//! machine is the same for both.
//!
//! The rows of the tables are `rows`, and what they are to reach is in `goals`. Each kind of
//! measurement has a file (`parts` lists them); the load of most comes from `zkload`, a program for
//! any server that speaks the protocol (`generator`). Where it matters, both systems are up at a
//! time and take turns. What was measured (`results`) becomes tables, JSON and plots (`markdown`,
//! `json`, `plots`), which are written when the run is at its end (`documents`).

mod build;
mod busy;
mod clients;
mod connections;
mod disk;
mod documents;
mod error;
mod failover;
mod generator;
mod goals;
mod hand_over;
mod holds;
mod json;
mod limits;
mod link;
mod loads;
mod locks;
pub(crate) mod machine;
mod markdown;
mod memory;
mod million;
mod model;
mod options;
mod parts;
mod peer_bytes;
mod plots;
pub(crate) mod progress;
mod quota;
mod real_time;
mod results;
mod rounds;
mod rows;
mod section;
pub(crate) mod statistics;
pub(crate) mod svg;
mod threads;
mod up;
mod writer;
mod znodes;

use std::path::PathBuf;

pub use error::BenchError;
pub use options::Options;
use progress::Recorder;
use results::{Facts, Run};

use crate::builder::Kind;

/// Measures what the options ask for, and writes the documents with that and with what earlier runs
/// have measured besides; returns their directory. When a part fails, the others are written, and
/// then its error is returned.
pub fn run(options: &Options) -> Result<PathBuf, BenchError> {
    let page = documents::read_page(&options.out)?;
    let mut results = documents::read_results(&options.out)?;
    let (run, failed) = measure(options)?;
    if !run.measurements.is_empty() {
        results.add(run);
        documents::write(&options.out, &page, &results)?;
    }
    match failed.into_iter().next() {
        Some(error) => Err(error),
        None => Ok(options.out.clone()),
    }
}

fn measure(options: &Options) -> Result<(Run, Vec<BenchError>), BenchError> {
    let version = |system| machine::version(&rounds::start(system, 1)?);
    let facts = Facts {
        machine: machine::Machine::read()?,
        apache_version: version(Kind::Apache)?,
        zoolet_version: version(Kind::Zoolet)?,
        rounds: options.rounds,
        seconds: options.seconds,
    };
    let mut recorder = Recorder::start(parts::expected(options));
    let failed = parts::measure(options, &mut recorder);
    Ok((Run { facts, measurements: recorder.into_measurements() }, failed))
}
