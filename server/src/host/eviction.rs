//! Closes connections whose clients do not read, once the unread data of all clients exceeds its
//! memory limits.

use std::cmp::Reverse;
use std::sync::{Arc, Weak};

use bytes::Bytes;

use super::Inner;
use crate::outbox::{Closing, Outbox};
use crate::outbox_budget::Excess;

impl Inner {
    /// Counts data that the state does not have any more in the outboxes that refer to it.
    pub(super) fn count_replaced(&mut self, data: &Bytes) {
        let mut outboxes = self.outboxes();
        let exceeded = outboxes.find_map(|outbox| Some(outbox.share()?.budget().replaced(data)));
        drop(outboxes);
        for excess in exceeded.into_iter().flatten() {
            self.evict(excess);
        }
    }

    /// Returns the outboxes of all connections, and of those that are closed and have not written
    /// everything.
    fn outboxes(&self) -> impl Iterator<Item = Arc<Outbox>> {
        let open = self.connections.values().map(|load| Arc::clone(&load.outbox));
        open.chain(self.ending.iter().filter_map(Weak::upgrade))
    }

    /// Remembers the outbox of a connection that is closed until the connection has written all of it
    /// and ends. Ended ones are removed when there is no room, so that a close costs the same
    /// however many there are.
    pub(super) fn keep_ending(&mut self, outbox: &Arc<Outbox>) {
        outbox.end_all_large();
        if outbox.unwritten_bytes() == 0 {
            return;
        }
        if self.ending.len() == self.ending.capacity() {
            self.ending.retain(|outbox| outbox.strong_count() > 0);
            self.ending.reserve(self.ending.len() + 1);
        }
        self.ending.push(Arc::downgrade(outbox));
    }

    /// Closes the largest backlogs of the address that holds most, until there is room again.
    /// `excess` is what an outbox has reported after it was filled.
    pub(super) fn evict(&mut self, excess: Excess) {
        let shares = self.outboxes().filter_map(|outbox| {
            let backlog = outbox.share()?.backlog();
            let may_go = backlog.held > 0
                && match excess {
                    Excess::Address(address) => backlog.peer == address,
                    Excess::Total => true,
                };
            may_go.then_some((Reverse((backlog.of_address, backlog.peer, backlog.held)), outbox))
        });
        let mut largest: Vec<_> = shares.collect();
        largest.sort_unstable_by_key(|(place, _)| *place);
        let mut wakers = Vec::new();
        for (_, outbox) in largest {
            let share = outbox.share().filter(|share| share.surplus(excess) > 0);
            if share.is_none() {
                break;
            }
            wakers.extend(outbox.close(Closing::Evicted(excess)));
        }
        self.wakers.extend(wakers);
    }
}
