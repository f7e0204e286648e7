//! How followers learn at once what is committed.

use std::time::Duration;

use tokio::sync::watch;
use tokio::time::sleep;
use zoolet_storage::LogPosition;

use super::handle::RaftHandle;

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
    pub applied: watch::Receiver<Option<LogPosition>>,
}

impl CommitNotifier {
    pub(super) async fn run(mut self) {
        let mut pause = ANNOUNCE_PAUSE_MIN;
        while self.applied.changed().await.is_ok() {
            if self.handle.is_leader() {
                if !self.handle.announce_commit().await {
                    return;
                }
                let announced = self.applied_entries();
                sleep(pause).await;
                let entries = self.applied_entries().saturating_sub(announced);
                let longer = (pause * 2).min(ANNOUNCE_PAUSE_MAX);
                pause = if entries >= BUSY_ENTRIES { longer } else { ANNOUNCE_PAUSE_MIN };
            }
        }
    }

    fn applied_entries(&self) -> u64 {
        self.applied.borrow().as_ref().map_or(0, |last| last.index.0)
    }
}
