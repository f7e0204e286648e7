//! The number of watches of each address, and of all connections, as limits count them.

use std::collections::BTreeMap;
use std::net::IpAddr;

use crate::ConnectionId;
use crate::network::network_of;

/// Watches, and their memory in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Share {
    pub(crate) len: usize,
    pub(crate) bytes: usize,
}

/// The shares of all addresses. A connection that is closed has none any more, although it takes
/// a while to remove its watches from the table.
#[derive(Debug, Default)]
pub(super) struct Shares {
    peers: BTreeMap<ConnectionId, IpAddr>,
    // Invariant: the sums over the watches of the connections in `peers`; no zeros.
    addresses: BTreeMap<IpAddr, Share>,
    total: Share,
}

impl Shares {
    /// The watches of a connection, which has none yet, count for this address.
    pub(super) fn enter(&mut self, connection: ConnectionId, peer: IpAddr) {
        self.peers.entry(connection).or_insert_with(|| network_of(peer));
    }

    pub(super) fn grow(&mut self, connection: ConnectionId, bytes: usize) {
        let Some(address) = self.peers.get(&connection) else { return };
        let more = Share { len: 1, bytes };
        self.addresses.entry(*address).or_default().add(more);
        self.total.add(more);
    }

    pub(super) fn shrink(&mut self, connection: ConnectionId, less: Share) {
        let Some(address) = self.peers.get(&connection) else { return };
        self.total.subtract(less);
        if let Some(share) = self.addresses.get_mut(address) {
            share.subtract(less);
            if share.len == 0 {
                self.addresses.remove(address);
            }
        }
    }

    /// Removes a closed connection and its watches.
    pub(super) fn leave(&mut self, connection: ConnectionId, all: Share) {
        self.shrink(connection, all);
        self.peers.remove(&connection);
    }

    pub(super) fn total(&self) -> Share {
        self.total
    }

    pub(super) fn of_address(&self, peer: IpAddr) -> Share {
        self.addresses.get(&network_of(peer)).copied().unwrap_or_default()
    }

    /// Returns the address that has most.
    pub(super) fn busiest(&self, measure: impl Fn(Share) -> usize) -> Option<(IpAddr, Share)> {
        let all = self.addresses.iter().map(|(address, share)| (*address, *share));
        all.max_by_key(|(_, share)| measure(*share))
    }

    /// Returns the connections of an address, found by a look at all.
    pub(super) fn connections_of(&self, address: IpAddr) -> impl Iterator<Item = ConnectionId> {
        let all = self.peers.iter().filter(move |(_, known)| **known == address);
        all.map(|(connection, _)| *connection)
    }

    pub(super) fn len(&self) -> usize {
        self.peers.len()
    }

    /// Checks the sums against the watches that `of` returns for each connection.
    pub(super) fn check(&self, of: impl Fn(ConnectionId) -> Share) {
        let (mut addresses, mut total) = (BTreeMap::<IpAddr, Share>::new(), Share::default());
        for (connection, address) in &self.peers {
            let share = of(*connection);
            total.add(share);
            if share.len > 0 {
                addresses.entry(*address).or_default().add(share);
            }
        }
        let (known, counted) = (total == self.total, addresses == self.addresses);
        invariant!(known && counted, "{total:?} watches are counted as {:?}", self.total);
    }
}

impl Share {
    fn add(&mut self, more: Self) {
        self.len += more.len;
        self.bytes += more.bytes;
    }

    fn subtract(&mut self, less: Self) {
        let is_part = less.len <= self.len && less.bytes <= self.bytes;
        invariant!(is_part, "{less:?} is a part of {self:?}");
        self.len -= less.len;
        self.bytes -= less.bytes;
    }
}
