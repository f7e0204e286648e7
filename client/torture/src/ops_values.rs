//! A turn of each recipe that is not a lock: queues, counters, barriers.

use std::time::Duration;

use tokio::time::sleep;
use zoolet_client::recipes::{Barrier, Counter, DoubleBarrier, Queue, QueueFormat, SharedCount};
use zoolet_client::{Client, Error};

use crate::context::{Phase, lock};
use crate::run_history::{Opening, Passage};
use crate::worker::{AcquireMode, Worker};

/// How long the patient wait for an item, or for a barrier to go: all may wait at the same time, and
/// then no contender puts or removes.
const PATIENT: Duration = Duration::from_millis(300);
/// How long a contender waits between two rounds of a double barrier, in ms.
const ROUND_PAUSE_MS_MAX: u64 = 50;

impl AcquireMode {
    /// How long to wait where all may wait for each other; `None` for not at all.
    const fn limit(self) -> Option<Duration> {
        match self {
            Self::Waits => Some(PATIENT),
            Self::Limited(limit) => Some(limit),
            Self::Tries => None,
        }
    }
}

impl Worker {
    pub(crate) async fn put_or_take(
        &mut self,
        client: &Client,
        acquire_mode: AcquireMode,
    ) -> Result<bool, Error> {
        let path = self.lock.path.clone();
        let format = self.lock.recipe.queue_format().unwrap_or(QueueFormat::Simple);
        let queue = Queue::with_format(client, &path, format);
        if self.random.chance(50) {
            let item = self.unique();
            // In doubt until it was answered: a death must not make a lie of the record.
            self.context.tally(&path, |tally| tally.given_in_doubt.push(item.clone()));
            let put = queue.put(item.as_bytes()).await;
            if put.is_ok() {
                self.context.tally(&path, |tally| tally.confirm(&item, item.clone()));
            }
            return put.map(|()| true);
        }
        self.context.tally(&path, |tally| tally.taken_in_doubt += 1);
        let mut taken = None;
        if let Some(limit) = acquire_mode.limit() {
            taken = queue.take_timeout(limit).await?;
        }
        if taken.is_none() {
            // What a take had taken when its time was over is answered now.
            taken = queue.try_take().await?;
        }
        self.context.tally(&path, |tally| {
            tally.taken_in_doubt -= 1;
            tally.taken.extend(taken.map(|item| String::from_utf8_lossy(&item).into_owned()));
        });
        Ok(true)
    }

    /// Adds one, in one of the ways in which that can be done.
    pub(crate) async fn count(&mut self, client: &Client) -> Result<bool, Error> {
        let counter = Counter::new(client, &self.lock.path);
        if self.random.chance(70) {
            let add = async { counter.increment().await.map(Some) };
            return self.add_one(add).await;
        }
        let before = counter.get().await?;
        let add = async {
            let added = counter.compare_and_set(before, before + 1).await?;
            Ok(added.then_some(before + 1))
        };
        self.add_one(add).await
    }

    pub(crate) async fn count_together(&mut self, client: &Client) -> Result<bool, Error> {
        let count = SharedCount::new(client, &self.lock.path, 0);
        let before = count.get().await?;
        let sum = before.value + 1;
        let add = async {
            let added = count.try_set(before, sum).await?;
            Ok(added.then_some(i64::from(sum)))
        };
        self.add_one(add).await
    }

    /// Adds one, which is in doubt until the reply; returns whether it was added.
    async fn add_one(
        &mut self,
        add: impl Future<Output = Result<Option<i64>, Error>>,
    ) -> Result<bool, Error> {
        let path = self.lock.path.clone();
        self.was_added_once();
        let doubt = self.unique();
        self.context.tally(&path, |tally| tally.given_in_doubt.push(doubt.clone()));
        let sum = add.await?;
        self.context.tally(&path, |tally| match sum {
            Some(sum) => tally.confirm(&doubt, sum.to_string()),
            None => tally.deny(&doubt),
        });
        Ok(sum.is_some())
    }

    /// Since the last look one addition was made, whatever has become of it: the proxy knows how
    /// often the servers have carried out a transaction for it.
    pub(crate) fn was_added_once(&self) {
        let path = &self.lock.path;
        let now = self.control.proxy.commits(path);
        let before = lock(&self.control.commits).insert(path.clone(), now).unwrap_or(0);
        if now > before + 1 {
            let (who, count) = (self.control.number, now - before);
            let broke =
                format!("contender {who} at {path}: one addition was committed {count} times");
            self.context.recorder.broke(broke);
        }
    }

    /// Sets a barrier, removes it, or waits for it to go. In the last turn every contender removes it.
    pub(crate) async fn meet_barrier(
        &mut self,
        client: &Client,
        acquire_mode: AcquireMode,
    ) -> Result<bool, Error> {
        let barrier = Barrier::new(client, &self.lock.path);
        let is_last = *self.context.phase.borrow() >= Phase::LastTurn;
        if is_last {
            barrier.remove().await?;
        } else {
            match self.random.below(100) {
                0..25 => return barrier.set().await.map(|()| true),
                25..50 => return barrier.remove().await.map(|()| true),
                _ => {}
            }
        }
        let from = client.session().last_zxid.0;
        let is_open = match acquire_mode.limit() {
            Some(limit) => barrier.wait_timeout(limit).await?,
            None => barrier.try_wait().await?,
        };
        if is_open {
            let to = client.session().last_zxid.0;
            let path = self.lock.path.clone();
            self.context.recorder.opened(Opening {
                path,
                contender: self.control.number,
                from,
                to,
            });
        }
        Ok(is_open)
    }

    /// Enters a barrier with all the others and leaves it.
    /// A contender that fails comes again, and has been there since `arrived_us`.
    pub(crate) async fn pass_barrier(
        &mut self,
        client: &Client,
        name: &str,
        arrived_us: u64,
    ) -> Result<(), Error> {
        let path = format!("{}/{name}", self.lock.path);
        let members = self.context.contenders;
        let recorder = &self.context.recorder;
        let entered = DoubleBarrier::new(client, &path, members).enter().await?;
        let entered_us = recorder.now_us();
        sleep(self.random.millis(0, 50)).await;
        let leaving_us = recorder.now_us();
        entered.leave().await?;
        let left_us = recorder.now_us();
        recorder.passed(Passage { path, members, arrived_us, entered_us, leaving_us, left_us });
        Ok(())
    }

    /// Enters and leaves a double barrier under faults, round after round, each at a path of its own.
    /// A contender that waits for a member in vain gives up, and all meet in the next round.
    pub(crate) async fn pass_rounds(&mut self) {
        let (path, members) = (self.lock.path.clone(), self.context.contenders);
        while *self.context.phase.borrow() < Phase::LastTurn {
            let round = self.context.round(&path);
            if self.control.begins_round(&path, round) {
                let client = self.session.client().await;
                let barrier = DoubleBarrier::new(&client, &format!("{path}/{round}"), members);
                if let Err(error) = self.pass_round(&barrier, &format!("{path}/{round}")).await {
                    self.failed(&client, &error).await;
                }
                self.context.ends_round(&path, round);
            }
            sleep(self.random.millis(1, ROUND_PAUSE_MS_MAX)).await;
        }
    }

    async fn pass_round(&self, barrier: &DoubleBarrier, path: &str) -> Result<(), Error> {
        let limit = self.context.session_timeout;
        let number = self.context.recorder.arrives(path, self.context.contenders);
        if let Some(entered) = barrier.enter_timeout(limit).await? {
            self.context.recorder.has_entered(number);
            entered.leave_timeout(limit).await?;
        }
        Ok(())
    }

    /// A text that no other contender has, and no other turn.
    pub(crate) fn unique(&mut self) -> String {
        format!("{}-{:x}", self.control.number, self.random.next())
    }
}
