//! One server with a million znodes: their memory, its restart, and snapshots beside writes.
//!
//! The systems are measured one after the other, so that the memory of both is never needed at a
//! time.

use std::fs::{self, File};
use std::io::{self, Write as _};
use std::net::SocketAddr;
use std::path::Path;
use std::time::{Duration, Instant};

use bytes::Bytes;
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};
use zoolet_jute::{Acl, CreateRequest, Request, SetDataRequest};

use super::error::BenchError;
use super::link::{self, Link};
use super::loads::{Load, Place};
use super::options::Options;
use super::progress::Recorder;
use super::real_time::pause;
use super::results::{Figure, Figures, SYSTEMS};
use super::rows::{
    Case, HOLD_MILLION, MEMORY_ZNODE, RESTART, Row, WITH_SNAPSHOT, WITHOUT_SNAPSHOT,
};
use super::writer::SESSION_MS;
use super::{generator, holds, memory, rounds};
use crate::builder::Kind;
use crate::servers::Servers;

const ZNODES: u32 = 1_000_000;
/// The path of their parent, and the bytes of data of each.
const PARENT: &str = "/bench-znodes";
const DATA: [u8; 100] = [b'x'; 100];
/// The connections that create them, and the requests in flight on each.
const CREATORS: (u32, usize) = (8, 64);
/// Apache ZooKeeper needs about 1.5 GB for a million znodes.
const JVM_HEAP: &str = "-Xmx4g";
const RESTARTS: usize = 3;
const RESTART_MAX: Duration = Duration::from_mins(2);
/// After an attempt to write that has failed; the attempts at a time, and the longest time of one.
const PAUSE: Duration = Duration::from_millis(5);
const ATTEMPTS: u32 = 4;
const ATTEMPT_MAX: Duration = Duration::from_secs(1);
/// After the creates: snapshots end, and what was received is freed.
const SETTLE: Duration = Duration::from_secs(3);
/// Pairs of windows without and beside snapshots.
const ROUNDS: usize = 2;
/// Writes between two snapshots: more than there are in a run, and fewer than while one is written.
const NO_SNAPSHOTS: &str = "1000000000";
const MANY_SNAPSHOTS: &str = "50000";
const LOAD: Load =
    Load { servers: 1, operation: "set", connections: 16, depth: 8, place: Place::Spread };

/// The creation of the znodes, and of a server's start with them.
const CREATE: Duration = Duration::from_secs(15);
const RESTART_STEP: Duration = Duration::from_secs(4);

pub(super) fn expected(options: &Options) -> Duration {
    let both = CREATE + SETTLE + RESTART_STEP * u32::try_from(RESTARTS).unwrap_or(u32::MAX);
    let snapshots = snapshot_step(options) * u32::try_from(2 * ROUNDS).unwrap_or(u32::MAX);
    both * u32::try_from(SYSTEMS.len()).unwrap_or(u32::MAX) + snapshots
}

fn snapshot_step(options: &Options) -> Duration {
    generator::WARM_UP + options.window() + RESTART_STEP
}

pub(super) fn measure(options: &Options, recorder: &mut Recorder) -> Result<(), BenchError> {
    for system in SYSTEMS {
        let builder = rounds::builder(system, 1).jvm_option(JVM_HEAP);
        let mut servers = builder.start()?;
        measure_memory(&servers, recorder)?;
        for round in 1..=RESTARTS {
            let ms = restart(&mut servers)?.as_secs_f64() * 1_000.0;
            let figures = Figures::from([(Figure::Milliseconds, ms)]);
            recorder.add(Row::Case(RESTART), system, round, figures);
            recorder.finish(RESTART_STEP);
        }
        if system == Kind::Zoolet {
            measure_snapshots(&mut servers, options, recorder)?;
        }
    }
    Ok(())
}

fn measure_memory(servers: &Servers, recorder: &mut Recorder) -> Result<(), BenchError> {
    let before = memory::resident_bytes(servers, 0)?;
    create(servers, ZNODES)?;
    pause(SETTLE);
    let after = memory::resident_bytes(servers, 0)?;
    let figures = Figures::from([(Figure::Bytes, memory::growth_of_each(before, after, ZNODES))]);
    recorder.add(Row::Case(MEMORY_ZNODE), servers.kind(), 1, figures);
    recorder.finish(CREATE + SETTLE);
    Ok(())
}

/// Creates znodes with 100 bytes of data below one parent.
pub(super) fn create(servers: &Servers, count: u32) -> Result<(), BenchError> {
    let address = servers.client_address(0)?;
    let failed = |error: io::Error| BenchError::of(servers.kind(), format!("creates: {error}"));
    let runtime = link::runtime().map_err(failed)?;
    let work = async {
        let mut link = Link::open(address, SESSION_MS).await?;
        link.call(&create_request(PARENT.to_owned())).await?;
        let request = |number| create_request(path(number));
        link::send_all(address, CREATORS, count, request).await
    };
    runtime.block_on(work).map(drop).map_err(failed)
}

/// Returns the path of one of the znodes.
pub(super) fn path(number: u32) -> String {
    format!("{PARENT}/n{number:09}")
}

pub(super) fn create_request(path: String) -> Request {
    let data = Some(Bytes::from_static(&DATA));
    Request::Create(CreateRequest { path, data, acl: Some(Acl::open()), flags: 0 })
}

pub(super) fn set_request(path: String) -> Request {
    let data = Some(Bytes::from_static(&DATA));
    Request::SetData(SetDataRequest { path, data, version: -1 })
}

/// Kills the server and starts it; returns the time from the start to the first acknowledged write.
#[allow(clippy::disallowed_methods, reason = "the bench measures real time")]
fn restart(servers: &mut Servers) -> Result<Duration, BenchError> {
    let system = servers.kind();
    let failed = |error: io::Error| BenchError::of(system, format!("restart: {error}"));
    let runtime = link::runtime().map_err(failed)?;
    servers.kill(0)?;
    let began = Instant::now();
    servers.spawn(0)?;
    let first = first_write(servers.client_address(0)?);
    // A timeout is made where the runtime is.
    if runtime.block_on(async { timeout(RESTART_MAX, first).await }).is_ok() {
        return Ok(began.elapsed());
    }
    let output = servers.output(0).map_err(failed)?;
    Err(BenchError::of(system, format!("no write after {RESTART_MAX:?}; it wrote:\n{output}")))
}

/// Waits until a write is acknowledged. A server that does not serve yet refuses a connection,
/// closes it, or accepts it and is silent: so there are several attempts at a time, one after the
/// other.
async fn first_write(address: SocketAddr) {
    let mut attempts = JoinSet::new();
    for number in 0..ATTEMPTS {
        attempts.spawn(async move {
            sleep(ATTEMPT_MAX * number / ATTEMPTS).await;
            while !matches!(timeout(ATTEMPT_MAX, write_once(address)).await, Ok(Ok(()))) {
                sleep(PAUSE).await;
            }
        });
    }
    attempts.join_next().await;
}

/// Opens a session and has a write acknowledged.
async fn write_once(address: SocketAddr) -> io::Result<()> {
    let mut link = Link::open(address, SESSION_MS).await?;
    match link.call(&set_request(PARENT.to_owned())).await? {
        None => Ok(()),
        Some(code) => Err(io::Error::other(format!("{code:?}"))),
    }
}

/// Measures a load on the server without snapshots, and with one after the other.
fn measure_snapshots(
    servers: &mut Servers,
    options: &Options,
    recorder: &mut Recorder,
) -> Result<(), BenchError> {
    let Some(program) = &options.generator else { return Ok(()) };
    let cases = [(WITHOUT_SNAPSHOT, NO_SNAPSHOTS), (WITH_SNAPSHOT, MANY_SNAPSHOTS)];
    for round in 1..=ROUNDS {
        for (case, writes) in cases {
            set_snapshots(servers, writes)?;
            servers.restart(0)?;
            let before = newest_snapshot(&servers.server_dir(0))?;
            let mut figures = generator::run(program, &LOAD, servers, options.window())?;
            figures.0.retain(|figure, _| case.figures.contains(figure));
            let has_snapshots = newest_snapshot(&servers.server_dir(0))? != before;
            check_snapshots(case, has_snapshots, servers)?;
            recorder.add(Row::Case(case), servers.kind(), round, figures);
            recorder.finish(snapshot_step(options));
        }
        holds::record(HOLD_MILLION, 1, servers, recorder)?;
    }
    Ok(())
}

/// The figures are those of the case only if snapshots were written, or none.
fn check_snapshots(case: Case, has: bool, servers: &Servers) -> Result<(), BenchError> {
    if has == (case == WITH_SNAPSHOT) {
        return Ok(());
    }
    let what = if has { "a snapshot was written" } else { "no snapshot was written" };
    Err(BenchError::of(servers.kind(), format!("{}: {what}", case.title)))
}

/// Sets the writes between two snapshots from the server's next start on: the last line counts.
fn set_snapshots(servers: &Servers, writes: &str) -> Result<(), BenchError> {
    let path = servers.server_dir(0).join("zoo.cfg");
    let append = || {
        let mut file = File::options().append(true).open(&path)?;
        writeln!(file, "snapCount={writes}\nsnapLogPercent=0")
    };
    append().map_err(BenchError::file(&path))
}

/// Returns the greatest name of a snapshot in the server's directory.
fn newest_snapshot(directory: &Path) -> Result<Option<String>, BenchError> {
    let mut newest = None;
    let mut directories = vec![directory.to_owned()];
    while let Some(directory) = directories.pop() {
        let entries = fs::read_dir(&directory).map_err(BenchError::file(&directory))?;
        for entry in entries.flatten() {
            let name = entry.file_name().to_string_lossy().into_owned();
            if entry.path().is_dir() {
                directories.push(entry.path());
            } else if entry.path().extension().is_some_and(|extension| extension == "snap") {
                newest = newest.max(Some(name));
            }
        }
    }
    Ok(newest)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_snapshot_is_found_below_the_directory() {
        let directory = tempfile::tempdir().unwrap();
        assert_eq!(newest_snapshot(directory.path()).unwrap(), None);
        let data = directory.path().join("data/snapshots");
        fs::create_dir_all(&data).unwrap();
        for name in ["0000-0001.snap", "0000-0003.snap", "0000-0002.snap", "9.log"] {
            fs::write(data.join(name), "").unwrap();
        }
        let newest = newest_snapshot(directory.path()).unwrap();
        assert_eq!(newest.as_deref(), Some("0000-0003.snap"));
    }
}
