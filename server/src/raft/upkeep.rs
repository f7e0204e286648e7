//! What goes on beside the log: the server's role, snapshots, and purging.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use openraft::Instant;
use tokio::sync::watch;
use tokio::time::{MissedTickBehavior, interval, sleep, timeout};
use zoolet_replica::{Input, Role};
use zoolet_storage::Wal;

use super::comparer::Comparer;
use super::divergence::Divergence;
use super::handle::{Leadership, RaftHandle};
use super::leader_contact::LeaderContact;
use super::machine::Machine;
use super::network::Links;
use super::options::Timing;
use super::read_index::ReadIndex;
use super::state_machine::{Progress, Snapshots};
use super::transfer::transfer_leadership;
use super::types::{LogId, term_of};

/// Between two looks at whether a snapshot is due.
const SNAPSHOT_PAUSE: Duration = Duration::from_millis(200);

/// The pause before a snapshot that could not be written is tried again. It doubles from failure to
/// failure.
const SNAPSHOT_RETRY_MIN: Duration = Duration::from_secs(1);
const SNAPSHOT_RETRY_MAX: Duration = Duration::from_mins(2);

/// A leader whose transactions count this far in its term hands over: the next term begins with
/// the counter at zero again, long before it could overflow.
const COUNTER_MAX: u64 = 0xf000_0000;

/// How many of its followers' leases a leader in doubt stays silent, after one in which it sends:
/// one until they vote for others, one until a candidate asks for their votes, and one for an
/// election in which the first candidate fails.
const SILENT_LEASES: u128 = 3;

/// Follows the role of this server, and reports it to the machine.
#[derive(Debug)]
pub(super) struct RoleWatch {
    pub handle: RaftHandle,
    pub machine: Arc<dyn Machine>,
    pub heard: Arc<LeaderContact>,
    pub applied: watch::Receiver<Option<LogId>>,
    pub read_index: ReadIndex,
    pub comparer: Comparer,
    pub links: Arc<Links>,
    pub timing: Timing,
    pub role: watch::Sender<Role>,
    /// The index of the membership without this server that it was notified of; zero for none.
    pub removal: Arc<AtomicU64>,
    /// The term in which this server leads, and since when it knows.
    pub leads: Option<(u64, tokio::time::Instant)>,
    /// Since when it leads without replies of a majority.
    pub doubts: Option<tokio::time::Instant>,
    /// It was removed, and stands for no election.
    pub is_out: bool,
}

impl RoleWatch {
    pub(super) async fn run(mut self) {
        let mut leaderships = self.handle.leaderships();
        let mut ticks = interval(self.timing.heartbeat / 2);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        // The replica starts as one that looks for a leader.
        let (mut role, mut term) = (Role::Looking, 0);
        let (mut was_member, mut is_halted) = (false, false);
        loop {
            let mut next = self.judge();
            if role == Role::Looking
                && matches!(next, Role::Follower | Role::Observer)
                && !self.has_caught_up().await
            {
                next = Role::Looking;
            }
            // Who leads again in another term may have missed that somebody else did in between.
            let leads = self.leads.filter(|_| next == Role::Leader);
            let next_term = leads.map_or(0, |(term, _)| term);
            if (next, next_term) != (role, term) {
                tracing::info!(from = ?role, to = ?next, term = next_term, "role");
                (role, term) = (next, next_term);
                self.machine.input(Input::Role { role, term });
                self.role.send_replace(role);
            }
            if !is_halted && self.comparer.divergence.is_found() {
                is_halted = true;
                self.machine.input(Input::Diverged);
            }
            self.stay_out_of_elections();
            let is_member = self.is_member();
            if was_member && !is_member {
                tracing::info!("this server was removed from the ensemble");
                self.machine.input(Input::Removed);
            }
            was_member = is_member;
            tokio::select! {
                _ = ticks.tick() => {}
                changed = leaderships.changed() => {
                    if changed.is_err() {
                        return;
                    }
                }
            }
        }
    }

    /// Who has been away must not serve what is long out of date, nor what differs from what the
    /// others have.
    async fn has_caught_up(&mut self) -> bool {
        let caught_up = timeout(self.timing.election_max, self.read_index.catch_up()).await;
        if caught_up.unwrap_or(false) {
            self.comparer.compare(self.timing.heartbeat).await;
            return !self.comparer.divergence.is_found();
        }
        false
    }

    /// Whether this server was taken in, and has not been removed since, as far as it knows.
    fn is_member(&self) -> bool {
        self.handle.is_in_membership() && !self.is_removed()
    }

    /// Whether others have said that it was removed. A removed server gets no more of the log, so
    /// it may have to be notified.
    fn is_removed(&self) -> bool {
        let metrics = self.handle.metrics();
        let known_at = metrics.membership_config.log_id().as_ref().map_or(0, |at| at.index);
        self.removal.load(Ordering::Relaxed) > known_at
    }

    /// A server that was removed would ask for votes until it is stopped.
    fn stay_out_of_elections(&mut self) {
        let is_out = self.is_removed();
        if std::mem::replace(&mut self.is_out, is_out) != is_out {
            let may_stand = !is_out && !self.comparer.divergence.is_found();
            self.handle.raft().runtime_config().elect(may_stand);
        }
    }

    fn judge(&mut self) -> Role {
        let Some(Leadership { leader, term }) = self.handle.leadership() else {
            self.suspect_quorum(false);
            return Role::Looking;
        };
        if leader != self.handle.node() {
            self.leads = None;
            self.suspect_quorum(false);
        } else if self.leads.is_none_or(|(known, _)| known != term) {
            self.leads = Some((term, tokio::time::Instant::now()));
        }
        if !self.is_member() || self.comparer.divergence.is_found() {
            return Role::Looking;
        }
        let metrics = self.handle.metrics();
        let mut voters = metrics.membership_config.voter_ids();
        let server = self.handle.node();
        if leader == server {
            let acknowledged = metrics.last_quorum_acked;
            let is_alone = voters.all(|voter| voter == server);
            let is_confirmed =
                acknowledged.is_some_and(|at| at.elapsed() < self.timing.silence_max());
            let has_waited =
                self.leads.is_some_and(|(_, since)| since.elapsed() >= self.timing.silence_max());
            self.suspect_quorum(has_waited && !is_alone && !is_confirmed);
            // The first entry of its term brings all that earlier leaders have committed.
            let is_current = self.applied.borrow().as_ref().map(term_of) == Some(term);
            let leads_on = (is_alone || is_confirmed) && !self.handle.has_given_up(term);
            return if is_current && leads_on { Role::Leader } else { Role::Looking };
        }
        if !self.heard.within(self.timing.silence_max()) {
            return Role::Looking;
        }
        if voters.any(|voter| voter == server) { Role::Follower } else { Role::Observer }
    }

    /// Tells the followers whether this server leads and doubts that it has a majority. Who hears
    /// a leader votes for no other, even if it reaches a majority that the leader does not reach: so
    /// one that goes on doubting is silent most of the time.
    fn suspect_quorum(&mut self, suspects_quorum: bool) {
        self.links.suspect_quorum(suspects_quorum);
        let since = self.doubts.filter(|_| suspects_quorum);
        self.doubts = since.or_else(|| suspects_quorum.then(tokio::time::Instant::now));
        let lease = self.timing.election_max.as_millis().max(1);
        let leases = self.doubts.map_or(0, |since| since.elapsed().as_millis() / lease);
        let is_heard = leases.is_multiple_of(SILENT_LEASES + 1);
        self.handle.raft().runtime_config().heartbeat(is_heard);
    }
}

/// Between two announcements of what is committed. The pause doubles while the leader applies
/// entry after entry: its appends, which follow each other then, tell the same.
const ANNOUNCE_PAUSE_MIN: Duration = Duration::from_millis(1);
const ANNOUNCE_PAUSE_MAX: Duration = Duration::from_millis(8);

/// This many entries in one pause are more than a client can cause that waits for what it has
/// written.
const BUSY_ENTRIES: u64 = 4;

/// As leader, tells the followers at once what is committed, on the control lane. The next append
/// tells it as well, but that one waits until the last is durable on its follower, or for a write.
#[derive(Debug)]
pub(super) struct CommitNotifier {
    pub handle: RaftHandle,
    pub applied: watch::Receiver<Option<LogId>>,
}

impl CommitNotifier {
    pub(super) async fn run(mut self) {
        let mut pause = ANNOUNCE_PAUSE_MIN;
        while self.applied.changed().await.is_ok() {
            if self.handle.is_leader() {
                if self.handle.raft().trigger().heartbeat().await.is_err() {
                    return;
                }
                let announced = self.applied_index();
                sleep(pause).await;
                let entries = self.applied_index().saturating_sub(announced);
                let longer = (pause * 2).min(ANNOUNCE_PAUSE_MAX);
                pause = if entries >= BUSY_ENTRIES { longer } else { ANNOUNCE_PAUSE_MIN };
            }
        }
    }

    fn applied_index(&self) -> u64 {
        self.applied.borrow().as_ref().map_or(0, |last| last.index)
    }
}

/// Takes snapshots and purges the log behind them.
#[derive(Debug)]
pub(super) struct SnapshotScheduler {
    pub handle: RaftHandle,
    pub machine: Arc<dyn Machine>,
    pub snapshots: Snapshots,
    pub progress: Arc<Progress>,
    pub divergence: Arc<Divergence>,
    pub snapshot_commands: u64,
    pub snapshot_log_bytes: u64,
    pub snapshots_retained: usize,
    pub links: Arc<Links>,
}

impl SnapshotScheduler {
    pub(super) async fn run(self) {
        let mut ticks = interval(SNAPSHOT_PAUSE);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let (mut snapshot_at, mut purged_for) = ((0, 0), None);
        let (mut not_before, mut pause) = (tokio::time::Instant::now(), SNAPSHOT_RETRY_MIN);
        loop {
            ticks.tick().await;
            let reached = (self.progress.commands(), self.progress.bytes());
            let (commands, bytes) = (reached.0 - snapshot_at.0, reached.1 - snapshot_at.1);
            let is_long = self.snapshot_log_bytes > 0 && bytes >= self.snapshot_log_bytes;
            // A state that is known to be wrong must not become what the next start begins with.
            let is_replacement = self.snapshots.needs_new();
            let is_due = commands >= self.snapshot_commands || is_long || is_replacement;
            let may_be_taken = !self.divergence.is_found();
            if is_due && may_be_taken && tokio::time::Instant::now() >= not_before {
                pause = self.take_snapshot(pause).await;
                if pause == SNAPSHOT_RETRY_MIN {
                    snapshot_at = reached;
                }
                if is_replacement || pause > SNAPSHOT_RETRY_MIN {
                    not_before = tokio::time::Instant::now() + pause;
                }
            }
            let current = self.handle.metrics().snapshot;
            if current != purged_for {
                purged_for = current;
                self.purge().await;
            }
            // With one voter alone the counter carries into the epoch.
            let is_used_up = || self.machine.zxid() & 0xffff_ffff >= COUNTER_MAX;
            if self.handle.is_leader() && !self.handle.is_only_voter() && is_used_up() {
                tracing::info!("handing over: the term's transaction numbers run out");
                transfer_leadership(&self.handle, &self.links).await;
            }
        }
    }

    /// Takes a snapshot. Returns how long to wait before another attempt if this one has failed.
    /// The log has all that is in the snapshot, so a server without it goes on.
    async fn take_snapshot(&self, pause: Duration) -> Duration {
        match self.handle.take_snapshot(&self.snapshots).await {
            Ok(()) => SNAPSHOT_RETRY_MIN,
            Err(error) => {
                let longer = (pause * 2).min(SNAPSHOT_RETRY_MAX);
                tracing::error!(
                    %error,
                    retry_in_s = longer.as_secs(),
                    "cannot write a snapshot: this server goes on, and its log grows until it can"
                );
                longer
            }
        }
    }

    async fn purge(&self) {
        let kept = self.snapshots.store().list().map(|kept| kept.len());
        let (kept, oldest) = match (kept, self.snapshots.oldest_index()) {
            (Ok(kept), Ok(Some(oldest))) => (kept, oldest),
            (Ok(_), Ok(None)) => return,
            (Err(error), _) => return tracing::warn!(%error, "cannot list the snapshots"),
            (_, Err(error)) => return tracing::warn!(%error, "cannot list the snapshots"),
        };
        // With fewer snapshots the whole log is kept: its beginning is as good as one.
        if kept >= self.snapshots_retained
            && let Err(error) = self.handle.raft().trigger().purge_log(oldest).await
        {
            tracing::debug!(%error, "the log was not purged");
        }
    }
}

/// Gives the lead up while this server's own disk does not answer. Its heartbeats would go on, and
/// no other server would begin an election, but what it is asked to write stands still.
#[derive(Debug)]
pub(super) struct DiskWatch {
    pub handle: RaftHandle,
    pub links: Arc<Links>,
    pub wal: Arc<Wal>,
    pub timing: Timing,
}

impl DiskWatch {
    pub(super) async fn run(self) {
        // An election is over by then, so giving up earlier would gain nothing.
        let lead_limit = self.timing.election_max * 2;
        let mut ticks = interval(self.timing.heartbeat / 2);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut stall: Option<Stall> = None;
        loop {
            ticks.tick().await;
            let waiting = self.wal.batches_before_waiting();
            if stall.as_ref().map(|stall| stall.batches) != waiting {
                if let Some(over) = stall.take().filter(|over| over.led) {
                    let after_ms = millis(over.since);
                    tracing::info!(after_ms, "the disk has answered");
                }
                let since = tokio::time::Instant::now();
                stall = waiting.map(|batches| Stall { batches, since, led: false });
            }
            let Some(stall) = &mut stall else { continue };
            if stall.since.elapsed() >= lead_limit && self.handle.is_leader() && !stall.led {
                stall.led = true;
                let since_ms = millis(stall.since);
                tracing::warn!(since_ms, "giving the lead up: the disk does not answer");
                transfer_leadership(&self.handle, &self.links).await;
            }
        }
    }
}

/// A write to the log that is not done.
#[derive(Debug)]
struct Stall {
    /// How many batches were written before it.
    batches: u64,
    since: tokio::time::Instant,
    /// This server led, and has given that up.
    led: bool,
}

fn millis(since: tokio::time::Instant) -> u64 {
    u64::try_from(since.elapsed().as_millis()).unwrap_or(u64::MAX)
}
