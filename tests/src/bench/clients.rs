//! One server with ten thousand connections: their memory, that of watches, and an event for all of
//! them.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};
use zoolet_jute::{AddWatchMode, AddWatchRequest, PathWatchRequest, Request};

use super::error::BenchError;
use super::link::{self, Link};
use super::million::{create_request, set_request};
use super::options::Options;
use super::progress::Recorder;
use super::real_time::pause;
use super::results::{Figure, Figures, SYSTEMS};
use super::rows::{Case, HOLD_CLIENTS, MEMORY_SESSION, MEMORY_WATCH, Row, WATCHERS};
use super::{holds, limits, memory, rounds};
use crate::servers::Servers;

const CONNECTIONS: u32 = 10_000;
/// Sessions that are opened before the measurement: memory that they leave free is used again.
const FIRST: u32 = 500;
/// Connections with watches whose memory is measured, and the watches of each.
const WATCHING: u32 = 1_000;
const WATCHES_EACH: u32 = 100;
/// Of these requests in flight on a connection.
const DEPTH: usize = 100;
/// The znode that all watch.
const WATCHED: &str = "/bench-watched";
/// Writes to it, after one whose times do not count.
const EVENTS: usize = 5;
/// Between the last watch and the write.
const WAITING: Duration = Duration::from_millis(200);
/// How long the next event may take.
const EVENT_MAX: Duration = Duration::from_mins(1);
/// Nothing is sent on idle connections while they are measured.
const SESSION_MS: i32 = 600_000;
/// Before the memory is read.
const SETTLE: Duration = Duration::from_secs(1);

const STEP: Duration = Duration::from_secs(20);

pub(super) fn expected(_: &Options) -> Duration {
    STEP * u32::try_from(SYSTEMS.len()).unwrap_or(u32::MAX)
}

pub(super) fn measure(_: &Options, recorder: &mut Recorder) -> Result<(), BenchError> {
    limits::check_open_files("clients")?;
    for system in SYSTEMS {
        let servers = rounds::start(system, 1)?;
        let failed = |error: io::Error| BenchError::of(system, format!("clients: {error}"));
        let runtime = link::runtime().map_err(failed)?;
        let address = servers.client_address(0)?;
        runtime.block_on(measure_system(&servers, address, recorder)).map_err(
            |error| match error {
                Failed::Io(error) => failed(error),
                Failed::Bench(error) => error,
            },
        )?;
        holds::record(HOLD_CLIENTS, 1, &servers, recorder)?;
        recorder.finish(STEP);
    }
    Ok(())
}

enum Failed {
    Io(io::Error),
    Bench(BenchError),
}

impl From<io::Error> for Failed {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

impl From<BenchError> for Failed {
    fn from(error: BenchError) -> Self {
        Self::Bench(error)
    }
}

async fn measure_system(
    servers: &Servers,
    address: SocketAddr,
    recorder: &mut Recorder,
) -> Result<(), Failed> {
    let mut add = |case: Case, round, figure, value| {
        let figures = Figures::from([(figure, value)]);
        recorder.add(Row::Case(case), servers.kind(), round, figures);
    };
    let open = async |count: u32| {
        let mut links =
            link::open_all(address, usize::try_from(count).unwrap_or(0), SESSION_MS).await?;
        for link in &mut links {
            link.call(&Request::Ping).await?;
        }
        pause(SETTLE);
        Ok::<_, io::Error>(links)
    };
    let mut links = open(FIRST).await?;
    let before = memory::resident_bytes(servers, 0)?;
    links.extend(open(CONNECTIONS - FIRST).await?);
    let after = memory::resident_bytes(servers, 0)?;
    let session = memory::growth_of_each(before, after, CONNECTIONS - FIRST);
    add(MEMORY_SESSION, 1, Figure::Bytes, session);

    // As many requests without a watch come first, so that buffers have their size.
    let exists = Request::Exists(PathWatchRequest { path: "/".to_owned(), watch: false });
    ask_some(&mut links, |_, _| exists.clone()).await?;
    let without_watches = memory::resident_bytes(servers, 0)?;
    ask_some(&mut links, |connection, watch| {
        let path = format!("/bench/w{connection:06}-{watch:06}");
        Request::AddWatch(AddWatchRequest { path, mode: AddWatchMode::Persistent })
    })
    .await?;
    let with_watches = memory::resident_bytes(servers, 0)?;
    let watches = WATCHING * WATCHES_EACH;
    let watch = memory::growth_of_each(without_watches, with_watches, watches);
    add(MEMORY_WATCH, 1, Figure::Bytes, watch);

    let mut writer = Link::open(address, SESSION_MS).await?;
    create(&mut writer).await?;
    for event in 0..=EVENTS {
        let time = last_event(&mut links, &mut writer).await?;
        if event > 0 {
            add(WATCHERS, event, Figure::Milliseconds, time.as_secs_f64() * 1_000.0);
        }
    }
    Ok(())
}

/// Has some of the connections send a request for each of their watches.
async fn ask_some(links: &mut [Link], request: impl Fn(usize, u32) -> Request) -> io::Result<()> {
    let watching = usize::try_from(WATCHING).unwrap_or(0);
    for (connection, link) in links.iter_mut().take(watching).enumerate() {
        let requests = (0..WATCHES_EACH).map(|watch| request(connection, watch)).collect();
        link.send_all(DEPTH, requests).await?;
    }
    pause(SETTLE);
    Ok(())
}

async fn create(writer: &mut Link) -> io::Result<()> {
    writer.call(&create_request(WATCHED.to_owned())).await.map(drop)
}

/// Watches the znode on all connections, writes to it, and returns the time from the write to the
/// last event.
#[allow(clippy::disallowed_methods, reason = "the bench measures real time")]
async fn last_event(links: &mut Vec<Link>, writer: &mut Link) -> io::Result<Duration> {
    let watch = Request::Exists(PathWatchRequest { path: WATCHED.to_owned(), watch: true });
    let mut waiting = JoinSet::new();
    let is_set = Arc::new(Semaphore::new(0));
    for mut link in links.drain(..) {
        let (watch, is_set) = (watch.clone(), Arc::clone(&is_set));
        waiting.spawn(async move {
            link.call(&watch).await?;
            is_set.add_permits(1);
            link.event().await?;
            Ok::<_, io::Error>((link, Instant::now()))
        });
    }
    // All of them wait for their sockets before the write is sent. A watch that cannot be set ends
    // its task, and the time with it.
    let all = is_set.acquire_many(CONNECTIONS);
    drop(timeout(EVENT_MAX, all).await?.map_err(io::Error::other)?);
    sleep(WAITING).await;
    let began = Instant::now();
    writer.call(&set_request(WATCHED.to_owned())).await?;
    let mut last = began;
    while let Some(ended) = timeout(EVENT_MAX, waiting.join_next()).await? {
        let (link, at) = ended??;
        last = last.max(at);
        links.push(link);
    }
    Ok(last.duration_since(began))
}
