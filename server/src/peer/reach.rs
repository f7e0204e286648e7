//! Reports peers that cannot be reached: when it lasts, once a minute while it goes on, and when it
//! is over.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

/// How long a peer may be out of reach before that is worth a line: at a common start, or while a
/// peer is restarted, it does not answer for a moment.
const GRACE: Duration = Duration::from_secs(5);

/// Whether a peer can be reached, over all lanes, and what was found there.
#[derive(Debug, Default)]
pub(crate) struct Reach {
    fault: Mutex<Option<Outage>>,
    /// The directory that the last handshake has found.
    directory: Mutex<Option<u64>>,
}

/// The pause between two lines about one outage: a log that was rotated still names it.
const REPEAT: Duration = Duration::from_mins(1);

#[derive(Clone, Copy, Debug)]
struct Outage {
    since: Instant,
    reported: Option<Instant>,
}

impl Reach {
    /// Notes which directory the peer has.
    pub(super) fn has_directory(&self, directory: u64) {
        *self.directory.lock().unwrap_or_else(PoisonError::into_inner) = Some(directory);
    }

    /// Returns the directory that the last handshake with the peer has found.
    pub(crate) fn directory(&self) -> Option<u64> {
        *self.directory.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// An attempt to connect has failed.
    pub(super) fn failed(&self, peer: u64, address: &str, error: &str) {
        if let Some(outage) = self.begin_or_report(Instant::now()) {
            let since_s = outage.since.elapsed().as_secs();
            tracing::warn!(peer, %address, %error, since_s, "cannot reach peer");
        }
    }

    /// There is a connection.
    pub(super) fn connected(&self, peer: u64) {
        if let Some(outage) = self.end() {
            let after_s = outage.since.elapsed().as_secs();
            tracing::info!(peer, after_s, "peer can be reached again");
        }
    }

    /// The outage, when it is time to report it.
    fn begin_or_report(&self, now: Instant) -> Option<Outage> {
        let mut fault = self.fault.lock().unwrap_or_else(PoisonError::into_inner);
        let outage = fault.get_or_insert(Outage { since: now, reported: None });
        let due = outage.reported.map_or(outage.since + GRACE, |reported| reported + REPEAT);
        if now < due {
            return None;
        }
        outage.reported = Some(now);
        Some(*outage)
    }

    /// The outage that is over, if it was reported.
    fn end(&self) -> Option<Outage> {
        let ended = self.fault.lock().unwrap_or_else(PoisonError::into_inner).take();
        ended.filter(|outage| outage.reported.is_some())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Three lines came at each start of three servers, and nothing when a peer was back.
    #[test]
    fn an_outage_is_reported_if_it_lasts_once_a_minute_and_once_when_it_is_over() {
        let (reach, start) = (Reach::default(), Instant::now());
        let reports = |at: Duration| reach.begin_or_report(start + at).is_some();
        assert!(!reports(Duration::ZERO) && !reports(GRACE / 2), "a start is not a fault");
        assert!(reach.end().is_none(), "it was not reported");
        assert!(!reports(GRACE), "another one, which begins now");
        assert!(
            reports(GRACE * 2) && !reports(GRACE * 3) && !reports(GRACE * 9),
            "it is reported once"
        );
        let reminders = (GRACE.as_millis()..300_000).step_by(50);
        let at = |ms| Duration::from_millis(u64::try_from(ms).unwrap());
        assert_eq!(reminders.filter(|ms| reports(GRACE + at(*ms))).count(), 4, "in five minutes");
        assert!(reach.end().is_some() && reach.end().is_none());
    }
}
