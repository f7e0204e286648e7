//! When the followers have last accepted this server as their leader.
//!
//! openraft keeps such times as well, but takes the answer to one append for that to a later one
//! without entries that is under way: with several under way it would count a follower as heard
//! that has been silent for as long as the first answer took.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

use crate::consensus::Term;
use crate::node_id::NodeId;

/// By node: the term of the last append that it has accepted from this server, and when that append
/// was sent.
#[derive(Debug, Default)]
pub(super) struct Acks(Mutex<BTreeMap<NodeId, (Term, Instant)>>);

impl Acks {
    /// Notes that a node has accepted an append of `term` that was sent at `sent_at`.
    pub(super) fn note(&self, node: NodeId, term: Term, sent_at: Instant) {
        let mut acks = self.lock();
        let last = acks.entry(node).or_insert((term, sent_at));
        *last = (*last).max((term, sent_at));
    }

    /// Returns the time since the last append of `term` was sent that the node has accepted.
    pub(super) fn silent_for(&self, now: Instant, node: NodeId, term: Term) -> Option<Duration> {
        let acks = self.lock();
        let (_, sent_at) = acks.get(&node).filter(|(accepted, _)| *accepted == term)?;
        Some(now.saturating_duration_since(*sent_at))
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

    fn lock(&self) -> MutexGuard<'_, BTreeMap<NodeId, (Term, Instant)>> {
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
        acks.note(node(2), term, start + 40 * MS);
        acks.note(node(2), term, start + 10 * MS);
        assert_eq!(silent(&[&[1, 2, 3]]), Some(60 * MS), "an older one does not count");
        assert_eq!(silent(&[&[1, 2, 3, 4]]), None, "two of four are not enough");
        acks.note(node(3), term, start + 30 * MS);
        assert_eq!(silent(&[&[1, 2, 3, 4]]), Some(70 * MS));
        assert_eq!(silent(&[&[1, 2, 3], &[1, 3, 4]]), Some(70 * MS), "a majority of both sets");
        assert_eq!(silent(&[&[1, 2, 3], &[1, 4, 5]]), None);
        assert_eq!(silent(&[&[2, 3, 4]]), Some(70 * MS), "a leader without a vote does not count");
    }

    #[test]
    fn another_term_does_not_count() {
        let (acks, start) = (Acks::default(), Instant::now());
        let silent = |server, term| acks.silent_for(start + 5 * MS, node(server), Term(term));
        acks.note(node(2), Term(7), start);
        assert_eq!(silent(2, 8), None);
        acks.note(node(2), Term(8), start);
        acks.note(node(2), Term(7), start + MS);
        assert_eq!(silent(2, 8), Some(5 * MS));
        assert_eq!(silent(3, 8), None);
    }
}
