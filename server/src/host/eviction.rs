//! Closes connections whose clients do not read, once the unread data of all clients exceeds its
//! memory limits.

use std::cmp::Reverse;

use bytes::Bytes;

use super::Inner;
use crate::outbox::Closing;
use crate::outbox_budget::Excess;

impl Inner {
    /// Counts data that the state does not have any more in the outboxes that refer to it.
    pub(super) fn count_replaced(&mut self, data: &Bytes) {
        let share = self.connections.values().find_map(|load| load.outbox.share());
        if let Some(excess) = share.and_then(|share| share.budget().replaced(data)) {
            self.evict(excess);
        }
    }

    /// Closes the largest backlogs of the address that holds most, until there is room again.
    /// `excess` is what an outbox has reported after it was filled.
    pub(super) fn evict(&mut self, excess: Excess) {
        let shares = self.connections.values().filter_map(|load| {
            let backlog = load.outbox.share()?.backlog();
            let may_go = backlog.held > 0
                && match excess {
                    Excess::Address(address) => backlog.peer == address,
                    Excess::Total => true,
                };
            may_go.then_some((Reverse((backlog.of_address, backlog.peer, backlog.held)), load))
        });
        let mut largest: Vec<_> = shares.collect();
        largest.sort_unstable_by_key(|(place, _)| *place);
        let mut wakers = Vec::new();
        for (_, load) in largest {
            let share = load.outbox.share().filter(|share| share.surplus(excess) > 0);
            if share.is_none() {
                break;
            }
            wakers.extend(load.outbox.close(Closing::Evicted(excess)));
        }
        self.wakers.extend(wakers);
    }
}
