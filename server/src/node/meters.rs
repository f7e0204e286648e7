//! What is measured around the layers.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::Instant;
use zoolet_history::HistoryCounts;
use zoolet_replica::Role;

use super::tls::Certificates;
use crate::audit::AuditCounts;
use crate::histogram::{Distribution, SharedHistogram};
use crate::limits::LimitTable;

/// Counts what a server does besides the requests of its clients.
#[derive(Debug, Default)]
pub(crate) struct Meters {
    sync_us: SharedHistogram,
    slow_syncs: AtomicU64,
    /// How long it was looking for a leader, each time.
    looking_ms: SharedHistogram,
    looked: AtomicU64,
    /// How its start went.
    start: OnceLock<StartFigures>,
    /// The certificates of its ports.
    certificates: OnceLock<Vec<Certificates>>,
    audit: Arc<AuditCounts>,
    history: Arc<HistoryCounts>,
    limits: Arc<LimitTable>,
    /// It is being stopped, or was.
    is_stopping: AtomicBool,
}

/// How long the parts of a start took, in milliseconds, and what it has found.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct StartFigures {
    /// Opening the directory and reading the newest snapshot.
    pub(super) load_ms: u64,
    /// Everything until clients could connect.
    pub(super) all_ms: u64,
    /// The entries of the log behind that snapshot.
    pub(super) entries: u64,
}

impl Meters {
    /// Counts a sync of a file.
    pub(super) fn synced(&self, took_us: u64, is_slow: bool) {
        self.sync_us.record(took_us);
        self.slow_syncs.fetch_add(u64::from(is_slow), Ordering::Relaxed);
    }

    pub(super) fn sync_us(&self) -> Distribution {
        self.sync_us.distribution()
    }

    pub(super) fn slow_syncs(&self) -> u64 {
        self.slow_syncs.load(Ordering::Relaxed)
    }

    /// Returns what the audit log counts.
    pub(super) fn audit(&self) -> &Arc<AuditCounts> {
        &self.audit
    }

    /// Returns what the history counts.
    pub(super) fn history(&self) -> &Arc<HistoryCounts> {
        &self.history
    }

    /// Returns the limits of the server.
    pub(super) fn limits(&self) -> &Arc<LimitTable> {
        &self.limits
    }

    /// Returns how long each look for a leader took that has ended.
    pub(super) fn looking_ms(&self) -> Distribution {
        self.looking_ms.distribution()
    }

    /// Returns how often this server was without a leader.
    pub(super) fn looked(&self) -> u64 {
        self.looked.load(Ordering::Relaxed)
    }

    pub(super) fn certificates_in(&self, certificates: Vec<Certificates>) {
        // A server starts once.
        let _ = self.certificates.set(certificates);
    }

    /// Returns the certificates of each port.
    pub(super) fn certificates(&self) -> &[Certificates] {
        self.certificates.get().map_or(&[], Vec::as_slice)
    }

    pub(super) fn started(&self, figures: StartFigures) {
        // A server starts once.
        let _ = self.start.set(figures);
    }

    pub(super) fn start(&self) -> StartFigures {
        self.start.get().copied().unwrap_or_default()
    }

    /// Notes that the server is being stopped.
    pub(super) fn stops(&self) {
        self.is_stopping.store(true, Ordering::Relaxed);
    }

    pub(super) fn is_stopping(&self) -> bool {
        self.is_stopping.load(Ordering::Relaxed)
    }

    /// Measures how long the server is without a leader, for as long as it runs.
    pub(super) async fn watch_role(&self, mut role: watch::Receiver<Role>) {
        let is_looking = |role: &Role| *role == Role::Looking;
        // The role ends with the server.
        while role.wait_for(is_looking).await.is_ok() {
            let since = Instant::now();
            self.looked.fetch_add(1, Ordering::Relaxed);
            if role.wait_for(|role| !is_looking(role)).await.is_err() {
                return;
            }
            self.looking_ms.record(whole_ms(since.elapsed()));
        }
    }
}

/// Returns whole milliseconds.
pub(super) fn whole_ms(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use tokio::time::sleep;

    use super::*;

    #[tokio::test]
    async fn each_look_for_a_leader_is_measured() {
        let (meters, role) = (Arc::new(Meters::default()), watch::Sender::new(Role::Looking));
        let (watched, watching) = (role.subscribe(), Arc::clone(&meters));
        let task = tokio::spawn(async move { watching.watch_role(watched).await });
        for (next, pause_ms) in [(Role::Follower, 70), (Role::Looking, 9), (Role::Leader, 30)] {
            sleep(Duration::from_millis(pause_ms)).await;
            role.send_replace(next);
        }
        sleep(Duration::from_millis(10)).await;
        drop(role);
        task.await.unwrap();
        let Distribution { count, sum, .. } = meters.looking_ms();
        assert_eq!((meters.looked(), count), (2, 2));
        assert!(sum >= 100, "{sum} ms");
    }
}
