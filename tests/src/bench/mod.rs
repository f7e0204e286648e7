//! The bench of `docs/performance.md`: zoolet beside Apache `ZooKeeper` in one run, so that the
//! machine is the same for both.
//!
//! Both systems are up at a time and take turns (`rounds`, `failover`); the load comes from
//! `zkload`, a program for any server that speaks the protocol (`generator`). What was measured
//! (`Results`) becomes tables, JSON and plots (`markdown`, `plots`), which are written when the
//! run is at its end (`documents`).

mod documents;
mod error;
mod failover;
mod generator;
mod loads;
mod machine;
mod markdown;
mod options;
mod plots;
mod progress;
mod results;
mod rounds;
mod section;
mod statistics;
mod svg;
mod switches;
mod writer;

use std::path::PathBuf;

pub use error::BenchError;
pub use options::Options;
use progress::Progress;
use results::Results;

use crate::builder::Kind;

/// Measures what the options ask for and writes the documents; returns their directory.
pub fn run(options: &Options) -> Result<PathBuf, BenchError> {
    let page = documents::read_page(&options.out)?;
    let results = measure(options)?;
    documents::write(&options.out, &page, &results)?;
    Ok(options.out.clone())
}

fn measure(options: &Options) -> Result<Results, BenchError> {
    let machine = machine::Machine::read()?;
    let version = |system| machine::version(&rounds::start(system, 1)?);
    let (apache_version, zoolet_version) = (version(Kind::Apache)?, version(Kind::Zoolet)?);
    let expected = rounds::expected(options) + failover::expected(options);
    let mut progress = Progress::start(expected);
    let measurements = rounds::measure(options, &mut progress)?;
    let failovers = failover::measure(options, &mut progress)?;
    Ok(Results {
        machine,
        apache_version,
        zoolet_version,
        rounds: options.rounds,
        warm_up_seconds: generator::WARM_UP.as_secs_f64(),
        seconds: options.seconds,
        loads: options.loads.clone(),
        measurements,
        failovers,
    })
}
