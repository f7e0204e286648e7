//! What the supervisor waits for.

use std::time::Duration;

use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use tokio::sync::{mpsc, watch};
use tokio::time::{Interval, MissedTickBehavior, interval};
use zoolet_storage::LogPosition;

use super::Supervisor;
use super::catching_up::CatchingUp;
use crate::consensus::{ConsensusStatus, Leadership};
use crate::replication::levels::{LevelProgress, ROUND_PAUSE};
use crate::transport::BoxFuture;

/// What makes the supervisor decide anew.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RoleEvent {
    /// Time has passed.
    Tick,
    /// Another server leads, or none does, or the membership has changed.
    Consensus,
    /// The consensus has ended.
    Ended,
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
    /// It is time to look at the agreed feature level, and as leader to agree on another one.
    LevelDue,
    /// How many falls of the agreed feature level this server has followed.
    LevelFollowed(u64),
    /// As leader: a round of questions for the members' feature levels is over.
    LevelsAsked(LevelProgress),
    /// As leader: the directories of the members were looked at.
    DirectoriesLookedAt,
    /// Whether a change of the membership was followed to its end.
    MembershipFollowed(bool),
    /// A port to which this server was moved was opened, or can't be.
    PortOpened,
}

/// What happens beside the loop.
pub(super) type UnderWay = BoxFuture<'static, RoleEvent>;

/// Where the events come from.
pub(super) struct EventSources {
    status: watch::Receiver<ConsensusStatus>,
    hang_ups: mpsc::Receiver<u64>,
    applied: watch::Receiver<Option<LogPosition>>,
    /// Whether the first entry of this server's term is still to be applied.
    pub awaits_entry: bool,
    ticks: Interval,
    comparisons: Interval,
    level_rounds: Interval,
    /// What goes on under any leader, and without one.
    pub under_way: FuturesUnordered<UnderWay>,
    /// The work of a leader, which is dropped when its term here ends.
    pub leading: FuturesUnordered<UnderWay>,
    pub catching_up: CatchingUp,
}

impl EventSources {
    pub(super) fn new(supervisor: &Supervisor, hang_ups: mpsc::Receiver<u64>) -> Self {
        let timing = supervisor.timing;
        Self {
            status: supervisor.handle.status(),
            hang_ups,
            applied: supervisor.applied.clone(),
            awaits_entry: false,
            ticks: every(timing.heartbeat / 2),
            comparisons: every(timing.election_max),
            level_rounds: every(ROUND_PAUSE),
            under_way: FuturesUnordered::new(),
            leading: FuturesUnordered::new(),
            catching_up: CatchingUp::default(),
        }
    }

    pub(super) async fn next(&mut self) -> RoleEvent {
        let Self { status, hang_ups, applied, ticks, comparisons, level_rounds, .. } = self;
        let (under_way, leading) = (&mut self.under_way, &mut self.leading);
        let (catching_up, awaits_entry) = (&mut self.catching_up, self.awaits_entry);
        tokio::select! {
            changed = status.changed() => {
                let goes_on = changed.is_ok() && status.borrow().failure.is_none();
                if goes_on { RoleEvent::Consensus } else { RoleEvent::Ended }
            }
            event = catching_up.end() => event,
            Some(server) = hang_ups.recv() => RoleEvent::HungUp(server),
            Ok(()) = applied.changed(), if awaits_entry => RoleEvent::Applied,
            Some(event) = under_way.next() => event,
            Some(event) = leading.next() => event,
            _ = comparisons.tick() => RoleEvent::ComparisonDue,
            _ = level_rounds.tick() => RoleEvent::LevelDue,
            _ = ticks.tick() => RoleEvent::Tick,
        }
    }
}

fn every(pause: Duration) -> Interval {
    let mut ticks = interval(pause);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    ticks
}
