//! The memory that all outboxes share: a total, and a maximum for each address.
//!
//! Each outbox has a share and counts in it the bytes that it keeps in memory. Lists that are made
//! while they are written are not counted, and data of the state only from the moment at which the
//! state has other data in its place: from then on the outboxes alone keep it in memory. Such data
//! counts once in the total and once for each address. An outbox only reports that a maximum is
//! exceeded: the host, which knows all connections, decides which of them are closed.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;

/// The budget of all outboxes.
#[derive(Debug)]
pub(crate) struct OutboxBudget {
    total_max: usize,
    per_address_max: usize,
    total: AtomicUsize,
    // Invariant: the addresses that have a share.
    per_address: Mutex<BTreeMap<IpAddr, Arc<AtomicUsize>>>,
    /// The data of the state that outboxes refer to, by its address in memory.
    pinned: Mutex<BTreeMap<usize, Pinned>>,
}

/// The share of one outbox; dropping it returns its bytes.
#[derive(Debug)]
pub(crate) struct OutboxShare {
    budget: Arc<OutboxBudget>,
    peer: IpAddr,
    of_address: Arc<AtomicUsize>,
    held: AtomicUsize,
    /// The bytes of replaced data that it refers to.
    replaced: AtomicUsize,
}

/// Data of the state that at least one outbox refers to.
#[derive(Debug)]
struct Pinned {
    bytes: usize,
    /// Whether the state has other data in its place.
    is_replaced: bool,
    /// How often each outbox refers to it, by the address of its share in memory. Never empty.
    holders: BTreeMap<usize, (usize, Arc<OutboxShare>)>,
}

/// A reference of an outbox to data of the state; ends when it is dropped.
#[derive(Debug)]
pub(crate) struct Pin {
    share: Arc<OutboxShare>,
    key: usize,
}

/// A maximum that is exceeded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
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
        let pinned = Mutex::default();
        Arc::new(Self { total_max, per_address_max, total, per_address, pinned })
    }

    /// Returns an empty share for a connection from this address.
    pub(crate) fn share(self: &Arc<Self>, peer: IpAddr) -> OutboxShare {
        let of_address = Arc::clone(self.addresses().entry(peer).or_default());
        let (held, replaced) = (AtomicUsize::new(0), AtomicUsize::new(0));
        OutboxShare { budget: Arc::clone(self), peer, of_address, held, replaced }
    }

    /// Notes that the state has other data in the place of `data`. Returns the maxima that are
    /// exceeded by the outboxes that still refer to it.
    pub(crate) fn replaced(&self, data: &Bytes) -> BTreeSet<Excess> {
        let mut pinned = self.pinned();
        let pinned = pinned.get_mut(&key(data)).filter(|pinned| !pinned.is_replaced);
        let Some(pinned) = pinned else { return BTreeSet::new() };
        pinned.is_replaced = true;
        self.total.fetch_add(pinned.bytes, Ordering::Relaxed);
        let mut addresses = BTreeMap::new();
        for (_, share) in pinned.holders.values() {
            share.replaced.fetch_add(pinned.bytes, Ordering::Relaxed);
            addresses.insert(share.peer, share);
        }
        for share in addresses.values() {
            share.of_address.fetch_add(pinned.bytes, Ordering::Relaxed);
        }
        addresses.values().filter_map(|share| share.excess()).collect()
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

    fn pinned(&self) -> MutexGuard<'_, BTreeMap<usize, Pinned>> {
        self.pinned.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Returns what identifies data in memory.
fn key(data: &Bytes) -> usize {
    data.as_ptr().addr()
}

impl Pinned {
    /// Adds a reference.
    fn add(&mut self, share: &Arc<OutboxShare>) {
        let is_held_there = self.is_held_at(share.peer);
        let new = || (0, Arc::clone(share));
        let (count, _) = self.holders.entry(Arc::as_ptr(share).addr()).or_insert_with(new);
        *count += 1;
        if self.is_replaced && *count == 1 {
            share.replaced.fetch_add(self.bytes, Ordering::Relaxed);
            if !is_held_there {
                share.of_address.fetch_add(self.bytes, Ordering::Relaxed);
            }
        }
    }

    /// Takes `count` references off, at most all. Returns whether none is left.
    fn take(&mut self, share: &OutboxShare, count: usize) -> bool {
        let holder = std::ptr::from_ref(share).addr();
        let Some((left, _)) = self.holders.get_mut(&holder) else { return false };
        *left = left.saturating_sub(count);
        if *left > 0 {
            return false;
        }
        self.holders.remove(&holder);
        if self.is_replaced {
            share.replaced.fetch_sub(self.bytes, Ordering::Relaxed);
            if !self.is_held_at(share.peer) {
                share.of_address.fetch_sub(self.bytes, Ordering::Relaxed);
            }
            if self.holders.is_empty() {
                share.budget.total.fetch_sub(self.bytes, Ordering::Relaxed);
            }
        }
        self.holders.is_empty()
    }

    /// Returns whether an outbox of this address refers to it; only replaced data needs to know.
    fn is_held_at(&self, peer: IpAddr) -> bool {
        self.is_replaced && self.holders.values().any(|(_, share)| share.peer == peer)
    }
}

impl Drop for Pin {
    fn drop(&mut self) {
        let mut pinned = self.share.budget.pinned();
        if pinned.get_mut(&self.key).is_some_and(|data| data.take(&self.share, 1)) {
            pinned.remove(&self.key);
        }
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

    /// Refers to data of the state until the result is dropped.
    pub(crate) fn pin(self: &Arc<Self>, data: &Bytes) -> Pin {
        let key = key(data);
        let new = || Pinned { bytes: data.len(), is_replaced: false, holders: BTreeMap::new() };
        self.budget.pinned().entry(key).or_insert_with(new).add(self);
        Pin { share: Arc::clone(self), key }
    }

    /// Returns all bytes, and removes the references to data of the state.
    pub(crate) fn release_all(&self) {
        self.release(usize::MAX);
        self.budget.pinned().retain(|_, data| !data.take(self, usize::MAX));
    }

    /// Returns the budget that it is a part of.
    pub(crate) fn budget(&self) -> &OutboxBudget {
        &self.budget
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
            held: self.held.load(Ordering::Relaxed) + self.replaced.load(Ordering::Relaxed),
        }
    }
}

impl Drop for OutboxShare {
    fn drop(&mut self) {
        // No reference is left: each holds on to the share.
        self.release(usize::MAX);
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

    #[test]
    fn data_of_the_state_counts_once_it_is_replaced_and_once_for_each_address() {
        let budget = OutboxBudget::new(100, 60);
        let [first, second, other] = [A, A, B].map(|peer| Arc::new(budget.share(peer)));
        let [old, more] = [0, 1].map(|byte| Bytes::copy_from_slice(&[byte; 40]));
        let pins = [&first, &first, &second, &other].map(|share| share.pin(&old));
        assert!(budget.replaced(&more).is_empty() && budget.total() == 0);
        assert!(budget.replaced(&old).is_empty());
        assert!(budget.replaced(&old).is_empty(), "it counts once");
        assert_eq!((budget.total(), budget.busiest_address()), (40, 40));
        assert_eq!(first.backlog(), Backlog { peer: A, of_address: 40, held: 40 });
        let late = other.pin(&old);
        let pin = second.pin(&more);
        let also = other.pin(&more);
        let exceeded = [Excess::Address(A), Excess::Address(B)];
        assert_eq!(budget.replaced(&more), BTreeSet::from(exceeded));
        assert_eq!(second.backlog(), Backlog { peer: A, of_address: 80, held: 80 });
        drop(also);
        second.release_all();
        assert_eq!((first.excess(), budget.total()), (None, 40));
        drop(pin);
        let [one, two, of_second, of_other] = pins;
        drop((one, of_second));
        assert_eq!(first.backlog().of_address, 40, "it refers to it twice");
        drop(two);
        assert_eq!((first.backlog().of_address, other.backlog().held), (0, 40));
        drop(late);
        assert_eq!(budget.total(), 40);
        drop(of_other);
        assert!(budget.total() == 0 && budget.pinned().is_empty());
    }
}
