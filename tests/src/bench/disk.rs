//! What the disk takes to sync a small write, without a server.

use std::env;
use std::fs::File;
use std::io::{self, Write};
use std::time::{Duration, Instant};

use super::error::BenchError;
use super::options::Options;
use super::progress::Recorder;
use super::results::{Figure, Figures};
use super::rows::{Row, SYNC};
use super::statistics::percentile;
use crate::builder::Kind;

const SYNCS: usize = 500;
const BYTES: usize = 4_096;
const STEP: Duration = Duration::from_secs(1);

pub(super) fn expected(_: &Options) -> Duration {
    STEP
}

/// Measures where the servers have their data.
pub(super) fn measure(_: &Options, recorder: &mut Recorder) -> Result<(), BenchError> {
    let directory = env::temp_dir();
    let times = times().map_err(BenchError::file(&directory))?;
    let at = |percent| percentile(&times, percent).unwrap_or_default();
    let figures = Figures::from([(Figure::P50, at(50)), (Figure::P99, at(99))]);
    recorder.add(Row::Case(SYNC), Kind::Zoolet, 1, figures);
    recorder.finish(STEP);
    Ok(())
}

/// Writes to a file that has its length already, as the log does; returns microseconds.
#[allow(clippy::disallowed_methods, reason = "the bench measures real time")]
fn times() -> io::Result<Vec<f64>> {
    let mut file: File = tempfile::tempfile()?;
    let block = [b'x'; BYTES];
    for _ in 0..SYNCS {
        file.write_all(&block)?;
    }
    file.sync_all()?;
    io::Seek::rewind(&mut file)?;
    let mut times = Vec::new();
    for _ in 0..SYNCS {
        let began = Instant::now();
        file.write_all(&block)?;
        file.sync_data()?;
        times.push(began.elapsed().as_secs_f64() * 1_000_000.0);
    }
    Ok(times)
}
