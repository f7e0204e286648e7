//! Several locks as one.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::time::Duration;

use crate::{Client, Error, ErrorKind, Stat, Transaction, Version};

use super::guard::{FencingToken, LockGuard, Loss, write};
use super::mutex::Mutex;
use super::read_write_lock::ReadWriteLock;
use super::retry::within;
use super::semaphore::{Semaphore, SemaphoreMutex};
use super::simple_lock::SimpleLock;

/// An acquisition under way.
pub type Acquiring<'a> =
    Pin<Box<dyn Future<Output = Result<Option<LockGuard>, Error>> + Send + 'a>>;

/// What can be one lock of several.
pub trait Lockable: fmt::Debug + Send + Sync {
    /// Waits until the lock is held; the answer is never `None`.
    fn acquire_boxed(&self) -> Acquiring<'_>;

    /// Takes the lock if that needs no waiting.
    fn try_acquire_boxed(&self) -> Acquiring<'_>;

    /// Takes over the lock if this session holds it; see [`Mutex::adopt`].
    fn adopt_boxed(&self) -> Acquiring<'_>;
}

macro_rules! lockable {
    ($($lock:ty),+) => {$(
        impl Lockable for $lock {
            fn acquire_boxed(&self) -> Acquiring<'_> {
                Box::pin(async { self.acquire().await.map(Some) })
            }

            fn try_acquire_boxed(&self) -> Acquiring<'_> {
                Box::pin(self.try_acquire())
            }

            fn adopt_boxed(&self) -> Acquiring<'_> {
                Box::pin(async { Ok(self.adopt().await?.into_iter().next()) })
            }
        }
    )+};
}

lockable!(Mutex, Semaphore, SemaphoreMutex, SimpleLock);

/// A read-write lock, for reading.
#[derive(Clone, Debug)]
pub struct ReadLock(pub ReadWriteLock);

impl Lockable for ReadLock {
    fn acquire_boxed(&self) -> Acquiring<'_> {
        Box::pin(async { self.0.read().await.map(Some) })
    }

    fn try_acquire_boxed(&self) -> Acquiring<'_> {
        Box::pin(self.0.try_read())
    }

    fn adopt_boxed(&self) -> Acquiring<'_> {
        Box::pin(async { Ok(self.0.adopt_readers().await?.into_iter().next()) })
    }
}

/// A read-write lock, for writing.
#[derive(Clone, Debug)]
pub struct WriteLock(pub ReadWriteLock);

impl Lockable for WriteLock {
    fn acquire_boxed(&self) -> Acquiring<'_> {
        Box::pin(async { self.0.write().await.map(|guard| Some(guard.into_guard())) })
    }

    fn try_acquire_boxed(&self) -> Acquiring<'_> {
        Box::pin(async { Ok(self.0.try_write().await?.map(super::WriteGuard::into_guard)) })
    }

    fn adopt_boxed(&self) -> Acquiring<'_> {
        Box::pin(async { Ok(self.0.adopt_writer().await?.map(super::WriteGuard::into_guard)) })
    }
}

/// Several locks that are held together or not at all. They are acquired in the order of the list
/// and released in reverse; programs that share locks have to list them in one order.
///
/// The locks are znodes of their own kinds: a `MultiLock` writes none itself.
///
/// ```
/// # zoolet_doctest::with_client(async |client| {
/// use zoolet_client::recipes::{Mutex, MultiLock};
///
/// let both = MultiLock::mutexes(&client, ["/locks/debit", "/locks/credit"]);
/// let guard = both.acquire().await?;
/// assert!(Mutex::new(&client, "/locks/debit").try_acquire().await?.is_none());
/// assert!(guard.release().await?, "held to the end");
/// # Ok(())
/// # }).unwrap();
/// ```
#[derive(Debug)]
pub struct MultiLock {
    locks: Vec<Box<dyn Lockable>>,
}

impl MultiLock {
    /// All of these locks.
    pub fn new(locks: Vec<Box<dyn Lockable>>) -> Self {
        Self { locks }
    }

    /// Mutexes at all of these paths.
    pub fn mutexes<'a>(client: &Client, paths: impl IntoIterator<Item = &'a str>) -> Self {
        let mutex = |path| Box::new(Mutex::new(client, path)) as Box<dyn Lockable>;
        Self::new(paths.into_iter().map(mutex).collect())
    }

    /// Waits until all locks are held. Who drops the future, or fails, holds none.
    pub async fn acquire(&self) -> Result<MultiGuard, Error> {
        let mut guards = GuardStack::default();
        for lock in &self.locks {
            if let Some(guard) = self.one(lock.acquire_boxed(), &mut guards).await? {
                guards.push(guard);
            }
        }
        Ok(MultiGuard { guards })
    }

    /// The same; all of it takes so long at most. `None` when that was not enough.
    pub async fn acquire_timeout(&self, limit: Duration) -> Result<Option<MultiGuard>, Error> {
        within(limit, self.acquire()).await
    }

    /// Takes the locks if all of them are free.
    pub async fn try_acquire(&self) -> Result<Option<MultiGuard>, Error> {
        let mut guards = GuardStack::default();
        for lock in &self.locks {
            if let Some(guard) = self.one(lock.try_acquire_boxed(), &mut guards).await? {
                guards.push(guard);
            } else {
                if planted!("multi-try-keeps-what-it-has") {
                    std::mem::forget(std::mem::take(&mut guards));
                }
                guards.release().await?;
                return Ok(None);
            }
        }
        Ok(Some(MultiGuard { guards }))
    }

    /// Takes over the locks if this session holds all of them, and releases them if it holds some;
    /// see [`Mutex::adopt`]. Of a semaphore or a read lock this is one; what else the session holds
    /// of those is released.
    pub async fn adopt(&self) -> Result<Option<MultiGuard>, Error> {
        let mut guards = GuardStack::default();
        for lock in &self.locks {
            if let Some(guard) = self.one(lock.adopt_boxed(), &mut guards).await? {
                guards.push(guard);
            }
        }
        if guards.0.len() == self.locks.len() {
            return Ok(Some(MultiGuard { guards }));
        }
        guards.release().await?;
        Ok(None)
    }

    /// Acquires one of the locks; a failure gives those before it back, in reverse.
    async fn one(
        &self,
        lock: Acquiring<'_>,
        guards: &mut GuardStack,
    ) -> Result<Option<LockGuard>, Error> {
        let acquired = lock.await;
        if acquired.is_err() {
            // The failure that is reported is the first one.
            let _ = guards.release().await;
        }
        acquired
    }
}

/// Several locks that are held.
#[derive(Debug)]
#[must_use = "dropping a guard releases its locks"]
pub struct MultiGuard {
    guards: GuardStack,
}

impl MultiGuard {
    /// The guards of the locks, in the order of the list.
    pub fn guards(&self) -> &[LockGuard] {
        &self.guards.0
    }

    /// Waits until any of the locks is lost or may be.
    pub async fn lost(&self) -> Loss {
        let mut losses = tokio::task::JoinSet::new();
        for guard in self.guards() {
            losses.spawn(guard.lost());
        }
        match losses.join_next().await {
            Some(Ok(loss)) => loss,
            // No lock can be lost where there is none.
            Some(Err(_)) | None => std::future::pending().await,
        }
    }

    /// The fencing tokens of the locks, in the order of the list. A resource that is behind all of
    /// them compares each with the highest that it has seen of that lock.
    pub fn tokens(&self) -> Vec<FencingToken> {
        self.guards().iter().map(LockGuard::token).collect()
    }

    /// For how long no other client can have any of the locks; see [`LockGuard::remaining`].
    pub fn remaining(&self) -> Duration {
        self.guards().iter().map(LockGuard::remaining).min().unwrap_or(Duration::MAX)
    }

    /// Begins a transaction that commits only while all of the locks are held, and fails with
    /// [`ErrorKind::LockLost`] otherwise. Locks of several clients, or below several chroots,
    /// are refused: a transaction belongs to one session, and its paths to one root.
    pub fn guarded(&self) -> Result<Transaction<'_>, Error> {
        let mut guards = self.guards().iter();
        let Some(client) = guards.next().map(LockGuard::client) else {
            return Err(ErrorKind::Protocol(
                "a multi-lock without locks cannot guard a transaction".to_owned(),
            )
            .into());
        };
        if guards.any(|guard| !guard.client().is_handle_of(client)) {
            let why = "locks of several clients cannot guard one transaction";
            return Err(ErrorKind::Protocol(why.to_owned()).into());
        }
        let paths: Vec<String> = self.guards().iter().flat_map(LockGuard::paths).cloned().collect();
        Ok(client.transaction().while_held(&paths))
    }

    /// Writes the data of a znode of this version if all of the locks are still held.
    pub async fn write(&self, path: &str, data: &[u8], version: Version) -> Result<Stat, Error> {
        write(self.guarded()?, path, data, version).await
    }

    /// Releases the locks, the last one first, and waits until the servers have done so. Answers
    /// whether all of them were held until now.
    pub async fn release(mut self) -> Result<bool, Error> {
        self.guards.release().await
    }
}

/// Guards that are given back in reverse, dropped ones too.
#[derive(Debug, Default)]
pub(crate) struct GuardStack(Vec<LockGuard>);

impl GuardStack {
    pub(crate) fn push(&mut self, guard: LockGuard) {
        self.0.push(guard);
    }

    pub(crate) fn take(mut self) -> Vec<LockGuard> {
        std::mem::take(&mut self.0)
    }

    async fn release(&mut self) -> Result<bool, Error> {
        let mut all_held = true;
        while let Some(guard) = self.0.pop() {
            all_held &= guard.release().await?;
        }
        Ok(all_held)
    }
}

impl Drop for GuardStack {
    /// One task gives them back, so that the order holds in the background too.
    fn drop(&mut self) {
        let mut guards = std::mem::take(&mut self.0);
        let Some(last) = guards.last() else { return };
        last.queue_node().runtime().clone().spawn(async move {
            while let Some(guard) = guards.pop() {
                // A guard that could not be released is left to the end of its session.
                let _ = guard.release().await;
            }
        });
    }
}
