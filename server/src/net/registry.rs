//! The connections of the port, counted against their limits.

use std::collections::BTreeMap;
use std::future::{Future, pending};
use std::net::{IpAddr, SocketAddr};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::oneshot;
use tokio::time::Instant;
use zoolet_replica::Limit;

use super::options::PortOptions;
use super::tls::Spoken;
use super::unfinished::{Handshake, Unfinished};
use crate::limits::LimitTable;
use crate::outbox::Outbox;

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
    tls_handshakes_max: usize,
    inner: Mutex<Inner>,
}

#[derive(Debug, Default)]
struct Inner {
    entries: BTreeMap<u64, RegisteredConnection>,
    per_address: BTreeMap<IpAddr, usize>,
    /// The unfinished handshakes of connections that speak plain text, or have agreed on TLS.
    plain: Unfinished,
    /// Those that TLS, or the client's choice of it, is to be agreed on first.
    tls: Unfinished,
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
    /// Those that gave way to others before their handshake was done.
    pub(super) gave_way: u64,
}

/// A place in the registry; dropping it frees it.
#[derive(Debug)]
pub(super) struct ConnectionPermit {
    registry: Arc<Registry>,
    number: u64,
    /// Whether the client has sent anything.
    has_sent: Arc<AtomicBool>,
    /// Ends when the connection gives way to another.
    gives_way: Option<oneshot::Receiver<()>>,
}

impl Registry {
    pub(super) fn new(options: &PortOptions, table: &LimitTable) -> Arc<Self> {
        let total_max = match (options.connections_max, options.descriptors_max) {
            (max, None) | (0, Some(max)) => max,
            (configured, Some(max)) => configured.min(max),
        };
        table.set_max(Limit::Connections, total_max);
        table.set_max(Limit::ConnectionsPerAddress, options.connections_per_address_max);
        table.set_max(Limit::Handshakes, options.handshakes_max);
        table.set_max(Limit::TlsHandshakes, options.tls_handshakes_max);
        table.set_max(Limit::LargeRequestBytes, options.large_request_bytes_max);
        table.set_max(Limit::OutboxBytes, options.outbox_bytes_max);
        table.set_max(Limit::OutboxBytesPerAddress, options.outbox_bytes_per_address_max);
        table.set_max(Limit::OutboxBytesTotal, options.outbox_bytes_total_max);
        Arc::new(Self {
            per_address_max: options.connections_per_address_max,
            total_max,
            handshakes_max: options.handshakes_max,
            tls_handshakes_max: options.tls_handshakes_max,
            inner: Mutex::default(),
        })
    }

    /// Returns a place for a new connection, or the limit that keeps it out (protocol §1.3). One
    /// whose handshake is not done gives way to it, if that is the worthier one.
    pub(super) fn enter(
        self: &Arc<Self>,
        entry: RegisteredConnection,
        spoken: Spoken,
    ) -> Result<ConnectionPermit, Limit> {
        let (address, now) = (entry.peer.ip(), Instant::now());
        let is_tls = spoken != Spoken::Plain;
        let mut inner = self.lock();
        while let Some(limit) = self.full(&inner, address, is_tls) {
            let Some(number) = inner.gives_way(limit, address, now) else { return Err(limit) };
            inner.remove(number);
            inner.turned_away.gave_way += 1;
        }
        inner.last += 1;
        let number = inner.last;
        inner.entries.insert(number, entry);
        *inner.per_address.entry(address).or_default() += 1;
        let (open, gives_way) = oneshot::channel();
        let has_sent = Arc::new(AtomicBool::new(false));
        let handshake = Handshake::new(address, now, Arc::clone(&has_sent), open);
        let unfinished = if is_tls { &mut inner.tls } else { &mut inner.plain };
        unfinished.insert(number, handshake);
        drop(inner);
        let registry = Arc::clone(self);
        Ok(ConnectionPermit { registry, number, has_sent, gives_way: Some(gives_way) })
    }

    /// Returns the first limit that leaves no place for a connection.
    fn full(&self, inner: &Inner, address: IpAddr, is_tls: bool) -> Option<Limit> {
        let over = |count: usize, max: usize| max > 0 && count >= max;
        let here = inner.per_address.get(&address).copied().unwrap_or(0);
        let (plain, tls) = (inner.plain.len(), inner.tls.len());
        if over(here, self.per_address_max) {
            Some(Limit::ConnectionsPerAddress)
        } else if over(inner.entries.len(), self.total_max) {
            Some(Limit::Connections)
        } else if is_tls && over(tls, self.tls_handshakes_max) {
            Some(Limit::TlsHandshakes)
        } else if over(plain + tls, self.handshakes_max) {
            Some(Limit::Handshakes)
        } else {
            None
        }
    }

    /// Updates the use of the port's limits.
    pub(super) fn measure_limits(&self, table: &LimitTable) {
        let inner = self.lock();
        let busiest = inner.per_address.values().max().copied().unwrap_or(0);
        let (plain, tls) = (inner.plain.len(), inner.tls.len());
        table.set_used(Limit::Connections, inner.entries.len());
        table.set_used(Limit::ConnectionsPerAddress, busiest);
        table.set_used(Limit::Handshakes, plain + tls);
        table.set_used(Limit::TlsHandshakes, tls);
    }

    /// Counts a connection that was refused.
    pub(super) fn count_refused(&self, limit: Limit, spoken: Spoken) {
        let mut inner = self.lock();
        let is_of_handshakes = matches!(limit, Limit::Handshakes | Limit::TlsHandshakes);
        inner.turned_away.tls_exceeded += u64::from(is_of_handshakes && spoken != Spoken::Plain);
        inner.turned_away.refused += 1;
    }

    /// Counts a handshake of TLS that was not started in time.
    pub(super) fn count_not_started(&self) {
        self.lock().turned_away.tls_exceeded += 1;
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
        self.lock().tls.len()
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

impl Inner {
    /// Returns the connection that gives way to a new one from `address`.
    fn gives_way(&self, limit: Limit, address: IpAddr, now: Instant) -> Option<u64> {
        let of = |unfinished: &Unfinished| {
            if limit == Limit::ConnectionsPerAddress {
                unfinished.stale_of(address, now)
            } else {
                unfinished.least_worthy(address, now)
            }
        };
        if limit == Limit::TlsHandshakes {
            return of(&self.tls);
        }
        let [more, fewer] = if self.tls.len() > self.plain.len() {
            [&self.tls, &self.plain]
        } else {
            [&self.plain, &self.tls]
        };
        of(more).or_else(|| of(fewer))
    }

    /// Forgets a connection, if it is known.
    fn remove(&mut self, number: u64) {
        drop(self.plain.take(number).or_else(|| self.tls.take(number)));
        let Some(entry) = self.entries.remove(&number) else { return };
        let address = entry.peer.ip();
        if let Some(here) = self.per_address.get_mut(&address) {
            *here -= 1;
            if *here == 0 {
                self.per_address.remove(&address);
            }
        }
    }
}

impl ConnectionPermit {
    /// Returns whether the client has sent anything; to be set when it has.
    pub(super) fn has_sent(&self) -> Arc<AtomicBool> {
        Arc::clone(&self.has_sent)
    }

    /// Notes that the client has sent something.
    pub(super) fn sent(&self) {
        self.has_sent.store(true, Ordering::Relaxed);
    }

    /// Waits until the connection has to give way to another. Never returns once its handshake is
    /// done.
    pub(super) async fn gives_way(&mut self) {
        match &mut self.gives_way {
            Some(gives_way) => {
                let _ = gives_way.await;
                self.gives_way = None;
            }
            None => pending().await,
        }
    }

    /// Takes over the wait of [`Self::gives_way`].
    pub(super) fn take_gives_way(&mut self) -> impl Future<Output = ()> + use<> {
        let gives_way = self.gives_way.take();
        async move {
            match gives_way {
                Some(gives_way) => drop(gives_way.await),
                None => pending().await,
            }
        }
    }

    /// Notes that the client and the server have agreed on TLS, or on plain text. Returns false if the
    /// connection has given way to another in the meantime.
    pub(super) fn opened(&mut self, is_secure: bool) -> bool {
        let mut inner = self.registry.lock();
        let Some(entry) = inner.entries.get_mut(&self.number) else { return false };
        entry.is_secure = is_secure;
        inner.secure += u64::from(is_secure);
        if let Some(handshake) = inner.tls.take(self.number) {
            inner.plain.insert(self.number, handshake);
        }
        true
    }

    /// Notes that the handshake waits for the host; from then on the connection does not give way.
    /// Returns false if it already has.
    pub(super) fn admitted(&mut self) -> bool {
        self.registry.lock().plain.admit(self.number)
    }

    /// Notes that the handshake is done: its place among the unfinished ones is free.
    pub(super) fn shaken(&mut self) {
        self.gives_way = None;
        self.registry.lock().plain.take(self.number);
    }
}

impl Drop for ConnectionPermit {
    fn drop(&mut self) {
        self.registry.lock().remove(self.number);
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use super::*;

    fn registry(handshakes_max: usize, tls_handshakes_max: usize) -> Arc<Registry> {
        Arc::new(Registry {
            per_address_max: 0,
            total_max: 0,
            handshakes_max,
            tls_handshakes_max,
            inner: Mutex::default(),
        })
    }

    fn enter(
        registry: &Arc<Registry>,
        last: u8,
        spoken: Spoken,
    ) -> Result<ConnectionPermit, Limit> {
        let peer = SocketAddr::from((Ipv4Addr::new(127, 0, 0, last), 1));
        let outbox = Arc::new(Outbox::new(1000));
        let entry = RegisteredConnection { peer, outbox, since_ms: 0, is_secure: false };
        registry.enter(entry, spoken)
    }

    /// Ports with TLS and without it share the limits.
    #[test]
    fn handshakes_of_tls_are_counted_until_they_are_done() {
        let registry = registry(3, 2);
        let (mut first, second) = (
            enter(&registry, 1, Spoken::Tls).unwrap(),
            enter(&registry, 1, Spoken::Either).unwrap(),
        );
        assert_eq!(registry.tls_handshakes(), 2);
        let plain = enter(&registry, 1, Spoken::Plain).unwrap();
        assert_eq!(enter(&registry, 1, Spoken::Tls).unwrap_err(), Limit::TlsHandshakes);
        assert_eq!(enter(&registry, 1, Spoken::Plain).unwrap_err(), Limit::Handshakes);
        registry.count_refused(Limit::TlsHandshakes, Spoken::Tls);
        registry.count_refused(Limit::Handshakes, Spoken::Plain);
        let TurnedAway { refused, tls_exceeded, .. } = registry.turned_away();
        assert_eq!((refused, tls_exceeded), (2, 1));
        assert!(first.opened(true));
        assert_eq!((registry.tls_handshakes(), registry.secure()), (1, 1));
        assert_eq!(enter(&registry, 1, Spoken::Tls).unwrap_err(), Limit::Handshakes);
        first.shaken();
        let _third = enter(&registry, 1, Spoken::Tls).unwrap();
        drop((first, second, plain));
        assert_eq!((registry.tls_handshakes(), registry.count()), (1, 1));
    }

    /// A thousand silent connections kept every new client out.
    #[tokio::test]
    async fn a_new_client_takes_the_place_of_a_connection_of_a_busier_address() {
        let registry = registry(3, 0);
        let mut silent: Vec<_> =
            (0..3).map(|_| enter(&registry, 1, Spoken::Plain).unwrap()).collect();
        let client = enter(&registry, 2, Spoken::Plain).unwrap();
        assert_eq!(registry.count(), 3);
        silent[2].gives_way().await;
        // Its handshake may have become ready at the same time.
        assert!(!silent[2].opened(false) && !silent[2].admitted());
        assert!(silent[0].opened(false) && silent[0].admitted());
        assert_eq!(registry.turned_away().gave_way, 1);
        silent.truncate(2);
        drop(client);
        assert_eq!(registry.count(), 2, "one that has given way is not counted twice");
    }
}
