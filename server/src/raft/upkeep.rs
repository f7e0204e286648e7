//! What goes on beside the log: the server's role, snapshots, and purging.

use std::sync::Arc;
use std::time::Duration;

use openraft::Instant;
use tokio::sync::watch;
use tokio::time::{MissedTickBehavior, interval, sleep, timeout};

use super::core::{Core, Leadership};
use super::machine::Machine;
use super::network::Links;
use super::options::Timing;
use super::service::Heard;
use super::state_machine::{Progress, Snapshots};
use super::sync::ReadIndex;
use super::types::{LogId, term_of};
use crate::replica::Role;

/// Between two looks at whether a snapshot is due.
const SNAPSHOT_PAUSE: Duration = Duration::from_millis(200);

/// A leader whose transactions count this far in its term hands over: the next term begins with
/// the counter at zero again, long before it could overflow.
const COUNTER_MAX: u64 = 0xf000_0000;

/// A leader in doubt is heard for one of its followers' leases, and then silent for so many: one
/// until they vote for others, one until somebody asks for their votes, and one for an election in
/// which the first candidate fails.
const SILENT_LEASES: u128 = 3;

/// Follows what this server is, and tells the machine.
#[derive(Debug)]
pub(super) struct RoleWatch {
    pub core: Core,
    pub machine: Arc<dyn Machine>,
    pub heard: Arc<Heard>,
    pub applied: watch::Receiver<Option<LogId>>,
    pub read_index: ReadIndex,
    pub links: Arc<Links>,
    pub timing: Timing,
    pub role: watch::Sender<Role>,
    /// The term in which this server leads, and since when it knows.
    pub leads: Option<(u64, tokio::time::Instant)>,
    /// Since when it leads and has not heard of a majority for too long.
    pub doubts: Option<tokio::time::Instant>,
}

impl RoleWatch {
    pub(super) async fn run(mut self) {
        let mut leaderships = self.core.leaderships();
        let mut ticks = interval(self.timing.heartbeat / 2);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        // The replica starts as one that looks for a leader.
        let mut role = Role::Looking;
        loop {
            let mut next = self.judge();
            if role == Role::Looking
                && matches!(next, Role::Follower | Role::Observer)
                && !self.has_caught_up().await
            {
                next = Role::Looking;
            }
            if next != role {
                tracing::info!(from = ?role, to = ?next, "role");
                role = next;
                self.machine.role(role);
                self.role.send_replace(role);
            }
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

    /// Who has been away must not serve what is long out of date.
    async fn has_caught_up(&mut self) -> bool {
        timeout(self.timing.election_max, self.read_index.catch_up()).await.unwrap_or(false)
    }

    fn judge(&mut self) -> Role {
        let Some(Leadership { leader, term }) = self.core.leadership() else {
            self.doubt(false);
            return Role::Looking;
        };
        if leader != self.core.server() {
            self.leads = None;
            self.doubt(false);
        } else if self.leads.is_none_or(|(known, _)| known != term) {
            self.leads = Some((term, tokio::time::Instant::now()));
        }
        let metrics = self.core.metrics();
        let mut voters = metrics.membership_config.voter_ids();
        let server = self.core.server();
        if metrics.membership_config.membership().get_node(&server).is_none() {
            // Removed, or not taken in yet.
            return Role::Looking;
        }
        if leader == server {
            let acknowledged = metrics.last_quorum_acked;
            let is_alone = voters.all(|voter| voter == server);
            let is_confirmed =
                acknowledged.is_some_and(|at| at.elapsed() < self.timing.silence_max());
            let has_waited =
                self.leads.is_some_and(|(_, since)| since.elapsed() >= self.timing.silence_max());
            self.doubt(has_waited && !is_alone && !is_confirmed);
            // The first entry of its term brings all that earlier leaders have committed.
            let is_current = self.applied.borrow().as_ref().map(term_of) == Some(term);
            return if is_current && (is_alone || is_confirmed) {
                Role::Leader
            } else {
                Role::Looking
            };
        }
        if !self.heard.within(self.timing.silence_max()) {
            return Role::Looking;
        }
        if voters.any(|voter| voter == server) { Role::Follower } else { Role::Observer }
    }

    /// Tells the followers whether this server leads and doubts that it has a majority. Who hears
    /// a leader votes for nobody, even if it reaches a majority that the leader does not reach: so
    /// one that goes on doubting is silent most of the time.
    fn doubt(&mut self, is_doubtful: bool) {
        self.links.doubt(is_doubtful);
        let since = self.doubts.filter(|_| is_doubtful);
        self.doubts = since.or_else(|| is_doubtful.then(tokio::time::Instant::now));
        let lease = self.timing.election_max.as_millis().max(1);
        let leases = self.doubts.map_or(0, |since| since.elapsed().as_millis() / lease);
        let is_heard = leases.is_multiple_of(SILENT_LEASES + 1);
        self.core.raft().runtime_config().heartbeat(is_heard);
    }
}

/// Between two announcements of what is committed. The pause doubles while the leader applies
/// entry after entry: its appends, which follow each other then, tell the same.
const ANNOUNCE_PAUSE_MIN: Duration = Duration::from_millis(1);
const ANNOUNCE_PAUSE_MAX: Duration = Duration::from_millis(8);

/// So many entries in one pause are more than a client can cause that waits for what it has written.
const BUSY_ENTRIES: u64 = 4;

/// As leader, tells the followers at once what is committed, on the control lane. The next append
/// tells it as well, but that one waits until the last is durable on its follower, or for a write.
#[derive(Debug)]
pub(super) struct Announcer {
    pub core: Core,
    pub applied: watch::Receiver<Option<LogId>>,
}

impl Announcer {
    pub(super) async fn run(mut self) {
        let mut pause = ANNOUNCE_PAUSE_MIN;
        while self.applied.changed().await.is_ok() {
            if self.core.is_leader() {
                if self.core.raft().trigger().heartbeat().await.is_err() {
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
pub(super) struct Housekeeping {
    pub core: Core,
    pub machine: Arc<dyn Machine>,
    pub snapshots: Snapshots,
    pub progress: Arc<Progress>,
    pub snapshot_commands: u64,
    pub snapshot_log_bytes: u64,
    pub snapshots_retained: usize,
}

impl Housekeeping {
    pub(super) async fn run(self) {
        let mut ticks = interval(SNAPSHOT_PAUSE);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let (mut snapshot_at, mut purged_for) = ((0, 0), None);
        loop {
            ticks.tick().await;
            let reached = (self.progress.commands(), self.progress.bytes());
            let (commands, bytes) = (reached.0 - snapshot_at.0, reached.1 - snapshot_at.1);
            let is_long = self.snapshot_log_bytes > 0 && bytes >= self.snapshot_log_bytes;
            if commands >= self.snapshot_commands || is_long {
                snapshot_at = reached;
                if self.core.raft().trigger().snapshot().await.is_err() {
                    return;
                }
            }
            let current = self.core.metrics().snapshot;
            if current != purged_for {
                purged_for = current;
                self.purge().await;
            }
            if self.core.is_leader() && self.machine.zxid() & 0xffff_ffff >= COUNTER_MAX {
                tracing::info!("handing over: the term's transaction numbers run out");
                hand_over(&self.core).await;
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
            && let Err(error) = self.core.raft().trigger().purge_log(oldest).await
        {
            tracing::debug!(%error, "the log was not purged");
        }
    }
}

/// As leader, makes the voter with the longest log the next one, and waits until it is.
pub(super) async fn hand_over(core: &Core) {
    let metrics = core.metrics();
    let server = core.server();
    let Some(replication) = metrics.replication.filter(|_| core.is_leader()) else { return };
    let voters = metrics.membership_config.voter_ids().filter(|voter| *voter != server);
    let heir = voters.max_by_key(|voter| replication.get(voter).copied().flatten());
    if let Some(heir) = heir {
        hand_over_to(core, heir).await;
    }
}

/// As leader, makes this voter the next one, and waits until another one is.
pub(super) async fn hand_over_to(core: &Core, heir: u64) -> bool {
    let server = core.server();
    if core.raft().trigger().transfer_leader(heir).await.is_err() {
        return false;
    }
    let mut leaderships = core.leaderships();
    let is_over = |known: &Option<Leadership>| known.is_some_and(|known| known.leader != server);
    let is_done = timeout(Duration::from_secs(1), leaderships.wait_for(is_over)).await.is_ok();
    tracing::info!(heir, is_done, "handing the lead over");
    is_done
}
