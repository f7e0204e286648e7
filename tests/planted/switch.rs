//! Chooses the bug that is planted in the client or the server to test the suites.
//!
//! A module of each package that has bugs, in a build with `--cfg zoolet_planted` alone, which does
//! not compile without debug assertions. One build has all bugs; the environment chooses one of
//! them. `docs/testing.md` has the rest.

use std::env;
use std::fs;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};

/// The variable that names the bug.
const BUG: &str = "ZOOLET_PLANTED";
/// The variable that names a file, which is created when the bug is reached.
const REACHED: &str = "ZOOLET_PLANTED_REACHED";

/// Returns whether this bug is the chosen one.
pub(crate) fn is(bug: &str) -> bool {
    static CHOSEN: OnceLock<Option<String>> = OnceLock::new();
    let chosen = CHOSEN.get_or_init(|| env::var(BUG).ok());
    let is_chosen = chosen.as_deref() == Some(bug);
    if is_chosen {
        note_reached();
    }
    is_chosen
}

fn note_reached() {
    static NOTED: AtomicBool = AtomicBool::new(false);
    if !NOTED.swap(true, Ordering::Relaxed)
        && let Some(path) = env::var_os(REACHED)
    {
        // Without the file, the caller reports that the bug was not reached.
        let _ = fs::write(path, "");
    }
}
