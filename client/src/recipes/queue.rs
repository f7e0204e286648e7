//! A queue of items that persist.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use tokio::sync::OnceCell;
use zoolet_jute::{Acl, CreateMode};

use crate::{Client, Error, ErrorKind};

use super::name::{Sequence, join, split};
use super::queue_format::{Item, QueueFormat};
use super::queue_takes::{Created, Takes};
use super::retry::{ensure_persistent, is_not_found, retry_transient, within};
use super::write_marker::WriteMarker;

/// A queue of items that persist until somebody takes them, in the form of another client's queue.
///
/// An item is put once and taken once, lost replies notwithstanding. Puts and takes that are asked for
/// together go on beside each other: the takes of a handle and its clones read the queue once, take as
/// many items as takes wait, and return them in the order of asking.
///
/// Puts through one handle are put in the order of asking while no reply is lost. When a connection
/// is lost, those that are under way (32 at most) are looked for and repeated each for itself: they
/// may come in another order, and behind some that were asked for later. A put is always behind those
/// that were answered before it was asked for: await each where the order matters.
///
/// A take whose future is
/// dropped loses nothing: what it had taken already is answered by the next take of this handle or
/// of a clone. Items that a handle has taken and not answered, up to 64 if that many takes are dropped
/// together, are lost with the last clone of it, and may be lost with its session: of items that another client has put into one znode all but
/// the first wait in the handle, so keep it, and take until nothing is left.
///
/// Puts and takes have helper znodes below `<path>-witness`, which the session creates. A session
/// that may not, because the parent of the path does not let it CREATE, does without: then a put or
/// a take whose reply is lost is an error for which [`Error::may_have_happened`] is true, an item of
/// which may be in the queue, or out of it and lost.
///
/// The znode of the queue stays when the queue is empty. Curator makes it a container: where those
/// are reaped, items get names that others had before, and a take that stood still meanwhile may
/// take such an item out of turn or return the former one's data. Create it yourself, persistent,
/// for a queue that Curator shares.
///
/// ```
/// # zoolet_doctest::with_client(async |client| {
/// use zoolet_client::recipes::Queue;
///
/// let queue = Queue::new(&client, "/jobs");
/// queue.put(b"first").await?;
/// queue.put(b"second").await?;
/// assert_eq!(queue.take().await?.as_ref(), b"first");
/// assert_eq!(queue.take().await?.as_ref(), b"second");
/// assert!(queue.try_take().await?.is_none());
/// # Ok(())
/// # }).unwrap();
/// ```
#[derive(Clone, Debug)]
pub struct Queue {
    shared: Arc<Shared>,
}

/// What a handle and its clones share.
#[derive(Debug)]
pub(super) struct Shared {
    pub(super) client: Client,
    pub(super) path: String,
    pub(super) format: QueueFormat,
    pub(super) marker: WriteMarker,
    pub(super) takes: Takes,
    /// Set when the znode of the queue was seen by a put. The first puts wait for it: one that found
    /// no queue would be repeated behind others.
    is_there: OnceCell<()>,
}

impl Queue {
    /// A queue at this path in the form of Curator's `SimpleDistributedQueue` and of the Java
    /// recipe: [`QueueFormat::Simple`].
    pub fn new(client: &Client, path: &str) -> Self {
        Self::with_format(client, path, QueueFormat::Simple)
    }

    /// A queue at this path in this form.
    pub fn with_format(client: &Client, path: &str, format: QueueFormat) -> Self {
        let marker = WriteMarker::new(client, path);
        let (client, path) = (client.clone(), path.to_owned());
        let (takes, is_there) = (Takes::default(), OnceCell::new());
        Self { shared: Arc::new(Shared { client, path, format, marker, takes, is_there }) }
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
            let why = format!(
                "the format {:?} does not support the priority {priority:?}",
                shared.format
            );
            Error::from(ErrorKind::Protocol(why))
        })?;
        let (path, data) = (join(&shared.path, &name), shared.format.encode(item));
        shared.is_there.get_or_try_init(|| shared.ensure()).await?;
        loop {
            let mode = CreateMode::PersistentSequential;
            let put = async {
                if planted!("lost-puts-are-repeated") {
                    let put = || {
                        let transaction = shared.client.transaction();
                        transaction.create(&path, &data, Acl::open(), mode).commit()
                    };
                    return retry_transient(&shared.client, put).await.map(drop);
                }
                let marker = &shared.marker;
                marker
                    .commit(|transaction| transaction.create(&path, &data, Acl::open(), mode))
                    .await
            };
            match put.await {
                // At the root of a chroot, that is what is missing, and it is not created.
                Err(error) if is_not_found(&error) && split(&shared.path).is_some() => {
                    shared.ensure().await?;
                }
                other => return other,
            }
        }
    }

    /// Takes the first item; waits until there is one.
    pub async fn take(&self) -> Result<Bytes, Error> {
        self.shared.take().await
    }

    /// The same, for so long at most; `None` when that was not enough.
    pub async fn take_timeout(&self, limit: Duration) -> Result<Option<Bytes>, Error> {
        within(limit, self.take()).await
    }

    /// Takes the first item if there is one.
    pub async fn try_take(&self) -> Result<Option<Bytes>, Error> {
        self.shared.try_take().await
    }

    /// The data of the first item, if there is one. It stays in the queue.
    pub async fn peek(&self) -> Result<Option<Bytes>, Error> {
        let shared = &self.shared;
        for item in shared.items().await? {
            let path = join(&shared.path, &item.name);
            match retry_transient(&shared.client, || shared.client.get(&path)).await {
                Ok((data, _)) => {
                    let first = shared.format.decode(data).and_then(|mut items| items.pop_front());
                    if first.is_some() {
                        return Ok(first);
                    }
                }
                Err(error) if is_not_found(&error) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(None)
    }

    /// How many znodes of items there are. Curator may put several items into one.
    pub async fn len(&self) -> Result<usize, Error> {
        self.shared.items().await.map(|items| items.len())
    }

    /// Whether the queue has no items.
    pub async fn is_empty(&self) -> Result<bool, Error> {
        Ok(self.len().await? == 0)
    }
}

impl Shared {
    /// Creates the znode of the queue if there is none; the root of a chroot is the caller's.
    async fn ensure(&self) -> Result<(), Error> {
        let (client, path) = (&self.client, &self.path);
        if split(path).is_none() || retry_transient(client, || client.exists(path)).await?.is_some()
        {
            return Ok(());
        }
        // A container would go when the queue is empty, and its numbers start anew: a slow take would
        // mean one item by a name and get another.
        ensure_persistent(client, path, b"").await
    }

    /// The items in the order in which they are taken.
    async fn items(&self) -> Result<VecDeque<Item>, Error> {
        Ok(self.list().await?.0)
    }

    /// The same, as of now, and what tells whether others were put since.
    pub(super) async fn list(&self) -> Result<(VecDeque<Item>, Option<Created>), Error> {
        let (client, path) = (&self.client, self.path.as_str());
        let listed = retry_transient(client, || async {
            let (synced, listed) = tokio::join!(biased; client.sync(path), client.children(path));
            synced?;
            listed
        });
        let (names, stat) = match listed.await {
            Ok(listed) => listed,
            Err(error) if is_not_found(&error) => return Ok((VecDeque::new(), None)),
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
}
