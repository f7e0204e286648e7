//! The one loop that follows what decides this server's role, carries the decisions out, and begins and
//! ends the work that depends on who leads and who belongs to the ensemble.
//!
//! What takes time goes on beside the loop, as futures whose ends are events. Work of a leader is
//! dropped when its term here ends.

mod age;
mod catching_up;
mod events;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{mpsc, watch};
use tokio::time::{Instant, timeout};
use zoolet_replica::{Input, Role, Term};
use zoolet_storage::{LogPosition, Wal};

use self::age::others_can_lead;
use self::events::{EventSources, RoleEvent, UnderWay};
use super::comparer::Comparer;
use super::handle::ConsensusHandle;
use super::leader_contact::LeaderContact;
use super::levels::{LevelKeeper, LevelProgress};
use super::machine::Machine;
use super::members::is_outsider;
use super::moved_port::MovedPort;
use super::options::Timing;
use super::patience::Patience;
use super::read_index::ReadIndex;
use super::reconfig::{RETRY_PAUSE, Reconfigurer};
use super::replacement::Replacer;
use super::role::{Decision, HandOver, Observations, RoleState};
use super::state_age::StateAge;
use super::succession::{self, Campaign};
use super::transfer::transfer_leadership;
use crate::consensus::{Leadership, Membership};
use crate::entropy::Entropy;
use crate::fatal::Fatal;
use crate::node_id::NodeId;
use crate::peer::Links;
use crate::raft::PeerSignals;

/// The shortest time that a follower has in one attempt to catch up.
const CATCH_UP_TIME_MIN: Duration = Duration::from_secs(1);

/// Each voter waits longer than the one before it by the patience divided by this.
const VOTERS_APART: u32 = 8;

/// What the supervisor observes, and through what it acts.
#[derive(Debug)]
pub(super) struct Supervisor {
    pub handle: ConsensusHandle,
    pub machine: Arc<dyn Machine>,
    pub leader_contact: Arc<LeaderContact>,
    pub patience: Arc<Patience>,
    pub state_age: Arc<StateAge>,
    pub applied: watch::Receiver<Option<LogPosition>>,
    pub read_index: ReadIndex,
    pub comparer: Comparer,
    pub links: Arc<Links>,
    pub wal: Arc<Wal>,
    pub signals: Arc<PeerSignals>,
    pub entropy: Arc<dyn Entropy>,
    pub timing: Timing,
    pub levels: LevelKeeper,
    pub changes: Arc<Reconfigurer>,
    /// `None` for an ensemble of one.
    pub moved_port: Option<Arc<MovedPort>>,
    pub role: watch::Sender<Role>,
    /// The leader to which this server's commands go.
    pub leader: watch::Sender<Option<Leadership>>,
    pub fatal: Fatal,
}

/// What is under way beside the loop, and how far it has come.
#[allow(clippy::struct_excessive_bools, reason = "each is about work of its own")]
struct Ongoing {
    is_comparing: bool,
    is_handing_over: bool,
    /// The leader whose process is looked for, or whose place is to be taken.
    missed: Option<Leadership>,
    /// The term in which this server leads.
    leads: Option<Term>,
    /// As leader: how far it has come with the feature level, and whether a round is under way.
    levels: LevelProgress,
    is_asking_levels: bool,
    /// How many falls of the agreed feature level this server has followed, and whether it follows one.
    level_falls: u64,
    is_following_level: bool,
    /// The membership whose addresses are known to the links, and which was tried to be followed.
    tried: Option<LogPosition>,
    tried_at: Instant,
    /// The membership that was followed to its end.
    followed: Option<LogPosition>,
    is_following: bool,
    is_opening_port: bool,
}

impl Ongoing {
    fn new() -> Self {
        Self {
            is_comparing: false,
            is_handing_over: false,
            missed: None,
            leads: None,
            levels: LevelProgress::default(),
            is_asking_levels: false,
            level_falls: 0,
            is_following_level: false,
            tried: None,
            tried_at: Instant::now(),
            followed: None,
            is_following: false,
            is_opening_port: false,
        }
    }
}

impl Supervisor {
    /// Decides after each event what this server may do, for as long as the consensus goes on.
    pub(super) async fn run(self, hang_ups: mpsc::Receiver<u64>) {
        let mut sources = EventSources::new(&self, hang_ups);
        let mut ongoing = Ongoing::new();
        let mut state = RoleState::new(self.timing);
        // Where every server starts; the machine looks for a leader, too.
        let mut decided = state.step(Instant::now(), &Observations::default());
        loop {
            let event = sources.next().await;
            if event == RoleEvent::Ended {
                return self.report_end();
            }
            self.note(event, &mut sources, &mut ongoing);
            // Before the spans are measured that are compared with it.
            let now = Instant::now();
            self.patience.runs(now);
            let (observed, membership) = self.observe();
            let gone =
                observed.leadership.filter(|known| event == RoleEvent::LookedFor(*known, true));
            let seen = Observations {
                has_caught_up: event == RoleEvent::CaughtUp(true),
                is_handing_over: ongoing.is_handing_over,
                counter: self.counter(event),
                leader_is_gone: gone.is_some(),
                ..observed
            };
            let decision = state.step(now, &seen);
            self.carry_out(&decided, &decision);
            if let Some(gone) = gone {
                self.patience.waive(gone.term);
                ongoing.missed = Some(gone);
                sources.under_way.push(self.succeed(gone, decision.campaigns));
            }
            sources.catching_up.follow(decision.catch_up, event, || self.catch_up());
            if let Some(reason) = decision.hand_over {
                ongoing.is_handing_over = true;
                sources.under_way.push(self.hand_over(reason));
            }
            self.follow_leadership(&seen, &mut sources, &mut ongoing);
            self.follow_membership(&membership, &mut sources, &mut ongoing);
            decided = decision;
        }
    }

    /// Takes note of what was under way and has ended, and begins what is due.
    fn note(&self, event: RoleEvent, sources: &mut EventSources, ongoing: &mut Ongoing) {
        match event {
            RoleEvent::Compared => ongoing.is_comparing = false,
            RoleEvent::HandedOver => ongoing.is_handing_over = false,
            RoleEvent::ComparisonDue if !ongoing.is_comparing => {
                ongoing.is_comparing = true;
                sources.under_way.push(self.compare());
            }
            RoleEvent::HungUp(server) => {
                let missed = self.led_by(server).filter(|led| ongoing.missed != Some(*led));
                ongoing.missed = missed.or(ongoing.missed);
                sources.under_way.extend(missed.map(|missed| self.look_for(missed)));
            }
            RoleEvent::LookedFor(missed, _) | RoleEvent::Campaigned(missed) => {
                ongoing.missed = ongoing.missed.filter(|known| *known != missed);
            }
            RoleEvent::LevelDue => {
                self.ask_levels(sources, ongoing);
                if !ongoing.is_following_level {
                    ongoing.is_following_level = true;
                    sources.under_way.push(self.follow_level(ongoing.level_falls));
                }
            }
            RoleEvent::LevelFollowed(falls) => {
                (ongoing.level_falls, ongoing.is_following_level) = (falls, false);
            }
            RoleEvent::LevelsAsked(levels) => {
                (ongoing.levels, ongoing.is_asking_levels) = (levels, false);
            }
            RoleEvent::DirectoriesLookedAt => sources.leading.push(self.look_at_directories()),
            RoleEvent::MembershipFollowed(is_done) => {
                ongoing.is_following = false;
                ongoing.followed = ongoing.tried.filter(|_| is_done).or(ongoing.followed);
            }
            RoleEvent::PortOpened => ongoing.is_opening_port = false,
            RoleEvent::Applied
            | RoleEvent::CaughtUp(_)
            | RoleEvent::ComparisonDue
            | RoleEvent::Tick
            | RoleEvent::Consensus
            | RoleEvent::Ended => {}
        }
    }

    /// Reports why the consensus has ended by itself: in the log's own words if that is the reason. A
    /// server that is stopped drops this loop first.
    fn report_end(&self) {
        let failure = self.wal.failure().map(|error| error.to_string());
        let failure = failure.or_else(|| self.handle.status().borrow().failure.clone());
        self.fatal.report(failure.unwrap_or_default());
    }

    /// Hands the leadership on to what depends on it. A leader's work of another term is dropped.
    fn follow_leadership(
        &self,
        seen: &Observations,
        sources: &mut EventSources,
        ongoing: &mut Ongoing,
    ) {
        self.leader.send_if_modified(|known| {
            let is_new = *known != seen.leadership;
            *known = seen.leadership;
            is_new
        });
        let own = seen.leadership.filter(|known| known.leader == seen.node);
        let term = own.map(|known| known.term);
        sources.awaits_entry = term.is_some() && seen.applied_term != term;
        if ongoing.leads == term {
            return;
        }
        sources.leading.clear();
        (ongoing.leads, ongoing.levels) = (term, LevelProgress::default());
        ongoing.is_asking_levels = false;
        self.handle.leads(term);
        self.levels.begin(term);
        if term.is_some() {
            self.ask_levels(sources, ongoing);
            sources.leading.push(self.look_at_directories());
        }
    }

    /// As leader, begins to ask the members for their feature levels, unless that is under way.
    fn ask_levels(&self, sources: &EventSources, ongoing: &mut Ongoing) {
        let Some(term) = ongoing.leads.filter(|_| !ongoing.is_asking_levels) else { return };
        ongoing.is_asking_levels = true;
        let round = self.levels.clone().round(term, ongoing.levels);
        let asking = self.fatal.clone().part("feature levels", round);
        sources.leading.push(Box::pin(async { RoleEvent::LevelsAsked(asking.await) }));
    }

    fn follow_level(&self, followed: u64) -> UnderWay {
        let following = self.levels.clone().follow(followed);
        let following = self.fatal.clone().part("feature levels", following);
        Box::pin(async { RoleEvent::LevelFollowed(following.await) })
    }

    fn look_at_directories(&self) -> UnderWay {
        let replacer = Replacer { changes: Arc::clone(&self.changes) };
        let looking = self.fatal.clone().part("directories", replacer.look());
        Box::pin(async {
            looking.await;
            RoleEvent::DirectoriesLookedAt
        })
    }

    /// Begins what a change of the membership asks for. What could not be followed to its end is tried
    /// again, and so is what a leader that died has left unfinished.
    fn follow_membership(
        &self,
        membership: &Membership,
        sources: &mut EventSources,
        ongoing: &mut Ongoing,
    ) {
        let (at, is_new) = (membership.position, ongoing.tried != membership.position);
        if is_new {
            self.changes.learn(membership);
        }
        let is_unfinished =
            ongoing.followed != at || self.changes.joining.is_unfinished(membership);
        let is_due = is_new || is_unfinished && ongoing.tried_at.elapsed() >= RETRY_PAUSE;
        if is_due && !ongoing.is_following {
            (ongoing.tried, ongoing.tried_at) = (at, Instant::now());
            ongoing.is_following = true;
            let following = Arc::clone(&self.changes).follow();
            let following = self.fatal.clone().part("membership", following);
            let following = async { RoleEvent::MembershipFollowed(following.await) };
            sources.under_way.push(Box::pin(following));
        }
        if let Some(port) = self.moved_port.as_ref().filter(|_| !ongoing.is_opening_port)
            && let Some(wanted) = port.wanted(membership)
        {
            ongoing.is_opening_port = true;
            let port = Arc::clone(port);
            let opening = async move { port.open(wanted).await };
            let opening = self.fatal.clone().part("moved peer port", opening);
            sources.under_way.push(Box::pin(async {
                opening.await;
                RoleEvent::PortOpened
            }));
        }
    }

    /// Returns, as leader and now and then, how far transactions count in this term: the machine is
    /// locked for it.
    fn counter(&self, event: RoleEvent) -> u32 {
        let is_due = event == RoleEvent::ComparisonDue && self.handle.is_leader();
        if is_due { counter_of(self.machine.zxid()) } else { 0 }
    }

    fn observe(&self) -> (Observations, Membership) {
        // First, so that the lease is not longer for a pause behind it.
        let now_ms = self.machine.mono_ms();
        let (node, leadership) = (self.handle.node(), self.handle.leadership());
        let (now, view) = (Instant::now(), self.handle.view());
        let voters = view.membership.voters();
        let applied = *self.applied.borrow();
        if let Some(led) = leadership.filter(|known| known.leader == node) {
            self.prove_as_leader((led.term, now), &view, applied);
        }
        let observed = Observations {
            leadership,
            node,
            is_listed: view.membership.node(node).is_some_and(|member| !is_outsider(member)),
            is_voter: voters.contains(&node),
            is_only_voter: voters.iter().all(|voter| *voter == node),
            is_removed: self.signals.removed_at() > view.membership.index(),
            leader_silence: self.leader_contact.take_silence(),
            state_age: self.state_age.age(applied.map(|last| last.index)),
            last_log: view.last_log,
            committed: view.committed,
            others_can_lead: others_can_lead(&view, node, &self.timing),
            quorum_silent_for: view.quorum_silent_for,
            patience: self.patience.length(now),
            waits_for_leader: self.waits_for_leader(now, leadership, &voters),
            now_ms,
            applied_term: applied.map(|last| Term(last.term)),
            given_up: self.handle.given_up(),
            has_diverged: self.comparer.divergence.is_found(),
            disk_busy_with: self.wal.batches_before_waiting(),
            ..Observations::default()
        };
        (observed, view.membership)
    }

    /// Returns whether this server still waits for the leader that it follows. The voters wait for
    /// different times, so that mostly one of them is the first to begin an election.
    fn waits_for_leader(
        &self,
        now: Instant,
        known: Option<Leadership>,
        voters: &BTreeSet<NodeId>,
    ) -> bool {
        let node = self.handle.node();
        let Some(known) = known.filter(|known| known.leader != node) else { return false };
        let rank = voters.iter().position(|voter| *voter == node).unwrap_or_default();
        let rank = u32::try_from(rank).unwrap_or_default();
        self.patience.trusts(now, known.term, self.patience.length(now) * rank / VOTERS_APART)
    }

    /// Makes what was decided so, where it differs from what was decided before.
    fn carry_out(&self, before: &Decision, now: &Decision) {
        if let Some(until_ms) = now.lease_until_ms {
            self.machine.input(Input::Lease { until_ms });
        }
        if (before.role, before.term) != (now.role, now.term) {
            tracing::info!(from = ?before.role, to = ?now.role, term = now.term.map(|term| term.0), "role");
            self.machine.input(Input::Role { role: now.role, term: now.term });
            self.role.send_replace(now.role);
        }
        if now.is_halted && !before.is_halted {
            self.machine.input(Input::Diverged);
        }
        if before.is_member && !now.is_member {
            tracing::info!("this server was removed from the ensemble");
            self.machine.input(Input::Removed);
        }
        if before.may_elect != now.may_elect {
            let patience = self.patience.length(Instant::now());
            if now.may_elect && patience > self.timing.heartbeat {
                let patience_ms = millis(patience);
                tracing::info!(patience_ms, "no longer waiting for the leader: work is late here");
            }
            self.handle.allow_elections(now.may_elect);
        }
        if before.sends_heartbeats != now.sends_heartbeats {
            self.handle.allow_heartbeats(now.sends_heartbeats);
        }
        self.signals.suspect_quorum(now.suspects_quorum);
        self.signals.give_way(now.gives_way);
        if before.holds_entries != now.holds_entries {
            self.hold_entries(now.holds_entries);
        }
        self.report_age(before, now);
        if let Some(time) = now.stall_ended_after {
            let after_ms = millis(time);
            tracing::info!(after_ms, "the disk has answered");
        }
    }

    /// Returns the present leadership if it is another server's, and this one's.
    fn led_by(&self, server: u64) -> Option<Leadership> {
        let known = self.handle.leadership()?;
        let is_led = known.leader.server() == server && known.leader != self.handle.node();
        is_led.then_some(known)
    }

    fn look_for(&self, missed: Leadership) -> UnderWay {
        let links = Arc::clone(&self.links);
        Box::pin(async move {
            let is_gone = succession::is_gone(&links, missed.leader.server()).await;
            RoleEvent::LookedFor(missed, is_gone)
        })
    }

    /// Votes for others than the leader that is gone, and stands for election itself, if it may.
    fn succeed(&self, gone: Leadership, campaigns: bool) -> UnderWay {
        let leader = gone.leader.server();
        tracing::info!(leader, campaigns, "the leader's process is gone: electing another");
        let spread = self.timing.heartbeat / 2;
        let (handle, entropy) = (self.handle.clone(), Arc::clone(&self.entropy));
        Box::pin(async move {
            if handle.abandon(gone).await && campaigns {
                Campaign { handle, entropy, spread }.run(gone).await;
            }
            RoleEvent::Campaigned(gone)
        })
    }

    fn compare(&self) -> UnderWay {
        let (comparer, pace) = (self.comparer.clone(), self.timing.election_max);
        Box::pin(async move {
            comparer.compare(pace).await;
            RoleEvent::Compared
        })
    }

    fn catch_up(&self) -> UnderWay {
        let (mut read_index, comparer, timing) =
            (self.read_index.clone(), self.comparer.clone(), self.timing);
        let state_age = Arc::clone(&self.state_age);
        Box::pin(async move {
            let limit = timing.election_max.max(CATCH_UP_TIME_MIN);
            let asked_at = Instant::now();
            let caught_up = timeout(limit, read_index.catch_up()).await;
            if !caught_up.unwrap_or(false) {
                return RoleEvent::CaughtUp(false);
            }
            state_age.proved(asked_at);
            comparer.compare(timing.heartbeat).await;
            RoleEvent::CaughtUp(!comparer.divergence.is_found())
        })
    }

    fn hand_over(&self, reason: HandOver) -> UnderWay {
        match reason {
            HandOver::DiskStalled { silent_for } => {
                let since_ms = millis(silent_for);
                tracing::warn!(since_ms, "giving up the leadership: the disk does not answer");
            }
            // Reported when it was found.
            HandOver::Diverged => {}
            HandOver::NumbersRunOut => {
                tracing::info!("giving up the leadership: the term's transaction numbers run out");
            }
        }
        let (handle, links) = (self.handle.clone(), Arc::clone(&self.links));
        Box::pin(async move {
            transfer_leadership(&handle, &links).await;
            RoleEvent::HandedOver
        })
    }
}

fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

/// Returns how far a transaction counts in its term.
fn counter_of(zxid: u64) -> u32 {
    u32::try_from(zxid & u64::from(u32::MAX)).unwrap_or(u32::MAX)
}
