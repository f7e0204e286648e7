//! What a history has taken, for metrics.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// Counts since the start of the server.
#[derive(Debug, Default)]
pub struct HistoryCounts {
    recorded: AtomicU64,
    lost: AtomicU64,
    panics: AtomicU64,
    bytes: AtomicU64,
    failing: AtomicBool,
}

impl HistoryCounts {
    /// Returns the events that were recorded since the start.
    pub fn recorded(&self) -> u64 {
        self.recorded.load(Ordering::Relaxed)
    }

    /// Returns the events that were lost since the start: those that were too much, and those that a
    /// failing disk has taken, of which some were recorded.
    pub fn lost(&self) -> u64 {
        self.lost.load(Ordering::Relaxed)
    }

    /// Returns the panics of the files' storage since the start that were caught; each has the files
    /// begin anew.
    pub fn panics(&self) -> u64 {
        self.panics.load(Ordering::Relaxed)
    }

    /// Returns the bytes of the history's files, as they were looked at last.
    pub fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }

    /// Whether nothing is recorded, because the files cannot be used.
    pub fn is_failing(&self) -> bool {
        self.failing.load(Ordering::Relaxed)
    }

    pub(crate) fn set_failing(&self, failing: bool) {
        self.failing.store(failing, Ordering::Relaxed);
    }

    pub(crate) fn add_recorded(&self, count: u64) {
        self.recorded.fetch_add(count, Ordering::Relaxed);
    }

    pub(crate) fn add_lost(&self, count: u64) {
        self.lost.fetch_add(count, Ordering::Relaxed);
    }

    pub(crate) fn add_panic(&self) {
        self.panics.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn set_bytes(&self, bytes: u64) {
        self.bytes.store(bytes, Ordering::Relaxed);
    }
}
