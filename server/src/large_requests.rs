//! The memory for large requests: those on their way in, and those without a reply.
//!
//! A client announces the length of a request before it sends it, so the server can decide when to
//! read it. A request of more than [`LARGE_BYTES_MIN`] bytes is read only with a grant for its
//! length, which it keeps until it is answered. All grants together stay within a maximum. While
//! that is used up, requests wait in the socket, and grants go to the address that has least. So
//! neither half-sent requests nor a flood of large ones fill the memory, and the queue that small
//! requests have to wait for is short.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::oneshot;
use tokio::time::Instant;

use crate::arrivals::source_of;

/// A request of more bytes needs a grant.
pub(crate) const LARGE_BYTES_MIN: usize = 8 << 10;

/// A client that keeps the server waiting for longer, while others wait for grants, may have to give
/// its own up.
const PATIENCE: Duration = Duration::from_secs(3);

/// The grants of a port.
#[derive(Debug)]
pub(crate) struct LargeRequests {
    bytes_max: usize,
    inner: Mutex<Inner>,
}

#[derive(Debug, Default)]
struct Inner {
    used: usize,
    sources: BTreeMap<IpAddr, Source>,
    /// The sources with waiters, in the order of their turns: by the bytes that they hold, and by the
    /// number of their first waiter.
    turns: BTreeSet<(usize, u64, IpAddr)>,
    /// The number of the last waiter.
    last: u64,
}

/// The grants and the waiters of one source: at least one grant or waiter.
#[derive(Debug, Default)]
struct Source {
    /// The bytes granted to it.
    held: usize,
    /// In the order of their arrival.
    waiting: VecDeque<Waiter>,
}

#[derive(Debug)]
struct Waiter {
    number: u64,
    bytes: usize,
    granted: oneshot::Sender<LargeRequest>,
}

/// The grant for one request; dropping it returns its bytes.
#[derive(Debug)]
pub(crate) struct LargeRequest {
    all: Arc<LargeRequests>,
    source: IpAddr,
    bytes: usize,
    since: Instant,
}

impl LargeRequests {
    /// Makes grants for this many bytes together.
    pub(crate) fn new(bytes_max: usize) -> Arc<Self> {
        Arc::new(Self { bytes_max, inner: Mutex::default() })
    }

    /// Asks for a grant for a request of `bytes` bytes from `address`; it comes at once or later.
    /// A request that is larger than the maximum counts as the maximum.
    pub(crate) fn ask(
        self: &Arc<Self>,
        address: IpAddr,
        bytes: usize,
    ) -> oneshot::Receiver<LargeRequest> {
        let (granted, receiver) = oneshot::channel();
        let (source, bytes) = (source_of(address), bytes.min(self.bytes_max));
        let mut inner = self.lock();
        inner.last += 1;
        let number = inner.last;
        inner.change(source, |source| source.waiting.push_back(Waiter { number, bytes, granted }));
        let unwanted = self.grant(&mut inner);
        drop(inner);
        drop(unwanted);
        receiver
    }

    /// Returns the bytes of all grants.
    pub(crate) fn used(&self) -> usize {
        self.lock().used
    }

    /// Returns whether a client that has kept the server waiting since `since` must return its
    /// grants: others wait for grants, and no address has more than its own. Clients of the same address
    /// count as others.
    pub(crate) fn must_yield(&self, address: IpAddr, since: Instant) -> bool {
        if since.elapsed() < PATIENCE {
            return false;
        }
        let (source, mut inner) = (source_of(address), self.lock());
        let Some((least, _, next)) = inner.next_turn() else { return false };
        let held = inner.sources.get(&source).map_or(0, |source| source.held);
        let is_most = inner.sources.values().all(|other| other.held <= held);
        is_most && (source == next || held > least)
    }

    /// Makes grants while there is room. Returns those whose connections are gone: the caller
    /// drops them once it does not hold the lock.
    fn grant(self: &Arc<Self>, inner: &mut Inner) -> Vec<LargeRequest> {
        let mut unwanted = Vec::new();
        while let Some((_, _, source)) = inner.next_turn() {
            let room = if inner.used == 0 { usize::MAX } else { self.bytes_max - inner.used };
            let waiter = inner.change(source, |source| {
                let waiter = source.waiting.pop_front_if(|waiter| waiter.bytes <= room);
                source.held += waiter.as_ref().map_or(0, |waiter| waiter.bytes);
                waiter
            });
            let Some(Waiter { bytes, granted, .. }) = waiter else { break };
            inner.used += bytes;
            let (all, since) = (Arc::clone(self), Instant::now());
            unwanted.extend(granted.send(LargeRequest { all, source, bytes, since }).err());
        }
        unwanted
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Inner {
    /// Changes what a source has and waits for.
    fn change<T>(&mut self, source: IpAddr, change: impl FnOnce(&mut Source) -> T) -> T {
        let turn = |changed: &Source| {
            changed.waiting.front().map(|waiter| (changed.held, waiter.number, source))
        };
        let changed = self.sources.entry(source).or_default();
        let before = turn(changed);
        let result = change(changed);
        let after = turn(changed);
        if changed.held == 0 && changed.waiting.is_empty() {
            self.sources.remove(&source);
        }
        if let Some(before) = before {
            self.turns.remove(&before);
        }
        self.turns.extend(after);
        result
    }

    /// Returns the source that is next: among the sources with the least granted bytes, the source
    /// with the oldest waiter. Other sources wait even if they need less. Removes waiters whose
    /// connection has ended.
    fn next_turn(&mut self) -> Option<(usize, u64, IpAddr)> {
        loop {
            let next = *self.turns.first()?;
            let is_gone = |waiter: &mut Waiter| waiter.granted.is_closed();
            if self.change(next.2, |source| source.waiting.pop_front_if(is_gone)).is_none() {
                return Some(next);
            }
        }
    }
}

impl LargeRequest {
    /// Returns when it was granted.
    pub(crate) fn since(&self) -> Instant {
        self.since
    }
}

impl Drop for LargeRequest {
    fn drop(&mut self) {
        let mut inner = self.all.lock();
        inner.used -= self.bytes;
        inner.change(self.source, |source| source.held -= self.bytes);
        let unwanted = self.all.grant(&mut inner);
        drop(inner);
        drop(unwanted);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(192, 0, 2, 1));
    const B: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(192, 0, 2, 2));
    const C: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(192, 0, 2, 3));

    #[tokio::test]
    async fn grants_stay_within_the_maximum_and_go_to_the_address_with_least() {
        let all = LargeRequests::new(100);
        let mut first = all.ask(A, 60);
        let first = first.try_recv().unwrap();
        let [mut more, mut other, mut small, gone] =
            [(A, 30), (B, 70), (C, 10), (C, 1)].map(|(address, bytes)| all.ask(address, bytes));
        let more = more.try_recv().unwrap();
        assert!(other.try_recv().is_err() && small.try_recv().is_err(), "70 do not fit yet");
        assert_eq!(all.used(), 90);
        drop(gone);
        drop(more);
        assert!(other.try_recv().is_err(), "60 are used");
        drop(first);
        let [other, small] = [other.try_recv().unwrap(), small.try_recv().unwrap()];
        assert_eq!(all.used(), 80);
        let [mut again, mut last] = [all.ask(B, 90), all.ask(C, 90)];
        drop(small);
        drop(other);
        let _again = again.try_recv().unwrap();
        assert!(last.try_recv().is_err(), "the first of two addresses with nothing is next");
    }

    #[tokio::test]
    async fn a_request_above_the_maximum_goes_through_alone() {
        let all = LargeRequests::new(100);
        let mut huge = all.ask(A, 1000);
        let huge = huge.try_recv().unwrap();
        let mut waiting = all.ask(B, 1);
        assert!(waiting.try_recv().is_err());
        drop(huge);
        assert!(waiting.await.is_ok());
        assert_eq!(all.used(), 0);
    }

    #[tokio::test(start_paused = true)]
    async fn a_client_that_stalls_gives_way_if_others_wait_and_have_less() {
        let all = LargeRequests::new(100);
        let [mut much, mut little] = [all.ask(A, 60), all.ask(B, 40)];
        let [much, _little] = [much.try_recv().unwrap(), little.try_recv().unwrap()];
        let since = much.since();
        tokio::time::advance(PATIENCE).await;
        assert!(!all.must_yield(A, since), "no other waits");
        let waiting = all.ask(C, 10);
        assert!(!all.must_yield(A, Instant::now()), "it has its time");
        assert!(!all.must_yield(B, since), "another address has more");
        assert!(all.must_yield(A, since));
        drop(waiting);
        assert!(!all.must_yield(A, since));
        let _waiting = all.ask(A, 10);
        assert!(all.must_yield(A, since), "its own address waits");
        drop(much);
        assert!(!all.must_yield(B, since), "what waited was granted");
    }
}
