//! A turn of each recipe.

use super::hand::{Belief, Hand, Held, Patience};
use super::history::Mode;
use super::recipe::Recipe;
use super::scene::Sabotage;
use crate::recipes::{
    LeaderLatch, LeaderSelector, LockGuard, LockOptions, MultiLock, Mutex as LockMutex,
    ReadWriteLock, Semaphore, SemaphoreMutex, SharedCount, SimpleLock, Standing, Term, WriteGuard,
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
            Recipe::Mutex => {
                let mutex = LockMutex::with_options(client, &path, options);
                let guard = acquire!(mutex, patience, acquire, acquire_timeout, try_acquire)?;
                self.hold_guard(client, guard, Mode::Exclusive).await
            }
            Recipe::Bilingual => {
                let mutex = LockMutex::with_options(client, &path, options.bilingual());
                let guard = acquire!(mutex, patience, acquire, acquire_timeout, try_acquire)?;
                self.hold_guard(client, guard, Mode::Exclusive).await
            }
            Recipe::SemaphoreMutex => {
                let mutex = SemaphoreMutex::with_options(client, &path, options);
                let guard = acquire!(mutex, patience, acquire, acquire_timeout, try_acquire)?;
                self.hold_guard(client, guard, Mode::Exclusive).await
            }
            Recipe::SharedSemaphore => {
                let count = SharedCount::new(client, &self.lock.beside("count"), 2);
                if self.random.chance(6) {
                    count.set(if self.random.chance(50) { 1 } else { 2 }).await?;
                }
                let semaphore = Semaphore::shared(client, &path, count);
                let guard = acquire!(semaphore, patience, acquire, acquire_timeout, try_acquire)?;
                self.hold_guard(client, guard, Mode::Exclusive).await
            }
            Recipe::Semaphore => {
                let permits = self.lock.recipe.permits();
                let semaphore = Semaphore::with_options(client, &path, permits, options);
                let guard = acquire!(semaphore, patience, acquire, acquire_timeout, try_acquire)?;
                self.hold_guard(client, guard, Mode::Exclusive).await
            }
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
            Recipe::LeaderLatch => self.lead_by_latch(client, patience).await,
            Recipe::LeaderSelector => self.lead_by_selector(client, patience).await,
            Recipe::Queue => self.put_or_take(client, patience).await,
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

    async fn hold_guard(
        &mut self,
        client: &Client,
        guard: Option<LockGuard>,
        mode: Mode,
    ) -> Result<bool, Error> {
        let Some(guard) = guard else { return Ok(false) };
        let held = [Held { mode, ..Held::exclusive(&self.lock, &guard) }];
        let belief = self.hold(client, &held, Some(&guard)).await;
        self.give_back(client, guard, &belief).await?;
        Ok(true)
    }

    /// Releases a lock, now and then by dropping its guard.
    async fn give_back(
        &mut self,
        client: &Client,
        guard: LockGuard,
        belief: &Belief,
    ) -> Result<(), Error> {
        self.ends(client, belief, true);
        if self.random.chance(10) {
            drop(guard);
            self.dropped(belief);
        } else if guard.release().await? {
            self.released(belief);
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
        let belief = self.hold(client, &held, Some(&guard)).await;
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
        let locks = MultiLock::mutexes(client, parts.iter().map(|part| part.path.as_str()));
        let guard = acquire!(&locks, patience, acquire, acquire_timeout, try_acquire)?;
        let Some(guards) = guard else { return Ok(false) };
        let held: Vec<Held> = parts
            .iter()
            .zip(guards.guards())
            .map(|(part, guard)| Held::exclusive(part, guard))
            .collect();
        let belief = self.hold(client, &held, guards.guards().first()).await;
        self.ends(client, &belief, true);
        if guards.release().await? {
            self.released(&belief);
        }
        Ok(true)
    }

    async fn lead_by_latch(&mut self, client: &Client, patience: Patience) -> Result<bool, Error> {
        let id = format!("contender {}", self.body.number);
        let latch = LeaderLatch::start(client, &self.lock.path, &id);
        acquire!(&latch, patience, lead, lead_timeout, try_lead)?;
        let standing = latch.standing();
        let now = standing.borrow().clone();
        if let Standing::Leading { token, path } = now {
            let (lock, token) = (self.lock.clone(), token.get());
            let held = [Held { lock, path, token, mode: Mode::Exclusive }];
            let belief = self.hold(client, &held, None).await;
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
        let selector = LeaderSelector::with_id(client, &self.lock.path, &id);
        let work = async |guard| {
            // The second guard of the hold goes before the selector releases it.
            let guard = guard;
            let held = [Held::exclusive(&self.lock, &guard)];
            let belief = self.hold(client, &held, Some(&guard)).await;
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
        let belief = self.hold(client, &held, None).await;
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
