//! When sessions end for want of a sign of life: the leader's clock (protocol §7.4).
//!
//! Sessions expire together, at multiples of the tick, so that a sign of life mostly changes
//! nothing, and those that are due are found without looking at the others.

use std::collections::{BTreeMap, BTreeSet};

use zoolet_jute::SessionId;

use crate::{ProposalNumber, Term};

/// The deadlines of all sessions. On servers that do not lead it holds only decisions whose outcome is
/// unknown.
#[derive(Debug)]
pub(crate) struct Expiry {
    tick_ms: u64,
    /// The term of the decisions; none once this server has followed another leader.
    term: Option<Term>,
    sessions: BTreeMap<SessionId, Deadline>,
    // Invariant: holds exactly `sessions`, under their `due_ms`.
    buckets: BTreeMap<u64, BTreeSet<SessionId>>,
    /// The sessions whose end is decided, in `term`: signs of life come too late.
    decided: BTreeMap<SessionId, Decision>,
}

#[derive(Clone, Copy, Debug)]
struct Deadline {
    timeout_ms: u64,
    /// On the monotonic clock, a multiple of the tick unless the process was paused.
    due_ms: u64,
    /// Whether a new leader has assumed the last sign of life, and has counted none since.
    is_assumed: bool,
}

/// That a session ends. It stays until its outcome is known, or another term: what was proposed may be
/// in the log, and be committed at any time.
#[derive(Clone, Copy, Debug)]
struct Decision {
    deadline: Deadline,
    /// The last proposal of it, unless that is lost.
    proposal: Option<ProposalNumber>,
}

impl Expiry {
    pub(crate) fn new(tick_ms: u64) -> Self {
        Self {
            tick_ms: tick_ms.max(1),
            term: None,
            sessions: BTreeMap::new(),
            buckets: BTreeMap::new(),
            decided: BTreeMap::new(),
        }
    }

    /// The moment at which a session expires that gives a sign of life now: the next tick strictly after
    /// its timeout.
    pub(crate) fn due_after(&self, now_ms: u64, timeout_ms: u64) -> u64 {
        (now_ms.saturating_add(timeout_ms) / self.tick_ms)
            .saturating_add(u64::from(!planted!("expiry-a-tick-early")))
            .saturating_mul(self.tick_ms)
    }

    /// Watches over a session, with its full timeout from now, whatever was decided before.
    pub(crate) fn grant(&mut self, session: SessionId, timeout_ms: u64, now_ms: u64) {
        self.forget(session);
        let due_ms = self.due_after(now_ms, timeout_ms);
        self.watch_over(session, Deadline { timeout_ms, due_ms, is_assumed: false });
    }

    /// Watches over a session that a new leader has found, with its timeout from the latest moment at
    /// which its client may have given a sign of life.
    pub(crate) fn assume(&mut self, session: SessionId, timeout_ms: u64, active_ms: u64) {
        self.forget(session);
        let due_ms = self.due_after(active_ms, timeout_ms);
        self.watch_over(session, Deadline { timeout_ms, due_ms, is_assumed: true });
    }

    /// Another server knows that the last sign of life of a session was at `active_ms`, which counts
    /// unless this server has counted one since it leads.
    pub(crate) fn carry(&mut self, session: SessionId, active_ms: u64) {
        let Some(&known) = self.sessions.get(&session) else { return };
        let due_ms = self.due_after(active_ms, known.timeout_ms);
        let counts = known.is_assumed || planted!("silence-is-carried-for-live-sessions");
        if counts && due_ms < known.due_ms {
            self.leave_bucket(session, known);
            self.watch_over(session, Deadline { due_ms, ..known });
        }
    }

    /// A session gave a sign of life. Unknown ones stay unknown; for decided ones it counts only if the
    /// decision is revoked.
    pub(crate) fn touch(&mut self, session: SessionId, now_ms: u64) {
        let active = |this: &Self, known: Deadline| {
            let due_ms = this.due_after(now_ms, known.timeout_ms).max(known.due_ms);
            Deadline { due_ms, is_assumed: false, ..known }
        };
        if let Some(&known) = self.sessions.get(&session) {
            let later = active(self, known);
            if later.due_ms > known.due_ms {
                self.leave_bucket(session, known);
                self.watch_over(session, later);
            } else if known.is_assumed {
                self.sessions.insert(session, later);
            }
        } else if let Some(&Decision { deadline, proposal }) = self.decided.get(&session) {
            let deadline = active(self, deadline);
            self.decided.insert(session, Decision { deadline, proposal });
        }
    }

    /// The session has ended, or begins anew.
    pub(crate) fn forget(&mut self, session: SessionId) {
        self.decided.remove(&session);
        if let Some(deadline) = self.sessions.remove(&session) {
            self.leave_bucket(session, deadline);
        }
    }

    /// Decides the end of sessions that are due. Returns those whose end is to be proposed, at most
    /// `max`: first those whose proposal was lost. The others wait for the next call.
    pub(crate) fn decide(&mut self, now_ms: u64, max: usize) -> Vec<SessionId> {
        let lost = self.decided.iter().filter(|(_, decision)| decision.proposal.is_none());
        let mut ending: Vec<SessionId> = lost.map(|(session, _)| *session).take(max).collect();
        let due = self.buckets.range(..=now_ms).flat_map(|(_, sessions)| sessions.iter().copied());
        let due: Vec<SessionId> = due.take(max - ending.len()).collect();
        for session in &due {
            self.decide_one(*session);
        }
        ending.extend(due);
        ending
    }

    /// Decides the end of one session, due or not. False if it is unknown, or decided already.
    pub(crate) fn decide_one(&mut self, session: SessionId) -> bool {
        let Some(deadline) = self.sessions.remove(&session) else { return false };
        self.leave_bucket(session, deadline);
        self.decided.insert(session, Decision { deadline, proposal: None });
        true
    }

    /// What was decided is proposed.
    pub(crate) fn note_proposal(&mut self, session: SessionId, number: ProposalNumber) {
        if let Some(decision) = self.decided.get_mut(&session) {
            decision.proposal = Some(number);
        }
    }

    /// A proposal was lost, but may be in the log: it is to be made anew.
    pub(crate) fn note_loss(&mut self, session: SessionId, number: ProposalNumber) {
        if planted!("lost-expiries-are-revoked") {
            return self.revoke(session, number);
        }
        if let Some(decision) = self.decided.get_mut(&session)
            && decision.proposal == Some(number)
        {
            decision.proposal = None;
        }
    }

    /// What was proposed is refused: the session is judged anew, unless it was decided again since.
    pub(crate) fn revoke(&mut self, session: SessionId, number: ProposalNumber) {
        if let Some(decision) = self.decided.get(&session).copied()
            && decision.proposal == Some(number)
        {
            self.decided.remove(&session);
            self.watch_over(session, decision.deadline);
        }
    }

    /// This process was paused and received nothing: all deadlines move by as much.
    pub(crate) fn postpone(&mut self, by_ms: u64) {
        let by_ms = if planted!("pause-counts-as-silence") { 0 } else { by_ms };
        let buckets = std::mem::take(&mut self.buckets);
        self.buckets = buckets
            .into_iter()
            .map(|(due_ms, sessions)| (due_ms.saturating_add(by_ms), sessions))
            .collect();
        let decided = self.decided.values_mut().map(|decision| &mut decision.deadline);
        for deadline in self.sessions.values_mut().chain(decided) {
            deadline.due_ms = deadline.due_ms.saturating_add(by_ms);
        }
    }

    /// Another server may lead. Returns the deadlines so far, which take long to free; what is decided
    /// stays.
    pub(crate) fn take(&mut self) -> Self {
        let Self { tick_ms, term, .. } = *self;
        let decided = if planted!("decisions-end-with-the-lead") {
            BTreeMap::new()
        } else {
            std::mem::take(&mut self.decided)
        };
        std::mem::replace(self, Self { term, decided, ..Self::new(tick_ms) })
    }

    /// This server leads in this term, or follows another one (`None`). Decisions of another term are
    /// dropped: every server refuses them.
    pub(crate) fn enter(&mut self, term: Option<Term>) {
        if std::mem::replace(&mut self.term, term) != term {
            self.decided.clear();
        }
    }

    /// The state is replaced: forgets the decided sessions that have ended, or were resumed since.
    pub(crate) fn retain_decided(&mut self, lives_on: impl Fn(SessionId) -> bool) {
        self.decided.retain(|session, _| lives_on(*session));
    }

    /// The number of deadlines of sessions that are not decided.
    pub(crate) fn len(&self) -> usize {
        self.sessions.len()
    }

    /// Whether the session has a deadline, decided or not.
    pub(crate) fn knows(&self, session: SessionId) -> bool {
        self.sessions.contains_key(&session) || self.decided.contains_key(&session)
    }

    /// Whether the session has a deadline, and its end is not decided.
    pub(crate) fn is_undecided(&self, session: SessionId) -> bool {
        self.sessions.contains_key(&session)
    }

    /// When the session expires without another sign of life, on the monotonic clock.
    pub(crate) fn due_ms(&self, session: SessionId) -> Option<u64> {
        let decided = self.decided.get(&session).map(|decision| decision.deadline);
        self.sessions.get(&session).copied().or(decided).map(|deadline| deadline.due_ms)
    }

    fn watch_over(&mut self, session: SessionId, deadline: Deadline) {
        self.sessions.insert(session, deadline);
        self.buckets.entry(deadline.due_ms).or_default().insert(session);
    }

    /// Takes a session out of the bucket of its deadline.
    fn leave_bucket(&mut self, session: SessionId, deadline: Deadline) {
        let due_ms = deadline.due_ms;
        let mut was_there = false;
        if let Some(bucket) = self.buckets.get_mut(&due_ms) {
            was_there = bucket.remove(&session);
            if bucket.is_empty() {
                self.buckets.remove(&due_ms);
            }
        }
        invariant!(was_there, "session {session} due at {due_ms} ms is not found there");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: SessionId = SessionId(1);
    const B: SessionId = SessionId(2);

    #[test]
    fn a_session_expires_at_the_first_tick_after_its_timeout() {
        let mut expiry = Expiry::new(500);
        expiry.grant(A, 1000, 130);
        assert_eq!(expiry.decide(1499, 9), []);
        assert_eq!(expiry.decide(1500, 9), [A]);
        expiry.note_proposal(A, ProposalNumber(1));
        assert_eq!(expiry.decide(9999, 9), [], "decided once");
        // Strictly after: a deadline on the tick waits for the next.
        expiry.grant(B, 1000, 2000);
        assert_eq!(expiry.due_ms(B), Some(3500));
    }

    #[test]
    fn a_touch_moves_the_deadline_until_it_is_decided() {
        let mut expiry = Expiry::new(500);
        expiry.grant(A, 1000, 0);
        expiry.touch(A, 1499);
        assert_eq!(expiry.decide(1500, 9), []);
        assert_eq!(expiry.decide(2500, 9), [A]);
        expiry.note_proposal(A, ProposalNumber(1));
        assert_eq!(expiry.decide(9999, 9), []);
        expiry.note_loss(A, ProposalNumber(1));
        assert_eq!(expiry.decide(2500, 9), [A], "what is lost is proposed again");
        expiry.note_proposal(A, ProposalNumber(2));
        expiry.touch(A, 2501);
        expiry.revoke(A, ProposalNumber(1));
        assert_eq!(expiry.decide(9999, 9), [], "the refusal of an older proposal");
        expiry.revoke(A, ProposalNumber(2));
        assert_eq!(expiry.decide(3999, 9), [], "what was heard meanwhile counts");
        assert_eq!(expiry.decide(4000, 9), [A]);
        expiry.touch(B, 0);
        assert_eq!(expiry.due_ms(B), None, "an unknown session is not born by a touch");
    }

    #[test]
    fn no_more_than_asked_for_are_decided_and_the_rest_follows() {
        let mut expiry = Expiry::new(500);
        for session in 1..=5 {
            expiry.grant(SessionId(session), 1000, 0);
        }
        let [one, two, three, four, five] = [1, 2, 3, 4, 5].map(SessionId);
        assert_eq!(expiry.decide(2000, 3), [one, two, three]);
        for (session, number) in [(one, 1), (two, 2), (three, 3)] {
            expiry.note_proposal(session, ProposalNumber(number));
        }
        expiry.note_loss(two, ProposalNumber(2));
        assert_eq!(expiry.decide(2000, 2), [two, four], "what was lost first");
        expiry.note_proposal(two, ProposalNumber(4));
        expiry.note_proposal(four, ProposalNumber(5));
        assert_eq!(expiry.decide(2000, 3), [five]);
    }

    #[test]
    fn decisions_stay_until_another_term() {
        let mut expiry = Expiry::new(500);
        expiry.enter(Some(Term(5)));
        expiry.grant(A, 1000, 0);
        expiry.grant(B, 1000, 500);
        assert_eq!(expiry.decide(1500, 9), [A]);
        expiry.take();
        assert!(expiry.knows(A) && !expiry.is_undecided(A) && !expiry.knows(B));
        expiry.enter(Some(Term(5)));
        assert_eq!(expiry.decide(1500, 9), [A]);
        expiry.enter(Some(Term(6)));
        assert!(!expiry.knows(A));
    }

    #[test]
    fn one_session_can_be_decided_before_it_is_due() {
        let mut expiry = Expiry::new(500);
        expiry.grant(A, 1000, 0);
        expiry.grant(B, 1000, 0);
        assert!(expiry.decide_one(A));
        expiry.note_proposal(A, ProposalNumber(1));
        assert!(!expiry.decide_one(A) && !expiry.decide_one(SessionId(3)));
        expiry.touch(A, 1);
        assert!(!expiry.is_undecided(A), "a sign of life comes too late");
        assert_eq!(expiry.decide(1500, 9), [B]);
    }

    #[test]
    fn a_pause_moves_every_deadline() {
        let mut expiry = Expiry::new(500);
        expiry.grant(A, 1000, 0);
        expiry.postpone(777);
        assert_eq!(expiry.decide(1500 + 776, 9), []);
        expiry.touch(A, 1);
        assert_eq!(expiry.due_ms(A), Some(1500 + 777), "a touch never shortens");
        assert_eq!(expiry.decide(1500 + 777, 9), [A]);
    }

    #[test]
    #[should_panic(expected = "invariant broken: session 0x1 due at 1500 ms")]
    fn a_session_without_its_bucket_ends_the_server() {
        let mut expiry = Expiry::new(500);
        expiry.grant(A, 1000, 0);
        expiry.buckets.clear();
        expiry.forget(A);
    }
}
