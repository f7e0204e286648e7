//! When snapshots are taken, and the log behind them is purged.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::{Instant, MissedTickBehavior, interval};

use super::applier::Progress;
use super::divergence::Divergence;
use super::handle::ConsensusHandle;
use super::snapshot_pace::SnapshotPace;
use crate::snapshots::Snapshots;

/// Between two looks at whether a snapshot is due.
const SNAPSHOT_PAUSE: Duration = Duration::from_millis(200);

/// The pause before a snapshot that could not be written is tried again. It doubles from failure to
/// failure.
const SNAPSHOT_RETRY_MIN: Duration = Duration::from_secs(1);
const SNAPSHOT_RETRY_MAX: Duration = Duration::from_mins(2);

/// Takes snapshots and purges the log behind them.
#[derive(Debug)]
pub(super) struct SnapshotScheduler {
    pub handle: ConsensusHandle,
    pub snapshots: Snapshots,
    pub progress: Arc<Progress>,
    pub divergence: Arc<Divergence>,
    pub pace: SnapshotPace,
    pub snapshots_retained: usize,
}

impl SnapshotScheduler {
    pub(super) async fn run(self) {
        let mut ticks = interval(SNAPSHOT_PAUSE);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let (mut snapshot_at, mut purged_for, mut snapshot_bytes) = ((0, 0), None, 0);
        let (mut not_before, mut pause) = (Instant::now(), SNAPSHOT_RETRY_MIN);
        loop {
            ticks.tick().await;
            let current = self.handle.view().snapshot;
            if current != purged_for
                && let Some(bytes) = self.purge().await
            {
                (purged_for, snapshot_bytes) = (current, bytes);
            }
            let reached = (self.progress.commands(), self.progress.bytes());
            let (commands, bytes) = (reached.0 - snapshot_at.0, reached.1 - snapshot_at.1);
            // A state that is known to be wrong must not become what the next start begins with.
            let is_replacement = self.snapshots.needs_new();
            let is_due = self.pace.is_reached(commands, bytes, snapshot_bytes) || is_replacement;
            let may_be_taken = !self.divergence.is_found();
            if is_due && may_be_taken && Instant::now() >= not_before {
                pause = self.take_snapshot(pause).await;
                if pause == SNAPSHOT_RETRY_MIN {
                    snapshot_at = reached;
                }
                if is_replacement || pause > SNAPSHOT_RETRY_MIN {
                    not_before = Instant::now() + pause;
                }
            }
        }
    }

    /// Takes a snapshot. Returns how long to wait before another attempt if this one has failed.
    /// The log has all that is in the snapshot, so a server without it goes on.
    async fn take_snapshot(&self, pause: Duration) -> Duration {
        match self.handle.take_snapshot().await {
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

    /// Purges the log that no snapshot needs. Returns the bytes of the newest snapshot, zero for none;
    /// `None` if that cannot be found out now.
    async fn purge(&self) -> Option<u64> {
        let found = self.snapshots.store().list().map_err(io::Error::from);
        let found = found.and_then(|kept| Ok((kept, self.snapshots.oldest_index()?)));
        let (kept, oldest) = match found {
            Ok(found) => found,
            Err(error) => {
                tracing::warn!(%error, "cannot list the snapshots");
                return None;
            }
        };
        // With fewer snapshots the whole log is kept: its beginning is as good as one.
        if let Some(oldest) = oldest
            && kept.len() >= self.snapshots_retained
            && let Err(error) = self.handle.purge(oldest).await
        {
            tracing::debug!(error, "the log was not purged");
        }
        Some(kept.first().map_or(0, |newest| newest.file_bytes))
    }
}
