use super::*;

const NODE: NodeId = NodeId(7);
const OTHER: NodeId = NodeId(8);
const MS: Duration = Duration::from_millis(1);

/// No message for this time, and for none longer before.
fn silence(ms: u64) -> Silence {
    let lasts = Duration::from_millis(ms);
    Silence { lasts, longest: lasts }
}

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
            leader_silence: Some(silence(0)),
            state_age: Some(Duration::ZERO),
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
        assert_eq!((decision.role, decision.catch_up), (Role::Looking, CatchUp::GoOn));
    }
    script.seen.has_caught_up = true;
    let decision = script.step();
    assert_eq!((decision.role, decision.catch_up), (Role::Follower, CatchUp::No));
    // From then on it keeps up, until it has lost its leader.
    script.seen.has_caught_up = false;
    assert_eq!(script.step().role, Role::Follower);
    let silence_max = script.timing().silence_max();
    script.seen.leader_silence = Some(Silence { lasts: silence_max, longest: silence_max });
    let decision = script.step();
    assert_eq!((decision.role, decision.catch_up), (Role::Looking, CatchUp::No));
    script.seen.leader_silence = Some(silence(0));
    assert_eq!(script.step().catch_up, CatchUp::GoOn);
}

/// A message of the present leader was the first thing that a server received when it went on, before
/// it looked at how long there had been none: it served what it had.
#[test]
fn a_follower_that_was_stopped_catches_up_though_a_leader_has_just_sent() {
    let mut script = Script::follower();
    let longest = script.timing().silence_max();
    script.seen.leader_silence = Some(Silence { lasts: Duration::ZERO, longest });
    let decision = script.step();
    assert_eq!((decision.role, decision.catch_up), (Role::Looking, CatchUp::Anew));
    // It had asked before it was stopped.
    script.seen.has_caught_up = true;
    let decision = script.step();
    assert_eq!((decision.role, decision.catch_up), (Role::Looking, CatchUp::Anew));
    script.seen.leader_silence = Some(silence(0));
    assert_eq!(script.step().role, Role::Follower);
}

/// Its successor may lead since long ago.
#[test]
fn a_leader_that_was_replaced_catches_up_before_it_follows() {
    let mut script = Script::leader();
    script.seen.leadership = Some(Leadership { leader: OTHER, term: Term(4) });
    let decision = script.step();
    assert_eq!((decision.role, decision.catch_up), (Role::Looking, CatchUp::GoOn));
    script.seen.has_caught_up = true;
    assert_eq!(script.step().role, Role::Follower);
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
        assert!(!decision.is_member && !decision.may_elect && decision.catch_up == CatchUp::No);
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
    let limit = script.timing().election_max * DISK_STALL_ELECTIONS;
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
    let limit = script.timing().election_max * DISK_STALL_ELECTIONS;
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

#[test]
fn a_follower_campaigns_when_its_leader_is_gone() {
    let mut script = Script::follower();
    assert!(!script.step().campaigns);
    script.seen.leader_is_gone = true;
    assert!(script.step().campaigns);
    assert_eq!(script.step().role, Role::Follower, "its clients are served as before");
    let cannot: [fn(&mut Observations); 3] = [
        |seen| seen.is_voter = false,
        |seen| seen.is_removed = true,
        |seen| seen.has_diverged = true,
    ];
    for change in cannot {
        let mut script = Script::follower();
        script.seen.leader_is_gone = true;
        change(&mut script.seen);
        assert!(!script.step().campaigns);
    }
}

/// It heard its leader's heartbeats and received no entries.
#[test]
fn a_follower_with_an_old_state_stops_serving_until_it_has_caught_up() {
    for is_voter in [true, false] {
        let mut script = Script::follower();
        script.seen.is_voter = is_voter;
        let limit = script.timing().sync_limit + script.timing().silence_max();
        script.seen.state_age = Some(limit.saturating_sub(MS));
        let decision = script.step();
        assert_ne!(decision.role, Role::Looking);
        assert_eq!(decision.too_old, None);
        script.seen.state_age = Some(limit);
        let decision = script.step();
        assert_eq!((decision.role, decision.too_old), (Role::Looking, Some(limit)));
        let decision = script.step();
        assert_eq!((decision.role, decision.too_old), (Role::Looking, None), "reported once");
        assert_eq!(decision.catch_up, CatchUp::GoOn);
        (script.seen.state_age, script.seen.has_caught_up) = (Some(Duration::ZERO), true);
        assert_ne!(script.step().role, Role::Looking);
    }
}

/// A leader whose last entry is not acknowledged.
fn leader_with_an_open_entry() -> Script {
    let mut script = Script::leader();
    (script.seen.committed, script.seen.last_log) = (Some(LogIndex(4)), Some(LogIndex(6)));
    script.seen.others_can_lead = true;
    assert_eq!(script.step().stuck_for, None);
    script
}

/// Its heartbeats arrived and its entries did not: no other server began an election.
#[test]
fn a_leader_whose_entries_do_not_arrive_steps_down_and_does_not_run_again_at_once() {
    let mut script = leader_with_an_open_entry();
    let (limit, lease) = (script.timing().step_down_limit(), script.timing().election_max);
    let nearly = script.after(limit.saturating_sub(MS));
    assert_eq!((nearly.stuck_for, nearly.role), (None, Role::Leader));
    let decision = script.after(MS);
    assert_eq!((decision.stuck_for, decision.role), (Some(limit), Role::Looking));
    assert!(decision.suspects_quorum && decision.sends_heartbeats && !decision.may_elect);
    // No server answers a leader that is silent.
    script.seen.others_can_lead = false;
    let sent: Vec<(bool, bool)> = (0..5)
        .map(|_| script.after(lease))
        .map(|decision| (decision.sends_heartbeats, decision.holds_entries))
        .collect();
    let silent = (false, true);
    assert_eq!(sent, [silent, silent, silent, (true, false), silent]);
    // Another server is elected.
    script.seen.leadership = Some(Leadership { leader: OTHER, term: Term(4) });
    script.seen.leader_is_gone = true;
    let decision = script.step();
    assert!(!decision.may_elect && !decision.campaigns && !decision.holds_entries);
    assert!(!script.after(limit.saturating_sub(MS)).may_elect);
    assert!(script.after(MS).may_elect);
}

#[test]
fn a_leader_leads_on_as_long_as_its_entries_are_committed_or_no_other_can_be_elected() {
    let mut script = leader_with_an_open_entry();
    let limit = script.timing().step_down_limit();
    script.seen.last_log = Some(LogIndex(900));
    for committed in 5..9 {
        assert_eq!(script.after(limit.saturating_sub(MS)).stuck_for, None);
        script.seen.committed = Some(LogIndex(committed));
        assert_eq!(script.after(MS).stuck_for, None, "it makes progress");
    }
    // It has led in another term and did not notice what came between.
    script.after(limit / 2);
    script.seen.leadership = Some(Leadership { leader: NODE, term: Term(5) });
    assert_eq!(script.after(limit / 2).stuck_for, None);
    script.seen.leadership = Some(Leadership { leader: NODE, term: Term(3) });
    script.seen.committed = script.seen.last_log;
    assert_eq!(script.after(limit).stuck_for, None, "none is open");
    let mut alone = leader_with_an_open_entry();
    alone.seen.others_can_lead = false;
    let decision = alone.after(limit * 3);
    assert_eq!((decision.stuck_for, decision.role), (None, Role::Leader));
    assert!(decision.may_elect);
    alone.seen.others_can_lead = true;
    assert_eq!(alone.step().stuck_for, Some(limit * 3));
    // The hole is gone, and none was elected meanwhile.
    alone.seen.committed = alone.seen.last_log;
    let decision = alone.step();
    assert_eq!((decision.stuck_for, decision.role), (None, Role::Leader));
}

/// A stall of 0.5 s, with a `syncLimit` of as much, deposed it before a lost leader would be missed.
#[test]
fn a_leader_leads_on_for_some_election_timeouts_whatever_the_sync_limit() {
    let mut script = leader_with_an_open_entry();
    script.state.timing.sync_limit = MS;
    let limit = script.timing().step_down_limit();
    assert!(limit >= script.timing().silence_max() * 4);
    assert_eq!(script.after(limit.saturating_sub(MS)).stuck_for, None);
    assert_eq!(script.after(MS).stuck_for, Some(limit));
}

/// It served its old state for as long as it had not applied what was committed.
#[test]
fn a_leader_with_an_old_state_stops_serving_until_it_has_nearly_caught_up() {
    let mut script = Script::leader();
    let limit = script.timing().state_age_max();
    let ages = [
        (limit.saturating_sub(MS), Role::Leader, None),
        (limit, Role::Looking, Some(limit)),
        (limit.saturating_sub(MS), Role::Looking, None),
        ((limit / 2).saturating_sub(MS), Role::Leader, None),
    ];
    for (age, role, too_old) in ages {
        script.seen.state_age = Some(age);
        let decision = script.step();
        assert_eq!((decision.role, decision.too_old), (role, too_old));
    }
}

/// Its successor was elected behind that moment, and gives the sessions more time than this.
#[test]
fn the_lease_of_a_leader_counts_from_what_a_majority_has_answered() {
    let mut script = Script::leader();
    let length = script.timing().silence_max();
    let length_ms = u64::try_from(length.as_millis()).unwrap();
    script.seen.now_ms = 5000;
    assert_eq!(script.step().lease_until_ms, Some(5000 + length_ms));
    script.seen.quorum_silent_for = Some(Duration::from_millis(120));
    assert_eq!(script.step().lease_until_ms, Some(5000 + length_ms - 120));
    script.seen.quorum_silent_for = Some(length);
    assert_eq!(script.step().lease_until_ms, None);
}

#[test]
fn the_lease_of_a_follower_counts_from_when_its_state_was_complete() {
    let mut script = Script::follower();
    let length_ms = u64::try_from(script.timing().silence_max().as_millis()).unwrap();
    script.seen.now_ms = 5000;
    for age_ms in [120, 3000] {
        script.seen.state_age = Some(Duration::from_millis(age_ms));
        assert_eq!(script.step().lease_until_ms, Some(5000 + length_ms - age_ms));
    }
    script.seen.leader_silence = Some(silence(length_ms));
    assert_eq!(script.step().lease_until_ms, None);
    script.seen.leader_silence = Some(silence(0));
    assert_eq!(script.step().lease_until_ms, None, "it has to catch up");
}

/// At load 60 each late message ended in an election.
#[test]
fn a_follower_that_waits_for_its_leader_begins_no_election() {
    let mut script = Script::follower();
    script.seen.waits_for_leader = true;
    assert!(!script.step().may_elect);
    script.seen.leader_is_gone = true;
    assert!(script.step().campaigns, "its process was found to be gone");
    script.seen.waits_for_leader = false;
    assert!(script.step().may_elect);
}

/// The thread that writes the log is scheduled as late as all others.
#[test]
fn a_leader_gives_its_disk_more_time_while_work_is_late() {
    let (mut script, patience) = (Script::leader(), 600 * MS);
    let limit = script.timing().election_max * DISK_STALL_ELECTIONS;
    (script.seen.disk_busy_with, script.seen.patience) = (Some(4), patience);
    assert_eq!(script.step().hand_over, None);
    assert_eq!(script.after(limit).hand_over, None);
    let silent_for = limit + patience;
    assert_eq!(script.after(patience).hand_over, Some(HandOver::DiskStalled { silent_for }));
}

/// Its followers must know at once that they cannot rely on it, but an election can wait.
#[test]
fn a_starved_leader_suspects_its_quorum_at_once_and_is_silent_later() {
    let (mut script, patience) = (Script::leader(), 600 * MS);
    let (silence_max, lease) = (script.timing().silence_max(), script.timing().election_max);
    script.seen.patience = patience;
    script.after(10 * silence_max);
    script.seen.quorum_silent_for = Some(silence_max);
    let decision = script.step();
    assert!(decision.suspects_quorum && !decision.gives_way && decision.sends_heartbeats);
    script.seen.quorum_silent_for = Some(silence_max + patience);
    let decision = script.step();
    assert!(decision.gives_way && decision.sends_heartbeats);
    let sends = [lease, patience, lease + patience, lease + patience, lease + patience];
    let sends = sends.map(|time| script.after(time).sends_heartbeats);
    assert_eq!(sends, [true, false, false, false, true]);
}
