//! A fair lock for many readers or one writer.

use std::future::Future;
use std::ops::Deref;
use std::time::Duration;

use crate::{Client, Error};

use super::guard::LockGuard;
use super::name::{Sequence, in_order, join};
use super::options::LockOptions;
use super::queue_node::{NodeNaming, QueueNode, QueueNodeSpec};
use super::queue_wait::{Turn, adopt_turns, take_turn, try_turn, turn};
use super::retry::{children_now, within};

const READ_BASE: &str = "__READ__";
const WRITE_BASE: &str = "__WRIT__";

/// A fair lock for many readers or one writer, in one queue, that excludes Curator's
/// `InterProcessReadWriteLock` on the same path.
///
/// A reader waits for the nearest writer in front of it, a writer for everything in front. A
/// writer may [read](WriteGuard::acquire_read) too, and [downgrade](WriteGuard::downgrade); a reader that
/// asks for the write lock waits for itself.
///
/// ```
/// # zoolet_doctest::with_client(async |client| {
/// use zoolet_client::recipes::ReadWriteLock;
///
/// let lock = ReadWriteLock::new(&client, "/locks/catalog");
/// let (one, other) = (lock.read().await?, lock.read().await?);
/// assert!(lock.try_write().await?.is_none(), "readers hold it");
/// one.release().await?;
/// other.release().await?;
/// let writer = lock.write().await?;
/// let reader = writer.downgrade().await?;
/// reader.release().await?;
/// # Ok(())
/// # }).unwrap();
/// ```
#[derive(Clone, Debug)]
pub struct ReadWriteLock {
    client: Client,
    path: String,
    options: LockOptions,
}

impl ReadWriteLock {
    /// A lock at this path, with the default options.
    pub fn new(client: &Client, path: &str) -> Self {
        Self::with_options(client, path, LockOptions::new())
    }

    /// A lock at this path. It has no bilingual form: kazoo's locks have other names for readers
    /// and writers both.
    pub fn with_options(client: &Client, path: &str, options: LockOptions) -> Self {
        Self { client: client.clone(), path: path.to_owned(), options }
    }

    /// Waits until the lock is held for reading. Who drops the future leaves the queue.
    ///
    /// Readers share the lock, so their tokens rise in the order of the queue and not of the
    /// grants: a resource compares the tokens of writers.
    pub async fn read(&self) -> Result<LockGuard, Error> {
        let data = self.options.bytes();
        let spec = self.spec(READ_BASE, &data);
        take_turn(&self.client, &spec, read_turn).await.map(LockGuard::new)
    }

    /// The same, for so long at most; `None` when that was not enough.
    pub fn read_timeout(
        &self,
        limit: Duration,
    ) -> impl Future<Output = Result<Option<LockGuard>, Error>> + Send {
        within(limit, self.read())
    }

    /// Takes the lock for reading if no writer has it or waits for it.
    pub async fn try_read(&self) -> Result<Option<LockGuard>, Error> {
        let queue = children_now(&self.client, &self.path).await?;
        if queue.iter().any(|name| write_number(name).is_some()) {
            return Ok(None);
        }
        let data = self.options.bytes();
        let spec = self.spec(READ_BASE, &data);
        Ok(try_turn(&self.client, &spec, read_turn).await?.map(LockGuard::new))
    }

    /// Waits until the lock is held for writing. Who drops the future leaves the queue.
    pub async fn write(&self) -> Result<WriteGuard, Error> {
        let data = self.options.bytes();
        let spec = self.spec(WRITE_BASE, &data);
        let queue_node = take_turn(&self.client, &spec, write_turn).await?;
        Ok(self.write_guard(queue_node))
    }

    /// The same, for so long at most; `None` when that was not enough.
    pub fn write_timeout(
        &self,
        limit: Duration,
    ) -> impl Future<Output = Result<Option<WriteGuard>, Error>> + Send {
        within(limit, self.write())
    }

    /// Takes the lock for writing if it is free.
    pub async fn try_write(&self) -> Result<Option<WriteGuard>, Error> {
        if !self.participants().await?.is_empty() {
            return Ok(None);
        }
        let data = self.options.bytes();
        let spec = self.spec(WRITE_BASE, &data);
        let queue_node = try_turn(&self.client, &spec, write_turn).await?;
        Ok(queue_node.map(|queue_node| self.write_guard(queue_node)))
    }

    /// Takes over what this session holds for reading; see [`Mutex::adopt`](super::Mutex::adopt).
    pub async fn adopt_readers(&self) -> Result<Vec<LockGuard>, Error> {
        let number = |name: &str| Sequence::after(READ_BASE, name);
        let places = adopt_turns(&self.client, &self.path, number, read_turn).await?;
        Ok(places.into_iter().map(LockGuard::new).collect())
    }

    /// Takes over what this session holds for writing; see [`Mutex::adopt`](super::Mutex::adopt).
    pub async fn adopt_writer(&self) -> Result<Option<WriteGuard>, Error> {
        let mut places = adopt_turns(&self.client, &self.path, write_number, write_turn).await?;
        Ok(places.pop().map(|queue_node| self.write_guard(queue_node)))
    }

    /// The paths of the znodes in the queue, the holders' first.
    pub async fn participants(&self) -> Result<Vec<String>, Error> {
        let names = in_order(children_now(&self.client, &self.path).await?, number);
        Ok(names.iter().map(|name| join(&self.path, name)).collect())
    }

    fn spec<'a>(&'a self, base: &'static str, data: &'a [u8]) -> QueueNodeSpec<'a> {
        let acl = &self.options.acl;
        QueueNodeSpec { dir: &self.path, naming: NodeNaming::Protected(base), data, acl, held: &[] }
    }

    fn write_guard(&self, queue_node: QueueNode) -> WriteGuard {
        WriteGuard { guard: LockGuard::new(queue_node), options: self.options.clone() }
    }
}

/// A lock that is held for writing. What every guard can do comes from [`LockGuard`].
#[derive(Debug)]
#[must_use = "dropping a guard releases its lock"]
pub struct WriteGuard {
    guard: LockGuard,
    options: LockOptions,
}

impl WriteGuard {
    /// Takes the read lock too, under the number of the write lock, as Curator does: no other comes
    /// between. Fails with [`ErrorKind::LockLost`](crate::ErrorKind::LockLost) if the write lock
    /// is lost. The guard has the writer's token.
    pub async fn acquire_read(&self) -> Result<LockGuard, Error> {
        let queue_node = self.guard.queue_node();
        let held = queue_node.paths();
        let data = self.options.bytes();
        let naming = match write_number(queue_node.name()) {
            Some(number) => NodeNaming::Numbered(READ_BASE, number),
            None => NodeNaming::Protected(READ_BASE),
        };
        let acl = &self.options.acl;
        let spec = QueueNodeSpec { dir: queue_node.dir(), naming, data: &data, acl, held: &held };
        let (read, _) = QueueNode::enter(queue_node.client(), &spec).await?;
        Ok(LockGuard::with_token(read, self.guard.token()))
    }

    /// Goes on as a reader: no writer comes between.
    pub async fn downgrade(self) -> Result<LockGuard, Error> {
        let read = self.acquire_read().await?;
        self.guard.release().await?;
        Ok(read)
    }

    /// Releases the lock; see [`LockGuard::release`].
    pub async fn release(self) -> Result<bool, Error> {
        self.guard.release().await
    }

    /// The guard in the form that all locks have, without the way back to a reader.
    pub fn into_guard(self) -> LockGuard {
        self.guard
    }
}

impl Deref for WriteGuard {
    type Target = LockGuard;

    fn deref(&self) -> &LockGuard {
        &self.guard
    }
}

fn number(name: &str) -> Option<Sequence> {
    Sequence::after(READ_BASE, name).or_else(|| write_number(name))
}

fn write_number(name: &str) -> Option<Sequence> {
    Sequence::after(WRITE_BASE, name)
}

fn read_turn(names: &[String], mine: &str) -> Turn {
    if planted!("readers-pass-writers") {
        return Turn::Mine;
    }
    turn(names, mine, number, write_number)
}

fn write_turn(names: &[String], mine: &str) -> Turn {
    turn(names, mine, number, number)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn readers_wait_for_the_nearest_writer_and_writers_for_all() {
        let queue = ["a-__WRIT__0000000001", "b-__READ__0000000002", "c-__WRIT__0000000003"];
        let mut queue: Vec<String> = queue.map(str::to_owned).into();
        queue.extend(["d-__READ__0000000004", "e-__READ__0000000005"].map(str::to_owned));
        let behind = |name: &str| Turn::Behind(name.to_owned());
        assert_eq!(write_turn(&queue, "a-__WRIT__0000000001"), Turn::Mine);
        assert_eq!(read_turn(&queue, "b-__READ__0000000002"), behind("a-__WRIT__0000000001"));
        assert_eq!(write_turn(&queue, "c-__WRIT__0000000003"), behind("b-__READ__0000000002"));
        assert_eq!(read_turn(&queue, "e-__READ__0000000005"), behind("c-__WRIT__0000000003"));
        queue.retain(|name| !name.contains(WRITE_BASE));
        assert_eq!(read_turn(&queue, "e-__READ__0000000005"), Turn::Mine);
        assert_eq!(read_turn(&queue, "a-__WRIT__0000000001"), Turn::Gone);
    }
}
