//! A turn of each recipe that is no lock: queues, counters, barriers.

use std::time::Duration;

use super::hand::{Hand, Patience};
use super::history::{Opening, Passage};
use super::scene::Phase;
use crate::recipes::{Barrier, Counter, DoubleBarrier, Queue, SharedCount};
use crate::{Client, Error};

/// How long the patient wait for an item, or for a barrier to go: all may wait at the same time, and
/// then nobody puts and nobody removes.
const PATIENT: Duration = Duration::from_millis(300);

impl Patience {
    /// How long to wait where all may wait for each other; `None` for not at all.
    const fn limit(self) -> Option<Duration> {
        match self {
            Self::Waits => Some(PATIENT),
            Self::Limited(limit) => Some(limit),
            Self::Tries => None,
        }
    }
}

impl Hand {
    pub(super) async fn put_or_take(
        &mut self,
        client: &Client,
        patience: Patience,
    ) -> Result<bool, Error> {
        let path = self.lock.path.clone();
        let queue = Queue::new(client, &path);
        if self.random.chance(50) {
            let item = self.unique();
            // In doubt until it was answered: a death must not make a lie of the record.
            self.scene.tally(&path, |tally| tally.given_in_doubt.push(item.clone()));
            let put = queue.put(item.as_bytes()).await;
            if put.is_ok() {
                self.scene.tally(&path, |tally| tally.confirm(&item, item.clone()));
            }
            return put.map(|()| true);
        }
        self.scene.tally(&path, |tally| tally.taken_in_doubt += 1);
        let mut taken = None;
        if let Some(limit) = patience.limit() {
            taken = queue.take_timeout(limit).await?;
        }
        if taken.is_none() {
            // What a take had taken when its time was over is answered now.
            taken = queue.try_take().await?;
        }
        self.scene.tally(&path, |tally| {
            tally.taken_in_doubt -= 1;
            tally.taken.extend(taken.map(|item| String::from_utf8_lossy(&item).into_owned()));
        });
        Ok(true)
    }

    /// Adds one, in one of the ways in which that can be done.
    pub(super) async fn count(&mut self, client: &Client) -> Result<bool, Error> {
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

    pub(super) async fn count_together(&mut self, client: &Client) -> Result<bool, Error> {
        let count = SharedCount::new(client, &self.lock.path, 0);
        let before = count.get().await?;
        let sum = before.value + 1;
        let add = async {
            let added = count.try_set(before, sum).await?;
            Ok(added.then_some(i64::from(sum)))
        };
        self.add_one(add).await
    }

    /// Adds one, which is in doubt until it was answered; answers whether it was added.
    async fn add_one(
        &mut self,
        add: impl Future<Output = Result<Option<i64>, Error>>,
    ) -> Result<bool, Error> {
        let path = self.lock.path.clone();
        let doubt = self.unique();
        self.scene.tally(&path, |tally| tally.given_in_doubt.push(doubt.clone()));
        let sum = add.await?;
        self.scene.tally(&path, |tally| match sum {
            Some(sum) => tally.confirm(&doubt, sum.to_string()),
            None => tally.deny(&doubt),
        });
        Ok(sum.is_some())
    }

    /// Sets a barrier, removes it, or waits for it to go. In the last turn everybody removes it.
    pub(super) async fn meet_barrier(
        &mut self,
        client: &Client,
        patience: Patience,
    ) -> Result<bool, Error> {
        let barrier = Barrier::new(client, &self.lock.path);
        let is_last = *self.scene.phase.borrow() >= Phase::LastTurn;
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
        let is_open = match patience.limit() {
            Some(limit) => barrier.wait_timeout(limit).await?,
            None => barrier.try_wait().await?,
        };
        if is_open {
            let to = client.session().last_zxid.0;
            let path = self.lock.path.clone();
            self.scene.recorder.opened(Opening { path, contender: self.body.number, from, to });
        }
        Ok(is_open)
    }

    /// Enters a barrier with all the others and leaves it.
    /// Whoever fails comes again, and has been there since `arrived_us`.
    pub(crate) async fn pass_barrier(
        &mut self,
        client: &Client,
        name: &str,
        arrived_us: u64,
    ) -> Result<(), Error> {
        let path = format!("{}/{name}", self.lock.path);
        let members = self.scene.contenders;
        let recorder = &self.scene.recorder;
        let entered = DoubleBarrier::new(client, &path, members).enter().await?;
        let entered_us = recorder.now_us();
        tokio::time::sleep(self.random.millis(0, 50)).await;
        let leaving_us = recorder.now_us();
        entered.leave().await?;
        let left_us = recorder.now_us();
        recorder.passed(Passage { path, members, arrived_us, entered_us, leaving_us, left_us });
        Ok(())
    }

    /// A text that no other contender has, and no other turn.
    pub(super) fn unique(&mut self) -> String {
        format!("{}-{:x}", self.body.number, self.random.next())
    }
}
