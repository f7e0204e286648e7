//! A handle on the consensus, and what this server knows of its time as leader.

use std::ops::Deref;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use tokio::sync::watch;
use tokio::time::Instant;
use zoolet_replica::Term;
use zoolet_storage::Wal;

use super::members::is_outsider;
use crate::consensus::{Consensus, ConsensusStatus, Leadership, ProposalOutcome};

/// The sizes of the entries that a leader has proposed, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct EntrySizes {
    /// Of the last one.
    pub last: usize,
    /// The smallest and the largest.
    pub min: usize,
    pub max: usize,
}

/// What a server knows of its time as leader.
#[derive(Debug, Default)]
struct Lead {
    /// The last term in which it led and has given that up.
    given_up: Option<Term>,
    /// The term in which it leads, and since when.
    since: Option<(Term, Instant)>,
    proposed: Option<EntrySizes>,
}

impl Lead {
    /// Notes the term in which this server leads.
    fn leads(&mut self, term: Option<Term>) {
        if self.since.map(|(known, _)| known) != term {
            (self.since, self.proposed) = (term.map(|term| (term, Instant::now())), None);
        }
    }

    fn proposes(&mut self, bytes: usize) {
        let (min, max) = self.proposed.map_or((bytes, bytes), |known| (known.min, known.max));
        let proposed = EntrySizes { last: bytes, min: min.min(bytes), max: max.max(bytes) };
        self.proposed = Some(proposed);
    }
}

fn locked(lead: &Mutex<Lead>) -> MutexGuard<'_, Lead> {
    lead.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A handle on the consensus. Clones are the same server.
#[derive(Clone, Debug)]
pub(super) struct ConsensusHandle {
    consensus: Arc<dyn Consensus>,
    wal: Arc<Wal>,
    status: watch::Receiver<ConsensusStatus>,
    lead: Arc<Mutex<Lead>>,
}

impl Deref for ConsensusHandle {
    type Target = dyn Consensus;

    fn deref(&self) -> &Self::Target {
        &*self.consensus
    }
}

impl ConsensusHandle {
    pub(super) fn new(consensus: Arc<dyn Consensus>, wal: Arc<Wal>) -> Self {
        let status = consensus.status();
        Self { consensus, wal, status, lead: Arc::default() }
    }

    /// Returns this server's number.
    pub(super) fn server(&self) -> u64 {
        self.node().server()
    }

    /// Returns whether this server has neither entries nor what was made of some.
    pub(super) fn log_is_empty(&self) -> bool {
        let state = self.wal.state();
        state.last.is_none() && state.purged.is_none()
    }

    /// Returns whether this server's directory belongs to the ensemble, with a vote or without.
    pub(super) fn is_in_membership(&self) -> bool {
        let membership = self.view().membership;
        membership.node(self.node()).is_some_and(|member| !is_outsider(member))
    }

    /// Returns whether the ensemble was ever changed at run time: then the configuration no longer
    /// counts.
    pub(super) fn is_ensemble_changed(&self) -> bool {
        let membership = self.view().membership;
        membership.nodes.values().any(|member| !is_outsider(member) && !member.line.is_empty())
    }

    /// Returns who leads, as far as this server knows.
    pub(super) fn leadership(&self) -> Option<Leadership> {
        self.status.borrow().leadership
    }

    pub(super) fn is_leader(&self) -> bool {
        self.leadership().is_some_and(|leadership| leadership.leader == self.node())
    }

    /// This server is about to give its lead up: from now on its word counts no longer, while the
    /// others may already listen to another.
    pub(super) fn give_up(&self) {
        if let Some(known) = self.leadership().filter(|known| known.leader == self.node()) {
            locked(&self.lead).given_up = Some(known.term);
        }
    }

    /// Returns the last term in which this server led and gave that up.
    pub(super) fn given_up(&self) -> Option<Term> {
        locked(&self.lead).given_up
    }

    /// Returns whether this server leads and has not given that up.
    pub(super) fn leads_on(&self) -> bool {
        let known = self.leadership().filter(|known| known.leader == self.node());
        known.is_some_and(|known| self.given_up() != Some(known.term))
    }

    /// Notes the term in which this server leads, if it does.
    pub(super) fn leads(&self, term: Option<Term>) {
        locked(&self.lead).leads(term);
    }

    /// Proposes a batch, and notes its size. See [`Consensus::propose`].
    pub(super) async fn propose(
        &self,
        batch: Bytes,
        term: Option<Term>,
        outcome: ProposalOutcome,
    ) -> bool {
        locked(&self.lead).proposes(batch.len());
        self.consensus.propose(batch, term, outcome).await
    }

    /// For how long this server has led, if it does.
    pub(super) fn led_for(&self) -> Option<Duration> {
        locked(&self.lead).since.map(|(_, since)| since.elapsed())
    }

    /// What it has proposed as leader since its election, or since these were reset.
    pub(super) fn proposed(&self) -> Option<EntrySizes> {
        locked(&self.lead).proposed
    }

    pub(super) fn reset_proposed(&self) {
        locked(&self.lead).proposed = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_leader_counts_from_its_election() {
        let mut lead = Lead::default();
        lead.leads(Some(Term(3)));
        for bytes in [50, 7, 90, 20] {
            lead.proposes(bytes);
        }
        assert_eq!(lead.proposed, Some(EntrySizes { last: 20, min: 7, max: 90 }));
        lead.leads(Some(Term(3)));
        assert!(lead.proposed.is_some() && lead.since.is_some(), "the same lead");
        lead.leads(Some(Term(5)));
        assert_eq!(lead.proposed, None);
        assert_eq!(lead.since.map(|(term, _)| term), Some(Term(5)));
        lead.given_up = Some(Term(5));
        lead.leads(None);
        assert!(lead.since.is_none());
        assert_eq!(lead.given_up, Some(Term(5)), "it is known until it gives another term up");
    }
}
