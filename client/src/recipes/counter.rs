//! Numbers that all clients share.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::sleep;
use zoolet_jute::{Acl, CreateMode, ErrorCode, Stat};

use crate::{Client, Error, ErrorKind, OneshotWatcher, Version};

use super::name::split;
use super::retry::{ensure_containers, is_not_found, retry_transient};
use super::write_marker::WriteMarker;

/// The longest wait before another attempt at a number that others change too.
const CONTENTION_WAIT_MAX: Duration = Duration::from_millis(50);

/// A number and the version of the znode that holds it. Exhaustive: a program may keep both and
/// construct it again for [`SharedCount::try_set`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Versioned<T> {
    /// The number.
    pub value: T,
    /// How often it was written since the znode was created.
    pub version: i32,
}

/// A 32-bit number that is read often and written seldom: Curator's `SharedCount`, and kazoo's
/// `Counter` with `support_curator`. The znode holds it big-endian. Its writes have helper znodes, as
/// those of a [`Counter`] do.
///
/// ```
/// # zoolet_doctest::with_client(async |client| {
/// use zoolet_client::recipes::SharedCount;
///
/// let permits = SharedCount::new(&client, "/permits", 4);
/// let now = permits.get().await?;
/// assert_eq!(now.value, 4);
/// assert!(permits.try_set(now, 5).await?);
/// assert!(!permits.try_set(now, 6).await?, "it was written since");
/// # Ok(())
/// # }).unwrap();
/// ```
#[derive(Clone, Debug)]
pub struct SharedCount {
    client: Client,
    path: String,
    seed: i32,
    marker: Arc<WriteMarker>,
}

impl SharedCount {
    /// The number at this path; `seed` is its first value if there is none yet.
    pub fn new(client: &Client, path: &str, seed: i32) -> Self {
        let marker = Arc::new(WriteMarker::new(client, path));
        Self { client: client.clone(), path: path.to_owned(), seed, marker }
    }

    /// The number, as the server at hand knows it: one that another client has just written may be
    /// missing.
    pub async fn get(&self) -> Result<Versioned<i32>, Error> {
        loop {
            match retry_transient(&self.client, || self.client.get(&self.path)).await {
                Ok((data, stat)) => return decode_i32(&self.path, &data, &stat),
                Err(error) if is_not_found(&error) => self.create().await?,
                Err(error) => return Err(error),
            }
        }
    }

    /// The number, and a watch that fires when it changes.
    pub async fn get_watched(&self) -> Result<(Versioned<i32>, OneshotWatcher), Error> {
        loop {
            match retry_transient(&self.client, || self.client.get_watched(&self.path)).await {
                Ok((data, stat, watch)) => {
                    return Ok((decode_i32(&self.path, &data, &stat)?, watch));
                }
                Err(error) if is_not_found(&error) => self.create().await?,
                Err(error) => return Err(error),
            }
        }
    }

    /// Writes the number whatever it is, once: a lost reply does not undo what somebody has written
    /// since.
    pub async fn set(&self, value: i32) -> Result<(), Error> {
        set_marked(&self.marker, &self.path, &value.to_be_bytes(), || self.create()).await
    }

    /// Writes the number if it was not written since `previous` was read. Returns whether it
    /// was written.
    pub async fn try_set(&self, previous: Versioned<i32>, value: i32) -> Result<bool, Error> {
        if previous.version == -1 {
            return Err(nameless_version(&self.path));
        }
        let bytes = value.to_be_bytes();
        let write = self.marker.commit(|transaction| {
            transaction.set_data(&self.path, &bytes, Version::Exactly(previous.version))
        });
        match write.await {
            Ok(()) => Ok(true),
            Err(error) => lost_race(error).map(|()| false),
        }
    }

    async fn create(&self) -> Result<(), Error> {
        create_node(&self.client, &self.path, &self.seed.to_be_bytes()).await
    }
}

/// A 64-bit number that many clients add to: Curator's `DistributedAtomicLong`. The znode holds it
/// big-endian; a znode that does not exist, or is empty, counts as zero.
///
/// An addition happens once, lost replies notwithstanding. Who drops the future of one may have
/// added or not. That takes a helper znode below `<path>-witness`, which the session creates. A
/// session that may not, because the parent of the path does not let it CREATE, writes without it:
/// then a lost reply is an error for which [`Error::may_have_happened`] is true, and nothing is
/// repeated.
///
/// ```
/// # zoolet_doctest::with_client(async |client| {
/// use zoolet_client::recipes::Counter;
///
/// let counter = Counter::new(&client, "/orders/count");
/// assert_eq!(counter.add(10).await?, 10);
/// assert_eq!(counter.increment().await?, 11);
/// assert!(counter.compare_and_set(11, 0).await?);
/// assert_eq!(counter.get().await?, 0);
/// # Ok(())
/// # }).unwrap();
/// ```
#[derive(Clone, Debug)]
pub struct Counter {
    client: Client,
    path: String,
    marker: Arc<WriteMarker>,
}

impl Counter {
    /// The number at this path.
    pub fn new(client: &Client, path: &str) -> Self {
        let marker = Arc::new(WriteMarker::new(client, path));
        Self { client: client.clone(), path: path.to_owned(), marker }
    }

    /// The number, as the server at hand knows it: one that another client has just written may be
    /// missing.
    pub async fn get(&self) -> Result<i64, Error> {
        self.read().await.map(|(value, _)| value)
    }

    /// Writes the number whatever it is, once: a lost reply does not undo what somebody has added
    /// since.
    pub async fn set(&self, value: i64) -> Result<(), Error> {
        let bytes = value.to_be_bytes();
        let create = || create_node(&self.client, &self.path, &bytes);
        set_marked(&self.marker, &self.path, &bytes, create).await
    }

    /// Writes the number if it is `expected`. Returns whether it was written.
    pub async fn compare_and_set(&self, expected: i64, value: i64) -> Result<bool, Error> {
        let mut attempt = 0;
        loop {
            let (mut current, mut version) = self.read().await?;
            if current != expected {
                // The server at hand may be behind: only one that is up to date knows.
                retry_transient(&self.client, || self.client.sync(&self.path)).await?;
                (current, version) = self.read().await?;
            }
            if current != expected {
                return Ok(false);
            }
            if self.replace(version, value).await? {
                return Ok(true);
            }
            contend(&mut attempt).await;
        }
    }

    /// Adds to the number, as often as it takes; returns the sum. It wraps at the ends of 64 bits.
    pub async fn add(&self, delta: i64) -> Result<i64, Error> {
        let mut attempt = 0;
        loop {
            let (current, version) = self.read().await?;
            let sum = current.wrapping_add(delta);
            if self.replace(version, sum).await? {
                if planted!("sum-is-read-again") {
                    return self.get().await;
                }
                return Ok(sum);
            }
            contend(&mut attempt).await;
        }
    }

    /// Adds one.
    pub async fn increment(&self) -> Result<i64, Error> {
        self.add(1).await
    }

    /// Takes one away.
    pub async fn decrement(&self) -> Result<i64, Error> {
        self.add(-1).await
    }

    /// The number and the version of its znode; `None` without one.
    async fn read(&self) -> Result<(i64, Option<i32>), Error> {
        match retry_transient(&self.client, || self.client.get(&self.path)).await {
            Ok((data, stat)) => Ok((decode_i64(&self.path, &data)?, Some(stat.version))),
            Err(error) if is_not_found(&error) => Ok((0, None)),
            Err(error) => Err(error),
        }
    }

    /// Writes the number if its znode still has this version; returns whether it had.
    async fn replace(&self, version: Option<i32>, value: i64) -> Result<bool, Error> {
        let bytes = value.to_be_bytes();
        let outcome = match version {
            Some(-1) => return Err(nameless_version(&self.path)),
            Some(version) => {
                let expected = if planted!("sums-are-written-over") {
                    Version::Any
                } else {
                    Version::Exactly(version)
                };
                let part = self
                    .marker
                    .commit(|transaction| transaction.set_data(&self.path, &bytes, expected));
                part.await
            }
            None => {
                if let Some(parent) = missing_parent(&self.path) {
                    ensure_containers(&self.client, parent).await?;
                }
                let part = self.marker.commit(|transaction| {
                    transaction.create(&self.path, &bytes, Acl::open(), CreateMode::Persistent)
                });
                part.await
            }
        };
        match outcome {
            Ok(()) => Ok(true),
            Err(error) => lost_race(error).map(|()| false),
        }
    }
}

/// Writes a znode once, without looking at what it holds; `create` creates it if it is missing.
async fn set_marked<F>(
    marker: &WriteMarker,
    path: &str,
    data: &[u8],
    create: impl Fn() -> F,
) -> Result<(), Error>
where
    F: Future<Output = Result<(), Error>>,
{
    loop {
        match marker.commit(|transaction| transaction.set_data(path, data, Version::Any)).await {
            Ok(()) => return Ok(()),
            Err(error) if is_not_found(&error) => create().await?,
            Err(error) => return Err(error),
        }
    }
}

/// Whether somebody else was first; every other error is one.
fn lost_race(error: Error) -> Result<(), Error> {
    match error.code() {
        Some(ErrorCode::BadVersion | ErrorCode::NodeExists | ErrorCode::NoNode) => Ok(()),
        _ => Err(error),
    }
}

/// Waits before another attempt, longer each time. The client's own pace spreads the contenders.
async fn contend(attempt: &mut u32) {
    let wait = Duration::from_millis(1 << (*attempt).min(6));
    *attempt = attempt.saturating_add(1);
    sleep(wait.min(CONTENTION_WAIT_MAX)).await;
}

/// The parent, if it is one that may not be there.
fn missing_parent(path: &str) -> Option<&str> {
    split(path).map(|(parent, _)| parent).filter(|parent| *parent != "/")
}

async fn create_node(client: &Client, path: &str, data: &[u8]) -> Result<(), Error> {
    if let Some(parent) = missing_parent(path) {
        ensure_containers(client, parent).await?;
    }
    match retry_transient(client, || client.create(path, data, CreateMode::Persistent)).await {
        Ok(_) => Ok(()),
        // Somebody else was first, or the parent was reaped: the caller looks again.
        Err(error) => lost_race(error),
    }
}

fn decode_i32(path: &str, data: &[u8], stat: &Stat) -> Result<Versioned<i32>, Error> {
    match data.try_into() {
        Ok(bytes) => Ok(Versioned { value: i32::from_be_bytes(bytes), version: stat.version }),
        Err(_) => Err(foreign_data(path, data, 4)),
    }
}

fn decode_i64(path: &str, data: &[u8]) -> Result<i64, Error> {
    if data.is_empty() {
        return Ok(0);
    }
    data.try_into().map(i64::from_be_bytes).map_err(|_| foreign_data(path, data, 8))
}

/// A request with version −1 would match every version. Servers of old come to it in 2³² writes;
/// zoolet and Apache ZooKeeper 3.9 skip it (CURATOR-688, ZOOKEEPER-4743).
fn nameless_version(path: &str) -> Error {
    ErrorKind::Protocol(format!("{path} has version -1, which a conditional write cannot name"))
        .into()
}

fn foreign_data(path: &str, data: &[u8], bytes: usize) -> Error {
    let length = data.len();
    ErrorKind::Protocol(format!("{path} holds {length} bytes, but a number has {bytes}")).into()
}
