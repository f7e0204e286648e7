//! A turn of each recipe.

#![allow(clippy::wildcard_enum_match_arm, reason = "the parts of a mixed lock are of four kinds")]

use std::time::Duration;

use tokio::time::timeout;

use super::hand::{Belief, Hand, Held, Patience};
use super::history::{CountSet, Mode};
use super::recipe::{Lock, Recipe};
use super::scene::{Sabotage, by_hand};
use super::tie::Tie;
use crate::recipes::{
    LeaderLatch, LeaderSelector, LockGuard, LockOptions, Lockable, MultiLock, Mutex as LockMutex,
    ReadWriteLock, Semaphore, SemaphoreMutex, SharedCount, SimpleLock, Standing, Suspension, Term,
    WriteGuard, WriteLock,
};
use crate::{Client, CreateMode, Error, ErrorCode, ErrorKind};

/// Acquires a lock as the contender's patience has it: `None` if that did not do.
macro_rules! acquire {
    ($lock:expr, $patience:expr, $waits:ident, $limited:ident, $tries:ident $(, $with:expr)?) => {{
        let lock = $lock;
        match $patience {
            Patience::Waits => lock.$waits($($with)?).await.map(Some),
            Patience::Limited(limit) => lock.$limited(limit $(, $with)?).await,
            Patience::Tries => lock.$tries($($with)?).await,
        }
    }};
}

/// How long a holder may take to be notified that its lock is asked for: servers may elect meanwhile.
const ASKED_MAX: Duration = Duration::from_secs(10);

impl Hand {
    /// Takes one turn. Answers whether there was a grant.
    pub(crate) async fn turn(
        &mut self,
        client: &Client,
        patience: Patience,
    ) -> Result<bool, Error> {
        let path = self.lock.path.clone();
        let options = LockOptions::new().data(format!("contender {}", self.body.number));
        match self.lock.recipe {
            Recipe::Mutex if self.is_sabotaged() => return self.barge_in(client).await,
            Recipe::Mutex => self.hold_mutex(client, options, patience).await,
            Recipe::Bilingual => self.hold_mutex(client, options.bilingual(), patience).await,
            Recipe::Revocable => self.hold_mutex(client, options.revocable(), patience).await,
            Recipe::SemaphoreMutex => {
                let mutex = SemaphoreMutex::with_options(client, &path, options);
                let guard = acquire!(mutex, patience, acquire, acquire_timeout, try_acquire)?;
                self.hold_guard(client, guard, Mode::Exclusive).await
            }
            Recipe::SharedSemaphore => {
                let count = SharedCount::new(client, &self.lock.beside("count"), 2);
                self.set_count(client, &count).await?;
                let semaphore = Semaphore::shared(client, &path, count);
                let guard = acquire!(semaphore, patience, acquire, acquire_timeout, try_acquire)?;
                self.hold_guard(client, guard, Mode::Exclusive).await
            }
            Recipe::Semaphore => self.hold_permits(client, options, patience).await,
            Recipe::SimpleLock => {
                let simple = SimpleLock::new(client, &path);
                let guard = acquire!(simple, patience, acquire, acquire_timeout, try_acquire)?;
                self.hold_guard(client, guard, Mode::Exclusive).await
            }
            Recipe::ReadWriteLock => {
                let both = ReadWriteLock::with_options(client, &path, options);
                self.read_or_write(client, &both, patience).await
            }
            Recipe::MultiLock => self.hold_several(client, patience).await,
            Recipe::MixedLock => self.hold_mixed(client, patience).await,
            Recipe::LeaderLatch => self.lead_by_latch(client, patience).await,
            Recipe::LeaderSelector => self.lead_by_selector(client, patience).await,
            Recipe::Queue | Recipe::DistributedQueue | Recipe::KazooQueue => {
                self.put_or_take(client, patience).await
            }
            Recipe::Counter => self.count(client).await,
            Recipe::SharedCount => self.count_together(client).await,
            Recipe::Barrier => self.meet_barrier(client, patience).await,
            // They are not taken turn after turn.
            Recipe::DoubleBarrier
            | Recipe::Cache
            | Recipe::PersistentNode
            | Recipe::GroupMember => Ok(true),
        }
    }

    async fn hold_mutex(
        &mut self,
        client: &Client,
        options: LockOptions,
        patience: Patience,
    ) -> Result<bool, Error> {
        let mutex = LockMutex::with_options(client, &self.lock.path, options);
        let guard = acquire!(mutex, patience, acquire, acquire_timeout, try_acquire)?;
        if let Some(guard) = &guard
            && self.lock.recipe == Recipe::Revocable
            && self.random.chance(30)
        {
            self.is_asked(client, guard).await;
        }
        self.hold_guard(client, guard, Mode::Exclusive).await
    }

    async fn hold_permits(
        &mut self,
        client: &Client,
        options: LockOptions,
        patience: Patience,
    ) -> Result<bool, Error> {
        let permits = self.lock.recipe.permits();
        let semaphore = Semaphore::with_options(client, &self.lock.path, permits, options);
        if patience == Patience::Waits && self.random.chance(15) {
            let guards = semaphore.acquire_many(permits).await?;
            return self.hold_many(client, guards).await;
        }
        let guard = acquire!(semaphore, patience, acquire, acquire_timeout, try_acquire)?;
        self.hold_guard(client, guard, Mode::Exclusive).await
    }

    async fn hold_guard(
        &mut self,
        client: &Client,
        guard: Option<LockGuard>,
        mode: Mode,
    ) -> Result<bool, Error> {
        let Some(guard) = guard else { return Ok(false) };
        let lock = self.lock.clone();
        self.hold_guard_of(client, &lock, guard, mode).await?;
        Ok(true)
    }

    async fn hold_guard_of(
        &mut self,
        client: &Client,
        lock: &Lock,
        mut guard: LockGuard,
        mode: Mode,
    ) -> Result<(), Error> {
        let held = [Held::with_mode(lock, &guard, mode)];
        if self.random.chance(15) {
            // The lock is held until the last of its guards is released.
            let again = guard.reenter();
            if !guard.release().await? {
                self.found_gone(client, &held);
            }
            guard = again;
        }
        let belief = self.hold(client, &held, Tie::Guard(&guard)).await;
        self.give_back(client, guard, &held, &belief).await
    }

    /// Holds several permits of a semaphore.
    async fn hold_many(&mut self, client: &Client, guards: Vec<LockGuard>) -> Result<bool, Error> {
        let held: Vec<Held> =
            guards.iter().map(|guard| Held::exclusive(&self.lock, guard)).collect();
        let tie = guards.last().map_or(Tie::None, Tie::Guard);
        let belief = self.hold(client, &held, tie).await;
        self.ends(client, &belief, true);
        let mut all_held = true;
        for guard in guards {
            all_held &= guard.release().await?;
        }
        self.ended(client, &held, &belief, all_held);
        Ok(true)
    }

    /// Notes whether a release has found everything held.
    fn ended(&self, client: &Client, held: &[Held], belief: &Belief, all_held: bool) {
        if all_held {
            self.released(belief);
        } else {
            self.found_gone(client, held);
        }
    }

    /// The holder is asked for its lock, and must be notified.
    async fn is_asked(&self, client: &Client, guard: &LockGuard) {
        let path = self.scene.shift.real(guard.path());
        let request = LockMutex::request_revocation(&self.scene.admin, &path);
        if by_hand(request).await.is_ok()
            && timeout(ASKED_MAX, guard.revocation()).await.is_err()
            && !client.remaining().is_zero()
        {
            let (who, path) = (self.body.number, guard.path());
            let broke = format!("contender {who} was not notified that {path} is asked for");
            self.scene.recorder.broke(broke);
        }
    }

    /// Changes the number of permits now and then. One contender does, so that it is known between
    /// two changes.
    async fn set_count(&mut self, client: &Client, count: &SharedCount) -> Result<(), Error> {
        if self.body.number != 0 || !self.random.chance(12) {
            return Ok(());
        }
        let value = 1 + self.random.index(2);
        let (path, from) = (self.lock.path.clone(), client.session().last_zxid.0);
        let number = self.scene.recorder.sets_count(CountSet { path, value, from, to: None });
        count.set(i32::try_from(value).unwrap_or(1)).await?;
        self.scene.recorder.has_set_count(number, client.session().last_zxid.0);
        Ok(())
    }

    /// Releases a lock, now and then by dropping its guard.
    async fn give_back(
        &mut self,
        client: &Client,
        guard: LockGuard,
        held: &[Held],
        belief: &Belief,
    ) -> Result<(), Error> {
        self.ends(client, belief, true);
        if self.random.chance(10) {
            drop(guard);
            self.dropped(belief);
        } else {
            let was_held = guard.release().await?;
            self.ended(client, held, belief, was_held);
        }
        Ok(())
    }

    async fn read_or_write(
        &mut self,
        client: &Client,
        both: &ReadWriteLock,
        patience: Patience,
    ) -> Result<bool, Error> {
        if self.random.chance(50) {
            let guard = acquire!(both, patience, read, read_timeout, try_read)?;
            return self.hold_guard(client, guard, Mode::Shared).await;
        }
        let guard = acquire!(both, patience, write, write_timeout, try_write)?;
        let Some(guard) = guard else { return Ok(false) };
        if !self.random.chance(25) {
            return self.hold_guard(client, Some(guard.into_guard()), Mode::Exclusive).await;
        }
        self.write_then_read(client, guard).await
    }

    async fn write_then_read(&mut self, client: &Client, guard: WriteGuard) -> Result<bool, Error> {
        let held = [Held::exclusive(&self.lock, &guard)];
        let belief = self.hold(client, &held, Tie::Guard(&guard)).await;
        self.ends(client, &belief, true);
        match guard.downgrade().await {
            Ok(read) => {
                self.released(&belief);
                self.hold_guard(client, Some(read), Mode::Shared).await
            }
            Err(error) if *error.kind() == ErrorKind::LockLost => Ok(true),
            Err(error) => Err(error),
        }
    }

    async fn hold_several(&mut self, client: &Client, patience: Patience) -> Result<bool, Error> {
        let parts = self.lock.parts();
        if let Some(last) = parts.last()
            && self.random.chance(30)
        {
            // Others find one lock of several taken, and have to give back what they have.
            let mutex = LockMutex::new(client, &last.path);
            return self.hold_part(client, last, mutex, patience).await;
        }
        let locks = MultiLock::mutexes(client, parts.iter().map(|part| part.path.as_str()));
        self.hold_all(client, &parts, &locks, patience).await
    }

    async fn hold_part(
        &mut self,
        client: &Client,
        part: &Lock,
        mutex: LockMutex,
        patience: Patience,
    ) -> Result<bool, Error> {
        let guard = acquire!(mutex, patience, acquire, acquire_timeout, try_acquire)?;
        let Some(guard) = guard else { return Ok(false) };
        self.hold_guard_of(client, part, guard, Mode::Exclusive).await?;
        Ok(true)
    }

    /// The same with a lock each of four kinds.
    async fn hold_mixed(&mut self, client: &Client, patience: Patience) -> Result<bool, Error> {
        let parts = self.lock.parts();
        if let Some(last) = parts.last()
            && self.random.chance(30)
        {
            let mutex = LockMutex::new(client, &last.path);
            return self.hold_part(client, last, mutex, patience).await;
        }
        let lock = |part: &Lock| -> Box<dyn Lockable> {
            let path = &part.path;
            match part.recipe {
                Recipe::SimpleLock => Box::new(SimpleLock::new(client, path)),
                Recipe::SemaphoreMutex => Box::new(SemaphoreMutex::new(client, path)),
                Recipe::ReadWriteLock => Box::new(WriteLock(ReadWriteLock::new(client, path))),
                _ => Box::new(LockMutex::new(client, path)),
            }
        };
        let locks = MultiLock::new(parts.iter().map(lock).collect());
        self.hold_all(client, &parts, &locks, patience).await
    }

    async fn hold_all(
        &mut self,
        client: &Client,
        parts: &[Lock],
        locks: &MultiLock,
        patience: Patience,
    ) -> Result<bool, Error> {
        let guard = acquire!(locks, patience, acquire, acquire_timeout, try_acquire)?;
        let Some(guards) = guard else { return Ok(false) };
        let held: Vec<Held> = parts
            .iter()
            .zip(guards.guards())
            .map(|(part, guard)| Held::exclusive(part, guard))
            .collect();
        let belief = self.hold(client, &held, Tie::Several(&guards)).await;
        self.ends(client, &belief, true);
        let all_held = guards.release().await?;
        self.ended(client, &held, &belief, all_held);
        Ok(true)
    }

    async fn lead_by_latch(&mut self, client: &Client, patience: Patience) -> Result<bool, Error> {
        let id = format!("contender {}", self.body.number);
        let suspension =
            if self.random.chance(50) { Suspension::StayOn } else { Suspension::StepDown };
        let latch = LeaderLatch::start_with(client, &self.lock.path, &id, suspension);
        acquire!(&latch, patience, lead, lead_timeout, try_lead)?;
        let standing = latch.standing();
        let now = standing.borrow().clone();
        if let Standing::Leading { token, path } = now {
            let (lock, token) = (self.lock.clone(), token.get());
            let held = [Held { lock, path, token, mode: Mode::Exclusive }];
            let belief = self.hold(client, &held, Tie::Latch(&latch)).await;
            // Another term has another token.
            let leads = latch.token().is_some_and(|now| now.get() == token);
            self.ends(client, &belief, leads);
            latch.close().await?;
            if leads {
                self.released(&belief);
            }
            return Ok(true);
        }
        latch.close().await?;
        Ok(false)
    }

    async fn lead_by_selector(
        &mut self,
        client: &Client,
        patience: Patience,
    ) -> Result<bool, Error> {
        let id = format!("contender {}", self.body.number);
        let mut selector = LeaderSelector::with_id(client, &self.lock.path, &id);
        if self.random.chance(50) {
            selector = selector.suspension(Suspension::StayOn);
        }
        let work = async |guard| {
            // The second guard of the hold goes before the selector releases it.
            let guard = guard;
            let held = [Held::exclusive(&self.lock, &guard)];
            let belief = self.hold(client, &held, Tie::Guard(&guard)).await;
            self.ends(client, &belief, true);
            belief
        };
        match acquire!(selector, patience, lead, lead_timeout, try_lead, work)? {
            Some(Term::Done(belief)) => {
                self.released(&belief);
                Ok(true)
            }
            Some(Term::Lost(_) | Term::Suspended) | None => Ok(false),
        }
    }

    fn is_sabotaged(&self) -> bool {
        self.scene.sabotage == Some(Sabotage::IgnoresQueue) && self.body.number == 0
    }

    /// What a broken lock does: enters the queue and does not wait.
    async fn barge_in(&mut self, client: &Client) -> Result<bool, Error> {
        let id = uuid_of(self.random.next(), self.random.next());
        let path = format!("{}/_c_{id}-lock-", self.lock.path);
        let mode = CreateMode::EphemeralSequential;
        let (path, stat) = match client.create(&path, b"", mode).await {
            Ok(created) => created,
            Err(error) if error.code() == Some(ErrorCode::NoNode) => {
                // Somebody else may be faster.
                let _ = client.create(&self.lock.path, b"", CreateMode::Container).await;
                return Ok(false);
            }
            Err(error) => return Err(error),
        };
        let (lock, token) = (self.lock.clone(), stat.czxid.0);
        let held = [Held { lock, path: path.clone(), token, mode: Mode::Exclusive }];
        let belief = self.hold(client, &held, Tie::None).await;
        self.ends(client, &belief, true);
        // What it left behind would hold up the others for ever.
        loop {
            match client.delete(&path, -1).await {
                Err(error) if error.ends_session() => return Err(error),
                Err(error) if error.code() != Some(ErrorCode::NoNode) => {}
                _ => break,
            }
        }
        self.released(&belief);
        Ok(true)
    }
}

fn uuid_of(high: u64, low: u64) -> String {
    let hex = format!("{high:016x}{low:016x}");
    let part = |from: usize, to: usize| hex.get(from..to).unwrap_or_default().to_owned();
    [part(0, 8), part(8, 12), part(12, 16), part(16, 20), part(20, 32)].join("-")
}
