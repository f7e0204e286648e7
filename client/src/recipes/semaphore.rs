//! A lock for a number of holders.

use std::future::pending;
use std::time::Duration;

use crate::{Client, Error, ErrorKind, OneshotWatcher};

use super::counter::SharedCount;
use super::guard::LockGuard;
use super::multi_lock::GuardStack;
use super::mutex::Mutex;
use super::name::{Sequence, in_order, join};
use super::options::LockOptions;
use super::queue_node::{NodeNaming, QueueNode, QueueNodeSpec};
use super::retry::{children_now, fired, is_not_found, retry_transient, within};
use super::wait_meter::WaitMeter;

const LEASE_BASE: &str = "lease-";

/// How long a try waits for clients that are about to take a permit. One of them may stand still:
/// a try is not to wait for the end of its session. The time of its own requests does not count.
const TRY_MAX: Duration = Duration::from_secs(1);

/// Where the number of permits comes from.
#[derive(Clone, Debug)]
enum Permits {
    Fixed(usize),
    Shared(SharedCount),
}

/// A lock for a number of holders that shares its permits with Curator's `InterProcessSemaphoreV2`
/// on the same path.
///
/// Each lease is an ephemeral znode `_c_<uuid>-lease-N` below `leases`; who waits for one holds
/// the mutex below `locks`, so that the others wait in a fair queue. All clients have to agree on
/// the number of permits: it is fixed, or read from a [`SharedCount`].
///
/// ```
/// # zoolet_doctest::with_client(async |client| {
/// use zoolet_client::recipes::Semaphore;
///
/// let semaphore = Semaphore::new(&client, "/downloads", 2);
/// let first = semaphore.acquire().await?;
/// let _second = semaphore.acquire().await?;
/// assert!(semaphore.try_acquire().await?.is_none(), "both permits are taken");
/// first.release().await?;
/// let _third = semaphore.acquire().await?;
/// # Ok(())
/// # }).unwrap();
/// ```
#[derive(Clone, Debug)]
pub struct Semaphore {
    client: Client,
    mutex: Mutex,
    leases: String,
    permits: Permits,
    options: LockOptions,
}

impl Semaphore {
    /// A semaphore at this path with a number of permits.
    pub fn new(client: &Client, path: &str, permits: usize) -> Self {
        Self::with_options(client, path, permits, LockOptions::new())
    }

    /// The same, with the data and the ACL of the options on the leases.
    pub fn with_options(client: &Client, path: &str, permits: usize, options: LockOptions) -> Self {
        Self {
            client: client.clone(),
            mutex: Mutex::new(client, &join(path, "locks")),
            leases: join(path, "leases"),
            permits: Permits::Fixed(permits),
            options,
        }
    }

    /// A semaphore whose number of permits is a count that all share. A count that grows wakes a
    /// waiter; one that shrinks takes no lease away.
    pub fn shared(client: &Client, path: &str, count: SharedCount) -> Self {
        let mut semaphore = Self::new(client, path, 0);
        semaphore.permits = Permits::Shared(count);
        semaphore
    }

    /// Waits for a permit. Who drops the future leaves nothing behind.
    pub async fn acquire(&self) -> Result<LockGuard, Error> {
        self.refuse_more(1)?;
        let mutex = self.mutex.acquire().await?;
        let queue_node = self.wait_permit(&WaitMeter::default()).await?;
        mutex.release().await?;
        Ok(LockGuard::new(queue_node))
    }

    /// The same, for so long at most; `None` when that was not enough.
    pub async fn acquire_timeout(&self, limit: Duration) -> Result<Option<LockGuard>, Error> {
        within(limit, self.acquire()).await
    }

    /// Takes a permit if one is free. That none is free costs reads and no write. Others who are
    /// about to take a permit go first; a try that waits for them longer than a second gives up.
    pub async fn try_acquire(&self) -> Result<Option<LockGuard>, Error> {
        let guards = self.try_acquire_many(1).await?;
        Ok(guards.and_then(|mut guards| guards.pop()))
    }

    /// Waits for several permits at once: all or none. Others that ask for permits wait until
    /// they are complete, so that no two have a part of them each and wait for the other;
    /// Curator's semaphore takes several one by one, and can come to that. More permits than a
    /// fixed number of them are refused; those of a shared count are waited for, it may grow.
    pub async fn acquire_many(&self, count: usize) -> Result<Vec<LockGuard>, Error> {
        self.refuse_more(count)?;
        self.acquire_many_metered(count, &WaitMeter::default()).await
    }

    async fn acquire_many_metered(
        &self,
        count: usize,
        meter: &WaitMeter,
    ) -> Result<Vec<LockGuard>, Error> {
        let mutex = self.mutex.acquire_metered(meter).await?;
        let mut guards = GuardStack::default();
        for _ in 0..count {
            guards.push(LockGuard::new(self.wait_permit(meter).await?));
        }
        mutex.release().await?;
        Ok(guards.take())
    }

    /// Takes several permits if that many are free; see [`try_acquire`](Self::try_acquire).
    pub async fn try_acquire_many(&self, count: usize) -> Result<Option<Vec<LockGuard>>, Error> {
        self.refuse_more(count)?;
        if self.participants().await?.len().saturating_add(count) > self.permits().await? {
            return Ok(None);
        }
        let meter = WaitMeter::default();
        tokio::select! {
            guards = self.acquire_many_metered(count, &meter) => guards.map(Some),
            full = self.wait_full() => full.map(|()| None),
            () = meter.exceeds(TRY_MAX) => Ok(None),
        }
    }

    /// Takes over the permits that this session holds; see [`Mutex::adopt`](super::Mutex::adopt).
    pub async fn adopt(&self) -> Result<Vec<LockGuard>, Error> {
        let number = |name: &str| Sequence::after(LEASE_BASE, name);
        let places = QueueNode::adopt(&self.client, &self.leases, |name| number(name).is_some());
        let (places, permits) = (places.await?, self.permits().await?);
        let names = in_order(children_now(&self.client, &self.leases).await?, number);
        let mut guards = Vec::new();
        for queue_node in places {
            // A lease that does not count was waiting under the mutex, which goes behind it.
            if names.iter().take(permits).any(|name| name == queue_node.name()) {
                guards.push(LockGuard::new(queue_node));
            } else {
                queue_node.leave().await?;
            }
        }
        if let Some(mutex) = self.mutex.adopt().await? {
            mutex.release().await?;
        }
        Ok(guards)
    }

    /// More permits than there are can never be acquired.
    fn refuse_more(&self, count: usize) -> Result<(), Error> {
        match self.permits {
            Permits::Fixed(permits) if count > permits => {
                let why = format!("{count} permits of a semaphore that has {permits}");
                Err(ErrorKind::Protocol(why).into())
            }
            Permits::Fixed(_) | Permits::Shared(_) => Ok(()),
        }
    }

    /// The same, for so long at most; `None` when that was not enough.
    pub async fn acquire_many_timeout(
        &self,
        count: usize,
        limit: Duration,
    ) -> Result<Option<Vec<LockGuard>>, Error> {
        within(limit, self.acquire_many(count)).await
    }

    /// The paths of the leases.
    pub async fn participants(&self) -> Result<Vec<String>, Error> {
        let names = children_now(&self.client, &self.leases).await?;
        Ok(names.iter().map(|name| join(&self.leases, name)).collect())
    }

    async fn permits(&self) -> Result<usize, Error> {
        match &self.permits {
            Permits::Fixed(permits) => Ok(*permits),
            Permits::Shared(count) => count.get().await.map(|count| permits_of(count.value)),
        }
    }

    /// The number of permits, and a watch on it where it can change.
    async fn permits_watched(&self) -> Result<(usize, Option<OneshotWatcher>), Error> {
        match &self.permits {
            Permits::Fixed(permits) => Ok((*permits, None)),
            Permits::Shared(count) => {
                let (count, watch) = count.get_watched().await?;
                Ok((permits_of(count.value), Some(watch)))
            }
        }
    }

    /// Takes a lease, and waits until it counts. The caller holds the mutex.
    async fn wait_permit(&self, meter: &WaitMeter) -> Result<QueueNode, Error> {
        let data = self.options.bytes();
        let spec = QueueNodeSpec {
            dir: &self.leases,
            naming: NodeNaming::Protected(LEASE_BASE),
            data: &data,
            acl: &self.options.acl,
            held: &[],
        };
        'enter: loop {
            let (queue_node, listed) = QueueNode::enter(&self.client, &spec).await?;
            // Without a watch, which a lease that counts at once would leave for nothing.
            if let Some(names) = listed
                && names.iter().any(|name| name == queue_node.name())
                && names.len() <= self.permits().await?
            {
                return Ok(queue_node);
            }
            loop {
                let (permits, count_watch) = self.permits_watched().await?;
                let leases =
                    retry_transient(&self.client, || self.client.children_watched(&self.leases))
                        .await;
                let (names, _, leases_watch) = match leases {
                    Err(error) if is_not_found(&error) => continue 'enter,
                    other => other?,
                };
                if !names.iter().any(|name| name == queue_node.name()) {
                    continue 'enter;
                }
                if names.len() <= permits + usize::from(planted!("one-permit-too-many")) {
                    return Ok(queue_node);
                }
                meter.measure(wait_either(leases_watch, count_watch)).await?;
            }
        }
    }

    /// Waits until as many leases are out as there are permits, one's own aside.
    async fn wait_full(&self) -> Result<(), Error> {
        loop {
            let (permits, count_watch) = self.permits_watched().await?;
            let leases =
                retry_transient(&self.client, || self.client.children_watched(&self.leases)).await;
            let (names, _, leases_watch) = match leases {
                // No lease exists yet, so the parent will be created by one of the clients.
                Err(error) if is_not_found(&error) => {
                    let (stat, watch) =
                        retry_transient(&self.client, || self.client.exists_watched(&self.leases))
                            .await?;
                    if stat.is_none() {
                        fired(watch).await?;
                    }
                    continue;
                }
                other => other?,
            };
            if names.len() > permits {
                return Ok(());
            }
            wait_either(leases_watch, count_watch).await?;
        }
    }
}

fn permits_of(count: i32) -> usize {
    if planted!("shared-count-is-ignored") {
        return 2;
    }
    usize::try_from(count).unwrap_or(0)
}

async fn wait_either(first: OneshotWatcher, second: Option<OneshotWatcher>) -> Result<(), Error> {
    let second = async {
        match second {
            Some(watch) => fired(watch).await.map(drop),
            None => pending().await,
        }
    };
    let changed = tokio::select! {
        changed = fired(first) => changed.map(drop),
        changed = second => changed,
    };
    if planted!("semaphore-wakes-late") {
        tokio::time::sleep(Duration::from_millis(2500)).await;
    }
    changed
}

/// A fair lock for one holder that excludes Curator's `InterProcessSemaphoreMutex` on the same
/// path: a [`Semaphore`] of one permit. Unlike a [`Mutex`] it is not re-entered by Curator's
/// threads; a `Mutex` on the same path does not exclude it.
///
/// ```
/// # zoolet_doctest::with_client(async |client| {
/// use zoolet_client::recipes::SemaphoreMutex;
///
/// let mutex = SemaphoreMutex::new(&client, "/locks/import");
/// let guard = mutex.acquire().await?;
/// assert!(mutex.try_acquire().await?.is_none(), "one holder at a time");
/// guard.release().await?;
/// # Ok(())
/// # }).unwrap();
/// ```
#[derive(Clone, Debug)]
pub struct SemaphoreMutex {
    semaphore: Semaphore,
}

impl SemaphoreMutex {
    /// A lock at this path.
    pub fn new(client: &Client, path: &str) -> Self {
        Self { semaphore: Semaphore::new(client, path, 1) }
    }

    /// A lock at this path, with the data and the ACL of the options on the lease.
    pub fn with_options(client: &Client, path: &str, options: LockOptions) -> Self {
        Self { semaphore: Semaphore::with_options(client, path, 1, options) }
    }

    /// Waits until the lock is held. Who drops the future leaves nothing behind.
    pub async fn acquire(&self) -> Result<LockGuard, Error> {
        self.semaphore.acquire().await
    }

    /// The same, for so long at most; `None` when that was not enough.
    pub async fn acquire_timeout(&self, limit: Duration) -> Result<Option<LockGuard>, Error> {
        self.semaphore.acquire_timeout(limit).await
    }

    /// Takes the lock if it is free.
    pub async fn try_acquire(&self) -> Result<Option<LockGuard>, Error> {
        self.semaphore.try_acquire().await
    }

    /// Takes over the lock if this session holds it; see [`Mutex::adopt`](super::Mutex::adopt).
    pub async fn adopt(&self) -> Result<Option<LockGuard>, Error> {
        Ok(self.semaphore.adopt().await?.pop())
    }
}
