//! What changes of the membership are refused for.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

/// The shortest time between two log lines about denied requests.
const DENIAL_LOG_INTERVAL: Duration = Duration::from_secs(10);

/// The last refusal, so that the log has a row of equal ones once: what is not done is tried again ten
/// times a second.
#[derive(Debug, Default)]
pub(in crate::replication) struct Refusals(Mutex<Option<String>>);

impl Refusals {
    /// Notes a refusal. Returns whether it is another one than the last.
    pub(super) fn note(&self, why: &str) -> bool {
        let mut last = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let is_new = last.as_deref() != Some(why);
        if is_new {
            *last = Some(why.to_owned());
        }
        is_new
    }

    /// A change was carried out: the next refusal is another one.
    pub(super) fn end(&self) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).take();
    }
}

/// Logs requests of clients without permission, at a bounded rate.
#[derive(Debug, Default)]
pub(in crate::replication) struct Denials(Mutex<Denied>);

#[derive(Debug, Default)]
struct Denied {
    count: u64,
    logged_at: Option<Instant>,
}

impl Denials {
    /// Counts a denied request, and logs it unless another one was logged a moment ago.
    pub(super) fn note(&self) {
        let mut denied = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        denied.count += 1;
        if denied.logged_at.is_none_or(|at| at.elapsed() >= DENIAL_LOG_INTERVAL) {
            denied.logged_at = Some(Instant::now());
            tracing::warn!(
                denied = denied.count,
                "reconfig denied: the client has no WRITE permission on /zookeeper/config"
            );
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_refusals_in_a_row_are_one() {
        let refusals = Refusals::default();
        let noted = ["no leader", "no leader", "under way", "no leader"];
        assert_eq!(noted.map(|why| refusals.note(why)), [true, false, true, true]);
        refusals.end();
        assert!(refusals.note("no leader"));
    }
}
