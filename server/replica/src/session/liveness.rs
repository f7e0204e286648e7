//! Which sessions are alive: the one place for it.
//!
//! A client *touches* its session with everything that it sends. Servers that follow *report* the
//! touched sessions to the leader, twice in a tick and for every ping; only the leader *counts* them,
//! against the deadline that it has *granted* each session, and *expires* those that are due. What a
//! ping's answer promises is in `ping`, the deadlines are in `expiry`, and the reports' way to the
//! leader is `replication/touches.rs` of the server.

use zoolet_jute::SessionId;

use crate::proposals::{CommandDraft, ProposalOwner};
use crate::{ConnectionId, Op, Output, Replica, Role};

/// The most expiries and reapings on their way into the log at a time, so that the end of many
/// sessions at once does not delay all other writes.
pub(super) const BACKGROUND_MAX: usize = 1000;

/// The most deadlines that are freed at once when a leadership ends.
const DEADLINES_FREED_AT_ONCE: usize = 1000;

impl Replica {
    /// Forgets when sessions are due, and not which are ending: what was decided may be in the log.
    pub(super) fn forget_deadlines(&mut self) {
        self.rest.ungranted = None;
        if planted!("deadlines-outlive-their-term") {
            return;
        }
        let deadlines = self.expiry.take();
        if deadlines.len() > DEADLINES_FREED_AT_ONCE {
            self.garbage.deadlines = Some(deadlines);
        }
    }

    /// Gives some sessions their timeouts and the grace of a new leader, less the silences that this
    /// server knows of, unless they have a deadline already; false if none are left.
    pub(crate) fn grant_some(&mut self) -> bool {
        let Some(part) = self.rest.ungranted else { return false };
        let (mut looks, mut found) = (1, Vec::new());
        self.rest.ungranted = self.state.sessions_of_part(part).map(|sessions| {
            for (session, known) in sessions {
                looks += 1;
                if !self.expiry.knows(session) {
                    found.push((session, known.timeout_ms, self.silence_of(session, known)));
                }
            }
            part + 1
        });
        for (session, timeout, silence_ms) in found {
            let active_ms = self.active_before_takeover(silence_ms, timeout);
            self.expiry.assume(session, timeout_ms(timeout), active_ms);
        }
        self.spend(looks);
        true
    }

    /// Gives a session with a sign of life its timeout, if a new leader has not come to it yet.
    pub(super) fn grant_early(&mut self, session: SessionId) {
        if self.rest.ungranted.is_some()
            && !self.expiry.knows(session)
            && self.role == Role::Leader
            && let Some(known) = self.state.session(session)
        {
            let active_ms = self.takeover_from_ms();
            self.expiry.assume(session, timeout_ms(known.timeout_ms), active_ms);
        }
    }

    /// Returns the moment from which a new leader counts the timeouts of the sessions that it finds.
    pub(super) fn takeover_from_ms(&self) -> u64 {
        if planted!("sessions-end-with-their-leader") {
            return 0;
        }
        let grace_ms =
            if planted!("takeover-without-grace") { 0 } else { self.options.takeover_grace_ms };
        self.now.mono_ms.saturating_add(grace_ms)
    }

    /// A session's client gave a sign of life, on one of this server's connections.
    pub(crate) fn touch(&mut self, connection: ConnectionId) {
        let now_ms = self.now.mono_ms;
        let Some(active) = self.connections.get_mut(&connection) else { return };
        active.active_ms = self.silent.now_ms();
        // Most requests change nothing about the deadline; the mark shows that at once.
        if self.read_only {
            active.touch_mark = now_ms;
        } else if self.role == Role::Leader {
            let mark = self.expiry.due_after(now_ms, timeout_ms(active.timeout_ms));
            if std::mem::replace(&mut active.touch_mark, mark) != mark {
                let session = active.session;
                self.grant_early(session);
                self.expiry.touch(session, now_ms);
            }
        } else if std::mem::replace(&mut active.touch_mark, self.touch_round) != self.touch_round {
            self.touched.push(active.session);
        }
    }

    pub(crate) fn on_touched(&mut self, sessions: &[SessionId]) {
        self.spend(sessions.len());
        for session in sessions {
            self.grant_early(*session);
            if !planted!("reported-sessions-are-not-touched") {
                self.expiry.touch(*session, self.now.mono_ms);
            }
        }
    }

    /// Gives a session its whole timeout, if this server leads.
    pub(super) fn grant(&mut self, session: SessionId) {
        if self.role == Role::Leader
            && let Some(known) = self.state.session(session)
        {
            self.expiry.grant(session, timeout_ms(known.timeout_ms), self.now.mono_ms);
        }
    }

    /// Whether this server leads, and a sign of life of this session counts.
    pub fn counts(&self, session: SessionId) -> bool {
        self.role == Role::Leader && self.has_lease() && self.expiry.is_undecided(session)
    }

    /// Returns whether a majority has answered this leader so lately that a successor would not end
    /// sessions earlier than it would. A leader that was stopped may be replaced by now and not know it.
    fn has_lease(&self) -> bool {
        planted!("lease-without-end") || self.now.mono_ms < self.lease_until_ms
    }

    /// Whether what this server has may be too old to be served (P9): nothing has come from a leader,
    /// or as leader from a majority, for longer than a server may serve without. One that was stopped
    /// is asked for more before it knows which part it has now.
    pub(crate) fn is_out_of_date(&self) -> bool {
        let limit_ms = self.options.leader_loss_limit_ms;
        !self.read_only && self.now.mono_ms > self.lease_until_ms.saturating_add(limit_ms)
    }

    /// Takes a new lease. What has waited for it is counted at once.
    pub(crate) fn on_lease(&mut self, until_ms: u64, out: &mut Vec<Output>) {
        let was_over = !self.has_lease();
        self.lease_until_ms = until_ms;
        if was_over && self.role == Role::Leader {
            self.retry_held_pings(out);
        }
    }

    /// Reports signs of life to the leader; returns the number of the touch.
    pub(super) fn report_touched(
        &mut self,
        sessions: Vec<SessionId>,
        out: &mut Vec<Output>,
    ) -> u64 {
        self.touch_last += 1;
        out.push(Output::Touch { number: self.touch_last, sessions });
        self.touch_last
    }

    /// Reports this server's signs of life to the leader, twice in each tick.
    pub(super) fn report_all_touched(&mut self, out: &mut Vec<Output>) {
        let half_tick_ms = self.options.tick_ms / 2;
        if self.now.mono_ms < self.last_touch_ms.saturating_add(half_tick_ms) {
            return;
        }
        self.last_touch_ms = self.now.mono_ms;
        self.touch_round += 1;
        if !self.touched.is_empty() {
            let sessions = std::mem::take(&mut self.touched);
            self.report_touched(sessions, out);
        }
    }

    /// Time in which this process did not run is not held against the clients, and what they have
    /// sent meanwhile is read before anything is decided.
    pub(crate) fn notice_pause(&mut self) {
        let now_ms = self.now.mono_ms;
        let Some(last_ms) = self.last_step_ms.replace(now_ms) else { return };
        let gap_ms = now_ms.saturating_sub(last_ms);
        let pause_ms = self.options.pause_ms();
        if gap_ms <= pause_ms {
            self.count_silence(gap_ms);
            return;
        }
        if self.role == Role::Leader {
            self.expiry.postpone(gap_ms);
            self.expire_from_ms = now_ms.saturating_add(pause_ms);
        }
    }

    pub(super) fn expire(&mut self, out: &mut Vec<Output>) {
        if self.now.mono_ms < self.expire_from_ms || self.term.is_none() {
            return;
        }
        let max = BACKGROUND_MAX.saturating_sub(self.proposals.background());
        for session in self.expiry.decide(self.now.mono_ms, max) {
            self.propose_expiry(session, out);
        }
    }

    /// Whether this server leads, and can end this session by [`Input::Expire`](crate::Input::Expire).
    pub fn can_expire(&self, session: SessionId) -> bool {
        self.role == Role::Leader && self.state.session(session).is_some()
    }

    /// Ends a session at once, unless it is resumed or another server is elected meanwhile.
    pub(crate) fn on_expire(&mut self, session: SessionId, out: &mut Vec<Output>) {
        self.grant_early(session);
        if self.expiry.decide_one(session) {
            self.propose_expiry(session, out);
        }
    }

    fn propose_expiry(&mut self, session: SessionId, out: &mut Vec<Output>) {
        let Some(term) = self.term else { return };
        let Some(known) = self.state.session(session) else { return };
        let op = Op::ExpireSession { generation: known.generation, term };
        let draft = CommandDraft::own(session, op);
        let number = self.propose(ProposalOwner::Expiry(session), draft, out);
        self.expiry.note_proposal(session, number);
    }
}

/// A session's timeout as a time: never negative.
fn timeout_ms(negotiated: i32) -> u64 {
    u64::try_from(negotiated).unwrap_or(0)
}
