//! Temporary directories, which leave nothing behind: each is removed when its `up` ends, and those
//! of an `up` that was killed by the next one that makes one.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::io;
use std::path::Path;

use tempfile::TempDir;

use super::UpError;
use super::files::{LOCK_FILE, file_error};

/// How the names of the directories begin.
const PREFIX: &str = "zoolet-";

/// A file in each of them: a directory without it is never removed.
const MARK: &str = "temporary";

/// The size of a segment of the log, which is preallocated: a server has one or two.
pub(super) const SEGMENT_BYTES: u64 = 1 << 20;

/// Makes a directory and locks it, and removes those of the dead.
pub(super) fn make() -> Result<(TempDir, File), UpError> {
    let parent = std::env::temp_dir();
    remove_abandoned(&parent);
    let made = TempDir::with_prefix(PREFIX).map_err(|source| file_error(&parent, source))?;
    let lock = locked(made.path()).map_err(|source| file_error(made.path(), source))?;
    Ok((made, lock))
}

/// Makes the lock. It has its name only when it is locked, so no other `up` takes this directory for
/// an abandoned one.
fn locked(directory: &Path) -> io::Result<File> {
    let draft = directory.join("up.lock.new");
    let lock = File::create(&draft)?;
    lock.try_lock()?;
    File::create(directory.join(MARK))?;
    fs::rename(draft, directory.join(LOCK_FILE))?;
    Ok(lock)
}

/// Keeps a directory that the user names: it is temporary no longer.
pub(super) fn keep(directory: &Path) -> Result<(), UpError> {
    let mark = directory.join(MARK);
    match fs::remove_file(&mark) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(file_error(&mark, error)),
        _ => Ok(()),
    }
}

fn remove_abandoned(parent: &Path) {
    let named = |name: &OsStr| name.to_string_lossy().starts_with(PREFIX);
    for entry in fs::read_dir(parent).into_iter().flatten().flatten() {
        let directory = entry.path();
        let is_directory = entry.file_type().is_ok_and(|kind| kind.is_dir());
        if is_directory && named(&entry.file_name()) && is_abandoned(&directory) {
            // Another user's cannot be removed, and another `up` may do the same at this moment.
            let _ = fs::remove_dir_all(&directory);
        }
    }
}

fn is_abandoned(directory: &Path) -> bool {
    directory.join(MARK).is_file()
        && File::open(directory.join(LOCK_FILE)).is_ok_and(|lock| lock.try_lock().is_ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_temporary_directories_that_no_one_holds_are_removed() {
        let parent = tempfile::tempdir().unwrap();
        let make = |name: &str| {
            let directory = parent.path().join(name);
            fs::create_dir(&directory).unwrap();
            let lock = locked(&directory).unwrap();
            fs::write(directory.join("file"), b"").unwrap();
            (directory, lock)
        };
        let (used, _lock) = make("zoolet-used");
        let (kept, _) = make("zoolet-kept");
        keep(&kept).unwrap();
        let (other, _) = make("other");
        let (abandoned, _) = make("zoolet-abandoned");
        remove_abandoned(parent.path());
        assert!(used.exists() && kept.exists() && other.exists());
        assert!(!abandoned.exists());
    }
}
