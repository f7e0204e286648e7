//! The terms of committed entries never change. openraft checks that in debug builds only: in
//! others it would cut the log behind what was applied, and the server would end up with another
//! history than its clients have seen, or with a log that it cannot read.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::watch;
use zoolet_replica::Term;
use zoolet_storage::{LogIndex, LogPosition, Wal};

use crate::raft::vote_term;

/// What was committed here.
#[derive(Debug)]
pub(super) struct Committed {
    wal: Arc<Wal>,
    applied: watch::Receiver<Option<LogPosition>>,
    /// The last contradiction that was reported, and who sent it.
    reported: Mutex<Option<(u64, Contradiction)>>,
}

/// A peer has another entry in a place where this server has a committed one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Contradiction {
    index: LogIndex,
    ours: u64,
    theirs: u64,
}

impl fmt::Display for Contradiction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { index, ours, theirs } = self;
        write!(f, "entry {index} was committed here in term {ours}, and is of term {theirs} there")
    }
}

impl Committed {
    pub(super) fn new(wal: Arc<Wal>, applied: watch::Receiver<Option<LogPosition>>) -> Self {
        Self { wal, applied, reported: Mutex::default() }
    }

    /// The first of these entries, which a leader of this term says it has, that contradicts what
    /// was committed here. Each one is reported once.
    ///
    /// A leader that was replaced contradicts nothing: its last entries may never have been
    /// committed, and openraft refuses what it sends.
    pub(super) fn contradicts(
        &self,
        (peer, term): (u64, Term),
        entries: impl IntoIterator<Item = LogPosition>,
    ) -> Option<Contradiction> {
        let (state, applied) = (self.wal.state(), *self.applied.borrow());
        if Some(term.0) < state.vote.and_then(vote_term) {
            return None;
        }
        let applied = applied.map(|last| (last.index, last.term));
        let committed = state.committed.map(|last| (last.index, last.term));
        let through = applied.max(committed)?.0;
        let purged = state.purged.map(|last| (last.index, last.term));
        let term_at = |index: LogIndex| {
            let known = [applied, committed, purged].into_iter().flatten();
            let known = known.filter(|(at, _)| *at == index).map(|(_, term)| term).next();
            known.or_else(|| self.wal.position(index).map(|position| position.term))
        };
        let contradiction =
            entries.into_iter().filter(|entry| entry.index <= through).find_map(|entry| {
                let (index, theirs) = (entry.index, entry.term);
                let ours = term_at(index).filter(|ours| *ours != theirs)?;
                Some(Contradiction { index, ours, theirs })
            })?;
        self.report(peer, contradiction);
        Some(contradiction)
    }

    fn report(&self, peer: u64, contradiction: Contradiction) {
        let mut reported = self.reported.lock().unwrap_or_else(PoisonError::into_inner);
        if reported.replace((peer, contradiction)) != Some((peer, contradiction)) {
            let Contradiction { index, ours, theirs } = contradiction;
            tracing::error!(
                peer,
                index = index.0,
                ours,
                theirs,
                "a server sends an entry that contradicts a committed one: its log is refused, \
                 and the states of all servers are compared to find out which one is wrong"
            );
        }
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use zoolet_storage::{Entry, MemoryDisk, WalOptions};

    use super::*;
    use crate::node_id::NodeId;
    use crate::raft::testing::{blank_entry, saved_vote};

    fn at(term: u64, index: u64) -> LogPosition {
        LogPosition { term, node: 0, index: LogIndex(index) }
    }

    /// A server that has applied an entry of term 3, and has voted in this term since.
    fn committed_in_term_3(vote: u64) -> Committed {
        let disk = Arc::new(MemoryDisk::new());
        let (wal, _) = Wal::open(disk, Path::new("wal"), WalOptions::default()).unwrap();
        wal.save_vote(saved_vote(vote, NodeId(1)), Box::new(|_| {})).unwrap();
        let (kind, body) = blank_entry();
        let entry = |position| Entry { position, kind, body: body.clone() };
        wal.append(vec![entry(at(1, 1)), entry(at(3, 2))], Box::new(|_| {})).unwrap();
        Committed::new(Arc::new(wal), watch::Sender::new(Some(at(3, 2))).subscribe())
    }

    /// Found by the simulator: the last appends of a leader that was cut off arrive when its entries
    /// have been replaced, and were taken for a contradiction.
    #[test]
    fn a_leader_that_was_replaced_contradicts_no_one() {
        let committed = committed_in_term_3(3);
        assert_eq!(committed.contradicts((2, Term(2)), [at(1, 1), at(2, 2)]), None);
        let contradiction = Contradiction { index: LogIndex(2), ours: 3, theirs: 2 };
        assert_eq!(committed.contradicts((2, Term(3)), [at(2, 2)]), Some(contradiction));
        assert_eq!(committed.contradicts((2, Term(4)), [at(2, 2)]), Some(contradiction));
        assert_eq!(committed_in_term_3(5).contradicts((2, Term(4)), [at(2, 2)]), None);
    }
}
