//! How the takes of one [`Queue`](super::Queue) go on together: one of them takes as many znodes as
//! takes wait, and one of those that find nothing watches for all.

use std::collections::VecDeque;
use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::task::Poll;

use bytes::Bytes;
use tokio::sync::{Mutex, watch};
use tracing::debug;
use zoolet_jute::{Stat, Zxid};

use crate::{Error, ErrorKind, Version};

use super::name::join;
use super::queue::Shared;
use super::queue_format::Item;
use super::retry::{exists_now, fired, is_not_found, retry_transient};

/// The most znodes that are taken together.
const TAKES_MAX: usize = 64;

/// The takes of a handle and its clones.
#[derive(Debug, Default)]
pub(super) struct Takes {
    /// How many were asked for.
    asked: AtomicU64,
    /// How many wait for an item, or for word that there is none.
    waiting: AtomicUsize,
    /// Invariant: a caller that takes znodes holds the lock until their items are in here.
    taken: Arc<Mutex<Taken>>,
    /// Held by the one that watches the queue.
    watching: Mutex<()>,
    /// Wakes those for which another one watches.
    woken: watch::Sender<()>,
}

/// What a handle knows of the queue's head.
#[derive(Debug, Default)]
struct Taken {
    /// Items that are out of the queue and not yet with a caller, and failures that leave open
    /// whether one is: each goes to one caller.
    items: VecDeque<Result<Bytes, Error>>,
    /// The znodes that were in the queue at the last look, without those that were taken since. A
    /// new one has a higher number than all of these, so in a queue without priorities it comes
    /// behind them.
    listed: VecDeque<Item>,
    /// Whether something was put since, if that can come in front.
    created: Option<Created>,
    /// How many takes were asked for when the last look began that found nothing: it was made for
    /// all of them.
    empty_for: u64,
}

/// What changes when a child is created below a znode, and not when one is deleted: which znode it
/// is, and its changes of children and their number together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Created(Zxid, i32);

impl Created {
    pub(super) fn of(stat: &Stat) -> Self {
        Self(stat.czxid, stat.cversion.wrapping_add(stat.num_children))
    }
}

/// Counts a take for as long as it waits.
struct Waits<'a>(&'a AtomicUsize);

impl<'a> Waits<'a> {
    fn begin(waiting: &'a AtomicUsize) -> Self {
        waiting.fetch_add(1, Ordering::Relaxed);
        Self(waiting)
    }
}

impl Drop for Waits<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Shared {
    /// Takes the first item; waits until there is one.
    pub(super) async fn take(self: &Arc<Self>) -> Result<Bytes, Error> {
        loop {
            // Before the look: what comes behind it wakes.
            let mut woken = self.takes.woken.subscribe();
            if let Some(item) = self.try_take().await? {
                return Ok(item);
            }
            tokio::select! {
                // The sender is this one's own.
                changed = woken.changed() => drop(changed),
                watched = self.watch() => {
                    if let Some(item) = watched? {
                        return Ok(item);
                    }
                }
            }
        }
    }

    /// Takes the first item if there is one.
    pub(super) async fn try_take(self: &Arc<Self>) -> Result<Option<Bytes>, Error> {
        let queue_node = self.takes.asked.fetch_add(1, Ordering::SeqCst);
        let _waits = Waits::begin(&self.takes.waiting);
        let mut taken = Arc::clone(&self.takes.taken).lock_owned().await;
        if let Some(item) = taken.items.pop_front() {
            return item.map(Some);
        }
        if queue_node < taken.empty_for {
            return Ok(None);
        }
        // In a task of its own: once items are out of the queue they have to reach the buffer, even
        // when no caller waits any more. The task has the lock, so that there is one at a time.
        let shared = Arc::clone(self);
        let refilling =
            tokio::spawn(async move { shared.refill(&mut taken).await.map(|()| taken) });
        match refilling.await {
            Ok(refilled) => refilled?.items.pop_front().transpose(),
            Err(ended) => Err(ErrorKind::Protocol(format!("the take was ended: {ended}")).into()),
        }
    }

    /// Waits until there may be an item, for all that wait; the first one to come watches. Returns
    /// an item that came before the watch.
    async fn watch(self: &Arc<Self>) -> Result<Option<Bytes>, Error> {
        let _watching = self.takes.watching.lock().await;
        let (client, path) = (&self.client, &self.path);
        match retry_transient(client, || client.children_watched(path)).await {
            Ok((names, _, watch)) => {
                // What has come before the watch. What stays in the queue then is not an item.
                if names.iter().any(|name| self.format.order(name).is_some())
                    && let Some(item) = self.try_take().await?
                {
                    self.takes.woken.send_replace(());
                    return Ok(Some(item));
                }
                fired(watch).await?;
            }
            Err(error) if is_not_found(&error) => {
                let exists = retry_transient(client, || client.exists_watched(path)).await?;
                if let (None, watch) = exists {
                    fired(watch).await?;
                }
            }
            Err(error) => return Err(error),
        }
        self.takes.woken.send_replace(());
        Ok(None)
    }

    /// Whether the first znode of a list is still that of the queue, if it is there at all.
    async fn is_current(&self, taken: &Taken) -> Result<bool, Error> {
        let (false, Some(then)) = (taken.listed.is_empty(), taken.created) else {
            return Ok(false);
        };
        let now = exists_now(&self.client, &self.path).await?.as_ref().map(Created::of);
        Ok(if self.format.has_priorities() && !planted!("later-items-come-behind") {
            now == Some(then)
        } else {
            // Another znode of this name has other numbers.
            now.is_some_and(|now| now.0 == then.0)
        })
    }

    /// Takes the first znodes of the queue into the buffer.
    async fn refill(&self, taken: &mut Taken) -> Result<(), Error> {
        if self.is_current(taken).await? && self.take_listed(taken).await? {
            return Ok(());
        }
        let asked = self.takes.asked.load(Ordering::SeqCst);
        (taken.listed, taken.created) = self.list().await?;
        if !self.take_listed(taken).await? {
            taken.empty_for = asked;
        }
        Ok(())
    }

    /// Takes the first znodes of the list that are still there, as many as takes wait; false if none
    /// is.
    async fn take_listed(&self, taken: &mut Taken) -> Result<bool, Error> {
        // A failure leaves no list, so that the next take looks anew.
        let mut listed = std::mem::take(&mut taken.listed);
        while !listed.is_empty() {
            let wanted = self.takes.waiting.load(Ordering::Relaxed).clamp(1, TAKES_MAX);
            let first: Vec<Item> = listed.drain(..wanted.min(listed.len())).collect();
            let mut failure = None;
            for outcome in self.take_together(&first).await? {
                match outcome {
                    Ok(items) => taken.items.extend(items.into_iter().map(Ok)),
                    // An item may be out of the queue, and lost.
                    Err(error) if error.may_have_happened() => taken.items.push_back(Err(error)),
                    Err(error) => failure = failure.or(Some(error)),
                }
            }
            if !taken.items.is_empty() {
                // What was taken goes first: the next take comes to the failure again.
                if failure.is_none() {
                    taken.listed = listed;
                }
                return Ok(true);
            }
            if let Some(error) = failure {
                return Err(error);
            }
        }
        Ok(false)
    }

    /// Takes znodes beside each other. Returns the items of each in their order, none for those that
    /// other clients have taken.
    async fn take_together(
        &self,
        first: &[Item],
    ) -> Result<Vec<Result<VecDeque<Bytes>, Error>>, Error> {
        // The calls are under way together.
        let reads = first.iter().map(|item| {
            let path = join(&self.path, &item.name);
            let read = self.client.get(&path);
            (path, read)
        });
        let reads: Vec<_> = reads.collect();
        let mut takes: Vec<Pin<Box<dyn Future<Output = _> + Send + '_>>> = Vec::new();
        for (path, read) in reads {
            let found = match read.await {
                Err(error) if error.is_transient() => {
                    retry_transient(&self.client, || self.client.get(&path)).await
                }
                found => found,
            };
            match found {
                Ok((data, stat)) => {
                    if let Some(items) = self.format.decode(data) {
                        takes.push(Box::pin(self.take_one(
                            path,
                            Version::Exactly(stat.version),
                            items,
                        )));
                    } else {
                        debug!(path, "a znode without an item stays in the queue");
                    }
                }
                Err(error) if is_not_found(&error) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(all(takes).await)
    }

    /// Deletes a znode of this version. Returns its items, none if another client has them.
    async fn take_one(
        &self,
        path: String,
        version: Version,
        items: VecDeque<Bytes>,
    ) -> Result<VecDeque<Bytes>, Error> {
        match self.marker.commit(|transaction| transaction.delete(&path, version)).await {
            Ok(()) => Ok(items),
            Err(error) if is_not_found(&error) && planted!("items-are-taken-twice") => Ok(items),
            Err(error) if is_not_found(&error) => Ok(VecDeque::new()),
            Err(error) => Err(error),
        }
    }
}

/// Carries out futures beside each other. Returns what they come to in their order.
async fn all<T>(mut under_way: Vec<Pin<Box<dyn Future<Output = T> + Send + '_>>>) -> Vec<T> {
    let mut done: Vec<Option<T>> = under_way.iter().map(|_| None).collect();
    poll_fn(|context| {
        let mut is_done = true;
        for (future, done) in under_way.iter_mut().zip(&mut done) {
            if done.is_none()
                && let Poll::Ready(value) = future.as_mut().poll(context)
            {
                *done = Some(value);
            }
            is_done &= done.is_some();
        }
        if is_done { Poll::Ready(()) } else { Poll::Pending }
    })
    .await;
    done.into_iter().flatten().collect()
}
