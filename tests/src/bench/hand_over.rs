//! The time from the release of a lock to its next holder, with few and with many waiters.
//!
//! The clients of `zoolet-client` are on one thread of this process, so that one clock has both
//! ends. A holder waits before it releases: by then those behind it are in the queue.

use std::sync::{Arc, Mutex as Shared, PoisonError};
use std::time::{Duration, Instant};

use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::sleep;
use zoolet_client::recipes::Mutex;
use zoolet_client::{Client, Error};

use super::error::BenchError;
use super::link;
use super::options::Options;
use super::progress::Recorder;
use super::results::{Figure, Figures, SYSTEMS};
use super::rounds;
use super::rows::{Case, HAND_OVER_1, HAND_OVER_100, Row};
use super::statistics::percentile;

const SERVERS: usize = 3;
const CASES: [(Case, usize); 2] = [(HAND_OVER_1, 1), (HAND_OVER_100, 100)];
const ROUNDS: usize = 2;
const HOLD: Duration = Duration::from_millis(5);
const WARM_UP: Duration = Duration::from_secs(1);

pub(super) fn expected(options: &Options) -> Duration {
    let turns = u32::try_from(CASES.len() * ROUNDS * SYSTEMS.len()).unwrap_or(u32::MAX);
    step(options) * turns
}

fn step(options: &Options) -> Duration {
    WARM_UP + options.window() + Duration::from_secs(1)
}

pub(super) fn measure(options: &Options, recorder: &mut Recorder) -> Result<(), BenchError> {
    let mut systems = Vec::new();
    for system in SYSTEMS {
        systems.push(rounds::start(system, SERVERS)?);
    }
    for round in 1..=ROUNDS {
        for (case, waiters) in CASES {
            for servers in &systems {
                let failed = |error: String| BenchError::of(servers.kind(), error);
                let runtime = link::runtime().map_err(|error| failed(error.to_string()))?;
                let path = format!("/bench-hand-over-{waiters}-{round}");
                let connect = servers.connect_string();
                let times = runtime.block_on(times(&connect, &path, waiters, options.window()));
                let times = times.map_err(|error| failed(error.to_string()))?;
                let at = |percent| {
                    let time = percentile(&times, percent);
                    time.ok_or_else(|| failed(format!("no hand-over to {waiters} waiters")))
                };
                let figures = Figures::from([(Figure::P50, at(50)?), (Figure::P99, at(99)?)]);
                recorder.add(Row::Case(case), servers.kind(), round, figures);
                recorder.finish(step(options));
            }
        }
        systems.reverse();
    }
    Ok(())
}

/// What the contenders share.
#[derive(Debug, Default)]
struct Times {
    released: Option<Instant>,
    /// In microseconds.
    taken: Vec<f64>,
}

/// Measures all hand-overs of a window, in microseconds.
async fn times(
    servers: &str,
    path: &str,
    waiters: usize,
    window: Duration,
) -> Result<Vec<f64>, Error> {
    let shared = Arc::new(Shared::new(Times::default()));
    let (stop, stopped) = watch::channel(false);
    let mut contenders = JoinSet::new();
    for _ in 0..=waiters {
        let client = Client::connect(servers).await?;
        let (shared, stopped) = (Arc::clone(&shared), stopped.clone());
        let lock = Mutex::new(&client, path);
        contenders.spawn(async move {
            contend(&lock, &shared, stopped).await?;
            client.close().await
        });
    }
    sleep(WARM_UP).await;
    lock(&shared).taken.clear();
    sleep(window).await;
    let taken = std::mem::take(&mut lock(&shared).taken);
    stop.send_replace(true);
    while let Some(ended) = contenders.join_next().await {
        // A contender that panics has printed why.
        ended.unwrap_or(Ok(()))?;
    }
    Ok(taken)
}

#[allow(clippy::disallowed_methods, reason = "the bench measures real time")]
async fn contend(
    mutex: &Mutex,
    shared: &Shared<Times>,
    mut stopped: watch::Receiver<bool>,
) -> Result<(), Error> {
    loop {
        let guard = tokio::select! {
            // An acquisition that is dropped leaves the queue.
            _ = stopped.wait_for(|stop| *stop) => return Ok(()),
            guard = mutex.acquire() => guard?,
        };
        let acquired = Instant::now();
        {
            let mut times = lock(shared);
            if let Some(released) = times.released {
                let time = acquired.duration_since(released);
                times.taken.push(time.as_secs_f64() * 1_000_000.0);
            }
        }
        sleep(HOLD).await;
        lock(shared).released = Some(Instant::now());
        guard.release().await?;
    }
}

fn lock(shared: &Shared<Times>) -> std::sync::MutexGuard<'_, Times> {
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}
