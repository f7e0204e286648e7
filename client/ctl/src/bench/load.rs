//! The sessions of a bench and what they do.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures_util::stream::{self, StreamExt, TryStreamExt};
use hdrhistogram::Histogram;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::Instant;
use zoolet_client::recipes::Mutex as Lock;
use zoolet_client::{Client, CreateMode, Error, ErrorCode, Version};

use super::Mix;
use super::sessions;
use crate::args::{Bench, Options};
use crate::connection::Connection;
use crate::error::{CtlError, Exit};
use crate::path;
use crate::progress::Progress;

/// How many requests of the preparation are under way at a time.
const PREPARING_MAX: usize = 256;

/// The digits of latencies that are kept.
const DIGITS: u8 = 3;

/// What the loads of one ensemble share: the sessions, and the znodes below one of their own.
#[derive(Debug)]
pub(crate) struct Stage {
    servers: String,
    sessions: Vec<Connection>,
    path: String,
    keys: usize,
}

impl Stage {
    /// Opens the sessions.
    pub(crate) async fn open(
        arguments: &Bench,
        options: &Options,
        servers: &str,
    ) -> Result<Self, CtlError> {
        path::check(&arguments.path)?;
        let sessions = sessions(arguments.connections.get(), options, servers).await?;
        let Some(first) = sessions.first() else {
            return Err(CtlError::new(Exit::Usage, "a bench needs a connection"));
        };
        let id = first.client.session().id;
        let path = path::join(&arguments.path, &format!("bench-{id}"));
        let (servers, keys) = (servers.to_owned(), arguments.keys.get());
        Ok(Self { servers, sessions, path, keys })
    }

    pub(crate) fn servers(&self) -> &str {
        &self.servers
    }

    /// Creates what is to be read and written.
    pub(crate) async fn prepare(&self, arguments: &Bench) -> Result<(), CtlError> {
        let Some(connection) = self.sessions.first() else { return Ok(()) };
        let create = async |path: String, data: Vec<u8>| {
            let create = connection.client.create(&path, &data, CreateMode::Persistent);
            connection.ask(&path, create).await
        };
        create(self.path.clone(), Vec::new()).await?;
        let data = vec![b'x'; arguments.size];
        let progress = Progress::steps("preparing", self.keys);
        stream::iter(0..self.keys)
            .map(|key| create(key_path(&self.path, key), data.clone()))
            .buffer_unordered(PREPARING_MAX)
            .try_for_each(async |_| {
                progress.advance(1);
                Ok(())
            })
            .await
    }

    /// Deletes what was created and ends the sessions.
    pub(crate) async fn close(self) -> Result<(), CtlError> {
        let Some(connection) = self.sessions.first() else { return Ok(()) };
        // The locks' parents are containers, which an old server may not have reaped yet.
        let mut below = Vec::new();
        let mut level = vec![self.path.clone()];
        while let Some(path) = level.pop() {
            if let Ok((names, _)) = connection.ask(&path, connection.client.children(&path)).await {
                level.extend(names.iter().map(|name| path::join(&path, name)));
            }
            below.push(path);
        }
        let mut result = Ok(());
        let progress = Progress::steps("deleting", below.len());
        for path in below.iter().rev() {
            progress.advance(1);
            match connection.ask(path, connection.client.delete(path, Version::Any)).await {
                Err(error) if error.code != Some(ErrorCode::NoNode) => result = Err(error),
                _ => {}
            }
        }
        for session in self.sessions {
            session.close().await;
        }
        result
    }
}

fn key_path(path: &str, key: usize) -> String {
    format!("{path}/key-{key}")
}

/// What was measured.
#[derive(Debug)]
pub(crate) struct Latencies {
    /// In microseconds.
    pub(crate) histogram: Histogram<u64>,
    pub(crate) errors: u64,
    pub(crate) first_error: Option<String>,
}

impl Latencies {
    fn new() -> Result<Self, CtlError> {
        let histogram = Histogram::new(DIGITS)
            .map_err(|error| CtlError::new(Exit::Failed, error.to_string()))?;
        Ok(Self { histogram, errors: 0, first_error: None })
    }

    fn record(&mut self, latency: Duration) {
        // A latency that does not fit 64 bits of microseconds does not exist.
        let _ = self.histogram.record(u64::try_from(latency.as_micros()).unwrap_or(u64::MAX));
    }

    fn fail(&mut self, error: &Error) {
        self.errors += 1;
        self.first_error.get_or_insert_with(|| error.to_string());
    }

    fn add(&mut self, other: &Self) {
        // Histograms that grow as they need take all values.
        let _ = self.histogram.add(&other.histogram);
        self.errors += other.errors;
        if self.first_error.is_none() {
            self.first_error.clone_from(&other.first_error);
        }
    }
}

/// What all workers of a load look at.
#[derive(Debug)]
struct Shared {
    mix: Mix,
    path: String,
    keys: usize,
    data: Vec<u8>,
    /// How many workers there are that work.
    working: AtomicUsize,
    /// Whether the warm-up is over.
    counts: AtomicBool,
    /// When the last holder of the one lock released it.
    released_at: Mutex<Option<Instant>>,
    results: Mutex<Latencies>,
}

/// A load that runs.
#[derive(Debug)]
pub(crate) struct Load {
    shared: Arc<Shared>,
    workers: JoinSet<()>,
    stop: watch::Sender<bool>,
    began: Arc<Mutex<Instant>>,
}

impl Load {
    /// Starts the workers: as many per session as are to be under way at a time.
    pub(crate) fn start(mix: Mix, arguments: &Bench, stage: &Stage) -> Result<Self, CtlError> {
        let depth = if mix == Mix::Handoff { 1 } else { arguments.depth.get() };
        let shared = Arc::new(Shared {
            mix,
            path: stage.path.clone(),
            keys: stage.keys,
            data: vec![b'y'; arguments.size],
            working: AtomicUsize::new(stage.sessions.len() * depth),
            counts: AtomicBool::new(false),
            released_at: Mutex::new(None),
            results: Mutex::new(Latencies::new()?),
        });
        let (stop, stopped) = watch::channel(false);
        let mut workers = JoinSet::new();
        for (index, session) in stage.sessions.iter().enumerate() {
            for slot in 0..depth {
                let client = session.client.clone();
                let worker = Worker::new(Arc::clone(&shared), client, index * depth + slot)?;
                workers.spawn(worker.run(stopped.clone()));
            }
        }
        Ok(Self { shared, workers, stop, began: Arc::new(Mutex::new(Instant::now())) })
    }

    /// Whether every worker has given up: all sessions have ended.
    pub(crate) fn is_over(&self) -> bool {
        self.shared.working.load(Ordering::Relaxed) == 0
    }

    /// Ends the warm-up.
    pub(crate) fn begin(&self) {
        *self.began.lock().unwrap_or_else(PoisonError::into_inner) = Instant::now();
        self.shared.counts.store(true, Ordering::Relaxed);
    }

    /// Stops the workers and returns what they have measured, and over how many seconds.
    pub(crate) async fn end(mut self) -> Result<(Latencies, f64), CtlError> {
        self.shared.counts.store(false, Ordering::Relaxed);
        let began = *self.began.lock().unwrap_or_else(PoisonError::into_inner);
        let seconds = began.elapsed().as_secs_f64();
        self.stop.send_replace(true);
        while self.workers.join_next().await.is_some() {}
        let mut results = self.shared.results.lock().unwrap_or_else(PoisonError::into_inner);
        Ok((std::mem::replace(&mut *results, Latencies::new()?), seconds))
    }
}

/// One operation at a time, again and again.
#[derive(Debug)]
struct Worker {
    shared: Arc<Shared>,
    client: Client,
    own_path: String,
    lock: Lock,
    /// The state of a small generator: which key comes next needs no secret.
    chance: u64,
    latencies: Latencies,
}

impl Worker {
    fn new(shared: Arc<Shared>, client: Client, number: usize) -> Result<Self, CtlError> {
        let own_path = format!("{}/own-{number}", shared.path);
        let lock_path = if shared.mix == Mix::Handoff {
            format!("{}/handoff", shared.path)
        } else {
            format!("{}/lock-{number}", shared.path)
        };
        let lock = Lock::new(&client, &lock_path);
        let chance = u64::try_from(number).unwrap_or(0).wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
        Ok(Self { shared, client, own_path, lock, chance, latencies: Latencies::new()? })
    }

    async fn run(mut self, mut stopped: watch::Receiver<bool>) {
        tokio::select! {
            // The sender outlives the workers.
            _ = stopped.wait_for(|stop| *stop) => {}
            () = self.work() => {}
        }
        self.shared.working.fetch_sub(1, Ordering::Relaxed);
        let mut results = self.shared.results.lock().unwrap_or_else(PoisonError::into_inner);
        results.add(&self.latencies);
    }

    /// Works until the session ends.
    async fn work(&mut self) {
        loop {
            let mix = self.shared.mix;
            let done = match mix {
                Mix::Get => self.get().await,
                Mix::Mixed(reads) if self.chance() % 100 < u64::from(reads) => self.get().await,
                Mix::Set | Mix::Mixed(_) => self.set().await,
                Mix::Create => self.create().await,
                Mix::Lock => self.lock().await,
                Mix::Handoff => self.hand_off().await,
            };
            if let Err(error) = done {
                self.latencies.fail(&error);
                if error.ends_session() {
                    return;
                }
            }
        }
    }

    async fn get(&mut self) -> Result<(), Error> {
        let path = self.key();
        let start = Instant::now();
        self.client.get(&path).await?;
        self.record(start);
        Ok(())
    }

    async fn set(&mut self) -> Result<(), Error> {
        let path = self.key();
        let start = Instant::now();
        self.client.set_data(&path, &self.shared.data, Version::Any).await?;
        self.record(start);
        Ok(())
    }

    async fn create(&mut self) -> Result<(), Error> {
        let start = Instant::now();
        let mode = CreateMode::Persistent;
        match self.client.create(&self.own_path, &self.shared.data, mode).await {
            // A run that was stopped between the two has left it.
            Err(error) if error.code() == Some(ErrorCode::NodeExists) => {}
            created => drop(created?),
        }
        self.record(start);
        let start = Instant::now();
        self.client.delete(&self.own_path, Version::Any).await?;
        self.record(start);
        Ok(())
    }

    async fn lock(&mut self) -> Result<(), Error> {
        let start = Instant::now();
        self.lock.acquire().await?.release().await?;
        self.record(start);
        Ok(())
    }

    async fn hand_off(&mut self) -> Result<(), Error> {
        let guard = self.lock.acquire().await?;
        let released_at =
            self.shared.released_at.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(released_at) = released_at {
            self.record(released_at);
        }
        *self.shared.released_at.lock().unwrap_or_else(PoisonError::into_inner) =
            Some(Instant::now());
        guard.release().await.map(drop)
    }

    fn record(&mut self, start: Instant) {
        if self.shared.counts.load(Ordering::Relaxed) {
            self.latencies.record(start.elapsed());
        }
    }

    fn key(&mut self) -> String {
        let keys = u64::try_from(self.shared.keys).unwrap_or(1).max(1);
        let key = usize::try_from(self.chance() % keys).unwrap_or(0);
        key_path(&self.shared.path, key)
    }

    fn chance(&mut self) -> u64 {
        self.chance ^= self.chance << 13;
        self.chance ^= self.chance >> 7;
        self.chance ^= self.chance << 17;
        self.chance
    }
}
