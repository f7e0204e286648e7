//! Room for another watch.
//!
//! A session that reaches its own maximum is refused. When an address, or all together, reach
//! theirs, the largest connection gives way to a client that has much less: otherwise a few clients
//! could take all watches of a server and keep every other client from watching anything.

use std::net::IpAddr;

use super::WatchTable;
use super::shares::Share;
use crate::cost;
use crate::network::network_of;
use crate::{ConnectionId, Limit, Output, Refused, Replica};

/// The ratio by which a connection or an address must exceed the requesting client to be evicted.
const LARGER: usize = 2;

impl Replica {
    /// Returns whether a connection may watch this path as well, and closes the largest one if that
    /// is necessary and fair. Charges the search for the path, and for its place. A path need not
    /// exist to be watched, and can be as long as a frame, so watches are limited by their memory,
    /// too.
    pub(super) fn make_room_for(
        &mut self,
        connection: ConnectionId,
        path: &str,
        out: &mut Vec<Output>,
    ) -> bool {
        self.spend(cost::units(cost::of_watch(path)));
        if !self.watches.modes(connection, path).is_empty() {
            return true;
        }
        let Some(peer) = self.connections.get(&connection).map(|known| known.peer) else {
            return false;
        };
        self.watches.enter(connection, peer);
        let more = Share { len: 1, bytes: WatchTable::bytes_of(path) };
        while let Some(limit) = self.exceeded(connection, peer, more) {
            let Some(victim) = self.larger_than((connection, peer), limit, more) else {
                self.refuse(limit, connection, Refused::Request);
                return false;
            };
            self.refuse(limit, victim, Refused::Connection);
            self.close(victim, out);
        }
        true
    }

    /// Returns the limit that one more watch would exceed.
    fn exceeded(&self, connection: ConnectionId, peer: IpAddr, more: Share) -> Option<Limit> {
        let (watches, options) = (&self.watches, &self.options);
        let (own, here, all) =
            (watches.share_of(connection), watches.share_of_address(peer), watches.total());
        let reached = [
            (Limit::SessionWatches, own.len + 1, options.watches_per_connection_max),
            (
                Limit::SessionWatchBytes,
                own.bytes + more.bytes,
                options.watch_bytes_per_connection_max,
            ),
            (Limit::WatchesPerAddress, here.len + 1, options.watches_per_address_max),
            (
                Limit::WatchBytesPerAddress,
                here.bytes + more.bytes,
                options.watch_bytes_per_address_max,
            ),
            (Limit::Watches, all.len + 1, options.watches_max),
            (Limit::WatchBytes, all.bytes + more.bytes, options.watch_bytes_max),
        ];
        reached.into_iter().find(|(_, wanted, max)| wanted > max).map(|(limit, ..)| limit)
    }

    /// Returns the connection that gives way to another one under a limit; none if all that may
    /// have to are not much larger.
    #[allow(clippy::wildcard_enum_match_arm, reason = "no other limit makes a connection give way")]
    fn larger_than(
        &mut self,
        (connection, peer): (ConnectionId, IpAddr),
        limit: Limit,
        more: Share,
    ) -> Option<ConnectionId> {
        let (measure, is_total): (fn(Share) -> usize, bool) = match limit {
            Limit::WatchesPerAddress => (|share| share.len, false),
            Limit::WatchBytesPerAddress => (|share| share.bytes, false),
            Limit::Watches => (|share| share.len, true),
            Limit::WatchBytes => (|share| share.bytes, true),
            _ => return None,
        };
        let watches = &self.watches;
        let (here, of_here) = (network_of(peer), watches.share_of_address(peer));
        let (address, share) = if is_total { watches.busiest(measure)? } else { (here, of_here) };
        let (victim, size) = watches.largest_of(address, measure)?;
        let is_larger_address =
            address != here && measure(share) >= LARGER * (measure(of_here) + measure(more));
        let wanted = measure(watches.share_of(connection)) + measure(more);
        let looks = watches.watchers();
        self.spend(looks / 64);
        let is_larger = victim != connection && (is_larger_address || size >= LARGER * wanted);
        is_larger.then_some(victim)
    }
}
