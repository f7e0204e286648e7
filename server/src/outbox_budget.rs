//! The memory that all outboxes share: a total, and a maximum for each address.
//!
//! Each outbox has a share and counts in it the bytes that it keeps in memory. Reads of data that
//! the state holds anyway, and lists that are made while they are written, are not counted. An
//! outbox only reports that a maximum is exceeded: which connections are closed then is decided by
//! the host, which knows all of them.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The budget of all outboxes.
#[derive(Debug)]
pub(crate) struct OutboxBudget {
    total_max: usize,
    per_address_max: usize,
    total: AtomicUsize,
    // Invariant: the addresses that have a share.
    per_address: Mutex<BTreeMap<IpAddr, Arc<AtomicUsize>>>,
}

/// The share of one outbox; dropping it returns its bytes.
#[derive(Debug)]
pub(crate) struct OutboxShare {
    budget: Arc<OutboxBudget>,
    peer: IpAddr,
    of_address: Arc<AtomicUsize>,
    held: AtomicUsize,
}

/// A maximum that is exceeded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Excess {
    /// That of one address.
    Address(IpAddr),
    /// That of all connections.
    Total,
}

/// The bytes that one connection holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Backlog {
    pub(crate) peer: IpAddr,
    /// The bytes of all connections from its address.
    pub(crate) of_address: usize,
    /// Its own bytes.
    pub(crate) held: usize,
}

impl OutboxBudget {
    /// Returns a budget of the given bytes in total and for each address.
    pub(crate) fn new(total_max: usize, per_address_max: usize) -> Arc<Self> {
        let (total, per_address) = (AtomicUsize::new(0), Mutex::default());
        Arc::new(Self { total_max, per_address_max, total, per_address })
    }

    /// Returns an empty share for a connection from this address.
    pub(crate) fn share(self: &Arc<Self>, peer: IpAddr) -> OutboxShare {
        let of_address = Arc::clone(self.addresses().entry(peer).or_default());
        OutboxShare { budget: Arc::clone(self), peer, of_address, held: AtomicUsize::new(0) }
    }

    /// Returns the bytes of all outboxes.
    pub(crate) fn total(&self) -> usize {
        self.total.load(Ordering::Relaxed)
    }

    /// Returns the bytes of the address that has most.
    pub(crate) fn busiest_address(&self) -> usize {
        let addresses = self.addresses();
        addresses.values().map(|bytes| bytes.load(Ordering::Relaxed)).max().unwrap_or(0)
    }

    fn addresses(&self) -> MutexGuard<'_, BTreeMap<IpAddr, Arc<AtomicUsize>>> {
        self.per_address.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl OutboxShare {
    /// Adds bytes. They are counted in any case: the caller bounds each single addition.
    pub(crate) fn add(&self, bytes: usize) {
        self.held.fetch_add(bytes, Ordering::Relaxed);
        self.of_address.fetch_add(bytes, Ordering::Relaxed);
        self.budget.total.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Returns bytes that are no longer in memory, unless all were returned before.
    pub(crate) fn release(&self, bytes: usize) {
        let mut released = 0;
        let less = |held: usize| {
            released = held.min(bytes);
            Some(held - released)
        };
        // The closure never refuses.
        let _ = self.held.fetch_update(Ordering::Relaxed, Ordering::Relaxed, less);
        self.of_address.fetch_sub(released, Ordering::Relaxed);
        self.budget.total.fetch_sub(released, Ordering::Relaxed);
    }

    /// Returns all bytes.
    pub(crate) fn release_all(&self) {
        self.release(usize::MAX);
    }

    /// Returns the maximum that is exceeded by the outboxes together, if one is.
    pub(crate) fn excess(&self) -> Option<Excess> {
        if self.of_address.load(Ordering::Relaxed) > self.budget.per_address_max {
            Some(Excess::Address(self.peer))
        } else {
            (self.budget.total() > self.budget.total_max).then_some(Excess::Total)
        }
    }

    /// Returns whether more than half of a maximum is used.
    pub(crate) fn is_scarce(&self) -> bool {
        let of_address = self.of_address.load(Ordering::Relaxed);
        of_address > self.budget.per_address_max / 2
            || self.budget.total() > self.budget.total_max / 2
    }

    /// Returns by how many bytes less than an eighth of a maximum is free. So much is freed at
    /// once, so that the search for the largest backlogs is not repeated for every event.
    pub(crate) fn surplus(&self, excess: Excess) -> usize {
        let (used, max) = match excess {
            Excess::Address(_) => {
                (self.of_address.load(Ordering::Relaxed), self.budget.per_address_max)
            }
            Excess::Total => (self.budget.total(), self.budget.total_max),
        };
        used.saturating_sub(max - max / 8)
    }

    /// Returns what this connection holds.
    pub(crate) fn backlog(&self) -> Backlog {
        Backlog {
            peer: self.peer,
            of_address: self.of_address.load(Ordering::Relaxed),
            held: self.held.load(Ordering::Relaxed),
        }
    }
}

impl Drop for OutboxShare {
    fn drop(&mut self) {
        self.release_all();
        let mut addresses = self.budget.addresses();
        // The map's own, and this one.
        if Arc::strong_count(&self.of_address) <= 2 {
            addresses.remove(&self.peer);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(10, 0, 0, 1));
    const B: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(10, 0, 0, 2));

    #[test]
    fn bytes_are_counted_in_total_and_for_each_address_until_they_are_returned() {
        let budget = OutboxBudget::new(100, 60);
        let (first, second, other) = (budget.share(A), budget.share(A), budget.share(B));
        first.add(40);
        second.add(20);
        assert_eq!((first.excess(), other.excess()), (None, None));
        assert!(first.is_scarce() && other.is_scarce(), "60 of 100 bytes");
        second.add(1);
        assert_eq!(first.excess(), Some(Excess::Address(A)));
        assert_eq!(first.backlog(), Backlog { peer: A, of_address: 61, held: 40 });
        assert_eq!(first.surplus(Excess::Address(A)), 61 - 53);
        assert_eq!(other.excess(), None);
        other.add(40);
        assert_eq!((other.excess(), budget.total()), (Some(Excess::Total), 101));
        assert_eq!(budget.busiest_address(), 61);
        first.release(41);
        assert_eq!(budget.total(), 61, "no more is returned than was added");
        second.release_all();
        second.release(5);
        drop((first, second));
        assert_eq!((budget.total(), budget.busiest_address()), (40, 40));
        drop(other);
        assert!(budget.total() == 0 && budget.addresses().is_empty());
    }
}
