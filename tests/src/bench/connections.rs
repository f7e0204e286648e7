//! Writes on ten thousand connections against writes on a hundred, one at a time on each.
//!
//! Each system is compared with itself, so that they are measured one after the other.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::{Duration, Instant};

use tokio::task::JoinSet;
use tokio::time::sleep;

use super::error::BenchError;
use super::limits;
use super::link::{self, Link};
use super::million::{create_request, set_request};
use super::options::Options;
use super::progress::Recorder;
use super::results::{Figure, Figures, SYSTEMS};
use super::rounds;
use super::rows::{Case, FEW_CONNECTIONS, MANY_CONNECTIONS, Row};
use crate::servers::Servers;

const SERVERS: usize = 3;
const CASES: [(Case, usize); 2] = [(FEW_CONNECTIONS, 100), (MANY_CONNECTIONS, 10_000)];
const ROUNDS: usize = 3;
const PATH: &str = "/bench-connections";
/// A connection whose server is busy sends nothing for some time.
const SESSION_MS: i32 = 120_000;
const WARM_UP: Duration = Duration::from_secs(1);
/// The start of the servers and of the sessions.
const START: Duration = Duration::from_secs(8);

pub(super) fn expected(options: &Options) -> Duration {
    let windows = u32::try_from(CASES.len() * ROUNDS).unwrap_or(u32::MAX);
    let systems = u32::try_from(SYSTEMS.len()).unwrap_or(u32::MAX);
    (START + step(options) * windows) * systems
}

fn step(options: &Options) -> Duration {
    WARM_UP + options.window()
}

pub(super) fn measure(options: &Options, recorder: &mut Recorder) -> Result<(), BenchError> {
    limits::check_open_files("connections")?;
    for system in SYSTEMS {
        let servers = rounds::start(system, SERVERS)?;
        let failed = |error: io::Error| BenchError::of(system, format!("connections: {error}"));
        let runtime = link::runtime().map_err(failed)?;
        let mut links = Vec::new();
        runtime.block_on(create(&servers)).map_err(failed)?;
        recorder.finish(START);
        for (case, count) in CASES {
            for round in 1..=ROUNDS {
                let measured = async {
                    open(&servers, &mut links, count).await?;
                    writes_per_second(&mut links, options.window()).await
                };
                let ops_s = runtime.block_on(measured).map_err(failed)?;
                let figures = Figures::from([(Figure::OperationsPerSecond, ops_s)]);
                recorder.add(Row::Case(case), system, round, figures);
                recorder.finish(step(options));
            }
        }
    }
    Ok(())
}

async fn create(servers: &Servers) -> io::Result<()> {
    let address = servers.client_address(0).map_err(io::Error::other)?;
    let mut link = Link::open(address, SESSION_MS).await?;
    link.call(&create_request(PATH.to_owned())).await.map(drop)
}

/// Opens what is missing of `count` connections, spread over all servers.
async fn open(servers: &Servers, links: &mut Vec<Link>, count: usize) -> io::Result<()> {
    let missing = count.saturating_sub(links.len());
    for index in 0..SERVERS {
        let address = servers.client_address(index).map_err(io::Error::other)?;
        let share = (missing + index) / SERVERS;
        links.extend(link::open_all(address, share, SESSION_MS).await?);
    }
    Ok(())
}

/// Writes on all connections for a while.
#[allow(clippy::disallowed_methods, reason = "the bench measures real time")]
async fn writes_per_second(links: &mut Vec<Link>, window: Duration) -> io::Result<f64> {
    let (count, stop) = (Arc::new(AtomicU32::new(0)), Arc::new(AtomicBool::new(false)));
    let mut writers = JoinSet::new();
    let set = set_request(PATH.to_owned());
    for mut link in links.drain(..) {
        let (count, stop, set) = (Arc::clone(&count), Arc::clone(&stop), set.clone());
        writers.spawn(async move {
            while !stop.load(Ordering::Relaxed) {
                if let Some(code) = link.call(&set).await? {
                    return Err(io::Error::other(format!("a write has failed: {code:?}")));
                }
                count.fetch_add(1, Ordering::Relaxed);
            }
            Ok(link)
        });
    }
    sleep(WARM_UP).await;
    let (began, before) = (Instant::now(), count.load(Ordering::Relaxed));
    sleep(window).await;
    let (seconds, after) = (began.elapsed().as_secs_f64(), count.load(Ordering::Relaxed));
    stop.store(true, Ordering::Relaxed);
    while let Some(ended) = writers.join_next().await {
        links.push(ended??);
    }
    Ok(f64::from(after.wrapping_sub(before)) / seconds)
}
