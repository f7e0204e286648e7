//! The oldest form of a lock: one ephemeral znode.

use std::time::Duration;

use zoolet_jute::Acl;

use crate::{Client, Error};

use super::guard::LockGuard;
use super::queue_node::QueueNode;
use super::queue_wait::wait_changed;
use super::retry::within;

/// A lock that is one ephemeral znode: the client that creates it holds the lock. It excludes all
/// clients that do the same on this path.
///
/// It is not fair, and all waiters are woken by a release: [`Mutex`](super::Mutex) is better when
/// more than a few contend. The znode's data is a random id and the label. Since its name is the
/// same for every holder, [`LockGuard::guarded`] cannot tell it from another holder's znode when
/// somebody has deleted it by hand; the end of the session it can.
///
/// ```
/// # zoolet_doctest::with_client(async |client| {
/// use zoolet_client::recipes::SimpleLock;
///
/// let lock = SimpleLock::new(&client, "/maintenance").label("nightly backup");
/// let Some(guard) = lock.try_acquire().await? else { return Ok(()) };
/// assert!(lock.try_acquire().await?.is_none(), "one holder at a time");
/// guard.release().await?;
/// # Ok(())
/// # }).unwrap();
/// ```
#[derive(Clone, Debug)]
pub struct SimpleLock {
    client: Client,
    path: String,
    label: Vec<u8>,
    acl: Vec<Acl>,
}

impl SimpleLock {
    /// A lock whose znode is this path.
    pub fn new(client: &Client, path: &str) -> Self {
        Self { client: client.clone(), path: path.to_owned(), label: Vec::new(), acl: Acl::open() }
    }

    /// Follows the random id in the data, and shows people who holds the lock.
    pub fn label(mut self, label: impl Into<Vec<u8>>) -> Self {
        self.label = label.into();
        self
    }

    /// The ACL of the znode. It has to let this session read it: a release looks whose znode it is.
    pub fn acl(mut self, acl: Vec<Acl>) -> Self {
        self.acl = acl;
        self
    }

    /// Waits until the lock is held. Who drops the future leaves nothing behind.
    pub async fn acquire(&self) -> Result<LockGuard, Error> {
        loop {
            if let Some(guard) = self.try_acquire().await? {
                return Ok(guard);
            }
            wait_changed(&self.client, &self.path).await?;
        }
    }

    /// The same, for so long at most; `None` when that was not enough.
    pub async fn acquire_timeout(&self, limit: Duration) -> Result<Option<LockGuard>, Error> {
        within(limit, self.acquire()).await
    }

    /// Takes the lock if it is free.
    pub async fn try_acquire(&self) -> Result<Option<LockGuard>, Error> {
        let queue_node =
            QueueNode::try_create(&self.client, &self.path, &self.label, &self.acl).await?;
        Ok(queue_node.map(LockGuard::new))
    }

    /// Takes over the lock if this session holds it; see [`Mutex::adopt`](super::Mutex::adopt).
    pub async fn adopt(&self) -> Result<Option<LockGuard>, Error> {
        Ok(QueueNode::adopt_fixed(&self.client, &self.path).await?.map(LockGuard::new))
    }
}
