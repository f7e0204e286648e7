//! What this server may do in its ensemble: serve, lead, begin elections, send heartbeats.
//!
//! [`RoleState::step`] decides all of it from what the server observes at one moment. It is pure, so
//! that tests can script it; `supervisor` observes and carries out.

#[cfg(test)]
mod tests;

use std::time::Duration;

use tokio::time::Instant;
use zoolet_replica::{Role, Term};
use zoolet_storage::LogIndex;

use super::leader_contact::Silence;
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

/// How long a write to the log may take before a leader gives its lead up, in election timeouts.
const DISK_STALL_ELECTIONS: u32 = 4;

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
    /// Whether the process of the leader that it follows was just found to be gone.
    pub leader_is_gone: bool,
    /// How long no message came of a leader that does not suspect its quorum; `None`: never one.
    pub leader_silence: Option<Silence>,
    /// The time since the moment up to which its state is known to be complete; `None`: never known.
    pub state_age: Option<Duration>,
    /// As leader: the time since the last message that a majority has answered was sent.
    pub quorum_silent_for: Option<Duration>,
    /// The last entry of the log, and the last that is known to be committed.
    pub last_log: Option<LogIndex>,
    pub committed: Option<LogIndex>,
    /// As leader: whether enough of the other voters answer to elect one of themselves, which could
    /// then commit at once.
    pub others_can_lead: bool,
    /// The machine's clock, read before all else that is here.
    pub now_ms: u64,
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
    /// As follower: whether it still waits for the leader, which is silent.
    pub waits_for_leader: bool,
    /// The time for which work may be late on this machine.
    pub patience: Duration,
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

/// Whether a server must catch up before it may serve: what it has may be long out of date, or differ
/// from what the others have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum CatchUp {
    /// No.
    No,
    /// It must; an attempt that is under way goes on.
    GoOn,
    /// It must, and an attempt that is under way began before this server missed something.
    Anew,
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
    /// Until when the role holds, on the machine's clock: the longest allowed silence after the moment
    /// up to which the state is complete, or as leader after the last message that a majority has
    /// answered. A role alone is not enough: a server that was stopped does not know for how long.
    pub lease_until_ms: Option<u64>,
    /// Whether it belongs to the ensemble.
    pub is_member: bool,
    /// Whether it must stop serving for good, because of its state.
    pub is_halted: bool,
    /// Whether it begins elections. A server that was removed would ask for votes until it is
    /// stopped.
    pub may_elect: bool,
    /// Whether it stands for election now, and does not wait for the leader's lease to end.
    pub campaigns: bool,
    /// Whether it sends heartbeats as leader.
    pub sends_heartbeats: bool,
    /// Whether its appends say that it suspects that it has lost its quorum.
    pub suspects_quorum: bool,
    /// Whether it is silent most of the time, so that another server can be elected.
    pub gives_way: bool,
    /// Whether it holds its entries back, too, so that another server can be elected.
    pub holds_entries: bool,
    /// As leader that steps down: how long it has committed none of the entries that wait.
    pub stuck_for: Option<Duration>,
    /// The age of its state, if it has served until now and its state is too old for that.
    pub too_old: Option<Duration>,
    /// Whether it must catch up before it may serve.
    pub catch_up: CatchUp,
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

/// The progress of a leader's entries.
#[derive(Clone, Copy, Debug, Default)]
struct AppendProgress {
    /// The term in which entries wait for a majority, what is committed, and since when no more is.
    waits: Option<(Term, Option<LogIndex>, Instant)>,
    /// That was too long ago, and other servers could have another leader then. It stays so
    /// while they do: they hear this leader seldom meanwhile.
    is_stuck: bool,
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
    appends: AppendProgress,
    /// Until when it begins no elections, because it led and its entries did not arrive.
    held_back_until: Option<Instant>,
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
            appends: AppendProgress::default(),
            held_back_until: None,
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
        let stuck_for = self.follow_appends(now, seen, own_term);
        // Also one that must not serve: its followers serve as long as they get messages of a
        // leader that does not suspect its quorum.
        let lacks_quorum = |patience| own_term.is_some() && self.lacks_quorum(now, seen, patience);
        let suspects_quorum = stuck_for.is_some() || lacks_quorum(Duration::ZERO);
        let gives_way = stuck_for.is_some() || lacks_quorum(seen.patience);
        let sends_heartbeats = self.sends_heartbeats(now, gives_way, seen.patience);
        let too_old = self.too_old(seen);
        let wanted = match (leader, own_term) {
            (Some(_), _) if !may_serve || stuck_for.is_some() => Role::Looking,
            (Some(_), Some(term)) => self.as_leader(term, seen),
            (Some(_), None) => self.as_follower(seen),
            (None, _) => Role::Looking,
        };
        let catch_up = if is_led(wanted) { self.catch_up(seen) } else { CatchUp::No };
        let is_held_back = self.held_back_until.is_some_and(|until| now < until);
        let may_run = !seen.is_removed && !seen.has_diverged && !is_held_back;
        self.role = if catch_up == CatchUp::No { wanted } else { Role::Looking };
        Decision {
            role: self.role,
            // A server that leads again in another term may have missed another leader in between.
            term: own_term.filter(|_| self.role == Role::Leader),
            lease_until_ms: self.lease_until_ms(seen),
            is_member,
            is_halted: seen.has_diverged,
            may_elect: may_run && !seen.waits_for_leader,
            campaigns: seen.leader_is_gone && may_run && seen.is_voter,
            sends_heartbeats,
            suspects_quorum,
            gives_way,
            holds_entries: stuck_for.is_some() && !sends_heartbeats,
            stuck_for,
            too_old,
            catch_up,
            stall_ended_after: self.follow_disk(now, seen.disk_busy_with),
            hand_over: self.hand_over(now, seen, own_term.is_some()),
        }
    }

    /// Returns whether this leader has had the time for replies of a majority, and has none.
    fn lacks_quorum(&self, now: Instant, seen: &Observations, patience: Duration) -> bool {
        let limit = self.timing.silence_max() + patience;
        let has_waited = self.leads.is_some_and(|(_, since)| now - since >= limit);
        has_waited && !has_quorum(seen, limit)
    }

    fn lease_until_ms(&self, seen: &Observations) -> Option<u64> {
        let millis = |time: Duration| u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
        let silence_max = self.timing.silence_max();
        match self.role {
            Role::Leader => {
                let left = silence_max.checked_sub(seen.quorum_silent_for?)?;
                Some(seen.now_ms.saturating_add(millis(left)))
            }
            // It may be over, and yet end later than the one before.
            Role::Follower | Role::Observer => {
                let until_ms = seen.now_ms.saturating_add(millis(silence_max));
                Some(until_ms.saturating_sub(millis(seen.state_age?)))
            }
            Role::Looking => None,
        }
    }

    /// Follows the progress of a leader's entries. Returns, if it must step down, for how long it has
    /// committed none although some wait: its heartbeats arrive, so no other server would begin an
    /// election, but its entries do not.
    fn follow_appends(
        &mut self,
        now: Instant,
        seen: &Observations,
        own_term: Option<Term>,
    ) -> Option<Duration> {
        let waits = !seen.is_only_voter && seen.committed < seen.last_log;
        let Some(term) = own_term.filter(|_| waits) else {
            self.appends = AppendProgress::default();
            return None;
        };
        let (known, limit) = (self.appends.waits, self.timing.step_down_limit());
        let known = known.filter(|(of, committed, _)| (*of, *committed) == (term, seen.committed));
        let Some((_, _, since)) = known else {
            let waits = Some((term, seen.committed, now));
            self.appends = AppendProgress { waits, is_stuck: false };
            return None;
        };
        let waiting_for = now - since;
        self.appends.is_stuck |=
            seen.others_can_lead && waiting_for >= limit && !planted!("stuck-leader-leads-on");
        if !self.appends.is_stuck {
            return None;
        }
        self.held_back_until = Some(now + limit);
        Some(waiting_for)
    }

    fn as_leader(&self, term: Term, seen: &Observations) -> Role {
        // The first entry of its term brings all that earlier leaders have committed.
        let is_current = seen.applied_term == Some(term);
        let leads_on = has_quorum(seen, self.timing.silence_max()) && seen.given_up != Some(term);
        // One that has stopped for its age leads again when it has nearly caught up, so that it does not
        // go back and forth.
        let age_max = match self.role {
            Role::Leader => self.timing.state_age_max(),
            Role::Follower | Role::Observer | Role::Looking => self.timing.state_age_max() / 2,
        };
        let is_young = seen.state_age.is_some_and(|age| age < age_max);
        if is_current && leads_on && is_young { Role::Leader } else { Role::Looking }
    }

    /// Decides whether a server that is led may be behind. One that follows keeps up; one that has led
    /// learns of its successor at some time behind its election. If there was no message for long, until
    /// just now, there may have been another leader, whether this server or the other stood still.
    fn catch_up(&self, seen: &Observations) -> CatchUp {
        let silence_max = self.timing.silence_max();
        if seen.leader_silence.is_some_and(|silence| silence.longest >= silence_max) {
            CatchUp::Anew
        } else if is_led(self.role)
            || seen.has_caught_up
            || (self.role == Role::Leader && planted!("replaced-leader-follows-at-once"))
        {
            CatchUp::No
        } else {
            CatchUp::GoOn
        }
    }

    /// Returns the age of a state that is served and too old for that. A server that looks for its
    /// ensemble catches up before it follows.
    fn too_old(&self, seen: &Observations) -> Option<Duration> {
        let age = seen.state_age.filter(|_| self.role != Role::Looking)?;
        (age >= self.timing.state_age_max()).then_some(age)
    }

    fn as_follower(&self, seen: &Observations) -> Role {
        let silence_max = self.timing.silence_max();
        let is_led = seen.leader_silence.is_some_and(|silence| silence.lasts < silence_max);
        match (is_led && self.too_old(seen).is_none(), seen.is_voter) {
            (false, _) => Role::Looking,
            (true, true) => Role::Follower,
            (true, false) => Role::Observer,
        }
    }

    /// A server that gets messages of a leader votes for no other, even if it reaches a majority that
    /// the leader does not reach. So a leader that gives way is silent most of the time.
    fn sends_heartbeats(&mut self, now: Instant, gives_way: bool, patience: Duration) -> bool {
        let since = self.suspected_since.filter(|_| gives_way);
        self.suspected_since = since.or_else(|| gives_way.then_some(now));
        let lease = (self.timing.election_max + patience).as_millis().max(1);
        let leases = self.suspected_since.map_or(0, |since| (now - since).as_millis() / lease);
        leases.is_multiple_of(SILENT_LEASES + 1)
    }

    fn hand_over(&mut self, now: Instant, seen: &Observations, leads: bool) -> Option<HandOver> {
        if seen.is_handing_over {
            return None;
        }
        if let Some(silent_for) = self.stalled_for(now, leads, seen.patience) {
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
    fn stalled_for(&mut self, now: Instant, leads: bool, patience: Duration) -> Option<Duration> {
        // An election is over by then, so giving up earlier would gain nothing.
        let limit = self.timing.election_max * DISK_STALL_ELECTIONS + patience;
        let stall = self.stall.as_mut()?;
        let silent_for = now - stall.since;
        let is_due = leads && !stall.cost_lead && silent_for >= limit;
        stall.cost_lead |= is_due;
        is_due.then_some(silent_for)
    }
}

fn has_quorum(seen: &Observations, silence_max: Duration) -> bool {
    seen.is_only_voter || seen.quorum_silent_for.is_some_and(|silent| silent < silence_max)
}

fn is_led(role: Role) -> bool {
    matches!(role, Role::Follower | Role::Observer)
}
