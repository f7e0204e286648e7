//! Until when the session surely lives, by the client's own clock.
//!
//! A leader counts a session's timeout `T` from a ping's arrival, which is not before the client
//! sent it at `s`. So no server ends the session before `s + T` on the leader's clock. The client takes
//! `s + 4/5 T` on its own clock, where `s` belongs to the last ping that was answered, or to the
//! request for the session: that comes first as long as the client's clock runs at no less than 4/5
//! of the rate of the leader's, that is, while both are wrong by less than 11 %. Both are monotonic
//! clocks; setting the time of day changes nothing. Other answers prove less: a server that is cut
//! off reads from what it has.
//!
//! It does not hold where a server answers pings without a report to its leader, as Apache's
//! followers do. And a machine that sleeps stops the clock. What is written under a lock is
//! therefore fenced besides.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::time::Instant;

/// The moment up to which the session surely lives; clones share it.
#[derive(Clone, Debug)]
pub(crate) struct Lease {
    start: Instant,
    /// In ns after the start. Only the session's task writes it.
    end_ns: Arc<AtomicU64>,
}

impl Lease {
    /// A lease that has ended.
    pub(crate) fn new() -> Self {
        Self { start: Instant::now(), end_ns: Arc::new(AtomicU64::new(0)) }
    }

    /// A server has granted the session, for a timeout that may be shorter than before: what was
    /// promised under the longer one counts no more.
    pub(crate) fn grant(&self, asked_at: Instant, length: Duration) {
        let end = (asked_at + length).duration_since(self.start);
        self.end_ns.store(u64::try_from(end.as_nanos()).unwrap_or(u64::MAX), Ordering::Release);
    }

    /// A ping that was sent at this moment was answered. This does not move the end back.
    pub(crate) fn renew(&self, sent_at: Instant, length: Duration) {
        let end = (sent_at + length).duration_since(self.start);
        self.end_ns.fetch_max(u64::try_from(end.as_nanos()).unwrap_or(u64::MAX), Ordering::Release);
    }

    /// Whether there has ever been one.
    pub(crate) fn was_granted(&self) -> bool {
        self.end_ns.load(Ordering::Acquire) > 0
    }

    /// The end.
    pub(crate) fn end(&self) -> Instant {
        self.start + Duration::from_nanos(self.end_ns.load(Ordering::Acquire))
    }

    /// The time that is left.
    pub(crate) fn remaining(&self) -> Duration {
        self.end().saturating_duration_since(Instant::now())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lease_counts_from_what_was_sent_and_never_moves_back() {
        let lease = Lease::new();
        assert_eq!(lease.remaining(), Duration::ZERO);
        let sent_at = lease.start + Duration::from_secs(3);
        lease.renew(sent_at, Duration::from_secs(8));
        assert_eq!(lease.end(), sent_at + Duration::from_secs(8));
        lease.renew(sent_at - Duration::from_secs(1), Duration::from_secs(8));
        assert_eq!(lease.end(), sent_at + Duration::from_secs(8));
        assert!(lease.remaining() <= Duration::from_secs(11));
    }

    /// A server with a smaller `maxSessionTimeout` resumed the session, and the loss was reported by the
    /// timeout of the server before.
    #[test]
    fn a_shorter_grant_ends_the_lease_earlier() {
        let lease = Lease::new();
        let asked_at = lease.start + Duration::from_secs(1);
        lease.renew(lease.start, Duration::from_secs(32));
        lease.grant(asked_at, Duration::from_secs(6));
        assert_eq!(lease.end(), asked_at + Duration::from_secs(6));
        lease.grant(asked_at, Duration::from_secs(32));
        assert_eq!(lease.end(), asked_at + Duration::from_secs(32));
    }
}
