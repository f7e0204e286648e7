//! Sessions that look on: one at each server, behind no proxy.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::watch;
use tokio::task::{JoinSet, unconstrained};
use tokio::time::{Instant, interval, sleep, timeout};
use zoolet_client::{
    AddWatchMode, Client, ClientOptions, Error, ErrorKind, EventType, WatchedEvent,
};
use zoolet_jute::{PathWatchRequest, Reply, Request};

use crate::log::{Happened, Listing, Log};

/// How often an observer asks how far it is.
const LOOK: Duration = Duration::from_millis(100);
/// How long an observer waits before it tries a server again.
const RETRY: Duration = Duration::from_millis(100);
/// How long a server may take to answer an observer before it is given up.
const ANSWER_MAX: Duration = Duration::from_secs(5);

/// The observers of a run.
#[derive(Debug)]
pub(crate) struct LogObservers {
    log: Arc<Mutex<Log>>,
    tasks: JoinSet<()>,
    stop: watch::Sender<bool>,
}

impl LogObservers {
    /// Looks on below `root` at every server of the connect string; `dirs` are the directories
    /// whose counters are read at each start.
    pub(crate) async fn start(servers: &str, root: &str, dirs: Vec<String>) -> Result<Self, Error> {
        let log = Arc::new(Mutex::new(Log::default()));
        let (stop, stopped) = watch::channel(false);
        let (ready, mut is_ready) = watch::channel(0_usize);
        let mut tasks = JoinSet::new();
        for server in servers.split(',') {
            let observer = LogObserver {
                server: server.to_owned(),
                root: root.to_owned(),
                dirs: dirs.clone(),
                log: Arc::clone(&log),
                stopped: stopped.clone(),
                ready: ready.clone(),
            };
            tasks.spawn(observer.run());
        }
        // One of them is enough to begin with: a server may be down.
        let first = is_ready.wait_for(|ready| *ready > 0);
        if timeout(ANSWER_MAX * 4, first).await.is_err() {
            let wait_ms = u64::try_from((ANSWER_MAX * 4).as_millis()).unwrap_or(u64::MAX);
            return Err(ErrorKind::Timeout(wait_ms).into());
        }
        Ok(Self { log, tasks, stop })
    }

    /// Waits until the observers have seen everything up to now, and returns what they saw.
    pub(crate) async fn finish(mut self) -> Log {
        self.stop.send_replace(true);
        while self.tasks.join_next().await.is_some() {}
        std::mem::take(&mut *self.log.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

struct LogObserver {
    server: String,
    root: String,
    dirs: Vec<String>,
    log: Arc<Mutex<Log>>,
    stopped: watch::Receiver<bool>,
    ready: watch::Sender<usize>,
}

impl LogObserver {
    async fn run(mut self) {
        // Each segment is a session of its own. What happened between two of them was not seen here.
        while !*self.stopped.borrow() {
            if self.segment().await.is_err() {
                let _ = timeout(RETRY, self.stopped.wait_for(|stopped| *stopped)).await;
                if *self.stopped.borrow() {
                    return;
                }
                sleep(RETRY / 10).await;
            }
        }
    }

    /// Looks on until the connection ends. The client would resume the watch by itself, without
    /// what happened meanwhile; so the first change of its state ends the segment.
    async fn segment(&mut self) -> Result<(), Error> {
        let options = ClientOptions::new().connect_timeout(Duration::from_secs(2));
        let client = options.session_timeout(Duration::from_secs(4)).connect(&self.server).await?;
        let mut state = client.state();
        state.mark_unchanged();
        let mut watcher =
            limited(client.add_watch(&self.root, AddWatchMode::PersistentRecursive)).await?;
        let from = limited(client.sync(&self.root)).await?.0;
        let listings = self.listings(&client).await?;
        if state.has_changed().unwrap_or(true) {
            return Err(ErrorKind::ConnectionLoss.into());
        }
        {
            let mut log = self.log();
            for listing in listings {
                log.list(listing);
            }
        }
        self.ready.send_modify(|ready| *ready += 1);
        let mut covered = from;
        let mut look = interval(LOOK);
        let end = loop {
            tokio::select! {
                biased;
                event = watcher.changed() => {
                    let event = match event {
                        Ok(event) => event,
                        Err(error) => break Err(error),
                    };
                    if state.has_changed().unwrap_or(true) {
                        break Err(ErrorKind::ConnectionLoss.into());
                    }
                    self.saw(&event);
                }
                _ = look.tick() => {
                    let last = *self.stopped.borrow();
                    let reached = limited(client.sync(&self.root)).await;
                    // Events come before the answer to what was asked behind them. All of them are
                    // taken: the runtime would have a task pause after some that are there.
                    let taken = loop {
                        match timeout(Duration::ZERO, unconstrained(watcher.changed())).await {
                            Err(_) => break Ok(()),
                            // More events came than the watcher holds, or the session has ended.
                            Ok(Err(error)) => break Err(error),
                            Ok(Ok(_)) if state.has_changed().unwrap_or(true) => break Ok(()),
                            Ok(Ok(event)) => self.saw(&event),
                        }
                    };
                    if let Err(error) = taken {
                        break Err(error);
                    }
                    if state.has_changed().unwrap_or(true) {
                        break Err(ErrorKind::ConnectionLoss.into());
                    }
                    match reached {
                        Ok(zxid) => covered = covered.max(zxid.0),
                        Err(error) => break Err(error),
                    }
                    if last {
                        break Ok(());
                    }
                }
            }
        };
        // The last transaction that the first sync reports may precede the watch.
        self.log().covers(from + 1, covered);
        if end.is_ok() {
            // The session would end by itself as well.
            let _ = limited(client.close()).await;
        }
        end
    }

    async fn listings(&self, client: &Client) -> Result<Vec<Listing>, Error> {
        let mut listings = Vec::new();
        for dir in &self.dirs {
            let request = PathWatchRequest { path: dir.clone(), watch: false };
            match limited(client.call(Request::GetChildren2(request))).await {
                Ok((zxid, Reply::ChildrenStat(_, stat))) => listings.push(Listing {
                    dir: dir.clone(),
                    zxid: zxid.0,
                    created: stat.czxid.0,
                    changed: stat.pzxid.0,
                    changes: usize::try_from(stat.cversion).unwrap_or(usize::MAX),
                }),
                Ok(_) => {}
                // It is not there yet, or was reaped.
                Err(error) if error.code().is_some() => {}
                Err(error) => return Err(error),
            }
        }
        Ok(listings)
    }

    fn saw(&self, event: &WatchedEvent) {
        let happened = if event.event_type == EventType::NodeCreated {
            Happened::Created
        } else if event.event_type == EventType::NodeDeleted {
            Happened::Deleted
        } else {
            return;
        };
        let mut log = self.log();
        log.add(event.zxid.0, &event.path, happened);
        log.observed(event.zxid.0, Instant::now());
    }

    fn log(&self) -> std::sync::MutexGuard<'_, Log> {
        self.log.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// An observer that waits for a server that stands still sees nothing of the others' time.
async fn limited<T>(call: impl Future<Output = Result<T, Error>>) -> Result<T, Error> {
    let wait_ms = u64::try_from(ANSWER_MAX.as_millis()).unwrap_or(u64::MAX);
    timeout(ANSWER_MAX, call).await.unwrap_or_else(|_| Err(ErrorKind::Timeout(wait_ms).into()))
}
