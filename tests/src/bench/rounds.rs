//! The loads, on both systems in turns.

use std::path::Path;
use std::time::Duration;

use super::error::BenchError;
use super::generator::{self, WARM_UP};
use super::holds;
use super::loads::Load;
use super::options::Options;
use super::progress::Recorder;
use super::results::SYSTEMS;
use super::rows::{HOLD_LOADS, Row};
use crate::builder::{Kind, ServersBuilder};
use crate::servers::Servers;

/// The size to which both preallocate a log file, in KiB: their default.
const LOG_FILE_KIB: &str = "65536";
/// Sessions outlive a load that has a server busy for long, and are idle where that is measured.
const SESSION_MS_MAX: &str = "600000";
/// What the load generator takes to prepare its znodes, about.
const PREPARE: Duration = Duration::from_secs(1);

/// Returns what all measurements are expected to take.
pub(super) fn expected(options: &Options) -> Duration {
    let turns = u32::try_from(options.rounds * SYSTEMS.len()).unwrap_or(u32::MAX);
    step(options) * u32::try_from(options.loads.len()).unwrap_or(u32::MAX) * turns
}

fn step(options: &Options) -> Duration {
    PREPARE + WARM_UP + options.window()
}

/// Returns servers of one system as they are measured: with the sizes of log files that both have
/// by default, and Apache's with the whole compiler, which the harness otherwise leaves out.
pub(super) fn builder(system: Kind, servers: usize) -> ServersBuilder {
    let builder = match system {
        Kind::Apache => Servers::apache().jvm_option("-XX:TieredStopAtLevel=4"),
        Kind::Zoolet => Servers::zoolet(),
    };
    let builder = builder.servers(servers).property("preAllocSize", LOG_FILE_KIB);
    builder.property("maxSessionTimeout", SESSION_MS_MAX)
}

/// Starts servers as they are measured.
pub(super) fn start(system: Kind, servers: usize) -> Result<Servers, BenchError> {
    Ok(builder(system, servers).start()?)
}

/// Measures the loads. Both systems are up at a time, and the first in one round is the second in
/// the next.
pub(super) fn measure(options: &Options, recorder: &mut Recorder) -> Result<(), BenchError> {
    let Some(program) = &options.generator else { return Ok(()) };
    let mut sizes: Vec<usize> = options.loads.iter().map(|load| load.servers).collect();
    sizes.dedup();
    for size in sizes {
        let loads: Vec<Load> =
            options.loads.iter().filter(|load| load.servers == size).copied().collect();
        measure_size(program, &loads, size, options, recorder)?;
    }
    Ok(())
}

fn measure_size(
    program: &Path,
    loads: &[Load],
    size: usize,
    options: &Options,
    recorder: &mut Recorder,
) -> Result<(), BenchError> {
    let mut systems = Vec::new();
    for system in SYSTEMS {
        systems.push(start(system, size)?);
    }
    for round in 1..=options.rounds {
        for load in loads {
            for servers in &systems {
                let figures = generator::run(program, load, servers, options.window())?;
                recorder.add(Row::Load(*load), servers.kind(), round, figures);
                recorder.finish(step(options));
            }
        }
        systems.reverse();
    }
    for servers in &systems {
        holds::record(HOLD_LOADS, size, servers, recorder)?;
    }
    Ok(())
}
