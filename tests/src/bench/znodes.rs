//! Writes to a server with ten million znodes against one with ten thousand. Apache ZooKeeper is not
//! measured: its heap would take more than 10 GB, and the creates several minutes.

use std::io;
use std::time::Duration;

use super::error::BenchError;
use super::options::Options;
use super::progress::Recorder;
use super::results::{Figure, Figures};
use super::rows::{FEW_ZNODES, MANY_ZNODES, Row};
use super::{link, memory, million, rounds};
use crate::builder::Kind;
use crate::servers::Servers;

const FEW: u32 = 10_000;
const MANY: u32 = 10_000_000;
/// The znodes take 3 GB, and a snapshot as much of the page cache.
const MEMORY_BYTES: u64 = 8 << 30;
const ROUNDS: usize = 3;
const WRITES: u32 = 500_000;
/// The connections, and the requests in flight on each.
const WRITERS: (u32, usize) = (16, 32);
/// A stride that meets every znode once before it meets one again, far from its neighbors.
const STRIDE: u64 = 7_368_787;

const STEP: Duration = Duration::from_secs(5);
const CREATE: Duration = Duration::from_mins(2);

pub(super) fn expected(_: &Options) -> Duration {
    CREATE + STEP * u32::try_from(2 * ROUNDS).unwrap_or(u32::MAX)
}

pub(super) fn measure(_: &Options, recorder: &mut Recorder) -> Result<(), BenchError> {
    if memory::available_bytes().is_some_and(|available| available < MEMORY_BYTES) {
        return Err(BenchError::Option(format!(
            "the case `znodes` needs {} GiB of available memory: leave it out of CASES",
            MEMORY_BYTES >> 30
        )));
    }
    let few = rounds::start(Kind::Zoolet, 1)?;
    million::create(&few, FEW)?;
    let many = rounds::start(Kind::Zoolet, 1)?;
    million::create(&many, MANY)?;
    recorder.finish(CREATE);
    for round in 1..=ROUNDS {
        for (case, servers, count) in [(FEW_ZNODES, &few, FEW), (MANY_ZNODES, &many, MANY)] {
            let figures = Figures::from([(Figure::OperationsPerSecond, ops_s(servers, count)?)]);
            recorder.add(Row::Case(case), Kind::Zoolet, round, figures);
            recorder.finish(STEP);
        }
    }
    Ok(())
}

/// Writes to znodes all over the tree.
fn ops_s(servers: &Servers, znodes: u32) -> Result<f64, BenchError> {
    let failed = |error: io::Error| BenchError::of(servers.kind(), format!("writes: {error}"));
    let runtime = link::runtime().map_err(failed)?;
    let address = servers.client_address(0)?;
    let request = move |number| million::set_request(million::path(chosen(number, znodes)));
    let time = runtime.block_on(link::send_all(address, WRITERS, WRITES, request));
    Ok(f64::from(WRITES) / time.map_err(failed)?.as_secs_f64())
}

fn chosen(number: u32, znodes: u32) -> u32 {
    u32::try_from(u64::from(number) * STRIDE % u64::from(znodes)).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn the_writes_meet_every_znode_before_they_meet_one_again() {
        let few: BTreeSet<u32> = (0..FEW).map(|number| chosen(number, FEW)).collect();
        assert_eq!(few.len(), 10_000);
        let many: BTreeSet<u32> = (0..WRITES).map(|number| chosen(number, MANY)).collect();
        assert_eq!(many.len(), 500_000);
    }
}
