//! The loads, on both systems in turns.

use std::path::Path;
use std::time::Duration;

use super::error::BenchError;
use super::generator::{self, WARM_UP};
use super::loads::Load;
use super::options::Options;
use super::progress::Progress;
use super::results::{Measurement, SYSTEMS, name};
use crate::builder::Kind;
use crate::servers::Servers;

/// The size to which both preallocate a log file, in KiB: their default.
const LOG_FILE_KIB: &str = "65536";
/// What the load generator takes to prepare its znodes, about.
const PREPARE: Duration = Duration::from_secs(1);

/// Returns what all measurements are expected to take.
pub(super) fn expected(options: &Options) -> Duration {
    let turns = options.loads.len() * options.rounds * SYSTEMS.len();
    step(options) * u32::try_from(turns).unwrap_or(u32::MAX)
}

fn step(options: &Options) -> Duration {
    PREPARE + WARM_UP + window(options)
}

fn window(options: &Options) -> Duration {
    Duration::from_secs(options.seconds.into())
}

/// Starts the servers of one system as they are measured: with the sizes of log files that both
/// have by default, and Apache's with the whole compiler, which the harness otherwise leaves out.
pub(super) fn start(system: Kind, servers: usize) -> Result<Servers, BenchError> {
    let builder = match system {
        Kind::Apache => Servers::apache().jvm_option("-XX:TieredStopAtLevel=4"),
        Kind::Zoolet => Servers::zoolet(),
    };
    Ok(builder.servers(servers).property("preAllocSize", LOG_FILE_KIB).start()?)
}

/// Measures the loads. Both systems are up at a time, and the first in one round is the second in
/// the next.
pub(super) fn measure(
    options: &Options,
    progress: &mut Progress,
) -> Result<Vec<Measurement>, BenchError> {
    let mut measurements = Vec::new();
    let Some(program) = &options.generator else { return Ok(measurements) };
    let sizes = options.loads.iter().map(|load| load.servers);
    let mut sizes: Vec<usize> = sizes.collect();
    sizes.dedup();
    for size in sizes {
        let loads = options.loads.iter().filter(|load| load.servers == size);
        let loads: Vec<Load> = loads.copied().collect();
        measurements.extend(measure_size(program, &loads, size, options, progress)?);
    }
    Ok(measurements)
}

fn measure_size(
    program: &Path,
    loads: &[Load],
    size: usize,
    options: &Options,
    progress: &mut Progress,
) -> Result<Vec<Measurement>, BenchError> {
    let mut systems = Vec::new();
    for system in SYSTEMS {
        systems.push(start(system, size)?);
    }
    let mut measurements = Vec::new();
    for round in 1..=options.rounds {
        for load in loads {
            for servers in &systems {
                let system = servers.kind();
                let figures = generator::run(program, load, servers, window(options))?;
                let what = format!(
                    "round {round} of {}: {load} on {}: {:.0} ops/s, p50 {:.0} µs, p99 {:.0} µs",
                    options.rounds,
                    name(system),
                    figures.ops_s,
                    figures.p50_us,
                    figures.p99_us,
                );
                progress.finish(&what, step(options));
                measurements.push(Measurement { load: *load, system, round, figures });
            }
        }
        systems.reverse();
    }
    Ok(measurements)
}
