//! When snapshots are taken, and the log behind them is purged.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::{Instant, MissedTickBehavior, interval};

use super::applier::Progress;
use super::divergence::Divergence;
use super::handle::ConsensusHandle;
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

/// How much is written between two snapshots.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SnapshotPace {
    /// Commands between two snapshots, at least.
    pub(crate) commands: u64,
    /// Bytes of log that make a snapshot due whatever else holds; 0 for none.
    pub(crate) log_bytes_max: u64,
    /// Bytes of log between two snapshots, at least, as a part of the bytes of the last snapshot.
    pub(crate) log_percent: u64,
}

impl SnapshotPace {
    /// Whether `commands` and `bytes` of log behind a snapshot of `snapshot_bytes` are enough for
    /// another.
    fn is_reached(self, commands: u64, bytes: u64, snapshot_bytes: u64) -> bool {
        let part = u128::from(snapshot_bytes) * u128::from(self.log_percent) / 100;
        let has_grown = commands >= self.commands && u128::from(bytes) >= part;
        let is_long = self.log_bytes_max > 0 && bytes >= self.log_bytes_max;
        has_grown || is_long
    }
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
            if current != purged_for {
                purged_for = current;
                snapshot_bytes = self.purge().await;
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

    /// Purges the log that no snapshot needs. Returns the bytes of the newest snapshot; zero for none.
    async fn purge(&self) -> u64 {
        let (kept, oldest) = match (self.snapshots.store().list(), self.snapshots.oldest_index()) {
            (Ok(kept), Ok(oldest)) => (kept, oldest),
            (Err(error), _) => {
                tracing::warn!(%error, "cannot list the snapshots");
                return 0;
            }
            (_, Err(error)) => {
                tracing::warn!(%error, "cannot list the snapshots");
                return 0;
            }
        };
        // With fewer snapshots the whole log is kept: its beginning is as good as one.
        if let Some(oldest) = oldest
            && kept.len() >= self.snapshots_retained
            && let Err(error) = self.handle.purge(oldest).await
        {
            tracing::debug!(error, "the log was not purged");
        }
        kept.first().map_or(0, |newest| newest.file_bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PACE: SnapshotPace =
        SnapshotPace { commands: 1000, log_bytes_max: 1 << 30, log_percent: 50 };

    #[test]
    fn a_small_state_is_written_after_some_commands() {
        assert!(!PACE.is_reached(999, 200_000, 0));
        assert!(PACE.is_reached(1000, 200_000, 0), "there was none before");
        assert!(PACE.is_reached(1000, 200_000, 400_000));
    }

    /// With 10,000,000 znodes one snapshot after the other was written, and each write copied a
    /// part of the tree for it.
    #[test]
    fn a_large_state_is_written_when_the_log_has_grown_with_it() {
        let snapshot = 1_600_000_000;
        assert!(!PACE.is_reached(1000, 200_000, snapshot));
        assert!(!PACE.is_reached(4_000_000, 799_999_999, snapshot));
        assert!(PACE.is_reached(4_000_000, 800_000_000, snapshot));
        let by_commands = SnapshotPace { log_percent: 0, ..PACE };
        assert!(by_commands.is_reached(1000, 200_000, snapshot), "the size does not count");
    }

    #[test]
    fn a_long_log_is_always_enough() {
        assert!(PACE.is_reached(10, 1 << 30, 1 << 40));
        let unbounded = SnapshotPace { log_bytes_max: 0, ..PACE };
        assert!(!unbounded.is_reached(10, 1 << 30, 1 << 40));
        let greedy = SnapshotPace { log_percent: u64::MAX, ..unbounded };
        assert!(!greedy.is_reached(u64::MAX, u64::MAX, u64::MAX), "nothing overflows");
    }
}
