//! Waiting for a sign, and waiting for each other.

use std::future::pending;
use std::time::Duration;

use zoolet_jute::{Acl, CreateMode, ErrorCode, EventType};

use crate::{Client, Error, ErrorKind, Transaction, Version};

use super::local_address::local_address;
use super::name::join;
use super::queue_node::{NodeNaming, QueueNode, QueueNodeSpec};
use super::queue_wait::wait_deleted;
use super::retry::{
    back_off, children, children_now, delete_created, ensure_persistent, exists_now, is_not_found,
    retry_transient, within,
};

/// The znode that shows the members of a [`DoubleBarrier`] that all are there.
const READY: &str = "ready";

/// A barrier that holds all clients up while its znode exists: Curator's `DistributedBarrier`.
///
/// ```
/// # zoolet_doctest::with_client(async |client| {
/// use zoolet_client::recipes::Barrier;
///
/// let barrier = Barrier::new(&client, "/upgrade");
/// barrier.set().await?;
/// let waiting = tokio::spawn({
///     let barrier = barrier.clone();
///     async move { barrier.wait().await }
/// });
/// barrier.remove().await?;
/// waiting.await??;
/// # Ok(())
/// # }).unwrap();
/// ```
#[derive(Clone, Debug)]
pub struct Barrier {
    client: Client,
    path: String,
}

impl Barrier {
    /// The barrier at this path.
    pub fn new(client: &Client, path: &str) -> Self {
        Self { client: client.clone(), path: path.to_owned() }
    }

    /// Sets the barrier up; one that stands already stays.
    pub async fn set(&self) -> Result<(), Error> {
        ensure_persistent(&self.client, &self.path, local_address().as_bytes()).await
    }

    /// Takes the barrier away: the one that stands when this is called, and no later one.
    pub async fn remove(&self) -> Result<(), Error> {
        delete_created(&self.client, &self.path, None).await.map(drop)
    }

    /// Waits until the barrier is removed. Returns at once if none is set. A barrier that was set
    /// before this call counts, even if it was set through another server.
    pub async fn wait(&self) -> Result<(), Error> {
        retry_transient(&self.client, || self.client.sync(&self.path)).await?;
        wait_deleted(&self.client, &self.path).await?;
        if planted!("open-barrier-holds-on") {
            pending::<()>().await;
        }
        Ok(())
    }

    /// The same, for `limit` at most; returns whether that was enough.
    pub async fn wait_timeout(&self, limit: Duration) -> Result<bool, Error> {
        Ok(within(limit, self.wait()).await?.is_some())
    }

    /// Returns whether the barrier is open now.
    pub async fn try_wait(&self) -> Result<bool, Error> {
        match exists_now(&self.client, &self.path).await {
            // It is there and may not be read.
            Err(error) if error.code() == Some(ErrorCode::NoAuth) => Ok(false),
            stat => Ok(stat?.is_none()),
        }
    }
}

/// How many bytes of checks one transaction has at most: servers take requests of 1 MiB by default
/// (`jute.maxbuffer`, protocol §1.3). The client's own limit can leave room for fewer.
const CHECKS_BYTES_MAX: usize = 512 * 1024;
/// What a check has beside its path: the header, a length, and a version.
const CHECK_BYTES: usize = 17;

/// A barrier that a number of members enter together and leave together: Curator's
/// `DistributedDoubleBarrier`.
///
/// ```
/// # zoolet_doctest::with_client(async |client| {
/// use zoolet_client::recipes::DoubleBarrier;
///
/// let barrier = DoubleBarrier::new(&client, "/computation", 2);
/// let (one, other) = tokio::try_join!(barrier.enter(), barrier.enter())?;
/// // Both have entered: the computation.
/// tokio::try_join!(one.leave(), other.leave())?;
/// # Ok(())
/// # }).unwrap();
/// ```
#[derive(Clone, Debug)]
pub struct DoubleBarrier {
    client: Client,
    path: String,
    members: usize,
}

impl DoubleBarrier {
    /// The barrier at this path, for a number of members. The transaction that tells them that all
    /// are there checks that they still are: the first ones, as many as have paths of 512 KiB
    /// together, which are some thousands, and as fit into a request of
    /// [`request_bytes_max`](crate::ClientOptions::request_bytes_max).
    pub fn new(client: &Client, path: &str, members: usize) -> Self {
        Self { client: client.clone(), path: path.to_owned(), members }
    }

    /// Enters, and waits until all members have. Who drops the future leaves; the others have counted
    /// it if they were complete before it had left.
    pub async fn enter(&self) -> Result<Entered, Error> {
        let ready = self.ready();
        let (queue_node, mut listed) = self.take_place().await?;
        loop {
            let (stat, watch) =
                retry_transient(&self.client, || self.client.exists_watched(&ready)).await?;
            if stat.is_some() || self.complete(listed.take()).await? {
                return Ok(Entered { queue_node });
            }
            match watch.changed().await {
                // A slow leaver of the round before may have deleted it since.
                Ok(event) if event.event_type == EventType::NodeCreated => {
                    return Ok(Entered { queue_node });
                }
                Err(error) if *error.kind() != ErrorKind::WatchEnded => return Err(error),
                Ok(_) | Err(_) => {}
            }
        }
    }

    /// The same, for so long at most; `None` when that was not enough.
    pub async fn enter_timeout(&self, limit: Duration) -> Result<Option<Entered>, Error> {
        within(limit, self.enter()).await
    }

    /// Enters if no other member has to be waited for: it is the last one, or the others are
    /// inside. That others are missing costs reads and no write, unless they leave at that moment.
    /// Members who all try, and do not wait, do not come together.
    pub async fn try_enter(&self) -> Result<Option<Entered>, Error> {
        let names = children_now(&self.client, &self.path).await?;
        let is_ready = names.iter().any(|name| name == READY);
        if !is_ready && members_of(&names).count().saturating_add(1) < self.members {
            return Ok(None);
        }
        let ready = self.ready();
        let (queue_node, listed) = self.take_place().await?;
        if self.complete(listed).await? || exists_now(&self.client, &ready).await?.is_some() {
            return Ok(Some(Entered { queue_node }));
        }
        queue_node.leave().await?;
        // The others may have counted it while it was there: then it is one of them.
        if exists_now(&self.client, &ready).await?.is_none() {
            return Ok(None);
        }
        let (queue_node, _) = self.take_place().await?;
        Ok(Some(Entered { queue_node }))
    }

    /// Takes over the place of a member that this session has inside; `None` if it has none there.
    /// See [`Mutex::adopt`](super::Mutex::adopt).
    pub async fn adopt(&self) -> Result<Option<Entered>, Error> {
        let mut places = QueueNode::adopt(&self.client, &self.path, |name| name != READY).await?;
        let is_inside = exists_now(&self.client, &self.ready()).await?.is_some();
        let inside = places.pop().filter(|_| is_inside);
        // What is dropped leaves: an entry that was not complete, for which no caller waits any more.
        Ok(inside.map(|queue_node| Entered { queue_node }))
    }

    fn ready(&self) -> String {
        join(&self.path, READY)
    }

    async fn take_place(&self) -> Result<(QueueNode, Option<Vec<String>>), Error> {
        let address = local_address();
        let spec = QueueNodeSpec {
            dir: &self.path,
            naming: NodeNaming::Plain,
            data: address.as_bytes(),
            acl: &Acl::open(),
            held: &[],
        };
        QueueNode::enter(&self.client, &spec).await
    }

    /// If as many are there as have to be, notifies them, and returns true. Looks at a list that came
    /// with one's own entry, or at a new one.
    async fn complete(&self, mut listed: Option<Vec<String>>) -> Result<bool, Error> {
        let mut tries = 0;
        loop {
            let names = match listed.take() {
                Some(names) => names,
                None => children(&self.client, &self.path).await?,
            };
            let counted: Vec<&str> = members_of(&names).take(self.members).collect();
            if counted.len() + usize::from(planted!("barrier-opens-for-one-less")) < self.members {
                return Ok(false);
            }
            match self.make_ready(&counted).await {
                Ok(()) => return Ok(true),
                Err(error) if error.code() == Some(ErrorCode::NodeExists) => return Ok(true),
                // One of them has left since.
                Err(error) if is_not_found(&error) => {}
                Err(error) if error.is_transient() => {
                    back_off(&self.client, &error, &mut tries).await;
                }
                Err(error) => return Err(error),
            }
        }
    }

    /// Creates `ready`, unless one of those who were counted has left.
    async fn make_ready(&self, counted: &[&str]) -> Result<(), Error> {
        let create_bytes = self.create_ready(self.client.transaction()).request_bytes();
        let room = self.client.request_bytes_max().saturating_sub(create_bytes);
        let mut left = room.min(CHECKS_BYTES_MAX);
        let mut transaction = self.client.transaction();
        for path in counted.iter().map(|name| join(&self.path, name)) {
            match left.checked_sub(self.client.path(&path).len() + CHECK_BYTES) {
                Some(rest) => left = rest,
                None => break,
            }
            transaction = transaction.check(&path, Version::Any);
        }
        match self.create_ready(transaction).commit().await {
            // Others may have ACLs of their own, by which not everyone can check them.
            Err(error) if error.code() == Some(ErrorCode::NoAuth) => {
                self.create_ready(self.client.transaction()).commit().await.map(drop)
            }
            committed => committed.map(drop),
        }
    }

    fn create_ready<'a>(&self, transaction: Transaction<'a>) -> Transaction<'a> {
        let (data, mode) = (local_address(), CreateMode::Persistent);
        transaction.create(&self.ready(), data.as_bytes(), Acl::open(), mode)
    }
}

/// A member that has entered a [`DoubleBarrier`]. Dropping it leaves without waiting for others.
#[derive(Debug)]
#[must_use = "dropping a member leaves the barrier without waiting for the others"]
pub struct Entered {
    queue_node: QueueNode,
}

impl Entered {
    /// Leaves, and waits until all members have.
    ///
    /// Those who are inside now are waited for, and none that enters afterwards: the fast members
    /// of a barrier that is used again are in the next round while the slow ones still leave.
    pub async fn leave(self) -> Result<(), Error> {
        let client = self.queue_node.client().clone();
        let dir = self.queue_node.dir().to_owned();
        let mine = self.queue_node.name().to_owned();
        let sign = Sign::seen(&client, &dir).await?;
        let mut round = members(&client, &dir).await?;
        // The member with the lowest name leaves last: the others wait for it, and it for them.
        while let (Some(first), Some(last)) = (round.first(), round.last())
            && *first == mine
            && *last != mine
        {
            wait_deleted(&client, &join(&dir, last)).await?;
            keep_inside(&client, &dir, &mut round).await?;
        }
        self.queue_node.leave().await?;
        round.retain(|name| *name != mine);
        while let Some(first) = round.first().filter(|_| !planted!("leaver-waits-for-none")) {
            wait_deleted(&client, &join(&dir, first)).await?;
            keep_inside(&client, &dir, &mut round).await?;
        }
        sign.remove(&client).await
    }

    /// The same, waiting for `limit` at most; returns whether all have left. Who has waited in vain
    /// leaves in the background. While others of this round are inside, it does not enter the next
    /// one: the sign that all are there still stands.
    pub async fn leave_timeout(self, limit: Duration) -> Result<bool, Error> {
        Ok(within(limit, self.leave()).await?.is_some())
    }

    /// Leaves without waiting for others, and returns whether all have left; if not, see
    /// [`leave_timeout`](Self::leave_timeout).
    pub async fn try_leave(self) -> Result<bool, Error> {
        let (client, dir) = (self.queue_node.client().clone(), self.queue_node.dir().to_owned());
        let sign = Sign::seen(&client, &dir).await?;
        let mut round = members(&client, &dir).await?;
        let mine = self.queue_node.name().to_owned();
        self.queue_node.leave().await?;
        round.retain(|name| *name != mine);
        keep_inside(&client, &dir, &mut round).await?;
        if !round.is_empty() {
            return Ok(false);
        }
        sign.remove(&client).await?;
        Ok(true)
    }
}

/// The `ready` that stands when a member begins to leave; a later one is of another round.
struct Sign {
    path: String,
    czxid: Option<i64>,
}

impl Sign {
    async fn seen(client: &Client, dir: &str) -> Result<Self, Error> {
        let path = join(dir, READY);
        let czxid = exists_now(client, &path).await?.map(|stat| stat.czxid.0);
        Ok(Self { path, czxid })
    }

    async fn remove(self, client: &Client) -> Result<(), Error> {
        match self.czxid {
            Some(_) => delete_created(client, &self.path, self.czxid).await.map(drop),
            None => Ok(()),
        }
    }
}

/// The members that a list of znodes shows.
fn members_of(names: &[String]) -> impl Iterator<Item = &str> {
    names.iter().map(String::as_str).filter(|name| *name != READY)
}

/// Strikes those off the list who have left.
async fn keep_inside(client: &Client, dir: &str, round: &mut Vec<String>) -> Result<(), Error> {
    let inside = members(client, dir).await?;
    round.retain(|name| inside.contains(name));
    Ok(())
}

/// The names of those who are inside, in order.
async fn members(client: &Client, dir: &str) -> Result<Vec<String>, Error> {
    let mut names = children_now(client, dir).await?;
    names.retain(|name| name != READY);
    names.sort();
    Ok(names)
}
