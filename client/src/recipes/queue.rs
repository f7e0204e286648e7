//! A queue of items that persist.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use tokio::sync::Mutex;
use tracing::debug;
use zoolet_jute::{Acl, CreateMode, Stat, Zxid};

use crate::{Client, Error, ErrorKind};

use super::name::{Sequence, join, split};
use super::queue_format::{Item, QueueFormat};
use super::retry::{ensure_persistent, exists_now, fired, insist, is_no_node, within};
use super::witness::Witness;

/// A queue of items that persist until somebody takes them, in the form of another client's queue.
///
/// An item is put once and taken once, lost replies notwithstanding. A take whose future is
/// dropped loses nothing: what it had taken already is answered by the next take of this handle or
/// of a clone. Items that a handle has taken and not answered are lost with the last clone of it,
/// and may be lost with its session: of items that another client has put into one znode all but
/// the first wait in the handle, so keep it, and take until nothing is left.
///
/// Puts and takes have helper znodes below `<path>-witness`, which the session creates. A session
/// that may not, because the parent of the path does not let it CREATE, does without: then a put or
/// a take whose reply is lost is an error for which [`Error::may_have_happened`] is true, an item of
/// which may be in the queue, or out of it and lost.
///
/// The znode of the queue stays when the queue is empty. Curator makes it a container: where those
/// are reaped, items get names that others had before, and a take that stood still meanwhile may
/// take such an item out of turn or answer the former one's data. Create it yourself, persistent,
/// for a queue that Curator shares.
#[derive(Clone, Debug)]
pub struct Queue {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    client: Client,
    path: String,
    format: QueueFormat,
    witness: Witness,
    /// Invariant: a caller that takes a znode holds the lock until its items are in here.
    taken: Arc<Mutex<Taken>>,
}

/// What a handle knows of the queue's head.
#[derive(Debug, Default)]
struct Taken {
    /// Items that are out of the queue and not yet with a caller.
    items: VecDeque<Bytes>,
    /// The znodes that were in the queue at the last look, without those that were taken since. A
    /// new one has a higher number than all of these, so in a queue without priorities it comes
    /// behind them.
    listed: VecDeque<Item>,
    /// Whether something was put since, if that can come in front.
    created: Option<Created>,
}

/// What changes when a child is created below a znode, and not when one is deleted: which znode it
/// is, and its changes of children and their number together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Created(Zxid, i32);

impl Created {
    fn of(stat: &Stat) -> Self {
        Self(stat.czxid, stat.cversion.wrapping_add(stat.num_children))
    }
}

impl Queue {
    /// A queue at this path in the form of Curator's `SimpleDistributedQueue` and of the Java
    /// recipe: [`QueueFormat::Simple`].
    pub fn new(client: &Client, path: &str) -> Self {
        Self::with_format(client, path, QueueFormat::Simple)
    }

    /// A queue at this path in this form.
    pub fn with_format(client: &Client, path: &str, format: QueueFormat) -> Self {
        let witness = Witness::new(client, path);
        let (client, path) = (client.clone(), path.to_owned());
        let taken = Arc::default();
        Self { shared: Arc::new(Shared { client, path, format, witness, taken }) }
    }

    /// Puts an item at the end. Who drops the future may have put it or not.
    pub async fn put(&self, item: &[u8]) -> Result<(), Error> {
        self.put_prioritized(item, None).await
    }

    /// Puts an item behind those of the same priority; lower numbers are taken first. Items that
    /// are put without one have the form's own: [`QueueFormat`].
    pub async fn put_with_priority(&self, item: &[u8], priority: i32) -> Result<(), Error> {
        self.put_prioritized(item, Some(priority)).await
    }

    async fn put_prioritized(&self, item: &[u8], priority: Option<i32>) -> Result<(), Error> {
        let shared = &self.shared;
        let name = shared.format.name(priority).ok_or_else(|| {
            let why = format!("the form {:?} has no priority {priority:?}", shared.format);
            Error::from(ErrorKind::Protocol(why))
        })?;
        let (path, data) = (join(&shared.path, &name), shared.format.encode(item));
        loop {
            let mode = CreateMode::PersistentSequential;
            let put = shared
                .witness
                .commit(|transaction| transaction.create(&path, &data, Acl::open(), mode));
            match put.await {
                // At the root of a chroot, that is what is missing, and nobody creates it.
                Err(error) if is_no_node(&error) && split(&shared.path).is_some() => {
                    // A container would go when the queue is empty, and its numbers start anew: a
                    // slow take would mean one item by a name and get another.
                    ensure_persistent(&shared.client, &shared.path, b"").await?;
                }
                other => return other,
            }
        }
    }

    /// Takes the first item; waits until there is one.
    pub async fn take(&self) -> Result<Bytes, Error> {
        loop {
            if let Some(item) = self.try_take().await? {
                return Ok(item);
            }
            let shared = &self.shared;
            let watched =
                insist(&shared.client, || shared.client.children_watched(&shared.path)).await;
            match watched {
                Ok((names, _, watch)) => {
                    // What has come before the watch. What stays in the queue then is no item.
                    if names.iter().any(|name| shared.format.order(name).is_some())
                        && let Some(item) = self.try_take().await?
                    {
                        return Ok(item);
                    }
                    fired(watch).await?;
                }
                Err(error) if is_no_node(&error) => {
                    let exists =
                        insist(&shared.client, || shared.client.exists_watched(&shared.path))
                            .await?;
                    if let (None, watch) = exists {
                        fired(watch).await?;
                    }
                }
                Err(error) => return Err(error),
            }
        }
    }

    /// The same, for so long at most; `None` when that was not enough.
    pub async fn take_timeout(&self, limit: Duration) -> Result<Option<Bytes>, Error> {
        within(limit, self.take()).await
    }

    /// Takes the first item if there is one.
    pub async fn try_take(&self) -> Result<Option<Bytes>, Error> {
        let mut taken = Arc::clone(&self.shared.taken).lock_owned().await;
        if let Some(item) = taken.items.pop_front() {
            return Ok(Some(item));
        }
        // In a task of its own: once an item is out of the queue it has to reach the buffer, even
        // when nobody waits any more. The task has the lock, so that there is one at a time.
        let shared = Arc::clone(&self.shared);
        let refilling =
            tokio::spawn(async move { shared.refill(&mut taken).await.map(|()| taken) });
        match refilling.await {
            Ok(refilled) => Ok(refilled?.items.pop_front()),
            Err(ended) => Err(ErrorKind::Protocol(format!("the take was ended: {ended}")).into()),
        }
    }

    /// The data of the first item, if there is one. It stays in the queue.
    pub async fn peek(&self) -> Result<Option<Bytes>, Error> {
        let shared = &self.shared;
        for item in shared.items().await? {
            let path = join(&shared.path, &item.name);
            match insist(&shared.client, || shared.client.get(&path)).await {
                Ok((data, _)) => {
                    let first = shared.format.decode(data).and_then(|mut items| items.pop_front());
                    if first.is_some() {
                        return Ok(first);
                    }
                }
                Err(error) if is_no_node(&error) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(None)
    }

    /// How many znodes of items there are. Curator may put several items into one.
    pub async fn len(&self) -> Result<usize, Error> {
        self.shared.items().await.map(|items| items.len())
    }

    /// Whether there is no item.
    pub async fn is_empty(&self) -> Result<bool, Error> {
        Ok(self.len().await? == 0)
    }
}

impl Shared {
    /// The items in the order in which they are taken.
    async fn items(&self) -> Result<VecDeque<Item>, Error> {
        Ok(self.list().await?.0)
    }

    /// The same, as of now, and what tells whether others were put since.
    async fn list(&self) -> Result<(VecDeque<Item>, Option<Created>), Error> {
        let (client, path) = (&self.client, self.path.as_str());
        let listed = insist(client, || async {
            let (synced, listed) = tokio::join!(biased; client.sync(path), client.children(path));
            synced?;
            listed
        });
        let (names, stat) = match listed.await {
            Ok(listed) => listed,
            Err(error) if is_no_node(&error) => return Ok((VecDeque::new(), None)),
            Err(error) => return Err(error),
        };
        let mut items: Vec<Item> =
            names.into_iter().filter_map(|name| self.format.order_owned(name)).collect();
        let origin = items.first().map(|item| item.number);
        items.sort_by(|one, other| {
            let number = |item: &Item| origin.map(|origin| Sequence::offset(item.number, origin));
            (&one.group, number(one)).cmp(&(&other.group, number(other)))
        });
        Ok((items.into(), Some(Created::of(&stat))))
    }

    /// Whether the first znode of a list is still that of the queue, if it is there at all.
    async fn is_current(&self, taken: &Taken) -> Result<bool, Error> {
        let (false, Some(then)) = (taken.listed.is_empty(), taken.created) else {
            return Ok(false);
        };
        let now = exists_now(&self.client, &self.path).await?.as_ref().map(Created::of);
        Ok(if self.format.has_priorities() {
            now == Some(then)
        } else {
            // Another znode of this name has other numbers.
            now.is_some_and(|now| now.0 == then.0)
        })
    }

    /// Takes the first znode of the queue into the buffer.
    async fn refill(&self, taken: &mut Taken) -> Result<(), Error> {
        if self.is_current(taken).await? && self.take_listed(taken).await? {
            return Ok(());
        }
        (taken.listed, taken.created) = self.list().await?;
        self.take_listed(taken).await.map(drop)
    }

    /// Takes the first znode of the list that is still there; false if none is.
    async fn take_listed(&self, taken: &mut Taken) -> Result<bool, Error> {
        // A failure leaves no list, so that the next take looks anew.
        let mut listed = std::mem::take(&mut taken.listed);
        while let Some(item) = listed.pop_front() {
            let path = join(&self.path, &item.name);
            let (data, stat) = match insist(&self.client, || self.client.get(&path)).await {
                Ok(found) => found,
                Err(error) if is_no_node(&error) => continue,
                Err(error) => return Err(error),
            };
            let Some(items) = self.format.decode(data) else {
                debug!(path, "a znode that is no item stays in the queue");
                continue;
            };
            let deleted =
                self.witness.commit(|transaction| transaction.delete(&path, stat.version));
            match deleted.await {
                Ok(()) => {
                    taken.items.extend(items);
                    if !taken.items.is_empty() {
                        taken.listed = listed;
                        return Ok(true);
                    }
                }
                // Somebody else has it.
                Err(error) if is_no_node(&error) && planted!("items-are-taken-twice") => {
                    taken.items.extend(items);
                    return Ok(true);
                }
                Err(error) if is_no_node(&error) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(false)
    }
}
