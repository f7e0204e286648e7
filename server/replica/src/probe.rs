//! A count of elementary work (lookups of names and watches, entries of ACLs, names, parts and changes
//! that are visited, connections that are closed), for tests that hold the cost model against it.
//! Outside of unit tests nothing is counted.

#[cfg(test)]
use std::cell::Cell;

#[cfg(test)]
thread_local! {
    static COUNT: Cell<usize> = const { Cell::new(0) };
}

/// Counts pieces of work.
#[cfg(test)]
pub(crate) fn count(pieces: usize) {
    COUNT.set(COUNT.get() + pieces);
}

/// Returns the count since the last call.
#[cfg(test)]
pub(crate) fn take() -> usize {
    COUNT.take()
}

macro_rules! probe {
    () => {
        probe!(1)
    };
    ($pieces:expr) => {
        #[cfg(test)]
        $crate::probe::count($pieces);
    };
}
