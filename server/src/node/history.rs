//! The history of a server, from its start to its end.

use std::sync::Arc;

use tokio::time::timeout;
use tracing::warn;
use zoolet_history::History;
use zoolet_jute::Zxid;
use zoolet_replica::HistoryItem;

use super::meters::Meters;
use super::{SHUTDOWN_LIMIT, Seams, settings};
use crate::config::ServerConfig;
use crate::host::{Historian, Host};

impl Historian for History {
    fn began(&self, at: Zxid) {
        Self::began(self, at);
    }

    fn record(&self, items: &mut dyn Iterator<Item = HistoryItem>) {
        Self::record(self, items);
    }

    fn tick(&self, wall_ms: i64) {
        Self::tick(self, wall_ms);
    }
}

/// Has the history of what is applied kept, if it is to be. A server works without one.
pub(super) fn open(
    config: &ServerConfig,
    (seams, meters): (&Seams, &Meters),
    host: &Host,
) -> Option<History> {
    // sled opens its files by itself.
    let options = settings::history_options(config).filter(|_| seams.disk.is_real())?;
    match History::open(options, Arc::clone(meters.history())) {
        Ok(history) => {
            host.history_to(Arc::new(history.clone()));
            Some(history)
        }
        Err(error) => {
            warn!(%error, "no history is kept: its thread cannot be started");
            None
        }
    }
}

/// Waits until what is queued for the history is written.
pub(super) async fn close(history: Option<History>) {
    let Some(history) = history else { return };
    let closing = tokio::task::spawn_blocking(move || history.close());
    if timeout(SHUTDOWN_LIMIT, closing).await.is_err() {
        warn!(limit_s = SHUTDOWN_LIMIT.as_secs(), "the history does not end in time");
    }
}
