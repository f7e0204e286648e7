//! What this server may do in its ensemble: serve, lead, begin elections, send heartbeats.
//!
//! [`RoleState::step`] decides all of it from what the server observes at one moment. It is pure, so
//! that tests can script it; `supervisor` observes and carries out.

use std::time::Duration;

use tokio::time::Instant;
use zoolet_replica::{Role, Term};

use super::options::Timing;
use crate::consensus::Leadership;
use crate::node_id::NodeId;

/// How many of its followers' leases a leader that suspects its quorum stays silent, after one in
/// which it sends: one until they vote for others, one until a candidate asks for their votes, and
/// one for an election in which the first candidate fails.
const SILENT_LEASES: u128 = 3;

/// A leader whose transactions count this far in its term hands over: the next term begins with
/// the counter at zero again, long before it could overflow.
const COUNTER_MAX: u32 = 0xf000_0000;

/// What a server knows at one moment.
#[derive(Clone, Copy, Debug, Default)]
#[allow(clippy::struct_excessive_bools, reason = "each is an observation of its own")]
pub(super) struct Observations {
    /// Whom it knows as the leader.
    pub leadership: Option<Leadership>,
    /// Its own id in the membership.
    pub node: NodeId,
    /// Whether the membership has it as a member, and what else it says.
    pub is_listed: bool,
    pub is_voter: bool,
    pub is_only_voter: bool,
    /// Whether others have reported a later membership without it: a removed server gets no more of
    /// the log.
    pub is_removed: bool,
    /// The time since a message of a leader that does not suspect its quorum; `None`: never.
    pub leader_silent_for: Option<Duration>,
    /// As leader: the time since the last message that a majority has answered was sent.
    pub quorum_silent_for: Option<Duration>,
    /// The term of the last entry that it has applied.
    pub applied_term: Option<Term>,
    /// The last term in which it led and gave that up.
    pub given_up: Option<Term>,
    /// Whether its state differs from the majority's.
    pub has_diverged: bool,
    /// Whether it has just applied all that was committed when it asked, and its state was compared.
    pub has_caught_up: bool,
    /// The number of the batch that the disk is working on, if it is.
    pub disk_busy_with: Option<u64>,
    /// As leader, when it was looked at: how far its transactions count in this term.
    pub counter: u32,
    /// Whether it is making another server the leader.
    pub is_handing_over: bool,
}

/// Why a leader gives its lead up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum HandOver {
    /// Its own disk does not answer. Its heartbeats would go on, and no other server would begin an
    /// election, but its writes are stalled.
    DiskStalled {
        /// The time since its last answer.
        silent_for: Duration,
    },
    /// Its state differs from the majority's.
    Diverged,
    /// The numbers of its term's transactions run out.
    NumbersRunOut,
}

/// What a server may do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(clippy::struct_excessive_bools, reason = "each answers a question of its own")]
pub(super) struct Decision {
    /// What it is for its clients. A leader or follower serves them; a server that looks for its
    /// ensemble serves read-only ones.
    pub role: Role,
    /// The term in which it leads, if it does.
    pub term: Option<Term>,
    /// Whether it belongs to the ensemble.
    pub is_member: bool,
    /// Whether it must stop serving for good, because of its state.
    pub is_halted: bool,
    /// Whether it begins elections. A server that was removed would ask for votes until it is
    /// stopped.
    pub may_elect: bool,
    /// Whether it sends heartbeats as leader.
    pub sends_heartbeats: bool,
    /// Whether its appends say that it suspects that it has lost its quorum.
    pub suspects_quorum: bool,
    /// Whether it must catch up before it may serve: what it has may be long out of date, or differ
    /// from what the others have.
    pub must_catch_up: bool,
    /// Whether it makes another server the leader now, and why.
    pub hand_over: Option<HandOver>,
    /// The disk has just answered after this time, for which the server has given its lead up.
    pub stall_ended_after: Option<Duration>,
}

/// A write to the log that is not done.
#[derive(Clone, Copy, Debug)]
struct Stall {
    batch: u64,
    since: Instant,
    /// This server led, and has given that up.
    cost_lead: bool,
}

/// What a server remembers from one decision to the next.
#[derive(Debug)]
pub(super) struct RoleState {
    timing: Timing,
    /// The role that was decided last.
    role: Role,
    /// The term in which it leads, and since when it knows.
    leads: Option<(Term, Instant)>,
    /// Since when it suspects, as leader, that it has lost its quorum.
    suspected_since: Option<Instant>,
    stall: Option<Stall>,
    /// When it last tried to hand over for a reason that stays.
    tried_at: Option<Instant>,
}

impl RoleState {
    /// A server that has just started, and looks for its ensemble.
    pub(super) fn new(timing: Timing) -> Self {
        Self {
            timing,
            role: Role::Looking,
            leads: None,
            suspected_since: None,
            stall: None,
            tried_at: None,
        }
    }

    /// Decides what the server may do now.
    pub(super) fn step(&mut self, now: Instant, seen: &Observations) -> Decision {
        let leader = seen.leadership.map(|known| known.leader);
        let own_term =
            seen.leadership.filter(|known| known.leader == seen.node).map(|known| known.term);
        match own_term {
            Some(term) if self.leads.is_none_or(|(known, _)| known != term) => {
                self.leads = Some((term, now));
            }
            None if leader.is_some() => self.leads = None,
            Some(_) | None => {}
        }
        let is_member = seen.is_listed && !seen.is_removed;
        let may_serve = is_member && !seen.has_diverged;
        // Also one that must not serve: its followers serve as long as they get messages of a
        // leader that does not suspect its quorum.
        let suspects_quorum = own_term.is_some() && self.lacks_quorum(now, seen);
        let wanted = match (leader, own_term) {
            (Some(_), _) if !may_serve => Role::Looking,
            (Some(_), Some(term)) => self.as_leader(term, seen),
            (Some(_), None) => self.as_follower(seen),
            (None, _) => Role::Looking,
        };
        let follows = matches!(wanted, Role::Follower | Role::Observer);
        let must_catch_up = self.role == Role::Looking && follows && !seen.has_caught_up;
        self.role = if must_catch_up { Role::Looking } else { wanted };
        Decision {
            role: self.role,
            // A server that leads again in another term may have missed another leader in between.
            term: own_term.filter(|_| self.role == Role::Leader),
            is_member,
            is_halted: seen.has_diverged,
            may_elect: !seen.is_removed && !seen.has_diverged,
            sends_heartbeats: self.sends_heartbeats(now, suspects_quorum),
            suspects_quorum,
            must_catch_up,
            stall_ended_after: self.follow_disk(now, seen.disk_busy_with),
            hand_over: self.hand_over(now, seen, own_term.is_some()),
        }
    }

    /// Returns whether this leader has had the time for replies of a majority, and has none.
    fn lacks_quorum(&self, now: Instant, seen: &Observations) -> bool {
        let has_waited =
            self.leads.is_some_and(|(_, since)| now - since >= self.timing.silence_max());
        has_waited && !self.has_quorum(seen)
    }

    fn has_quorum(&self, seen: &Observations) -> bool {
        seen.is_only_voter
            || seen.quorum_silent_for.is_some_and(|silent| silent < self.timing.silence_max())
    }

    fn as_leader(&self, term: Term, seen: &Observations) -> Role {
        // The first entry of its term brings all that earlier leaders have committed.
        let is_current = seen.applied_term == Some(term);
        let leads_on = self.has_quorum(seen) && seen.given_up != Some(term);
        if is_current && leads_on { Role::Leader } else { Role::Looking }
    }

    fn as_follower(&self, seen: &Observations) -> Role {
        let is_led = seen.leader_silent_for.is_some_and(|time| time < self.timing.silence_max());
        match (is_led, seen.is_voter) {
            (false, _) => Role::Looking,
            (true, true) => Role::Follower,
            (true, false) => Role::Observer,
        }
    }

    /// A server that gets messages of a leader votes for no other, even if it reaches a majority that
    /// the leader does not reach. So a leader that suspects its quorum is silent most of the time.
    fn sends_heartbeats(&mut self, now: Instant, suspects_quorum: bool) -> bool {
        let since = self.suspected_since.filter(|_| suspects_quorum);
        self.suspected_since = since.or_else(|| suspects_quorum.then_some(now));
        let lease = self.timing.election_max.as_millis().max(1);
        let leases = self.suspected_since.map_or(0, |since| (now - since).as_millis() / lease);
        leases.is_multiple_of(SILENT_LEASES + 1)
    }

    fn hand_over(&mut self, now: Instant, seen: &Observations, leads: bool) -> Option<HandOver> {
        if seen.is_handing_over {
            return None;
        }
        if let Some(silent_for) = self.stalled_for(now, leads) {
            return Some(HandOver::DiskStalled { silent_for });
        }
        let reason = if seen.has_diverged {
            HandOver::Diverged
        } else if !seen.is_only_voter && seen.counter >= COUNTER_MAX {
            // With one voter alone the counter carries into the epoch.
            HandOver::NumbersRunOut
        } else {
            return None;
        };
        let is_due = self.tried_at.is_none_or(|at| now - at >= self.timing.election_max);
        (leads && is_due).then(|| {
            self.tried_at = Some(now);
            reason
        })
    }

    /// Follows what the disk is working on. Returns how long a write has taken that is done now and
    /// has cost this server its lead.
    fn follow_disk(&mut self, now: Instant, busy_with: Option<u64>) -> Option<Duration> {
        if self.stall.map(|stall| stall.batch) == busy_with {
            return None;
        }
        let begun = busy_with.map(|batch| Stall { batch, since: now, cost_lead: false });
        let over = std::mem::replace(&mut self.stall, begun);
        over.filter(|over| over.cost_lead).map(|over| now - over.since)
    }

    /// Returns, once for each write that takes too long while this server leads, for how long it has
    /// taken.
    fn stalled_for(&mut self, now: Instant, leads: bool) -> Option<Duration> {
        // An election is over by then, so giving up earlier would gain nothing.
        let limit = self.timing.election_max * 2;
        let stall = self.stall.as_mut()?;
        let silent_for = now - stall.since;
        let is_due = leads && !stall.cost_lead && silent_for >= limit;
        stall.cost_lead |= is_due;
        is_due.then_some(silent_for)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NODE: NodeId = NodeId(7);
    const OTHER: NodeId = NodeId(8);

    /// Steps a server through observations, at times that only the script moves.
    struct Script {
        state: RoleState,
        now: Instant,
        seen: Observations,
    }

    impl Script {
        /// A member with a vote that has no leader yet.
        fn new() -> Self {
            let timing = Timing::from_tick(Duration::from_secs(2));
            let seen = Observations {
                node: NODE,
                is_listed: true,
                is_voter: true,
                leader_silent_for: Some(Duration::ZERO),
                quorum_silent_for: Some(Duration::ZERO),
                applied_term: Some(Term(3)),
                ..Observations::default()
            };
            Self { state: RoleState::new(timing), now: Instant::now(), seen }
        }

        fn led_by(leader: NodeId) -> Self {
            let mut script = Self::new();
            script.seen.leadership = Some(Leadership { leader, term: Term(3) });
            script
        }

        /// A server that leads and serves.
        fn leader() -> Self {
            let mut script = Self::led_by(NODE);
            assert_eq!(script.step().role, Role::Leader);
            script
        }

        /// A server that follows and serves.
        fn follower() -> Self {
            let mut script = Self::led_by(OTHER);
            script.seen.has_caught_up = true;
            assert_eq!(script.step().role, Role::Follower);
            script.seen.has_caught_up = false;
            script
        }

        fn timing(&self) -> Timing {
            self.state.timing
        }

        fn step(&mut self) -> Decision {
            self.state.step(self.now, &self.seen)
        }

        fn after(&mut self, time: Duration) -> Decision {
            self.now += time;
            self.step()
        }
    }

    #[test]
    fn a_follower_serves_only_what_it_has_caught_up_with() {
        let mut script = Script::led_by(OTHER);
        for _ in 0..2 {
            let decision = script.step();
            assert_eq!((decision.role, decision.must_catch_up), (Role::Looking, true));
        }
        script.seen.has_caught_up = true;
        let decision = script.step();
        assert_eq!((decision.role, decision.must_catch_up), (Role::Follower, false));
        // From then on it keeps up, until it has lost its leader.
        script.seen.has_caught_up = false;
        assert_eq!(script.step().role, Role::Follower);
        script.seen.leader_silent_for = Some(script.timing().silence_max());
        assert_eq!(script.step().role, Role::Looking);
        script.seen.leader_silent_for = Some(Duration::ZERO);
        assert!(script.step().must_catch_up);
    }

    #[test]
    fn a_server_without_a_vote_observes() {
        let mut script = Script::led_by(OTHER);
        (script.seen.is_voter, script.seen.has_caught_up) = (false, true);
        assert_eq!(script.step().role, Role::Observer);
    }

    #[test]
    fn a_leader_serves_once_it_has_applied_an_entry_of_its_term() {
        let mut script = Script::led_by(NODE);
        script.seen.applied_term = Some(Term(2));
        let decision = script.step();
        assert_eq!((decision.role, decision.term), (Role::Looking, None));
        script.seen.applied_term = Some(Term(3));
        let decision = script.step();
        assert_eq!((decision.role, decision.term), (Role::Leader, Some(Term(3))));
        // It serves no longer once it has given that term up.
        script.seen.given_up = Some(Term(3));
        assert_eq!(script.step().role, Role::Looking);
    }

    /// The machine must know of it: another server may have led in between.
    #[test]
    fn leading_again_is_another_term() {
        let mut script = Script::leader();
        script.seen.leadership = Some(Leadership { leader: NODE, term: Term(5) });
        script.seen.applied_term = Some(Term(5));
        let decision = script.step();
        assert_eq!((decision.role, decision.term), (Role::Leader, Some(Term(5))));
    }

    #[test]
    fn a_leader_without_a_majority_stops_serving_and_says_so_when_it_had_the_time() {
        let mut script = Script::led_by(NODE);
        script.seen.quorum_silent_for = None;
        let decision = script.step();
        assert_eq!((decision.role, decision.suspects_quorum), (Role::Looking, false), "elected");
        let silence = script.timing().silence_max();
        let decision = script.after(silence);
        assert_eq!((decision.role, decision.suspects_quorum), (Role::Looking, true));
        script.seen.quorum_silent_for = Some(Duration::ZERO);
        let decision = script.step();
        assert_eq!((decision.role, decision.suspects_quorum), (Role::Leader, false));
        script.seen.quorum_silent_for = Some(silence);
        script.seen.is_only_voter = true;
        let decision = script.after(silence);
        assert_eq!((decision.role, decision.suspects_quorum), (Role::Leader, false), "alone");
    }

    #[test]
    fn a_leader_that_suspects_its_quorum_sends_in_one_lease_of_four() {
        let mut script = Script::leader();
        let lease = script.timing().election_max;
        script.seen.quorum_silent_for = None;
        let sent: Vec<bool> = (0..10).map(|_| script.after(lease).sends_heartbeats).collect();
        // In the first two leases it has had no time for replies of a majority.
        let expected = [true, true, false, false, false, true, false, false, false, true];
        assert_eq!(sent, expected);
        script.seen.quorum_silent_for = Some(Duration::ZERO);
        assert!(script.after(lease).sends_heartbeats);
    }

    /// Its followers would take it for a leader with a majority again.
    #[test]
    fn a_leader_goes_on_suspecting_its_quorum_when_it_must_not_serve() {
        let lease = Script::new().timing().election_max;
        for is_removed in [false, true] {
            let mut script = Script::leader();
            script.seen.quorum_silent_for = None;
            script.after(lease * 3);
            (script.seen.is_removed, script.seen.has_diverged) = (is_removed, !is_removed);
            let steps: Vec<Decision> = (0..4).map(|_| script.after(lease)).collect();
            assert!(steps.iter().all(|step| step.suspects_quorum), "{steps:?}");
            let sends = steps.iter().filter(|step| step.sends_heartbeats).count();
            assert_eq!(sends, 1, "{steps:?}");
        }
    }

    #[test]
    fn a_removed_server_serves_no_client_and_begins_no_election() {
        for mut script in [Script::leader(), Script::follower()] {
            assert!(script.step().is_member && script.step().may_elect);
            script.seen.is_removed = true;
            let decision = script.step();
            assert_eq!((decision.role, decision.term), (Role::Looking, None));
            assert!(!decision.is_member && !decision.may_elect && !decision.must_catch_up);
            // It may be taken in again.
            script.seen.is_removed = false;
            assert!(script.step().may_elect);
        }
    }

    #[test]
    fn a_server_whose_state_is_wrong_stops_and_hands_over_again_and_again() {
        let mut script = Script::leader();
        script.seen.has_diverged = true;
        let decision = script.step();
        assert_eq!((decision.role, decision.hand_over), (Role::Looking, Some(HandOver::Diverged)));
        assert!(decision.is_halted && !decision.may_elect && decision.is_member);
        let pause = script.timing().election_max;
        assert_eq!(script.after(pause / 2).hand_over, None);
        assert_eq!(script.after(pause / 2).hand_over, Some(HandOver::Diverged));
        script.seen.leadership = Some(Leadership { leader: OTHER, term: Term(4) });
        assert_eq!(script.after(pause).hand_over, None, "it leads no longer");
    }

    #[test]
    fn a_leader_hands_over_once_for_a_stalled_write() {
        let mut script = Script::leader();
        script.seen.disk_busy_with = Some(40);
        assert_eq!(script.step().hand_over, None);
        let limit = script.timing().election_max * 2;
        script.seen.disk_busy_with = Some(41);
        assert_eq!(script.after(limit).hand_over, None, "another write");
        // A hand-over that is under way comes first.
        script.seen.is_handing_over = true;
        assert_eq!(script.after(limit).hand_over, None);
        script.seen.is_handing_over = false;
        let silent_for = limit;
        assert_eq!(script.step().hand_over, Some(HandOver::DiskStalled { silent_for }));
        let decision = script.after(limit);
        assert_eq!((decision.hand_over, decision.stall_ended_after), (None, None));
        script.seen.disk_busy_with = None;
        assert_eq!(script.after(limit).stall_ended_after, Some(limit * 3));
        assert_eq!(script.after(limit).stall_ended_after, None);
    }

    #[test]
    fn a_follower_with_a_slow_disk_has_no_lead_to_give_up() {
        let mut script = Script::follower();
        script.seen.disk_busy_with = Some(1);
        script.step();
        let limit = script.timing().election_max * 2;
        assert_eq!(script.after(limit).hand_over, None);
        script.seen.disk_busy_with = None;
        assert_eq!(script.after(limit).stall_ended_after, None);
    }

    #[test]
    fn a_leader_hands_over_before_the_numbers_of_its_term_run_out() {
        let mut script = Script::leader();
        script.seen.counter = COUNTER_MAX - 1;
        assert_eq!(script.step().hand_over, None);
        script.seen.counter = COUNTER_MAX;
        assert_eq!(script.step().hand_over, Some(HandOver::NumbersRunOut));
        assert_eq!(script.step().hand_over, None);
        let mut alone = Script::leader();
        (alone.seen.counter, alone.seen.is_only_voter) = (COUNTER_MAX, true);
        assert_eq!(alone.step().hand_over, None);
    }
}
