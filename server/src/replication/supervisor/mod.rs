//! The loop that follows what decides this server's role, and carries the decisions out.

use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use tokio::sync::{mpsc, watch};
use tokio::time::{Instant, Interval, MissedTickBehavior, interval, timeout};
use zoolet_replica::{Input, Role, Term};
use zoolet_storage::{LogPosition, Wal};

use super::comparer::Comparer;
use super::handle::ConsensusHandle;
use super::leader_contact::LeaderContact;
use super::machine::Machine;
use super::members::is_outsider;
use super::options::Timing;
use super::read_index::ReadIndex;
use super::role::{Decision, HandOver, Observations, RoleState};
use super::succession::{self, Campaign};
use super::transfer::transfer_leadership;
use crate::consensus::Leadership;
use crate::entropy::Entropy;
use crate::peer::Links;
use crate::raft::PeerSignals;
use crate::transport::BoxFuture;

/// The shortest time that a follower has in one attempt to catch up.
const CATCH_UP_TIME_MIN: Duration = Duration::from_secs(1);

/// What the supervisor observes, and through what it acts.
#[derive(Debug)]
pub(super) struct Supervisor {
    pub handle: ConsensusHandle,
    pub machine: Arc<dyn Machine>,
    pub leader_contact: Arc<LeaderContact>,
    pub applied: watch::Receiver<Option<LogPosition>>,
    pub read_index: ReadIndex,
    pub comparer: Comparer,
    pub links: Arc<Links>,
    pub wal: Arc<Wal>,
    pub signals: Arc<PeerSignals>,
    pub entropy: Arc<dyn Entropy>,
    pub timing: Timing,
    pub role: watch::Sender<Role>,
}

/// What makes the supervisor decide anew.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum RoleEvent {
    /// Time has passed.
    Tick,
    /// Another server leads, or none does.
    Leadership,
    /// A connection of this server has ended.
    HungUp(u64),
    /// Whether the process of this leader is gone.
    LookedFor(Leadership, bool),
    /// The attempts to take the place of this leader are over.
    Campaigned(Leadership),
    /// An entry was applied, for which a new leader waits.
    Applied,
    /// It is time to compare states with the others.
    ComparisonDue,
    Compared,
    /// Whether this server has caught up with what was committed, and its state is the others'.
    CaughtUp(bool),
    HandedOver,
    /// The consensus has ended.
    Ended,
}

/// What happens beside the loop.
type UnderWay = BoxFuture<'static, RoleEvent>;

/// The loop's own state.
struct EventSources {
    leaderships: watch::Receiver<Option<Leadership>>,
    hang_ups: mpsc::Receiver<u64>,
    applied: watch::Receiver<Option<LogPosition>>,
    ticks: Interval,
    comparisons: Interval,
    under_way: FuturesUnordered<UnderWay>,
    catching_up: Option<UnderWay>,
    is_comparing: bool,
    is_handing_over: bool,
    /// The leader whose process is looked for, or whose place is to be taken.
    missed: Option<Leadership>,
    /// Whether the first entry of this server's term is still to be applied.
    awaits_entry: bool,
}

impl EventSources {
    fn new(supervisor: &Supervisor, hang_ups: mpsc::Receiver<u64>) -> Self {
        let timing = supervisor.timing;
        let every = |pause| {
            let mut ticks = interval(pause);
            ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
            ticks
        };
        Self {
            leaderships: supervisor.handle.leaderships(),
            hang_ups,
            applied: supervisor.applied.clone(),
            ticks: every(timing.heartbeat / 2),
            comparisons: every(timing.election_max),
            under_way: FuturesUnordered::new(),
            catching_up: None,
            is_comparing: false,
            is_handing_over: false,
            missed: None,
            awaits_entry: false,
        }
    }

    async fn next(&mut self) -> RoleEvent {
        let Self { leaderships, hang_ups, applied, ticks, comparisons, under_way, .. } = self;
        let (catching_up, awaits_entry) = (&mut self.catching_up, self.awaits_entry);
        let caught_up = async {
            match catching_up.as_mut() {
                Some(catching_up) => catching_up.await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            changed = leaderships.changed() => {
                if changed.is_ok() { RoleEvent::Leadership } else { RoleEvent::Ended }
            }
            event = caught_up => event,
            Some(server) = hang_ups.recv() => RoleEvent::HungUp(server),
            Ok(()) = applied.changed(), if awaits_entry => RoleEvent::Applied,
            Some(event) = under_way.next() => event,
            _ = comparisons.tick() => RoleEvent::ComparisonDue,
            _ = ticks.tick() => RoleEvent::Tick,
        }
    }
}

impl Supervisor {
    /// Decides after each event what this server may do, for as long as the consensus goes on.
    pub(super) async fn run(self, hang_ups: mpsc::Receiver<u64>) {
        let mut sources = EventSources::new(&self, hang_ups);
        let mut state = RoleState::new(self.timing);
        // Where every server starts; the machine looks for a leader, too.
        let mut decided = state.step(Instant::now(), &Observations::default());
        loop {
            let event = sources.next().await;
            match event {
                RoleEvent::Ended => return,
                RoleEvent::Compared => sources.is_comparing = false,
                RoleEvent::HandedOver => sources.is_handing_over = false,
                RoleEvent::CaughtUp(_) => sources.catching_up = None,
                RoleEvent::ComparisonDue if !sources.is_comparing => {
                    sources.is_comparing = true;
                    sources.under_way.push(self.compare());
                }
                RoleEvent::HungUp(server) => {
                    let missed = self.led_by(server).filter(|led| sources.missed != Some(*led));
                    sources.missed = missed.or(sources.missed);
                    sources.under_way.extend(missed.map(|missed| self.look_for(missed)));
                }
                RoleEvent::LookedFor(missed, _) | RoleEvent::Campaigned(missed) => {
                    sources.missed = sources.missed.filter(|known| *known != missed);
                }
                RoleEvent::Applied
                | RoleEvent::ComparisonDue
                | RoleEvent::Tick
                | RoleEvent::Leadership => {}
            }
            let observed = self.observe();
            let gone =
                observed.leadership.filter(|known| event == RoleEvent::LookedFor(*known, true));
            let seen = Observations {
                has_caught_up: event == RoleEvent::CaughtUp(true),
                is_handing_over: sources.is_handing_over,
                counter: self.counter(event),
                leader_is_gone: gone.is_some(),
                ..observed
            };
            let decision = state.step(Instant::now(), &seen);
            self.carry_out(&decided, &decision);
            if let Some(gone) = gone {
                sources.missed = Some(gone);
                sources.under_way.push(self.succeed(gone, decision.campaigns));
            }
            let own_term = seen.leadership.filter(|known| known.leader == seen.node);
            sources.awaits_entry = own_term.is_some_and(|own| seen.applied_term != Some(own.term));
            if !decision.must_catch_up {
                sources.catching_up = None;
            } else if sources.catching_up.is_none() && event != RoleEvent::CaughtUp(false) {
                sources.catching_up = Some(self.catch_up());
            }
            if let Some(reason) = decision.hand_over {
                sources.is_handing_over = true;
                sources.under_way.push(self.hand_over(reason));
            }
            decided = decision;
        }
    }

    /// Returns, as leader and now and then, how far transactions count in this term: the machine is
    /// locked for it.
    fn counter(&self, event: RoleEvent) -> u32 {
        let is_due = event == RoleEvent::ComparisonDue && self.handle.is_leader();
        if is_due { counter_of(self.machine.zxid()) } else { 0 }
    }

    fn observe(&self) -> Observations {
        // First, so that the lease is not longer for a pause behind it.
        let now_ms = self.machine.mono_ms();
        let (node, leadership) = (self.handle.node(), self.handle.leadership());
        let view = self.handle.view();
        let voters = view.membership.voters();
        Observations {
            leadership,
            node,
            is_listed: view.membership.node(node).is_some_and(|member| !is_outsider(member)),
            is_voter: voters.contains(&node),
            is_only_voter: voters.iter().all(|voter| *voter == node),
            is_removed: self.signals.removed_at() > view.membership.index(),
            leader_silent_for: self.leader_contact.silent_for(),
            quorum_silent_for: view.quorum_silent_for,
            now_ms,
            applied_term: self.applied.borrow().map(|last| Term(last.term)),
            given_up: self.handle.given_up(),
            has_diverged: self.comparer.divergence.is_found(),
            disk_busy_with: self.wal.batches_before_waiting(),
            ..Observations::default()
        }
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
            self.handle.allow_elections(now.may_elect);
        }
        if before.sends_heartbeats != now.sends_heartbeats {
            self.handle.allow_heartbeats(now.sends_heartbeats);
        }
        self.signals.suspect_quorum(now.suspects_quorum);
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
        Box::pin(async move {
            let limit = timing.election_max.max(CATCH_UP_TIME_MIN);
            let caught_up = timeout(limit, read_index.catch_up()).await;
            if !caught_up.unwrap_or(false) {
                return RoleEvent::CaughtUp(false);
            }
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
