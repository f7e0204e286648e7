//! The start of an empty ensemble of three by `zoolet up`, to its first write.

use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::process::Stdio;
use std::time::{Duration, Instant};

use zoolet_jute::{Acl, CreateRequest, Request};

use super::error::BenchError;
use super::link::{self, Link};
use super::options::Options;
use super::progress::Recorder;
use super::results::{Figure, Figures};
use super::rows::{Row, UP};
use super::writer::SESSION_MS;
use crate::builder::Kind;
use crate::ports::PortLease;
use crate::up::{self, Up};

const SERVERS: u16 = 3;
const RUNS: usize = 5;
const STEP: Duration = Duration::from_secs(2);

pub(super) fn expected(_: &Options) -> Duration {
    STEP * u32::try_from(RUNS).unwrap_or(u32::MAX)
}

pub(super) fn measure(_: &Options, recorder: &mut Recorder) -> Result<(), BenchError> {
    for round in 1..=RUNS {
        let ms = start()?.as_secs_f64() * 1_000.0;
        let figures = Figures::from([(Figure::Milliseconds, ms)]);
        recorder.add(Row::Case(UP), Kind::Zoolet, round, figures);
        recorder.finish(STEP);
    }
    Ok(())
}

/// Returns the time from the start of the process to its end.
#[allow(clippy::disallowed_methods, reason = "the bench measures real time")]
fn start() -> Result<Duration, BenchError> {
    let failed = |error: io::Error| BenchError::of(Kind::Zoolet, format!("up: {error}"));
    let (_lease, port) = PortLease::take_in_a_row(SERVERS)?;
    let runtime = link::runtime().map_err(failed)?;
    let mut command = up::on_ports(SERVERS, port)?;
    command.args(["--log", "error"]).stderr(Stdio::null());
    let began = Instant::now();
    let up = Up::spawn(&mut command, SERVERS).map_err(failed)?;
    let written = runtime.block_on(write(SocketAddr::from((Ipv4Addr::LOCALHOST, port))));
    let time = began.elapsed();
    let status = up.stop().map_err(failed)?;
    written.map_err(failed)?;
    if status.success() { Ok(time) } else { Err(failed(io::Error::other(status.to_string()))) }
}

async fn write(server: SocketAddr) -> io::Result<()> {
    let mut link = Link::open(server, SESSION_MS).await?;
    let path = "/first".to_owned();
    let body = CreateRequest { path, data: None, acl: Some(Acl::open()), flags: 0 };
    match link.call(&Request::Create(body)).await? {
        None => Ok(()),
        Some(code) => Err(io::Error::other(format!("the first write: {code:?}"))),
    }
}
