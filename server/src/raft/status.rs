//! How things stand, for those who ask.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;

use openraft::async_runtime::watch::WatchReceiver;

use super::core::{Core, EntrySizes};
use super::state_machine::Snapshots;
use super::types::LogId;
use crate::replica::Role;
use crate::storage::Wal;

/// How a server stands in its ensemble.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Status {
    /// Raft's election number.
    pub term: u64,
    /// The leader's number, if one is known.
    pub leader: Option<u64>,
    /// This server's part.
    pub role: Role,
    /// Whether it has a vote.
    pub is_voter: bool,
    /// Log indices: the last entry, the last committed one, the last applied one.
    pub last_log: Option<u64>,
    pub committed: Option<u64>,
    pub applied: Option<u64>,
    /// Up to where the newest snapshot goes, and up to where the log was purged.
    pub snapshot: Option<u64>,
    pub purged: Option<u64>,
    /// All other servers of the ensemble.
    pub peers: Vec<PeerStatus>,
    /// As leader: since when, and what it has proposed since then or since a reset.
    pub led_for: Option<Duration>,
    pub proposed: Option<EntrySizes>,
}

/// How a peer stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PeerStatus {
    /// Its number.
    pub server: u64,
    /// False for an observer.
    pub is_voter: bool,
    /// Seen from the leader: up to where its log is known to match.
    pub matching: Option<u64>,
}

/// Tells how things stand, for as long as anybody asks.
#[derive(Clone, Debug)]
pub struct StatusSource {
    pub(super) core: Core,
    pub(super) applied: watch::Receiver<Option<LogId>>,
    pub(super) snapshots: Snapshots,
    pub(super) role: watch::Receiver<Role>,
}

impl StatusSource {
    /// How things stand now.
    pub fn status(&self) -> Status {
        Status::of(&self.core, &self.applied, &self.snapshots, *self.role.borrow())
    }

    /// Forgets what was proposed.
    pub fn reset_proposed(&self) {
        self.core.reset_proposed();
    }
}

impl Status {
    fn of(
        core: &Core,
        applied: &watch::Receiver<Option<LogId>>,
        snapshots: &Snapshots,
        role: Role,
    ) -> Self {
        let metrics = core.metrics();
        let membership = metrics.membership_config.membership();
        let voters: Vec<u64> = membership.voter_ids().collect();
        let matching = |server: &u64| {
            let replication = metrics.replication.as_ref()?;
            replication.get(server).copied().flatten().map(|matching| matching.index)
        };
        let peer = |server: &u64| PeerStatus {
            server: *server,
            is_voter: voters.contains(server),
            matching: matching(server),
        };
        let others = membership.nodes().map(|(server, _)| server);
        Self {
            term: metrics.current_term,
            leader: metrics.current_leader,
            role,
            is_voter: voters.contains(&core.server()),
            last_log: metrics.last_log_index,
            committed: metrics.cluster_committed.map(|last| last.index),
            applied: applied.borrow().map(|last| last.index),
            snapshot: snapshots.current().map(|current| current.name().index),
            purged: metrics.purged.map(|last| last.index),
            peers: others.filter(|server| **server != core.server()).map(peer).collect(),
            led_for: core.led_for(),
            proposed: core.proposed(),
        }
    }
}

/// Reports it when openraft has stopped by itself: with the log's own words if that is the reason.
pub(super) async fn watch_failure(core: Core, wal: Arc<Wal>, fatal: watch::Sender<Option<String>>) {
    let mut metrics = core.raft().metrics();
    loop {
        let failure = metrics.borrow_watched().running_state.clone().err();
        if let Some(failure) = failure {
            fatal.send_if_modified(|known| {
                let is_new = known.is_none();
                known.get_or_insert_with(|| match wal.failure() {
                    Some(error) => error.to_string(),
                    None => failure.to_string(),
                });
                is_new
            });
            return;
        }
        if metrics.changed().await.is_err() {
            return;
        }
    }
}
