//! What to do about panics of sled, which may come of damaged files.
//!
//! A release of zoolet ends with a panic, whatever its cause. A panic of sled leaves a mark in the
//! directories that are open, so that the next start moves them aside instead of failing again.
//! Where panics unwind, as in a program that embeds a server, they are caught: they are errors then,
//! and the directory is moved aside at once.

use std::any::Any;
use std::cell::Cell;
use std::collections::BTreeSet;
use std::panic::AssertUnwindSafe;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, Once, PoisonError};
use std::{fs, io, panic, thread};

use crate::counts::HistoryCounts;
use crate::store::StoreError;

/// The name of the mark.
const MARK: &str = "damaged";

/// The file that says how often the directory was begun to be opened without an end.
const OPENING: &str = "opening";

/// How many attempts to open a directory may end in a crash; then it counts as damaged.
const OPENINGS_MAX: usize = 3;

/// The name of the thread of a history.
pub(crate) const THREAD: &str = "history";

static OPEN: Mutex<BTreeSet<PathBuf>> = Mutex::new(BTreeSet::new());
static HOOK: Once = Once::new();

thread_local! {
    /// Whether a panic of this thread is caught by [`catch`], if it unwinds.
    static IS_CAUGHT: Cell<bool> = const { Cell::new(false) };
}

/// Has a panic of sled leave a mark in the directory, until [`forget`].
pub(crate) fn watch(directory: &Path) {
    HOOK.call_once(|| {
        let next = panic::take_hook();
        panic::set_hook(Box::new(move |info| {
            let is_of_sled = info.location().is_some_and(|it| is_of_sled(it.file()));
            // The catcher knows which directory it is about.
            let is_caught = cfg!(panic = "unwind") && IS_CAUGHT.get();
            if !is_caught && (is_of_sled || thread::current().name() == Some(THREAD)) {
                mark_open();
            }
            next(info);
        }));
    });
    OPEN.lock().unwrap_or_else(PoisonError::into_inner).insert(directory.to_owned());
}

/// Does something with the files; a panic is counted, and becomes an error.
pub(crate) fn catch<T>(
    counts: &HistoryCounts,
    work: impl FnOnce() -> Result<T, StoreError>,
) -> Result<T, StoreError> {
    let outer = IS_CAUGHT.replace(true);
    let done = panic::catch_unwind(AssertUnwindSafe(work));
    IS_CAUGHT.set(outer);
    done.unwrap_or_else(|payload| {
        counts.add_panic();
        Err(StoreError::Panicked(message_of(&*payload)))
    })
}

/// What a panic says.
fn message_of(payload: &(dyn Any + Send)) -> String {
    let text = payload.downcast_ref::<&str>().map(|text| (*text).to_owned());
    text.or_else(|| payload.downcast_ref::<String>().cloned())
        .unwrap_or_else(|| "it has no message".to_owned())
}

/// The directory is closed.
pub(crate) fn forget(directory: &Path) {
    OPEN.lock().unwrap_or_else(PoisonError::into_inner).remove(directory);
}

/// Whether a panic has left a mark.
pub(crate) fn is_marked(directory: &Path) -> bool {
    directory.join(MARK).exists()
}

/// Notes that a directory is about to be opened; a crash in it leaves the note. Returns whether that
/// has happened too often.
pub(crate) fn begin_opening(directory: &Path) -> io::Result<bool> {
    fs::create_dir_all(directory)?;
    let note = directory.join(OPENING);
    let before = fs::read(&note).map_or(0, |bytes| bytes.len());
    fs::write(note, vec![b'.'; before + 1])?;
    Ok(before >= OPENINGS_MAX)
}

/// Notes that a directory was opened, or that an error says why not.
pub(crate) fn end_opening(directory: &Path) {
    // What stays makes it look worse than it is, after three more times.
    let _ = fs::remove_file(directory.join(OPENING));
}

/// Leaves a mark: the next start moves the directory aside.
pub(crate) fn mark(directory: &Path) {
    // Without it the next start fails in the same way.
    let _ = fs::write(directory.join(MARK), b"damaged\n");
}

/// Whether a source file is one of sled.
fn is_of_sled(file: &str) -> bool {
    file.split(['/', '\\']).any(|part| part.starts_with("sled-"))
}

fn mark_open() {
    // The lock is held for moments only; a panic within one must not wait for itself.
    let Ok(open) = OPEN.try_lock() else { return };
    for directory in open.iter() {
        mark(directory);
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
