//! A fair lock for one holder.

use std::time::Duration;

use crate::{Client, Error, Version};

use super::guard::LockGuard;
use super::name::{LOCK_BASE, Sequence, in_order, join};
use super::options::LockOptions;
use super::queue_node::{NodeNaming, QueueNodeSpec};
use super::queue_wait::{Turn, adopt_turns, take_turn_metered, try_turn, turn};
use super::retry::{children_now, retry_transient, within};
use super::sentry::REVOKE_MESSAGE;
use super::wait_meter::WaitMeter;

/// A fair lock that excludes Curator's `InterProcessMutex`, the locks of Go's `zk` and of the
/// `zookeeper-client` crate, and, with [`LockOptions::bilingual`], kazoo's `Lock`, on the same
/// path.
///
/// Each contender creates `_c_<uuid>-lock-N` below the path, ephemeral and sequential, and holds
/// the lock when no number is lower. A waiter watches the znode in front of its own. The lock is
/// re-entered through its guard: see [`LockGuard::reenter`].
///
/// ```
/// # zoolet_doctest::with_client(async |client| {
/// use zoolet_client::recipes::Mutex;
/// use zoolet_client::{CreateMode, Version};
///
/// client.create("/report", b"", CreateMode::Persistent).await?;
/// let mutex = Mutex::new(&client, "/locks/report");
/// let guard = mutex.acquire().await?;
/// tokio::select! {
///     // The work, which hands `guard.token()` to everything that it writes to.
///     written = guard.write("/report", b"done", Version::Any) => drop(written?),
///     loss = guard.lost() => eprintln!("the lock is lost: {loss:?}"),
/// }
/// assert!(guard.release().await?, "held to the end");
/// # Ok(())
/// # }).unwrap();
/// ```
#[derive(Clone, Debug)]
pub struct Mutex {
    client: Client,
    path: String,
    options: LockOptions,
}

impl Mutex {
    /// A lock at this path, with the default options.
    pub fn new(client: &Client, path: &str) -> Self {
        Self::with_options(client, path, LockOptions::new())
    }

    /// A lock at this path.
    pub fn with_options(client: &Client, path: &str, options: LockOptions) -> Self {
        Self { client: client.clone(), path: path.to_owned(), options }
    }

    /// Waits until the lock is held. Who drops the future leaves the queue.
    pub async fn acquire(&self) -> Result<LockGuard, Error> {
        self.acquire_metered(&WaitMeter::default()).await
    }

    /// The same; adds the time of waits for others to `meter`.
    pub(crate) async fn acquire_metered(&self, meter: &WaitMeter) -> Result<LockGuard, Error> {
        let data = self.options.bytes();
        let spec = self.spec(&data);
        take_turn_metered(&self.client, &spec, mutex_turn, meter).await.map(LockGuard::new)
    }

    /// The same, for so long at most; `None` when that was not enough.
    pub async fn acquire_timeout(&self, limit: Duration) -> Result<Option<LockGuard>, Error> {
        within(limit, self.acquire()).await
    }

    /// Takes the lock if it is free. A lock that is taken costs a read and no write.
    pub async fn try_acquire(&self) -> Result<Option<LockGuard>, Error> {
        if !self.participants().await?.is_empty() {
            return Ok(None);
        }
        let data = self.options.bytes();
        let spec = self.spec(&data);
        let queue_node = try_turn(&self.client, &spec, mutex_turn).await?;
        Ok(queue_node.map(LockGuard::new))
    }

    /// Takes over the lock if this session holds it: a client that has
    /// [resumed](crate::ClientOptions::resume) the session of another one has its locks and no
    /// guards for them. Attempts at the lock that were under way there are ended. Call it before
    /// anything else of the session contends here: a lock that has a guard gets a second one.
    pub async fn adopt(&self) -> Result<Option<LockGuard>, Error> {
        let turns = adopt_turns(&self.client, &self.path, Sequence::of_mutex, mutex_turn);
        Ok(turns.await?.pop().map(LockGuard::new))
    }

    fn spec<'a>(&'a self, data: &'a [u8]) -> QueueNodeSpec<'a> {
        let naming = if self.options.bilingual {
            NodeNaming::Bilingual
        } else {
            NodeNaming::Protected(LOCK_BASE)
        };
        QueueNodeSpec { dir: &self.path, naming, data, acl: &self.options.acl, held: &[] }
    }

    /// The paths of the znodes in the queue, the holder's first.
    pub async fn participants(&self) -> Result<Vec<String>, Error> {
        let names = children_now(&self.client, &self.path).await?;
        let names = in_order(names, Sequence::of_mutex);
        Ok(names.iter().map(|name| join(&self.path, name)).collect())
    }

    /// Asks the holder or waiter whose znode this is to give up its place, as Curator's `Revoker`
    /// does. Whether it heeds is its own matter; see [`LockGuard::revocation`].
    pub async fn request_revocation(client: &Client, participant: &str) -> Result<(), Error> {
        retry_transient(client, || client.set_data(participant, REVOKE_MESSAGE, Version::Any))
            .await
            .map(drop)
    }
}

/// The rule of the queue: the lowest number holds the lock.
fn mutex_turn(names: &[String], mine: &str) -> Turn {
    if planted!("mutex-does-not-wait") {
        return Turn::Mine;
    }
    turn(names, mine, Sequence::of_mutex, Sequence::of_mutex)
}
