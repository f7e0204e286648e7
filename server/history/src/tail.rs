//! The end of the history: the block that is being filled, and how far the history goes.

use zoolet_jute::Zxid;
use zoolet_replica::HistoryEvent;

use crate::block::{BlockBuilder, Head};
use crate::entries::{Outline, Reader};
use crate::entry::{Gap, GapReason};

/// The end of the history.
#[derive(Debug)]
pub(crate) struct Tail {
    block: BlockBuilder,
    /// Whether the block has entries that sled has not.
    is_unwritten: bool,
    /// How many events it has that sled has not.
    unwritten_events: u64,
    last_zxid: Zxid,
    /// How many entries have that zxid.
    at_last: u32,
    /// How many of them were given again since the start.
    again: u32,
}

impl Tail {
    /// The end of a history whose last block has this head; `None` for an empty history.
    pub(crate) fn behind(last: Option<&Head>) -> Self {
        Self {
            block: BlockBuilder::new(last.map_or(1, Head::end), last.map_or(0, |it| it.last_ms)),
            is_unwritten: false,
            unwritten_events: 0,
            last_zxid: last.map_or(Zxid(0), |head| head.last_zxid),
            at_last: last.map_or(0, |head| head.at_last),
            again: 0,
        }
    }

    pub(crate) fn block(&self) -> &BlockBuilder {
        &self.block
    }

    /// The last transaction that was handed over.
    pub(crate) fn last_zxid(&self) -> Zxid {
        self.last_zxid
    }

    pub(crate) fn is_unwritten(&self) -> bool {
        self.is_unwritten
    }

    pub(crate) fn unwritten_events(&self) -> u64 {
        self.unwritten_events
    }

    /// Whether an event of this transaction is to be added, as it must be then: a server that starts
    /// applies the end of its log again, and the history has that.
    pub(crate) fn admits(&mut self, zxid: Zxid) -> bool {
        if zxid < self.last_zxid {
            return false;
        }
        if zxid == self.last_zxid {
            if self.again < self.at_last {
                self.again += 1;
                return false;
            }
            self.at_last += 1;
        } else {
            (self.last_zxid, self.at_last) = (zxid, 1);
        }
        self.again = self.at_last;
        true
    }

    /// Adds an event.
    pub(crate) fn event(&mut self, event: &HistoryEvent) {
        self.block.event(event);
        self.added_event();
    }

    /// Adds an event as it was handed over.
    pub(crate) fn copy(&mut self, bytes: &[u8], reader: &Reader, outline: &Outline) {
        self.block.copy(bytes, reader, outline);
        self.added_event();
    }

    fn added_event(&mut self) {
        self.block.reached(self.last_zxid, self.at_last);
        self.is_unwritten = true;
        self.unwritten_events += 1;
    }

    /// Whether a gap up to this transaction is one: not if the history goes as far. What is lost of
    /// the last transaction itself is a gap too.
    pub(crate) fn lacks(&self, through: Zxid, reason: GapReason) -> bool {
        match reason {
            GapReason::Snapshot => through > self.last_zxid,
            GapReason::Overload | GapReason::Damage | GapReason::Disk | GapReason::Removed => {
                through >= self.last_zxid
            }
        }
    }

    /// Adds a gap up to this transaction.
    pub(crate) fn gap(&mut self, through: Zxid, reason: GapReason) {
        self.block.gap(Gap { after: self.last_zxid, through, reason });
        if through > self.last_zxid {
            // Events of the same transaction may follow.
            (self.last_zxid, self.at_last, self.again) = (through, 0, 0);
        }
        self.block.reached(self.last_zxid, self.at_last);
        self.is_unwritten = true;
    }

    /// Everything up to this transaction was handed over, though the last ones have changed nothing.
    pub(crate) fn reach(&mut self, through: Zxid) {
        if through > self.last_zxid {
            (self.last_zxid, self.at_last, self.again) = (through, 0, 0);
            self.block.reached(through, 0);
            self.is_unwritten |= self.block.head().count > 0;
        }
    }

    /// The block, to be written.
    pub(crate) fn bytes(&mut self) -> &[u8] {
        self.block.bytes()
    }

    /// The block is in sled as it is now.
    pub(crate) fn written(&mut self) {
        (self.is_unwritten, self.unwritten_events) = (false, 0);
    }

    /// Begins the next block; the one before is written.
    pub(crate) fn begin_block(&mut self) {
        let head = *self.block.head();
        self.block.begin(head.end(), head.last_ms);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use zoolet_jute::{SessionId, Xid};
    use zoolet_replica::{HistoryCause, HistoryChange, ServerId};

    use super::*;

    fn event(zxid: i64) -> HistoryEvent {
        HistoryEvent {
            zxid: Zxid(zxid),
            time_ms: zxid,
            server: ServerId(1),
            session: SessionId(1),
            cxid: Xid(1),
            identities: Arc::from([]),
            cause: HistoryCause::Request,
            change: HistoryChange::SessionOpened,
        }
    }

    fn take(tail: &mut Tail, zxid: i64) -> bool {
        let admits = tail.admits(Zxid(zxid));
        if admits {
            tail.event(&event(zxid));
        }
        admits
    }

    fn gap(tail: &mut Tail, through: i64, reason: GapReason) {
        if tail.lacks(Zxid(through), reason) {
            tail.gap(Zxid(through), reason);
        }
    }

    fn taken(tail: &mut Tail, zxids: &[i64]) -> Vec<i64> {
        zxids.iter().copied().filter(|zxid| take(tail, *zxid)).collect()
    }

    /// A multi has several events with one zxid; a crash may have kept some of them.
    #[test]
    fn what_is_applied_again_is_taken_once() {
        let mut tail = Tail::behind(None);
        assert_eq!(taken(&mut tail, &[1, 2, 2, 2, 5]), [1, 2, 2, 2, 5]);
        let mut cut = Tail::behind(None);
        taken(&mut cut, &[1, 2, 2]);
        let mut resumed = Tail::behind(Some(cut.block().head()));
        assert_eq!(resumed.block().head().first, 4);
        assert_eq!(taken(&mut resumed, &[1, 2, 2, 2, 2, 5]), [2, 2, 5]);
    }

    #[test]
    fn a_gap_is_noted_where_something_is_missing() {
        let mut tail = Tail::behind(None);
        taken(&mut tail, &[1, 2]);
        gap(&mut tail, 2, GapReason::Snapshot);
        assert_eq!(tail.block().head().count, 2, "nothing is missing");
        gap(&mut tail, 7, GapReason::Snapshot);
        assert_eq!(tail.block().head().count, 3);
        assert_eq!(taken(&mut tail, &[6, 7, 8]), [7, 8]);
        // A part of a transaction is lost.
        gap(&mut tail, 8, GapReason::Overload);
        assert_eq!(tail.block().head().count, 6);
        // Refused commands have zxids too.
        tail.reach(Zxid(20));
        gap(&mut tail, 20, GapReason::Snapshot);
        assert_eq!(tail.block().head().count, 6, "nothing is missing");
    }

    /// The end of a session with many znodes may fill a block.
    #[test]
    fn a_transaction_over_two_blocks_is_taken_once() {
        let mut tail = Tail::behind(None);
        let mut count = 0;
        while !tail.block().is_full() {
            assert!(take(&mut tail, 5));
            count += 1;
        }
        tail.begin_block();
        taken(&mut tail, &[5, 5]);
        let mut resumed = Tail::behind(Some(tail.block().head()));
        let again = (0..count + 3).filter(|_| take(&mut resumed, 5)).count();
        assert_eq!(again, 1);
    }

    #[test]
    fn a_gap_has_the_time_of_what_precedes_it() {
        let mut tail = Tail::behind(None);
        taken(&mut tail, &[7]);
        let mut resumed = Tail::behind(Some(tail.block().head()));
        gap(&mut resumed, 9, GapReason::Snapshot);
        assert_eq!((resumed.block().head().first_ms, resumed.block().head().last_ms), (7, 7));
    }
}
