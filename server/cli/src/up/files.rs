//! The files and directories of `zoolet up`.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Component, Path, PathBuf};

use zoolet_storage::{Disk, RealDisk};

use super::UpError;

/// Keeps every other `up` out of a directory.
pub(super) const LOCK_FILE: &str = "up.lock";

/// Secrets, and files with passwords, are for the owner's eyes only; other files are for all.
pub(super) const SECRET_MODE: u32 = 0o600;
pub(super) const FILE_MODE: u32 = 0o666;

/// A path without links and `..`; its last parts need not exist.
pub(super) fn resolved(path: &Path) -> io::Result<PathBuf> {
    let mut existing = path;
    loop {
        match (fs::canonicalize(existing), existing.parent()) {
            (Ok(real), _) => {
                let rest = path.strip_prefix(existing).map_err(io::Error::other)?;
                // What does not exist has no parent to go back to.
                let is_plain = rest.components().all(|part| matches!(part, Component::Normal(_)));
                return Ok(if is_plain { real.join(rest) } else { PathBuf::new() });
            }
            (Err(error), Some(parent)) if error.kind() == io::ErrorKind::NotFound => {
                existing = parent;
            }
            (Err(error), _) => return Err(error),
        }
    }
}

/// Replaces a file: a reader, and the next start after a power cut, finds the old text or the new.
pub(super) fn write_durably(path: &Path, text: &str, mode: u32) -> io::Result<()> {
    let draft = path.with_extension("new");
    let mut options = OpenOptions::new();
    let mut file = options.write(true).create(true).truncate(true).mode(mode).open(&draft)?;
    file.write_all(text.as_bytes())?;
    file.sync_all()?;
    fs::rename(&draft, path)?;
    let directory = path.parent().filter(|parent| *parent != Path::new(""));
    File::open(directory.unwrap_or(Path::new(".")))?.sync_all()
}

/// A directory, which is made if need be, by its full name.
pub(super) fn absolute(directory: &Path) -> Result<PathBuf, UpError> {
    // Durable, like all that the servers will put into it.
    let made = RealDisk.create_dir_all(directory).and_then(|()| fs::canonicalize(directory));
    made.map_err(|source| file_error(directory, source))
}

pub(super) fn file_error(path: &Path, source: io::Error) -> UpError {
    UpError::File { path: path.to_owned(), source }
}

/// Takes the directory for this `up` alone: another one's ports must not be written over.
pub(super) fn lock(directory: &Path) -> Result<File, UpError> {
    let path = directory.join(LOCK_FILE);
    let file = File::create(&path).map_err(|source| file_error(&path, source))?;
    match file.try_lock() {
        Ok(()) => Ok(file),
        Err(TryLockError::WouldBlock) => Err(UpError::InUse(directory.to_owned())),
        Err(TryLockError::Error(source)) => Err(file_error(&path, source)),
    }
}
