//! The entries of the log on their way into the replica, and its state on the way to and from
//! snapshots.

use std::iter::Peekable;
use std::vec;

use bytes::Bytes;
use tokio::task::yield_now;
use zoolet_replica::state::{Admitted, SnapshotView, State};
use zoolet_replica::{DecodedEntry, Input, Term};

use super::{Host, Turn};

/// The bytes of the entries that are decoded at a time; a longer entry is decoded alone.
const DECODED_BYTES: usize = 64 << 10;

impl Host {
    /// Applies the next entries of the log, each with the term of its leader. Yields to other tasks
    /// each time the log's turn is over. Returns how far this server's commands are admitted when all are
    /// applied.
    pub(crate) async fn commit_in_turns(
        &self,
        entries: impl IntoIterator<Item = (Term, Bytes)>,
    ) -> Admitted {
        let mut entries = Entries::new(entries);
        loop {
            if let Some(admitted) = self.commit_some(&mut entries) {
                return admitted;
            }
            yield_now().await;
        }
    }

    /// Does the same without a yield: only other threads get the lock meanwhile.
    pub fn commit_many(&self, entries: impl IntoIterator<Item = (Term, Bytes)>) -> Admitted {
        let mut entries = Entries::new(entries);
        loop {
            if let Some(admitted) = self.commit_some(&mut entries) {
                return admitted;
            }
        }
    }

    /// Applies entries until the log's turn is over. Returns how far this server's commands are admitted
    /// if all are applied, and `None` if the turn is over before.
    fn commit_some<I: Iterator<Item = (Term, Bytes)>>(
        &self,
        entries: &mut Entries<I>,
    ) -> Option<Admitted> {
        loop {
            entries.decode_some();
            let admitted = self.commit_decoded(&mut entries.decoded)?;
            if entries.encoded.peek().is_none() {
                return Some(admitted);
            }
        }
    }

    /// Does the same with the entries that are decoded, in one hold of the lock.
    fn commit_decoded(
        &self,
        entries: &mut impl Iterator<Item = (Term, DecodedEntry)>,
    ) -> Option<Admitted> {
        self.locked(|inner, now| {
            let begun = inner.replica.work_done();
            let end = begun + inner.log_turn.left();
            while inner.has_failed || inner.replica.work_done() < end {
                if !inner.has_failed && inner.replica.is_applying() {
                    self.step(inner, Input::GoOn);
                    continue;
                }
                let Some((term, entry)) = entries.next() else {
                    self.publish_serving(inner);
                    inner.log_turn.spend(inner.replica.work_done() - begun);
                    return Some(inner.replica.admitted());
                };
                inner.note_entry(now, &entry);
                self.step(inner, Input::Commit { term, entry });
            }
            inner.log_turn = Turn::default();
            None
        })
    }

    /// The state at this moment, to be written without the lock.
    pub fn snapshot(&self) -> SnapshotView {
        let (view, has_failed, is_applying) = self.locked(|inner, _| {
            let replica = &inner.replica;
            (replica.state().snapshot(), inner.has_failed, replica.is_applying())
        });
        assert!(!is_applying || has_failed, "entries are applied when their commit returns");
        // The snapshot would claim an entry that its state lacks.
        assert!(!has_failed, "a server that cannot follow the log writes no snapshot");
        view
    }

    /// Replaces the state by the one of another server's snapshot. Blocks for long, so it is called on a
    /// separate thread.
    pub fn restore(&self, state: State) {
        self.input(Input::Restore { state: Box::new(state) });
        // The look at the watches.
        self.commit_many([]);
    }
}

/// Entries of the log. They are decoded before the lock is taken, some at a time.
struct Entries<I: Iterator> {
    encoded: Peekable<I>,
    decoded: vec::IntoIter<(Term, DecodedEntry)>,
}

impl<I: Iterator<Item = (Term, Bytes)>> Entries<I> {
    fn new(entries: impl IntoIterator<IntoIter = I>) -> Self {
        Self { encoded: entries.into_iter().peekable(), decoded: Vec::new().into_iter() }
    }

    /// Decodes the next entries, unless some are decoded. The replica charges their bytes.
    fn decode_some(&mut self) {
        if self.decoded.len() > 0 {
            return;
        }
        let (mut decoded, mut bytes) = (Vec::new(), 0);
        while bytes < DECODED_BYTES
            && let Some((term, batch)) = self.encoded.next()
        {
            bytes += batch.len();
            decoded.push((term, DecodedEntry::decode(batch)));
        }
        self.decoded = decoded.into_iter();
    }
}
