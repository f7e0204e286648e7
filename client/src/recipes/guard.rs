//! What the holder of a lock has in hand.

use std::fmt;
use std::future::Future;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use zoolet_jute::{MultiResult, Stat};

use crate::{Client, Error, ErrorKind, Transaction, Version};

use super::queue_node::QueueNode;
use super::sentry::{Sentry, warn_of_loss};

/// A number that grows with every grant of a lock, over all clients, sessions and servers.
///
/// A resource that remembers the highest token it has seen and refuses lower ones is safe from a
/// holder that has lost its lock and does not know it yet. The token is the transaction that
/// created the lock's znode (its `czxid`), so tokens of different locks of an ensemble can be
/// compared too. It starts anew only if the ensemble's data is thrown away.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FencingToken(i64);

impl FencingToken {
    pub(crate) fn new(czxid: i64) -> Self {
        Self(czxid)
    }

    /// The number, for a database, a header or a file.
    pub const fn get(self) -> i64 {
        self.0
    }
}

impl fmt::Display for FencingToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// Why a lock is lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Loss {
    /// The session has ended, or may have: the client has received nothing for so long that the
    /// servers could give the lock away.
    Session,
    /// The lock's znode is gone: its holder has released it, or somebody has deleted it.
    Deleted,
}

/// The places that are held, and under which token.
#[derive(Debug)]
struct Hold {
    /// Begun with the first look, and shared by all of them. Dropped first: it must not take the
    /// clean-up of the place for a loss.
    sentry: OnceLock<Sentry>,
    queue_node: QueueNode,
    paths: Vec<String>,
    token: FencingToken,
}

impl Hold {
    fn sentry(&self) -> &Sentry {
        self.sentry.get_or_init(|| {
            let queue_node = &self.queue_node;
            Sentry::begin(
                queue_node.runtime(),
                queue_node.client(),
                self.paths.clone(),
                queue_node.czxid(),
            )
        })
    }

    async fn release(self) -> Result<bool, Error> {
        // The sentry lives on until the place is left: it wakes those who wait for the end.
        let Self { sentry, queue_node, paths, token: _ } = self;
        let was_logged = sentry.get().is_some_and(Sentry::settle);
        let client = queue_node.client().clone();
        let was_held = queue_node.leave().await?;
        if !was_held && !was_logged {
            warn_of_loss(&client, paths.first());
        }
        Ok(was_held)
    }
}

/// A lock that is held. Release it with [`release`](Self::release); a guard that is dropped is
/// released in the background, as soon as a server can be reached.
#[derive(Debug)]
#[must_use = "dropping a guard releases its lock"]
pub struct LockGuard {
    hold: Arc<Hold>,
}

impl LockGuard {
    pub(crate) fn new(queue_node: QueueNode) -> Self {
        let token = FencingToken(queue_node.czxid());
        Self::with_token(queue_node, token)
    }

    pub(crate) fn with_token(queue_node: QueueNode, token: FencingToken) -> Self {
        let paths = queue_node.paths();
        Self { hold: Arc::new(Hold { queue_node, paths, token, sentry: OnceLock::new() }) }
    }

    pub(crate) fn paths(&self) -> &[String] {
        &self.hold.paths
    }

    pub(crate) fn queue_node(&self) -> &QueueNode {
        &self.hold.queue_node
    }

    /// The fencing token of this grant. A resource that compares tokens is for one holder at a time:
    /// it would refuse one of several readers, or of several holders of a [`Semaphore`], whose token
    /// is lower than that of another who holds beside it.
    ///
    /// [`Semaphore`]: super::Semaphore
    pub fn token(&self) -> FencingToken {
        self.hold.token
    }

    /// The path of the lock's znode.
    pub fn path(&self) -> &str {
        self.hold.paths.first().map_or("", String::as_str)
    }

    /// The client whose session holds the lock.
    pub fn client(&self) -> &Client {
        self.hold.queue_node.client()
    }

    /// Another guard of the same hold: the lock is released with the last of them. This is how a
    /// lock is re-entered; to acquire it again would wait for oneself.
    pub fn reenter(&self) -> Self {
        Self { hold: Arc::clone(&self.hold) }
    }

    /// For how long no other client can have the lock, by this client's clock, unless its znode is
    /// deleted by hand. Zero when it may be lost.
    pub fn remaining(&self) -> Duration {
        self.client().remaining()
    }

    /// Waits until the lock is lost or may be. The future lives on its own, so that it can be
    /// raced against the work that the lock protects; it ends after a release too.
    ///
    /// The first call begins to watch the lock's znode, for as long as the lock is held; further
    /// ones, in the loop around a `select!`, ask the servers nothing.
    pub fn lost(&self) -> impl Future<Output = Loss> + Send + 'static + use<> {
        let (client, gone) = (self.client().clone(), self.hold.sentry().gone());
        async move {
            tokio::select! {
                biased;
                () = client.lost() => Loss::Session,
                () = gone => Loss::Deleted,
            }
        }
    }

    /// Waits until somebody [asks for the lock](super::Mutex::request_revocation), or until it is
    /// lost. The holder is not forced to give it back. One whose ACL does not let it read the
    /// lock's znode is not notified of requests.
    pub fn revocation(&self) -> impl Future<Output = ()> + Send + 'static + use<> {
        let (asked, lost) = (self.hold.sentry().asked(), self.lost());
        async move {
            tokio::select! {
                () = asked => {}
                _ = lost => {}
            }
        }
    }

    /// Begins a transaction that commits only while the lock is held: it checks the lock's znode
    /// first, and fails with [`ErrorKind::LockLost`] when that is gone.
    pub fn guarded(&self) -> Transaction<'_> {
        let checks =
            if planted!("guarded-checks-nothing") { &[] } else { self.hold.paths.as_slice() };
        self.client().transaction().while_held(checks)
    }

    /// Writes the data of a znode of this version if the lock is still held.
    pub async fn write(&self, path: &str, data: &[u8], version: Version) -> Result<Stat, Error> {
        write(self.guarded(), path, data, version).await
    }

    /// Releases the lock and waits until the servers have done so. Returns whether it was held
    /// until now; false means that it was lost before. Of several guards of one hold the last one
    /// releases it; the others answer true at once.
    pub async fn release(self) -> Result<bool, Error> {
        match Arc::into_inner(self.hold) {
            Some(hold) => hold.release().await,
            None => Ok(true),
        }
    }
}

/// Writes the data of a znode as the last part of a transaction.
pub(crate) async fn write(
    transaction: Transaction<'_>,
    path: &str,
    data: &[u8],
    version: Version,
) -> Result<Stat, Error> {
    let (_, mut results) = transaction.set_data(path, data, version).commit().await?;
    match results.pop() {
        Some(MultiResult::SetData(stat)) => Ok(stat),
        other => Err(ErrorKind::Protocol(format!("unexpected reply to a write: {other:?}")).into()),
    }
}
