//! When a leader was last heard.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

/// The time of the last message of a leader.
#[derive(Debug, Default)]
pub(super) struct LeaderContact {
    at: Mutex<Option<Instant>>,
}

impl LeaderContact {
    /// Notes a message that has just come.
    pub(super) fn renew(&self) {
        *self.at.lock().unwrap_or_else(PoisonError::into_inner) = Some(Instant::now());
    }

    /// Whether that was less than `limit` ago.
    pub(super) fn within(&self, limit: Duration) -> bool {
        let at = *self.at.lock().unwrap_or_else(PoisonError::into_inner);
        at.is_some_and(|at| at.elapsed() < limit)
    }
}
