//! The operator's view of quotas: a soft limit does nothing but this (protocol §12).

use std::collections::BTreeMap;

use tracing::warn;
use zoolet_replica::state::QuotaExceeded;

use crate::log_text::cut;

/// A limit that stays exceeded is logged again after this time, in milliseconds, as in Apache
/// `ZooKeeper`.
const AGAIN_AFTER_MS: u64 = 15 * 60 * 1000;

/// Limits that are remembered. Past that they are all forgotten, and logged again.
const REMEMBERED_MAX: usize = 1000;

/// Says which quotas are exceeded, each limit once in a while.
#[derive(Debug, Default)]
pub(super) struct QuotaLog {
    /// When each limit was last logged, on the monotonic clock, in milliseconds.
    logged: BTreeMap<(String, &'static str), u64>,
}

impl QuotaLog {
    pub(super) fn log(&mut self, now_ms: u64, exceeded: QuotaExceeded) {
        let QuotaExceeded { path, limit, is_hard, allowed, value } = exceeded;
        let path = &*cut(&path);
        if !self.is_due(now_ms, path, limit) {
            return;
        }
        let kind = if is_hard { "hard, refused" } else { "soft, allowed" };
        warn!(path, limit, allowed, value, kind, "quota exceeded");
    }

    /// Whether this limit was not logged lately; counts it as logged then.
    fn is_due(&mut self, now_ms: u64, path: &str, limit: &'static str) -> bool {
        if self.logged.len() >= REMEMBERED_MAX {
            self.logged.clear();
        }
        let logged_ms = self.logged.get(&(path.to_owned(), limit));
        if logged_ms.is_some_and(|logged_ms| now_ms.saturating_sub(*logged_ms) < AGAIN_AFTER_MS) {
            return false;
        }
        self.logged.insert((path.to_owned(), limit), now_ms);
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_limit_is_logged_once_in_a_while_and_what_is_remembered_is_bounded() {
        let mut log = QuotaLog::default();
        assert!(log.is_due(0, "/a", "count"));
        assert!(!log.is_due(AGAIN_AFTER_MS - 1, "/a", "count"));
        assert!(log.is_due(1, "/a", "bytes") && log.is_due(1, "/b", "count"));
        assert!(log.is_due(AGAIN_AFTER_MS, "/a", "count"));
        assert!(!log.is_due(AGAIN_AFTER_MS + 1, "/a", "count"));
        let path = "x".repeat(1 << 20);
        let exceeded = QuotaExceeded { path, limit: "count", is_hard: false, allowed: 1, value: 2 };
        log.log(0, exceeded);
        assert!(log.logged.keys().all(|(path, _)| path.len() < 5000), "a path is cut");
        for index in 0..3 * REMEMBERED_MAX {
            log.is_due(0, &format!("/{index}"), "count");
        }
        assert!(log.logged.len() <= REMEMBERED_MAX);
    }
}
