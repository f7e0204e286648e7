//! What stands before the contenders come, and what is looked at when they have gone.

use std::sync::PoisonError;
use std::sync::atomic::Ordering;
use std::time::Duration;

use tokio::time::{sleep, timeout};
use zoolet_client::recipes::{Counter, Queue, SharedCount};
use zoolet_client::{Client, ClientOptions, CreateMode, Error, ErrorCode, ErrorKind};

use crate::context::RunContext;
use crate::log_observer::LogObservers;
use crate::pool::ContenderPool;
use crate::recipe::{Lock, Recipe};
use crate::run_history::RunHistory;
use crate::settings::{Settings, TortureError};
use crate::tree;

/// How long what is left behind may take to go.
pub(crate) const LEFT_MAX: Duration = Duration::from_secs(20);
/// How long a run that was stopped may take to delete its znodes.
const CLEAR_MAX: Duration = Duration::from_secs(10);
/// How long it waits before another attempt.
const CLEAR_AGAIN: Duration = Duration::from_millis(100);

/// What stands before the contenders come.
pub(crate) struct Fixture {
    pub(crate) admin: Client,
    root: String,
    pub(crate) ledger: String,
    pub(crate) locks: Vec<Lock>,
    pub(crate) session_timeout: Duration,
    observers: LogObservers,
}

impl Fixture {
    pub(crate) async fn set(settings: &Settings) -> Result<Self, TortureError> {
        let options = ClientOptions::new().session_timeout(settings.session_timeout);
        let granted = options.connect(&settings.servers).await?;
        let session_timeout = Duration::from_millis(granted.session().timeout_ms);
        let session = granted.session().id.0;
        granted.close().await?;
        let options = ClientOptions::new().session_timeout(Duration::from_secs(30));
        let admin = options.connect(&settings.servers).await?;
        let root = format!("/torture-{:x}-{session:x}", settings.seed);
        let ledger = format!("{root}/ledger");
        for path in [&root, &ledger] {
            create(&admin, path).await?;
        }
        let mut locks = Vec::new();
        for recipe in &settings.recipes {
            create(&admin, &format!("{root}/{recipe}")).await?;
            for number in 0..settings.locks {
                locks.push(Lock::new(*recipe, format!("{root}/{recipe}/{number}")));
                if *recipe == Recipe::Cache {
                    create(&admin, &format!("{root}/{recipe}/{number}")).await?;
                }
            }
        }
        for lock in locks.iter().flat_map(Lock::parts) {
            create(&admin, &tree::ledger_of(&ledger, &lock.path)).await?;
        }
        let mut dirs: Vec<String> =
            locks.iter().flat_map(Lock::parts).map(|lock| lock.dir()).collect();
        dirs.dedup();
        let observers = LogObservers::start(&settings.servers, &root, dirs).await?;
        Ok(Self { admin, root, ledger, locks, session_timeout, observers })
    }

    /// Deletes what there is, while contenders that end may create some of it again.
    pub(crate) async fn clear(self) {
        let clear = async {
            while let Err(error) = tree::remove(&self.admin, &self.root).await {
                if error.ends_session() {
                    return;
                }
                sleep(CLEAR_AGAIN).await;
            }
            // A session that cannot be closed expires.
            let _ = self.admin.close().await;
        };
        // Servers that are gone for good end no wait.
        let _ = timeout(CLEAR_MAX, clear).await;
    }

    /// Takes everything down, and writes the history.
    pub(crate) async fn strike(self, mut pool: ContenderPool, history: &mut RunHistory) {
        let gone = tree::ephemerals_gone(&self.admin, &self.root, LEFT_MAX);
        match limited(gone).await {
            Ok(left) => history.leftovers.extend(left),
            Err(error) => history.errors.push(format!("looking for leftovers: {error}")),
        }
        if let Err(error) = limited(self.read_tallies(&pool.context)).await {
            history.errors.push(format!("reading queues and counters: {error}"));
        }
        history.log = self.observers.finish().await;
        let recorder = &pool.context.recorder;
        let observed = history.log.take_observed().into_iter();
        history.observed_us = observed.map(|(zxid, at)| (zxid, recorder.us_at(at))).collect();
        for control in &pool.controls {
            for (from, to) in control.proxy.outages() {
                pool.context.recorder.disturbed_between(Some(control.number), from, to);
            }
        }
        history.stalls = pool.stall_monitor.finish();
        let kept = pool.context.recorder.take();
        history.claims = kept.claims;
        history.writes = kept.writes;
        history.guarded = kept.guarded;
        history.passages = kept.passages;
        history.openings = kept.openings;
        history.disturbances = kept.disturbances;
        history.by_hand = kept.by_hand;
        history.gone = kept.gone;
        history.counts = kept.counts;
        history.arrivals = kept.arrivals;
        history.broke = kept.broke;
        history.errors.extend(kept.errors);
        history.struck = kept.struck;
        let lost = pool.controls.iter().map(|control| control.proxy.lost());
        let lost = lost.fold((0, 0), |sum, one| (sum.0 + one.0, sum.1 + one.1));
        let chosen = pool.controls.iter().map(|control| control.proxy.lost_chosen());
        let chosen = chosen.fold((0, 0), |sum, one| (sum.0 + one.0, sum.1 + one.1));
        let kinds = [
            ("reply lost", lost.0),
            ("request lost", lost.1),
            ("reply of a delete lost", chosen.0),
            ("reply of a transaction lost", chosen.1),
        ];
        for (kind, count) in kinds {
            if count > 0 {
                history.struck.insert(kind, count);
            }
        }
        history.session_timeout = self.session_timeout;
        history.made = pool.controls.iter().map(|control| control.proxy.made()).collect();
        history.woken = pool.controls.iter().map(|control| control.proxy.deleted()).collect();
        let tallies = std::mem::take(
            &mut *pool.context.tallies.lock().unwrap_or_else(PoisonError::into_inner),
        );
        history.tallies = tallies.into_values().collect();
        history.locks = self.locks.iter().flat_map(Lock::parts).collect();
        history.holders_stopped = pool.context.holders_stopped.load(Ordering::Relaxed);
        history.marks = std::mem::take(&mut pool.marks);
        if let Err(error) = limited(tree::remove(&self.admin, &self.root)).await {
            history.errors.push(format!("taking {} away: {error}", self.root));
        }
        // A session that cannot be closed expires.
        let _ = limited(self.admin.close()).await;
    }

    /// What is in the queues and counters in the end.
    async fn read_tallies(&self, context: &RunContext) -> Result<(), Error> {
        for lock in &self.locks {
            if let Some(format) = lock.recipe.queue_format() {
                let queue = Queue::with_format(&self.admin, &lock.path, format);
                while let Some(item) = queue.try_take().await? {
                    let item = String::from_utf8_lossy(&item).into_owned();
                    context.tally(&lock.path, |tally| tally.taken.push(item));
                }
            } else if lock.recipe == Recipe::Counter {
                let value = Counter::new(&self.admin, &lock.path).get().await?;
                context.tally(&lock.path, |tally| tally.taken.push(value.to_string()));
            } else if lock.recipe == Recipe::SharedCount {
                let count = SharedCount::new(&self.admin, &lock.path, 0).get().await?;
                context.tally(&lock.path, |tally| tally.taken.push(count.value.to_string()));
            }
        }
        Ok(())
    }
}

async fn create(client: &Client, path: &str) -> Result<(), Error> {
    match client.create(path, b"", CreateMode::Persistent).await {
        Err(error) if error.code() != Some(ErrorCode::NodeExists) => Err(error),
        _ => Ok(()),
    }
}

/// Servers that are gone for good end no wait.
pub(crate) async fn limited<T>(call: impl Future<Output = Result<T, Error>>) -> Result<T, Error> {
    let limit = LEFT_MAX * 2;
    let limit_ms = u64::try_from(limit.as_millis()).unwrap_or(u64::MAX);
    timeout(limit, call).await.unwrap_or_else(|_| Err(ErrorKind::Timeout(limit_ms).into()))
}
