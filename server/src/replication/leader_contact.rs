//! When the last message of a leader came.

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

    /// Returns the time since then; `None` if there was none.
    pub(super) fn silent_for(&self) -> Option<Duration> {
        let at = *self.at.lock().unwrap_or_else(PoisonError::into_inner);
        at.map(|at| at.elapsed())
    }
}
