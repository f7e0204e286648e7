//! A count of elementary work (lookups of names, entries of ACLs, names and parts that are visited),
//! for tests that hold the cost model against it. Outside of unit tests nothing is counted.

#[cfg(test)]
use std::cell::Cell;

#[cfg(test)]
thread_local! {
    static COUNT: Cell<usize> = const { Cell::new(0) };
}

/// Counts one piece of work.
#[cfg(test)]
pub(crate) fn count() {
    COUNT.set(COUNT.get() + 1);
}

/// Returns the count since the last call.
#[cfg(test)]
pub(crate) fn take() -> usize {
    COUNT.take()
}

macro_rules! probe {
    () => {
        #[cfg(test)]
        $crate::probe::count();
    };
}
