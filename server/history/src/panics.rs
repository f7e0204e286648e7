//! What to do about panics of sled, which may come of damaged files.
//!
//! A release of zoolet ends with a panic, whatever its cause. A panic of sled leaves a mark in the
//! directories that are open, so that the next start moves them aside instead of failing again.

use std::collections::BTreeSet;
use std::fs;
use std::panic;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, Once, PoisonError};

/// The name of the mark.
const MARK: &str = "damaged";

static OPEN: Mutex<BTreeSet<PathBuf>> = Mutex::new(BTreeSet::new());
static HOOK: Once = Once::new();

/// Has a panic of sled leave a mark in the directory, until [`forget`].
pub(crate) fn watch(directory: &Path) {
    HOOK.call_once(|| {
        let next = panic::take_hook();
        panic::set_hook(Box::new(move |info| {
            if info.location().is_some_and(|location| is_of_sled(location.file())) {
                mark_open();
            }
            next(info);
        }));
    });
    OPEN.lock().unwrap_or_else(PoisonError::into_inner).insert(directory.to_owned());
}

/// The directory is closed.
pub(crate) fn forget(directory: &Path) {
    OPEN.lock().unwrap_or_else(PoisonError::into_inner).remove(directory);
}

/// Whether a panic has left a mark.
pub(crate) fn is_marked(directory: &Path) -> bool {
    directory.join(MARK).exists()
}

/// Whether a source file is one of sled.
fn is_of_sled(file: &str) -> bool {
    file.split(['/', '\\']).any(|part| part.starts_with("sled-"))
}

fn mark_open() {
    // The lock is held for moments only; a panic within one must not wait for itself.
    let Ok(open) = OPEN.try_lock() else { return };
    for directory in open.iter() {
        // The process is about to end: there is no remedy for a failure.
        let _ = fs::write(directory.join(MARK), b"a panic of sled\n");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_sources_of_sled_are_known() {
        assert!(is_of_sled("/home/a/.cargo/registry/src/index/sled-0.34.7/src/pagecache/mod.rs"));
        assert!(!is_of_sled("/build/sledding/src/main.rs"));
    }
}
