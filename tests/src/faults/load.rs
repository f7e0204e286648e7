//! Several writers at once.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures_util::future::join_all;
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep};
use zoolet_client::{Client, CreateMode, ErrorKind};

use super::check::{self, Moment};
use super::{Failure, Seed, SessionHistory, Writer, connect, promised};

/// How many sessions write.
const WRITERS: u64 = 4;

/// How long the ends of sessions may take, their timeouts included.
const LEAVE_MAX: Duration = Duration::from_mins(1);
/// How many sessions only hold an ephemeral znode and never write.
const HOLDERS: usize = 3;

/// How long a load may take to come to its next few writes, elections included.
const PROGRESS_MAX: Duration = Duration::from_secs(20);

/// Running writers, and sessions that do nothing but live.
#[derive(Debug)]
pub struct Load {
    servers: String,
    stop: Arc<AtomicBool>,
    histories: Vec<Arc<Mutex<SessionHistory>>>,
    tasks: Vec<JoinHandle<Result<Client, Failure>>>,
    holders: Vec<Client>,
}

/// What a load has come to.
#[derive(Clone, Copy, Debug)]
pub struct Total {
    pub acknowledged: usize,
    /// Writes whose reply was lost.
    pub in_doubt: usize,
    pub reads: usize,
}

impl Load {
    /// Starts the writers; `pause` is the mean time between two writes of one.
    pub async fn start(servers: &str, seed: &Seed, pause: Duration) -> Result<Self, Failure> {
        let admin = connect(servers).await?;
        for parent in ["/writers", "/holders"] {
            admin.create(parent, b"", CreateMode::Persistent).await?;
        }
        let stop = Arc::new(AtomicBool::new(false));
        let (mut histories, mut tasks, mut holders) = (Vec::new(), Vec::new(), Vec::new());
        for index in 0..WRITERS {
            let root = format!("/writers/{index}");
            let writer = Writer::open(servers, root, seed.generator(index + 1), pause).await?;
            histories.push(writer.history());
            tasks.push(tokio::spawn(writer.run(Arc::clone(&stop))));
        }
        for index in 0..HOLDERS {
            let holder = connect(servers).await?;
            holder.create(&holder_path(index), b"", CreateMode::Ephemeral).await?;
            holders.push(holder);
        }
        admin.close().await?;
        Ok(Self { servers: servers.to_owned(), stop, histories, tasks, holders })
    }

    /// What the writers know at this moment.
    pub fn histories(&self) -> Vec<SessionHistory> {
        let copy = |history: &Arc<Mutex<SessionHistory>>| {
            history.lock().unwrap_or_else(PoisonError::into_inner).clone()
        };
        self.histories.iter().map(copy).collect()
    }

    /// How many writes are acknowledged by now.
    pub fn acknowledged(&self) -> usize {
        let count = |history: &Arc<Mutex<SessionHistory>>| {
            history.lock().unwrap_or_else(PoisonError::into_inner).acknowledged()
        };
        self.histories.iter().map(count).sum()
    }

    /// Waits until `count` writes are acknowledged.
    pub async fn until_acknowledged(&mut self, count: usize) -> Result<(), Failure> {
        let start = Instant::now();
        while self.acknowledged() < count {
            self.still_runs().await?;
            promised(start.elapsed() < PROGRESS_MAX, || {
                format!("{} writes are acknowledged, not {count}", self.acknowledged())
            })?;
            sleep(Duration::from_millis(10)).await;
        }
        Ok(())
    }

    /// Looks for everything that was acknowledged before, while the load goes on; returns how many
    /// writes that were.
    pub async fn check_while_running(&mut self) -> Result<usize, Failure> {
        self.still_runs().await?;
        let histories = self.histories();
        let mut looked = self.check_later(&histories).await;
        if is_loss(&looked) {
            looked = self.check_later(&histories).await;
        }
        looked?;
        Ok(histories.iter().map(SessionHistory::acknowledged).sum())
    }

    /// Fails if a writer has ended before it was stopped: it has found something.
    pub async fn still_runs(&mut self) -> Result<(), Failure> {
        let Some(index) = self.tasks.iter().position(JoinHandle::is_finished) else {
            return Ok(());
        };
        self.stop.store(true, Ordering::Relaxed);
        let ended = self.tasks.swap_remove(index).await;
        drop(ended.map_err(|error| Failure::Broken(error.to_string()))??);
        Err(Failure::Broken("a writer has ended by itself".into()))
    }

    /// Stops the writers and looks for everything, their sessions included.
    pub async fn finish(mut self) -> Result<Total, Failure> {
        self.stop.store(true, Ordering::Relaxed);
        let mut sessions = Vec::new();
        for task in self.tasks.drain(..) {
            let ended = task.await.map_err(|error| Failure::Broken(error.to_string()))?;
            sessions.push(ended?);
        }
        let histories = self.histories();
        let mut looked = self.check_all(&histories).await;
        if is_loss(&looked) {
            looked = self.check_all(&histories).await;
        }
        looked?;
        self.leave(sessions, &histories).await?;
        Ok(Total {
            acknowledged: histories.iter().map(SessionHistory::acknowledged).sum(),
            in_doubt: histories.iter().map(SessionHistory::in_doubt).sum(),
            reads: histories.iter().map(|history| history.reads).sum(),
        })
    }

    /// Ends all sessions. Once this has returned their ephemeral znodes are gone, so that nothing
    /// changes any more.
    async fn leave(
        &mut self,
        writers: Vec<Client>,
        histories: &[SessionHistory],
    ) -> Result<(), Failure> {
        let sessions = writers.into_iter().chain(self.holders.drain(..));
        // One whose connection was lost unnoticed may end by its timeout.
        join_all(sessions.map(Client::close)).await;
        let mut paths: Vec<String> = (0..HOLDERS).map(holder_path).collect();
        paths.extend(histories.iter().map(|history| format!("{}/alive", history.root)));
        let (reader, start) = (connect(&self.servers).await?, Instant::now());
        for path in paths {
            while reader.sync(&path).await.is_err()
                || !matches!(reader.exists(&path).await, Ok(None))
            {
                promised(start.elapsed() < LEAVE_MAX, || format!("{path} is still there"))?;
                sleep(Duration::from_millis(20)).await;
            }
        }
        // It owns nothing.
        let _ = reader.close().await;
        Ok(())
    }

    async fn check_later(&self, histories: &[SessionHistory]) -> Result<(), Failure> {
        let reader = connect(&self.servers).await?;
        later(&reader, histories).await?;
        Ok(reader.close().await?)
    }

    async fn check_all(&self, histories: &[SessionHistory]) -> Result<(), Failure> {
        let reader = connect(&self.servers).await?;
        for history in histories {
            check::zxids_rise(history)?;
            check::history(&reader, history, Moment::Final).await?;
            check::alive(&reader, history).await?;
        }
        for (index, holder) in self.holders.iter().enumerate() {
            let stat = reader.exists(&holder_path(index)).await?;
            let owner = stat.map(|stat| stat.ephemeral_owner);
            promised(owner == Some(holder.session().id), || {
                format!("session {} held a znode of {owner:?}", holder.session().id)
            })?;
        }
        Ok(())
    }
}

/// Whether the connection was lost, so that it is right to look again, once: a server that a fault
/// has ended an instant ago may not know yet, or an election that it has begun may still be won.
fn is_loss(looked: &Result<(), Failure>) -> bool {
    let Err(Failure::Client(error)) = looked else { return false };
    matches!(error.kind(), ErrorKind::ConnectionLoss)
}

/// Looks for everything that the histories acknowledge; more may be there.
pub async fn later(reader: &Client, histories: &[SessionHistory]) -> Result<(), Failure> {
    for history in histories {
        check::history(reader, history, Moment::Later).await?;
    }
    Ok(())
}

fn holder_path(index: usize) -> String {
    format!("/holders/{index}")
}
