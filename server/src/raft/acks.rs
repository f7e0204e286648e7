//! When the followers have last accepted this server as their leader, and up to where they have said
//! that they have its log.
//!
//! openraft keeps such times as well, but takes the answer to one append for that to a later one
//! without entries that is under way: with several under way it would count a follower as heard
//! that has been silent for as long as the first answer took.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::Instant;
use zoolet_storage::LogIndex;

use crate::consensus::Term;
use crate::node_id::NodeId;

/// What each node has accepted from this server.
#[derive(Debug, Default)]
pub(super) struct Acks(Mutex<BTreeMap<NodeId, Ack>>);

/// What a node has accepted in a term.
#[derive(Debug)]
struct Ack {
    term: Term,
    /// When the last append was sent that it has accepted.
    sent_at: Instant,
    /// The last entry that it has said to have.
    taken: Option<LogIndex>,
    /// Whether it has lost what it had.
    is_lost: bool,
}

impl Acks {
    /// Notes that a node has accepted an append of `term` that was sent at `sent_at`, and that it has
    /// all entries up to `taken`, if it said so.
    pub(super) fn note(&self, node: NodeId, term: Term, sent_at: Instant, taken: Option<LogIndex>) {
        let mut acks = self.lock();
        let first = Ack { term, sent_at, taken: None, is_lost: false };
        let last = acks.entry(node).or_insert(first);
        if last.term < term {
            *last = Ack { term, sent_at, taken, is_lost: false };
        } else if last.term == term {
            last.sent_at = last.sent_at.max(sent_at);
            last.taken = last.taken.max(taken);
        }
    }

    /// Notes that a node has all entries up to `taken` by a snapshot, which is not a sign that it
    /// accepts this server as its leader.
    pub(super) fn note_snapshot(&self, node: NodeId, term: Term, taken: LogIndex) {
        let mut acks = self.lock();
        if let Some(ack) = acks.get_mut(&node).filter(|ack| ack.term == term) {
            ack.taken = ack.taken.max(Some(taken));
        }
    }

    /// Returns whether a node has said in `term` that it has the entry.
    pub(super) fn has_taken(&self, node: NodeId, term: Term, index: LogIndex) -> bool {
        let acks = self.lock();
        acks.get(&node).is_some_and(|ack| ack.term == term && ack.taken >= Some(index))
    }

    /// Notes that a node has lost entries that it had. True if this was not known.
    pub(super) fn note_loss(&self, node: NodeId) -> bool {
        let mut acks = self.lock();
        acks.get_mut(&node).is_some_and(|ack| !std::mem::replace(&mut ack.is_lost, true))
    }

    /// Returns the time since the last append of `term` was sent that the node has accepted.
    pub(super) fn silent_for(&self, now: Instant, node: NodeId, term: Term) -> Option<Duration> {
        let acks = self.lock();
        let ack = acks.get(&node).filter(|ack| ack.term == term)?;
        Some(now.saturating_duration_since(ack.sent_at))
    }

    /// Returns the time since the last append of `term` was sent that a majority has accepted, the
    /// leader itself included; with two sets of voters, a majority of each. `None` if there is none.
    pub(super) fn quorum_silent_for(
        &self,
        now: Instant,
        leader: NodeId,
        term: Term,
        configs: &[BTreeSet<NodeId>],
    ) -> Option<Duration> {
        let silent_for = |voters: &BTreeSet<NodeId>| {
            let mut times: Vec<_> = voters
                .iter()
                .filter_map(|voter| {
                    let is_leader = *voter == leader;
                    is_leader
                        .then_some(Duration::ZERO)
                        .or_else(|| self.silent_for(now, *voter, term))
                })
                .collect();
            times.sort_unstable();
            times.get(voters.len() / 2).copied()
        };
        let times: Option<Vec<_>> = configs.iter().map(silent_for).collect();
        times?.into_iter().max()
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<NodeId, Ack>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn node(server: u64) -> NodeId {
        NodeId::new(server, 0)
    }

    fn voters(configs: &[&[u64]]) -> Vec<BTreeSet<NodeId>> {
        configs.iter().map(|voters| voters.iter().copied().map(node).collect()).collect()
    }

    const MS: Duration = Duration::from_millis(1);

    #[test]
    fn a_majority_is_as_silent_as_its_most_silent_member() {
        let (acks, term, start) = (Acks::default(), Term(7), Instant::now());
        let now = start + 100 * MS;
        let silent =
            |configs: &[&[u64]]| acks.quorum_silent_for(now, node(1), term, &voters(configs));
        assert_eq!(silent(&[&[1]]), Some(Duration::ZERO), "a leader alone is its majority");
        assert_eq!(silent(&[&[1, 2, 3]]), None);
        acks.note(node(2), term, start + 40 * MS, None);
        acks.note(node(2), term, start + 10 * MS, None);
        assert_eq!(silent(&[&[1, 2, 3]]), Some(60 * MS), "an older one does not count");
        assert_eq!(silent(&[&[1, 2, 3, 4]]), None, "two of four are not enough");
        acks.note(node(3), term, start + 30 * MS, None);
        assert_eq!(silent(&[&[1, 2, 3, 4]]), Some(70 * MS));
        assert_eq!(silent(&[&[1, 2, 3], &[1, 3, 4]]), Some(70 * MS), "a majority of both sets");
        assert_eq!(silent(&[&[1, 2, 3], &[1, 4, 5]]), None);
        assert_eq!(silent(&[&[2, 3, 4]]), Some(70 * MS), "a leader without a vote does not count");
    }

    #[test]
    fn another_term_does_not_count() {
        let (acks, start) = (Acks::default(), Instant::now());
        let silent = |server, term| acks.silent_for(start + 5 * MS, node(server), Term(term));
        acks.note(node(2), Term(7), start, None);
        assert_eq!(silent(2, 8), None);
        acks.note(node(2), Term(8), start, None);
        acks.note(node(2), Term(7), start + MS, None);
        assert_eq!(silent(2, 8), Some(5 * MS));
        assert_eq!(silent(3, 8), None);
    }

    #[test]
    fn what_was_taken_counts_in_its_term() {
        let (acks, start) = (Acks::default(), Instant::now());
        let has_taken = |term, index| acks.has_taken(node(2), Term(term), LogIndex(index));
        assert!(!acks.note_loss(node(2)), "it has accepted nothing");
        acks.note(node(2), Term(7), start, Some(LogIndex(5)));
        acks.note(node(2), Term(7), start, Some(LogIndex(3)));
        acks.note(node(2), Term(7), start, None);
        assert!(has_taken(7, 5) && !has_taken(7, 6) && !has_taken(8, 5));
        acks.note_snapshot(node(2), Term(7), LogIndex(6));
        acks.note_snapshot(node(2), Term(6), LogIndex(7));
        acks.note_snapshot(node(3), Term(7), LogIndex(7));
        assert!(has_taken(7, 6) && !has_taken(7, 7));
        assert_eq!(acks.silent_for(start, node(3), Term(7)), None);
        assert!(acks.note_loss(node(2)) && !acks.note_loss(node(2)));
        acks.note(node(2), Term(8), start, None);
        acks.note(node(2), Term(7), start, Some(LogIndex(9)));
        assert!(!has_taken(8, 0), "it may have lost them to the leader of the later term");
        assert!(acks.note_loss(node(2)), "another leader, another loss");
    }
}
