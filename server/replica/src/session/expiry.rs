//! When sessions end for want of a sign of life: the leader's clock (protocol §7.4).
//!
//! Sessions expire together, at multiples of the tick, so that a sign of life mostly changes
//! nothing, and those that are due are found without looking at the others.

use std::collections::{BTreeMap, BTreeSet};

use zoolet_jute::SessionId;

/// The deadlines of all sessions. Empty on servers that do not lead.
#[derive(Debug)]
pub(crate) struct Expiry {
    tick_ms: u64,
    sessions: BTreeMap<SessionId, Deadline>,
    // Invariant: holds exactly the sessions that are not decided, under their `due_ms`.
    buckets: BTreeMap<u64, BTreeSet<SessionId>>,
}

#[derive(Clone, Copy, Debug)]
struct Deadline {
    timeout_ms: u64,
    /// On the monotonic clock, a multiple of the tick unless the process was paused.
    due_ms: u64,
    /// Its end is proposed: signs of life come too late.
    decided: bool,
}

impl Expiry {
    pub(crate) fn new(tick_ms: u64) -> Self {
        Self { tick_ms: tick_ms.max(1), sessions: BTreeMap::new(), buckets: BTreeMap::new() }
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
        self.sessions.insert(session, Deadline { timeout_ms, due_ms, decided: false });
        self.buckets.entry(due_ms).or_default().insert(session);
    }

    /// A session gave a sign of life. Unknown ones stay unknown; for decided ones it counts only if the
    /// decision is revoked.
    pub(crate) fn touch(&mut self, session: SessionId, now_ms: u64) {
        let Some(&deadline) = self.sessions.get(&session) else { return };
        let due_ms = self.due_after(now_ms, deadline.timeout_ms);
        if due_ms <= deadline.due_ms {
            return;
        }
        self.sessions.insert(session, Deadline { due_ms, ..deadline });
        if !deadline.decided {
            self.leave_bucket(session, deadline);
            self.buckets.entry(due_ms).or_default().insert(session);
        }
    }

    /// The session has ended.
    pub(crate) fn forget(&mut self, session: SessionId) {
        if let Some(deadline) = self.sessions.remove(&session) {
            self.leave_bucket(session, deadline);
        }
    }

    /// Decides the end of sessions that are due, at most `max` of them; the others wait for the
    /// next call.
    pub(crate) fn decide(&mut self, now_ms: u64, max: usize) -> Vec<SessionId> {
        let due: Vec<SessionId> = self
            .buckets
            .range(..=now_ms)
            .flat_map(|(_, sessions)| sessions.iter().copied())
            .take(max)
            .collect();
        for session in &due {
            self.decide_one(*session);
        }
        due
    }

    /// Decides the end of one session, due or not. False if it is unknown, or decided already.
    pub(crate) fn decide_one(&mut self, session: SessionId) -> bool {
        let undecided = self.sessions.get_mut(&session).filter(|deadline| !deadline.decided);
        let Some(deadline) = undecided else { return false };
        let before = *deadline;
        deadline.decided = true;
        self.leave_bucket(session, before);
        true
    }

    /// A decision was lost on its way into the log, or refused: the session is judged anew.
    pub(crate) fn revoke(&mut self, session: SessionId) {
        if let Some(deadline) = self.sessions.get_mut(&session) {
            deadline.decided = false;
            self.buckets.entry(deadline.due_ms).or_default().insert(session);
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
        for deadline in self.sessions.values_mut() {
            deadline.due_ms = deadline.due_ms.saturating_add(by_ms);
        }
    }

    /// Another server leads. Returns the deadlines so far, which take long to free.
    pub(crate) fn take(&mut self) -> Self {
        std::mem::replace(self, Self::new(self.tick_ms))
    }

    /// The number of deadlines.
    pub(crate) fn len(&self) -> usize {
        self.sessions.len()
    }

    /// Whether the session has a deadline, decided or not.
    pub(crate) fn knows(&self, session: SessionId) -> bool {
        self.sessions.contains_key(&session)
    }

    /// Whether the session is there, and its end not proposed.
    pub(crate) fn is_undecided(&self, session: SessionId) -> bool {
        self.sessions.get(&session).is_some_and(|deadline| !deadline.decided)
    }

    /// When the session expires without another sign of life, on the monotonic clock.
    pub(crate) fn due_ms(&self, session: SessionId) -> Option<u64> {
        self.sessions.get(&session).map(|deadline| deadline.due_ms)
    }

    /// Takes a session out of the bucket of its deadline; one that is decided is in none.
    fn leave_bucket(&mut self, session: SessionId, deadline: Deadline) {
        let Deadline { due_ms, decided, .. } = deadline;
        let mut was_there = false;
        if let Some(bucket) = self.buckets.get_mut(&due_ms) {
            was_there = bucket.remove(&session);
            if bucket.is_empty() {
                self.buckets.remove(&due_ms);
            }
        }
        invariant!(was_there != decided, "session {session} due at {due_ms} ms: decided {decided}");
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
        assert_eq!(expiry.decide(9999, 9), []);
        expiry.revoke(A);
        assert_eq!(expiry.decide(2500, 9), [A], "a lost decision is taken again");
        expiry.touch(A, 2501);
        assert_eq!(expiry.decide(9999, 9), []);
        expiry.revoke(A);
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
        assert_eq!(expiry.decide(2000, 3).len(), 3);
        assert_eq!(expiry.decide(2000, 3), [SessionId(4), SessionId(5)]);
    }

    #[test]
    fn one_session_can_be_decided_before_it_is_due() {
        let mut expiry = Expiry::new(500);
        expiry.grant(A, 1000, 0);
        expiry.grant(B, 1000, 0);
        assert!(expiry.decide_one(A));
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
