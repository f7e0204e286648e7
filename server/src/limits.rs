//! Use, maximum and refusals of every [`Limit`], and the log lines of refusals.
//!
//! A limit is registered by its line in the table of `zoolet_replica::Limit`. The code that enforces
//! it calls [`LimitTable::set_max`] once, [`LimitTable::refuse`] for each refusal and, if the use is
//! one number, [`LimitTable::set_used`] when it changes or when it is reported.

use std::fmt::Display;
use std::sync::atomic::{AtomicU64, Ordering};

use tracing::warn;
use zoolet_replica::Limit;

/// The interval between two log lines about refusals by the same limit, in milliseconds.
const LOG_INTERVAL_MS: u64 = 10_000;

/// The mark of a use that is not measured, and of a refusal that was never logged.
const NONE: u64 = u64::MAX;

/// One limit at one moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct LimitReading {
    /// Its name.
    pub name: &'static str,
    /// The setting that changes it.
    pub setting: &'static str,
    /// Units in use; `None` for a limit on each session.
    pub used: Option<u64>,
    /// The maximum; 0 for none.
    pub max: u64,
    /// Refusals since the start, or the last `srst`.
    pub refused: u64,
    /// Whether all clients share it. Otherwise `used` is that of the holder with most.
    pub is_total: bool,
}

impl LimitReading {
    /// Returns whether nothing is left, so that clients are refused.
    pub fn is_exhausted(&self) -> bool {
        let refuses = !Limit::NOT_REFUSING.iter().any(|limit| limit.name() == self.name);
        refuses && self.max > 0 && self.used.is_some_and(|used| used >= self.max)
    }
}

/// The limits of a server.
#[derive(Debug)]
pub struct LimitTable {
    // Invariant: one row for each of `Limit::ALL`, in that order.
    rows: Vec<Row>,
}

#[derive(Debug)]
struct Row {
    used: AtomicU64,
    max: AtomicU64,
    refused: AtomicU64,
    logged_ms: AtomicU64,
}

impl Default for LimitTable {
    fn default() -> Self {
        let row = |_: &Limit| Row {
            used: AtomicU64::new(NONE),
            max: AtomicU64::new(0),
            refused: AtomicU64::new(0),
            logged_ms: AtomicU64::new(NONE),
        };
        Self { rows: Limit::ALL.iter().map(row).collect() }
    }
}

impl LimitTable {
    /// Sets the maximum; 0 for none.
    pub(crate) fn set_max(&self, limit: Limit, max: usize) {
        self.row(limit).max.store(max as u64, Ordering::Relaxed);
    }

    /// Sets how much is in use.
    pub(crate) fn set_used(&self, limit: Limit, used: usize) {
        self.row(limit).used.store(used as u64, Ordering::Relaxed);
    }

    /// Counts a refusal, and logs it unless one by the same limit was logged in the last 10 s.
    pub(crate) fn refuse(&self, limit: Limit, now_ms: u64, refused: impl Display) {
        let row = self.row(limit);
        let count = row.refused.fetch_add(1, Ordering::Relaxed) + 1;
        let logged_ms = row.logged_ms.load(Ordering::Relaxed);
        if logged_ms != NONE && now_ms < logged_ms.saturating_add(LOG_INTERVAL_MS) {
            return;
        }
        row.logged_ms.store(now_ms, Ordering::Relaxed);
        let (max, setting) = (row.max.load(Ordering::Relaxed), limit.setting());
        warn!(
            limit = limit.name(),
            max,
            setting,
            refused = count,
            "limit reached: {refused}; later refusals are counted and logged every 10 s"
        );
    }

    /// Returns every limit, as it is now.
    pub(crate) fn readings(&self) -> Vec<LimitReading> {
        let reading = |limit: &Limit| {
            let row = self.row(*limit);
            let used = row.used.load(Ordering::Relaxed);
            LimitReading {
                name: limit.name(),
                setting: limit.setting(),
                used: (used != NONE).then_some(used),
                max: row.max.load(Ordering::Relaxed),
                refused: row.refused.load(Ordering::Relaxed),
                is_total: limit.is_total(),
            }
        };
        Limit::ALL.iter().map(reading).collect()
    }

    /// Counts refusals from zero (`srst`).
    pub(crate) fn reset(&self) {
        for row in &self.rows {
            row.refused.store(0, Ordering::Relaxed);
        }
    }

    fn row(&self, limit: Limit) -> &Row {
        self.rows.get(limit as usize).expect("there is a row for each limit")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_limit_has_a_row_and_a_name_of_its_own() {
        let table = LimitTable::default();
        for (place, limit) in Limit::ALL.iter().enumerate() {
            table.set_max(*limit, place + 1);
            table.refuse(*limit, 0, "a test");
        }
        table.set_used(Limit::Sessions, 7);
        let readings = table.readings();
        let names: std::collections::BTreeSet<_> = readings.iter().map(|read| read.name).collect();
        assert_eq!(names.len(), Limit::ALL.len());
        for (place, reading) in readings.iter().enumerate() {
            assert_eq!((reading.max, reading.refused), (place as u64 + 1, 1), "{}", reading.name);
            assert_eq!(reading.used.is_some(), reading.name == "sessions");
        }
        table.reset();
        assert!(table.readings().iter().all(|reading| reading.refused == 0));
    }

    #[test]
    fn a_limit_is_exhausted_when_all_of_it_is_used() {
        let reading = |used, max| {
            let (name, setting) = ("sessions", "");
            LimitReading { name, setting, used, max, refused: 0, is_total: true }
        };
        assert!(reading(Some(5), 5).is_exhausted() && reading(Some(6), 5).is_exhausted());
        for (used, max) in [(Some(4), 5), (Some(4), 0), (None, 5)] {
            assert!(!reading(used, max).is_exhausted(), "{used:?} of {max}");
        }
    }
}
