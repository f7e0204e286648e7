//! A cost model. No clock is read in this package, so a step is bounded by the time that its work
//! would take on a slow machine, counted while it is done.
//!
//! It counts the things of which a client can ask for many: components of paths, entries of ACLs,
//! identities, names and bytes. A count of requests or parts bounds nothing, because each
//! of them may be a thousand times as expensive as another.

use std::cell::Cell;

/// The unit of a step's budget, about a microsecond, in nanoseconds.
const UNIT_NS: usize = 1000;

/// The lookup of one component of a path, in nanoseconds.
const COMPONENT_NS: usize = 100;

/// The work of a read, in nanoseconds.
#[derive(Debug, Default)]
pub(crate) struct Meter(Cell<usize>);

impl Meter {
    /// Adds work.
    pub(crate) fn add(&self, ns: usize) {
        self.0.set(self.0.get().saturating_add(ns));
    }

    /// Returns the work so far, in units of a step's budget.
    pub(crate) fn units(&self) -> usize {
        units(self.0.get())
    }
}

/// Converts nanoseconds to units of a step's budget.
pub(crate) const fn units(ns: usize) -> usize {
    ns / UNIT_NS
}

/// Returns the cost of finding a path among those that are watched, in nanoseconds.
pub(crate) const fn of_watch(path: &str) -> usize {
    path.len() / 2
}

/// Returns the cost of finding the znode of a path, in nanoseconds.
pub(crate) fn of_path(path: &str) -> usize {
    let components = path.bytes().filter(|byte| *byte == b'/').count();
    COMPONENT_NS * (components + 1) + path.len() / 2
}
