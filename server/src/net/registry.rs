//! The connections of the port, counted against their limits.

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use zoolet_replica::Limit;

use super::options::PortOptions;
use super::tls::Spoken;
use crate::limits::LimitTable;
use crate::outbox::Outbox;
use crate::process::file_descriptors;

/// The file descriptors that clients leave to the log, to snapshots and to the other servers: a
/// log that cannot open its next segment stops the server.
const DESCRIPTORS_RESERVED: u64 = 64;

/// One connection, as four-letter words show it.
#[derive(Clone, Debug)]
pub(super) struct RegisteredConnection {
    pub(super) peer: SocketAddr,
    pub(super) outbox: Arc<Outbox>,
    /// When it was accepted, milliseconds since 1970.
    pub(super) since_ms: i64,
    /// Whether it speaks TLS.
    pub(super) is_secure: bool,
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
    entries: BTreeMap<u64, RegisteredConnection>,
    per_address: BTreeMap<IpAddr, usize>,
    handshakes: usize,
    /// Those among them that TLS, or what each client begins with, is to be agreed on first.
    tls_handshakes: usize,
    last: u64,
    /// The connections that have spoken TLS, since the start.
    secure: u64,
    turned_away: TurnedAway,
}

/// The connections that never got a session, since the start or the last `srst`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct TurnedAway {
    /// Those over a limit.
    pub(super) refused: u64,
    /// Those that did not send their handshake in time.
    pub(super) late: u64,
    /// Those over the limit of handshakes on a port that speaks TLS; `refused` has them too.
    pub(super) tls_exceeded: u64,
}

/// A place in the registry; dropping it frees it.
#[derive(Debug)]
pub(super) struct ConnectionPermit {
    registry: Arc<Registry>,
    number: u64,
    address: IpAddr,
    shaking: bool,
    shaking_tls: bool,
}

impl Registry {
    pub(super) fn new(options: &PortOptions, table: &LimitTable) -> Arc<Self> {
        let total_max = connections_max(options.connections_max, file_descriptors().1);
        table.set_max(Limit::Connections, total_max);
        table.set_max(Limit::ConnectionsPerAddress, options.connections_per_address_max);
        table.set_max(Limit::Handshakes, options.handshakes_max);
        table.set_max(Limit::OutboxBytes, options.outbox_bytes_max);
        Arc::new(Self {
            per_address_max: options.connections_per_address_max,
            total_max,
            handshakes_max: options.handshakes_max,
            inner: Mutex::default(),
        })
    }

    /// A place for a new connection, or the limit that is reached (protocol §1.3).
    pub(super) fn enter(
        self: &Arc<Self>,
        entry: RegisteredConnection,
        spoken: Spoken,
    ) -> Result<ConnectionPermit, Limit> {
        let address = entry.peer.ip();
        let mut inner = self.lock();
        let here = inner.per_address.get(&address).copied().unwrap_or(0);
        let over = |count: usize, max: usize| max > 0 && count >= max;
        let shaking_tls = spoken != Spoken::Plain;
        let too_many_handshakes = over(inner.handshakes, self.handshakes_max);
        let reached = if over(here, self.per_address_max) {
            Some(Limit::ConnectionsPerAddress)
        } else if over(inner.entries.len(), self.total_max) {
            Some(Limit::Connections)
        } else {
            too_many_handshakes.then_some(Limit::Handshakes)
        };
        if let Some(limit) = reached {
            inner.turned_away.tls_exceeded += u64::from(too_many_handshakes && shaking_tls);
            inner.turned_away.refused += 1;
            return Err(limit);
        }
        inner.last += 1;
        let number = inner.last;
        inner.entries.insert(number, entry);
        inner.per_address.insert(address, here + 1);
        inner.handshakes += 1;
        inner.tls_handshakes += usize::from(shaking_tls);
        drop(inner);
        let registry = Arc::clone(self);
        Ok(ConnectionPermit { registry, number, address, shaking: true, shaking_tls })
    }

    /// Updates the use of the port's limits.
    pub(super) fn measure_limits(&self, table: &LimitTable) {
        let inner = self.lock();
        let busiest = inner.per_address.values().max().copied().unwrap_or(0);
        table.set_used(Limit::Connections, inner.entries.len());
        table.set_used(Limit::ConnectionsPerAddress, busiest);
        table.set_used(Limit::Handshakes, inner.handshakes);
    }

    pub(super) fn count(&self) -> usize {
        self.lock().entries.len()
    }

    /// A connection has not sent its handshake in time.
    pub(super) fn count_late(&self) {
        self.lock().turned_away.late += 1;
    }

    /// How many connections have not agreed on TLS, or on plain text, that have to.
    pub(super) fn tls_handshakes(&self) -> usize {
        self.lock().tls_handshakes
    }

    /// How many connections have spoken TLS.
    pub(super) fn secure(&self) -> u64 {
        self.lock().secure
    }

    pub(super) fn turned_away(&self) -> TurnedAway {
        self.lock().turned_away
    }

    /// Counts those that are turned away from zero (`srst`).
    pub(super) fn reset(&self) {
        self.lock().turned_away = TurnedAway::default();
    }

    pub(super) fn entries(&self) -> Vec<RegisteredConnection> {
        self.lock().entries.values().cloned().collect()
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The most connections: what is configured (zero for no limit), and never more than would take
/// the file descriptors that the server itself needs.
fn connections_max(configured: usize, descriptors_max: Option<u64>) -> usize {
    let Some(descriptors_max) = descriptors_max else { return configured };
    let spare = descriptors_max.saturating_sub(DESCRIPTORS_RESERVED).max(descriptors_max / 2);
    let spare = usize::try_from(spare.max(1)).unwrap_or(usize::MAX);
    if configured == 0 { spare } else { configured.min(spare) }
}

impl ConnectionPermit {
    /// The client and the server have agreed on TLS, or on plain text.
    pub(super) fn opened(&mut self, is_secure: bool) {
        let mut inner = self.registry.lock();
        inner.tls_handshakes -= usize::from(std::mem::take(&mut self.shaking_tls));
        inner.secure += u64::from(is_secure);
        if let Some(entry) = inner.entries.get_mut(&self.number) {
            entry.is_secure = is_secure;
        }
    }

    /// The handshake is done: its place among the unfinished ones is free.
    pub(super) fn shaken(&mut self) {
        if std::mem::take(&mut self.shaking) {
            self.registry.lock().handshakes -= 1;
        }
    }
}

impl Drop for ConnectionPermit {
    fn drop(&mut self) {
        self.shaken();
        let mut inner = self.registry.lock();
        inner.tls_handshakes -= usize::from(self.shaking_tls);
        inner.entries.remove(&self.number);
        let here = inner.per_address.get(&self.address).copied().unwrap_or(0);
        if here <= 1 {
            inner.per_address.remove(&self.address);
        } else {
            inner.per_address.insert(self.address, here - 1);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use super::*;

    /// Ports with TLS and without it share the limits.
    #[test]
    fn handshakes_of_tls_are_counted_until_they_are_done() {
        let registry = Arc::new(Registry {
            per_address_max: 0,
            total_max: 0,
            handshakes_max: 2,
            inner: Mutex::default(),
        });
        let enter = |spoken| {
            let peer = SocketAddr::from((Ipv4Addr::LOCALHOST, 1));
            let outbox = Arc::new(Outbox::new(1000));
            let entry = RegisteredConnection { peer, outbox, since_ms: 0, is_secure: false };
            registry.enter(entry, spoken)
        };
        let (mut first, second) = (enter(Spoken::Tls).unwrap(), enter(Spoken::Either).unwrap());
        assert_eq!(registry.tls_handshakes(), 2);
        for spoken in [Spoken::Tls, Spoken::Plain] {
            assert_eq!(enter(spoken).unwrap_err(), Limit::Handshakes);
        }
        let TurnedAway { refused, tls_exceeded, .. } = registry.turned_away();
        assert_eq!((refused, tls_exceeded), (2, 1));
        first.opened(true);
        assert_eq!((registry.tls_handshakes(), registry.secure()), (1, 1));
        drop((first, second));
        assert_eq!(registry.tls_handshakes(), 0);
        let _plain = enter(Spoken::Plain).unwrap();
        assert_eq!(registry.tls_handshakes(), 0);
    }

    #[test]
    fn clients_never_take_the_descriptors_that_the_log_needs() {
        for (configured, descriptors, expected) in [
            (0, None, 0),
            (7, None, 7),
            (0, Some(1024), 960),
            (2000, Some(1024), 960),
            (100, Some(1024), 100),
            (0, Some(80), 40),
            (0, Some(0), 1),
        ] {
            assert_eq!(connections_max(configured, descriptors), expected, "{descriptors:?}");
        }
    }
}
