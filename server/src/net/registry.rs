//! The connections of the port, counted against their limits.

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::port::PortOptions;
use crate::outbox::Outbox;

/// One connection, as four-letter words show it.
#[derive(Clone, Debug)]
pub(super) struct Entry {
    pub(super) peer: SocketAddr,
    pub(super) outbox: Arc<Outbox>,
    /// When it was accepted, milliseconds since 1970.
    pub(super) since_ms: i64,
}

/// All of them.
#[derive(Debug)]
pub(super) struct Registry {
    per_address_max: usize,
    total_max: usize,
    handshakes_max: usize,
    inner: Mutex<Inner>,
}

#[derive(Debug, Default)]
struct Inner {
    entries: BTreeMap<u64, Entry>,
    per_address: BTreeMap<IpAddr, usize>,
    handshakes: usize,
    last: u64,
}

/// A place in the registry; dropping it frees it.
#[derive(Debug)]
pub(super) struct Place {
    registry: Arc<Registry>,
    number: u64,
    address: IpAddr,
    shaking: bool,
}

impl Registry {
    pub(super) fn new(options: &PortOptions) -> Arc<Self> {
        Arc::new(Self {
            per_address_max: options.connections_per_address_max,
            total_max: options.connections_max,
            handshakes_max: options.handshakes_max,
            inner: Mutex::default(),
        })
    }

    /// A place for a new connection; `None` if a limit is reached (protocol §1.3).
    pub(super) fn enter(self: &Arc<Self>, entry: Entry) -> Option<Place> {
        let address = entry.peer.ip();
        let mut inner = self.lock();
        let here = inner.per_address.get(&address).copied().unwrap_or(0);
        let over = |count: usize, max: usize| max > 0 && count >= max;
        if over(here, self.per_address_max)
            || over(inner.entries.len(), self.total_max)
            || over(inner.handshakes, self.handshakes_max)
        {
            return None;
        }
        inner.last += 1;
        let number = inner.last;
        inner.entries.insert(number, entry);
        inner.per_address.insert(address, here + 1);
        inner.handshakes += 1;
        drop(inner);
        Some(Place { registry: Arc::clone(self), number, address, shaking: true })
    }

    pub(super) fn count(&self) -> usize {
        self.lock().entries.len()
    }

    pub(super) fn entries(&self) -> Vec<Entry> {
        self.lock().entries.values().cloned().collect()
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Place {
    /// The handshake is done: its place among the unfinished ones is free.
    pub(super) fn shaken(&mut self) {
        if std::mem::take(&mut self.shaking) {
            self.registry.lock().handshakes -= 1;
        }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.shaken();
        let mut inner = self.registry.lock();
        inner.entries.remove(&self.number);
        let here = inner.per_address.get(&self.address).copied().unwrap_or(0);
        if here <= 1 {
            inner.per_address.remove(&self.address);
        } else {
            inner.per_address.insert(self.address, here - 1);
        }
    }
}
