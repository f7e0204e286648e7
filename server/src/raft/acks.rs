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
    /// When it last took more entries, or more of a snapshot.
    progress_at: Option<Instant>,
    /// Whether it has lost what it had.
    is_lost: bool,
    /// The stamp of its answer to that append.
    stamp: Option<u64>,
}

impl Ack {
    fn take(&mut self, taken: Option<LogIndex>) {
        if taken > self.taken {
            (self.taken, self.progress_at) = (taken, Some(Instant::now()));
        }
    }
}

impl Acks {
    /// Notes that a node has accepted an append of `term` that was sent at `sent_at`, and that it has
    /// all entries up to `taken`, if it said so.
    pub(super) fn note(&self, node: NodeId, term: Term, sent_at: Instant, taken: Option<LogIndex>) {
        let mut acks = self.lock();
        let first = Ack { term, sent_at, taken, progress_at: None, is_lost: false, stamp: None };
        if acks.get(&node).is_none_or(|last| last.term < term) {
            acks.insert(node, first);
        } else if let Some(last) = acks.get_mut(&node).filter(|last| last.term == term) {
            last.sent_at = last.sent_at.max(sent_at);
            last.take(taken);
        }
    }

    /// Notes the stamp of the answer to an append that was noted before, unless a later one is answered.
    pub(super) fn note_stamp(&self, node: NodeId, term: Term, sent_at: Instant, stamp: u64) {
        let mut acks = self.lock();
        if let Some(ack) = acks.get_mut(&node)
            && (ack.term, ack.sent_at) == (term, sent_at)
        {
            ack.stamp = Some(stamp);
        }
    }

    /// Returns the stamp of the last answer of a node in `term`.
    pub(super) fn stamp(&self, node: NodeId, term: Term) -> Option<u64> {
        self.lock().get(&node).filter(|ack| ack.term == term)?.stamp
    }

    /// Notes that a node has all entries up to `taken` by a snapshot, which is not a sign that it
    /// accepts this server as its leader.
    pub(super) fn note_snapshot(&self, node: NodeId, term: Term, taken: LogIndex) {
        let mut acks = self.lock();
        if let Some(ack) = acks.get_mut(&node).filter(|ack| ack.term == term) {
            ack.take(Some(taken));
        }
    }

    /// Notes that a node has taken a part of a snapshot.
    pub(super) fn note_chunk(&self, node: NodeId, term: Term) {
        let mut acks = self.lock();
        if let Some(ack) = acks.get_mut(&node).filter(|ack| ack.term == term) {
            ack.progress_at = Some(Instant::now());
        }
    }

    /// Returns the time since the node last took more entries in `term`, or more of a snapshot.
    pub(super) fn idle_for(&self, now: Instant, node: NodeId, term: Term) -> Option<Duration> {
        let acks = self.lock();
        let progress_at = acks.get(&node).filter(|ack| ack.term == term)?.progress_at?;
        Some(now.saturating_duration_since(progress_at))
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
        self.sent_at(node, term).map(|sent_at| now.saturating_duration_since(sent_at))
    }

    fn sent_at(&self, node: NodeId, term: Term) -> Option<Instant> {
        self.lock().get(&node).filter(|ack| ack.term == term).map(|ack| ack.sent_at)
    }

    /// Returns whether a majority has accepted appends of `term` that were sent at `asked_at` or later,
    /// the leader itself included; with two sets of voters, a majority of each.
    ///
    /// It compares moments and reads no clock: a thread that is descheduled at any point accepts no
    /// answer to an append from before the question.
    pub(super) fn has_quorum_since(
        &self,
        asked_at: Instant,
        leader: NodeId,
        term: Term,
        configs: &[BTreeSet<NodeId>],
    ) -> bool {
        let has_answered = |voter: &&NodeId| {
            **voter == leader || self.sent_at(**voter, term).is_some_and(|at| at >= asked_at)
        };
        let is_majority = |voters: &BTreeSet<NodeId>| {
            voters.iter().filter(has_answered).count() > voters.len() / 2
        };
        !configs.is_empty() && configs.iter().all(is_majority)
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
    use tokio::time::advance;

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

    /// A read index was compared with a clock that was read after the silence was measured: a thread
    /// that was descheduled in between accepted an answer from before the question.
    #[test]
    fn an_answer_from_before_the_question_never_confirms_it() {
        let (acks, term, asked_at) = (Acks::default(), Term(7), Instant::now() + MS);
        let confirms =
            |configs: &[&[u64]]| acks.has_quorum_since(asked_at, node(1), term, &voters(configs));
        assert!(confirms(&[&[1]]) && !confirms(&[]) && !confirms(&[&[1, 2, 3]]));
        acks.note(node(2), term, asked_at - MS, None);
        assert!(!confirms(&[&[1, 2, 3]]));
        acks.note(node(2), term, asked_at, None);
        assert!(confirms(&[&[1, 2, 3]]) && !confirms(&[&[1, 2, 3, 4]]));
        assert!(!confirms(&[&[1, 2, 3], &[1, 3, 4]]), "a majority of both sets");
        acks.note(node(3), Term(6), asked_at, None);
        assert!(!confirms(&[&[1, 2, 3, 4]]), "another term");
        assert!(!confirms(&[&[2, 3, 4]]), "a leader without a vote does not count");
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
    fn the_stamp_is_that_of_the_answer_to_the_newest_append() {
        let (acks, start, term) = (Acks::default(), Instant::now(), Term(7));
        let stamp = |at: u32, stamp| {
            acks.note(node(2), term, start + MS * at, None);
            acks.note_stamp(node(2), term, start + MS * at, stamp);
            acks.stamp(node(2), term)
        };
        assert_eq!(acks.stamp(node(2), term), None);
        assert_eq!(stamp(5, 50), Some(50));
        assert_eq!(stamp(3, 70), Some(50), "the answer to an earlier one has taken longer");
        assert_eq!(stamp(6, 10), Some(10), "it was restarted");
        acks.note(node(2), Term(8), start, None);
        assert_eq!((acks.stamp(node(2), term), acks.stamp(node(2), Term(8))), (None, None));
    }

    #[tokio::test(start_paused = true)]
    async fn progress_is_more_of_the_log_or_of_a_snapshot() {
        let (acks, term) = (Acks::default(), Term(7));
        let idle = |term| acks.idle_for(Instant::now(), node(2), term);
        acks.note_chunk(node(2), term);
        acks.note(node(2), term, Instant::now(), Some(LogIndex(5)));
        assert_eq!(idle(term), None, "the end of its log alone does not count as progress");
        acks.note(node(2), term, Instant::now(), Some(LogIndex(6)));
        advance(9 * MS).await;
        acks.note(node(2), term, Instant::now(), Some(LogIndex(6)));
        acks.note(node(2), term, Instant::now(), None);
        assert_eq!((idle(term), idle(Term(8))), (Some(9 * MS), None));
        acks.note_chunk(node(2), Term(6));
        assert_eq!(idle(term), Some(9 * MS), "another term");
        acks.note_chunk(node(2), term);
        assert_eq!(idle(term), Some(Duration::ZERO));
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
