//! A turn of each recipe.

#![allow(clippy::wildcard_enum_match_arm, reason = "the parts of a mixed lock are of four kinds")]

use std::time::Duration;

use tokio::time::timeout;
use zoolet_client::recipes::{
    LeaderLatch, LeaderSelector, LeadershipState, LockGuard, LockOptions, Lockable, MultiLock,
    Mutex as LockMutex, ReadWriteLock, Semaphore, SemaphoreMutex, SharedCount, SimpleLock,
    Suspension, Term, WriteGuard, WriteLock,
};
use zoolet_client::{Client, CreateMode, Error, ErrorCode, ErrorKind, Version};

use crate::context::by_hand;
use crate::recipe::{Lock, Recipe};
use crate::run_history::{CountSet, Mode};
use crate::settings::PlantedBug;
use crate::tie::Tie;
use crate::worker::{AcquireMode, Held, OpenClaim, Worker};

/// Acquires a lock as the contender's patience has it: `None` if that did not do.
macro_rules! acquire {
    ($lock:expr, $acquire_mode:expr, $waits:ident, $limited:ident, $tries:ident $(, $with:expr)?) => {{
        let lock = $lock;
        match $acquire_mode {
            AcquireMode::Waits => lock.$waits($($with)?).await.map(Some),
            AcquireMode::Limited(limit) => lock.$limited(limit $(, $with)?).await,
            AcquireMode::Tries => lock.$tries($($with)?).await,
        }
    }};
}

/// How long a holder may take to be notified that its lock is asked for: servers may elect meanwhile.
const ASKED_MAX: Duration = Duration::from_secs(10);

impl Worker {
    /// Takes one turn. Returns whether there was a grant.
    pub(crate) async fn turn(
        &mut self,
        client: &Client,
        acquire_mode: AcquireMode,
    ) -> Result<bool, Error> {
        let path = self.lock.path.clone();
        let options = LockOptions::new().data(format!("contender {}", self.control.number));
        match self.lock.recipe {
            Recipe::Mutex if self.has_planted_bug() => return self.hold_out_of_turn(client).await,
            Recipe::Mutex => self.hold_mutex(client, options, acquire_mode).await,
            Recipe::Bilingual => self.hold_mutex(client, options.bilingual(), acquire_mode).await,
            Recipe::Revocable => self.hold_mutex(client, options.revocable(), acquire_mode).await,
            Recipe::SemaphoreMutex => {
                let mutex = SemaphoreMutex::with_options(client, &path, options);
                let guard = acquire!(mutex, acquire_mode, acquire, acquire_timeout, try_acquire)?;
                self.hold_guard(client, guard, Mode::Exclusive).await
            }
            Recipe::SharedSemaphore => {
                let count = SharedCount::new(client, &self.lock.beside("count"), 2);
                self.set_count(client, &count).await?;
                let semaphore = Semaphore::shared(client, &path, count);
                let guard =
                    acquire!(semaphore, acquire_mode, acquire, acquire_timeout, try_acquire)?;
                self.hold_guard(client, guard, Mode::Exclusive).await
            }
            Recipe::Semaphore => self.hold_permits(client, options, acquire_mode).await,
            Recipe::SimpleLock => {
                let simple = SimpleLock::new(client, &path);
                let guard = acquire!(simple, acquire_mode, acquire, acquire_timeout, try_acquire)?;
                self.hold_guard(client, guard, Mode::Exclusive).await
            }
            Recipe::ReadWriteLock => {
                let both = ReadWriteLock::with_options(client, &path, options);
                self.read_or_write(client, &both, acquire_mode).await
            }
            Recipe::MultiLock | Recipe::MixedLock => self.hold_several(client, acquire_mode).await,
            Recipe::LeaderLatch => self.lead_by_latch(client, acquire_mode).await,
            Recipe::LeaderSelector => self.lead_by_selector(client, acquire_mode).await,
            Recipe::Queue | Recipe::DistributedQueue | Recipe::KazooQueue => {
                self.put_or_take(client, acquire_mode).await
            }
            Recipe::Counter => self.count(client).await,
            Recipe::SharedCount => self.count_together(client).await,
            Recipe::Barrier => self.meet_barrier(client, acquire_mode).await,
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
        acquire_mode: AcquireMode,
    ) -> Result<bool, Error> {
        let mutex = LockMutex::with_options(client, &self.lock.path, options);
        let guard = acquire!(mutex, acquire_mode, acquire, acquire_timeout, try_acquire)?;
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
        acquire_mode: AcquireMode,
    ) -> Result<bool, Error> {
        let permits = self.lock.recipe.permits();
        let semaphore = Semaphore::with_options(client, &self.lock.path, permits, options);
        if acquire_mode == AcquireMode::Waits && self.random.chance(15) {
            let guards = semaphore.acquire_many(permits).await?;
            return self.hold_many(client, guards).await;
        }
        let guard = acquire!(semaphore, acquire_mode, acquire, acquire_timeout, try_acquire)?;
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
        let open = self.hold(client, &held, Tie::Guard(&guard)).await;
        self.give_back(client, guard, &held, &open).await
    }

    /// Holds several permits of a semaphore.
    async fn hold_many(&mut self, client: &Client, guards: Vec<LockGuard>) -> Result<bool, Error> {
        let held: Vec<Held> =
            guards.iter().map(|guard| Held::exclusive(&self.lock, guard)).collect();
        let tie = guards.last().map_or(Tie::None, Tie::Guard);
        let open = self.hold(client, &held, tie).await;
        self.ends(client, &open, true);
        let mut all_held = true;
        for guard in guards {
            all_held &= guard.release().await?;
        }
        self.ended(client, &held, &open, all_held);
        Ok(true)
    }

    /// Notes whether a release has found everything held.
    fn ended(&self, client: &Client, held: &[Held], open: &OpenClaim, all_held: bool) {
        if all_held {
            self.released(open);
        } else {
            self.found_gone(client, held);
        }
    }

    /// The holder is asked for its lock, and must be notified.
    async fn is_asked(&self, client: &Client, guard: &LockGuard) {
        let path = self.context.offset.real(guard.path());
        let request = LockMutex::request_revocation(&self.context.admin, &path);
        if by_hand(request).await.is_ok()
            && timeout(ASKED_MAX, guard.revocation()).await.is_err()
            && !client.remaining().is_zero()
        {
            let (who, path) = (self.control.number, guard.path());
            let broke = format!("contender {who} was not notified that {path} is asked for");
            self.context.recorder.broke(broke);
        }
    }

    /// Changes the number of permits now and then. One contender does, so that it is known between
    /// two changes.
    async fn set_count(&mut self, client: &Client, count: &SharedCount) -> Result<(), Error> {
        if self.control.number != 0 || !self.random.chance(12) {
            return Ok(());
        }
        let value = 1 + self.random.index(2);
        let (path, from) = (self.lock.path.clone(), client.session().last_zxid.0);
        let number = self.context.recorder.sets_count(CountSet { path, value, from, to: None });
        count.set(i32::try_from(value).unwrap_or(1)).await?;
        self.context.recorder.has_set_count(number, client.session().last_zxid.0);
        Ok(())
    }

    /// Releases a lock, now and then by dropping its guard.
    async fn give_back(
        &mut self,
        client: &Client,
        guard: LockGuard,
        held: &[Held],
        open: &OpenClaim,
    ) -> Result<(), Error> {
        self.ends(client, open, true);
        if self.random.chance(10) {
            drop(guard);
            self.dropped(open);
        } else {
            let was_held = guard.release().await?;
            self.ended(client, held, open, was_held);
        }
        Ok(())
    }

    async fn read_or_write(
        &mut self,
        client: &Client,
        both: &ReadWriteLock,
        acquire_mode: AcquireMode,
    ) -> Result<bool, Error> {
        if self.random.chance(50) {
            let guard = acquire!(both, acquire_mode, read, read_timeout, try_read)?;
            return self.hold_guard(client, guard, Mode::Shared).await;
        }
        let guard = acquire!(both, acquire_mode, write, write_timeout, try_write)?;
        let Some(guard) = guard else { return Ok(false) };
        if !self.random.chance(25) {
            return self.hold_guard(client, Some(guard.into_guard()), Mode::Exclusive).await;
        }
        self.write_then_read(client, guard).await
    }

    async fn write_then_read(&mut self, client: &Client, guard: WriteGuard) -> Result<bool, Error> {
        let held = [Held::exclusive(&self.lock, &guard)];
        let open = self.hold(client, &held, Tie::Guard(&guard)).await;
        self.ends(client, &open, true);
        match guard.downgrade().await {
            Ok(read) => {
                self.released(&open);
                self.hold_guard(client, Some(read), Mode::Shared).await
            }
            Err(error) if *error.kind() == ErrorKind::LockLost => Ok(true),
            Err(error) => Err(error),
        }
    }

    async fn hold_several(
        &mut self,
        client: &Client,
        acquire_mode: AcquireMode,
    ) -> Result<bool, Error> {
        let parts = self.lock.parts();
        if let Some(last) = self.last_alone(&parts) {
            return self.hold_part(client, last, acquire_mode).await;
        }
        let locks = if self.lock.recipe == Recipe::MixedLock {
            mixed(client, &parts)
        } else {
            MultiLock::mutexes(client, parts.iter().map(|part| part.path.as_str()))
        };
        self.hold_all(client, &parts, &locks, acquire_mode).await
    }

    /// Returns the last of several locks when this turn is to take that one alone: others find it
    /// taken, and have to give back what they have.
    fn last_alone<'a>(&mut self, parts: &'a [Lock]) -> Option<&'a Lock> {
        parts.last().filter(|_| self.random.chance(30))
    }

    async fn hold_part(
        &mut self,
        client: &Client,
        part: &Lock,
        acquire_mode: AcquireMode,
    ) -> Result<bool, Error> {
        let mutex = LockMutex::new(client, &part.path);
        let guard = acquire!(mutex, acquire_mode, acquire, acquire_timeout, try_acquire)?;
        let Some(guard) = guard else { return Ok(false) };
        self.hold_guard_of(client, part, guard, Mode::Exclusive).await?;
        Ok(true)
    }

    async fn hold_all(
        &mut self,
        client: &Client,
        parts: &[Lock],
        locks: &MultiLock,
        acquire_mode: AcquireMode,
    ) -> Result<bool, Error> {
        let guard = acquire!(locks, acquire_mode, acquire, acquire_timeout, try_acquire)?;
        let Some(guards) = guard else { return Ok(false) };
        let held: Vec<Held> = parts
            .iter()
            .zip(guards.guards())
            .map(|(part, guard)| Held::exclusive(part, guard))
            .collect();
        let open = self.hold(client, &held, Tie::Several(&guards)).await;
        self.ends(client, &open, true);
        let all_held = guards.release().await?;
        self.ended(client, &held, &open, all_held);
        Ok(true)
    }

    async fn lead_by_latch(
        &mut self,
        client: &Client,
        acquire_mode: AcquireMode,
    ) -> Result<bool, Error> {
        let id = format!("contender {}", self.control.number);
        let suspension =
            if self.random.chance(50) { Suspension::StayOn } else { Suspension::StepDown };
        let latch = LeaderLatch::start_with(client, &self.lock.path, &id, suspension);
        acquire!(&latch, acquire_mode, lead, lead_timeout, try_lead)?;
        let standing = latch.standing();
        let now = standing.borrow().clone();
        if let LeadershipState::Leading { token, path } = now {
            let (lock, token) = (self.lock.clone(), token.get());
            let held = [Held { lock, path, token, mode: Mode::Exclusive }];
            let open = self.hold(client, &held, Tie::Latch(&latch)).await;
            // Another term has another token.
            let leads = latch.token().is_some_and(|now| now.get() == token);
            self.ends(client, &open, leads);
            latch.close().await?;
            if leads {
                self.released(&open);
            }
            return Ok(true);
        }
        latch.close().await?;
        Ok(false)
    }

    async fn lead_by_selector(
        &mut self,
        client: &Client,
        acquire_mode: AcquireMode,
    ) -> Result<bool, Error> {
        let id = format!("contender {}", self.control.number);
        let mut selector = LeaderSelector::with_id(client, &self.lock.path, &id);
        if self.random.chance(50) {
            selector = selector.suspension(Suspension::StayOn);
        }
        let work = async |guard| {
            // The second guard of the hold goes before the selector releases it.
            let guard = guard;
            let held = [Held::exclusive(&self.lock, &guard)];
            let open = self.hold(client, &held, Tie::Guard(&guard)).await;
            self.ends(client, &open, true);
            open
        };
        match acquire!(selector, acquire_mode, lead, lead_timeout, try_lead, work)? {
            Some(Term::Done(open)) => {
                self.released(&open);
                Ok(true)
            }
            Some(Term::Lost(_) | Term::Suspended | _) | None => Ok(false),
        }
    }

    fn has_planted_bug(&self) -> bool {
        self.context.planted_bug == Some(PlantedBug::IgnoresQueue) && self.control.number == 0
    }

    /// What a broken lock does: enters the queue and does not wait.
    async fn hold_out_of_turn(&mut self, client: &Client) -> Result<bool, Error> {
        let id = uuid_of(self.random.next(), self.random.next());
        let path = format!("{}/_c_{id}-lock-", self.lock.path);
        let mode = CreateMode::EphemeralSequential;
        let (path, stat) = match client.create(&path, b"", mode).await {
            Ok(created) => created,
            Err(error) if error.code() == Some(ErrorCode::NoNode) => {
                // Another contender may be faster.
                let _ = client.create(&self.lock.path, b"", CreateMode::Container).await;
                return Ok(false);
            }
            Err(error) => return Err(error),
        };
        let (lock, token) = (self.lock.clone(), stat.czxid.0);
        let held = [Held { lock, path: path.clone(), token, mode: Mode::Exclusive }];
        let open = self.hold(client, &held, Tie::None).await;
        self.ends(client, &open, true);
        // What it left behind would hold up the others for ever.
        loop {
            match client.delete(&path, Version::Any).await {
                Err(error) if error.ends_session() => return Err(error),
                Err(error) if error.code() != Some(ErrorCode::NoNode) => {}
                _ => break,
            }
        }
        self.released(&open);
        Ok(true)
    }
}

fn uuid_of(high: u64, low: u64) -> String {
    let hex = format!("{high:016x}{low:016x}");
    let part = |from: usize, to: usize| hex.get(from..to).unwrap_or_default().to_owned();
    [part(0, 8), part(8, 12), part(12, 16), part(16, 20), part(20, 32)].join("-")
}

/// A lock each of four kinds.
fn mixed(client: &Client, parts: &[Lock]) -> MultiLock {
    let lock = |part: &Lock| -> Box<dyn Lockable> {
        let path = &part.path;
        match part.recipe {
            Recipe::SimpleLock => Box::new(SimpleLock::new(client, path)),
            Recipe::SemaphoreMutex => Box::new(SemaphoreMutex::new(client, path)),
            Recipe::ReadWriteLock => Box::new(WriteLock(ReadWriteLock::new(client, path))),
            _ => Box::new(LockMutex::new(client, path)),
        }
    };
    MultiLock::new(parts.iter().map(lock).collect())
}
