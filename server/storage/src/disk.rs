//! The `Disk` seam: every file of the server is reached through it, so that a test can put a disk
//! under the server that fails, fills up, tears writes or loses power.
//!
//! The calls are synchronous and block. A caller that must not block uses a thread of its own.

use std::fmt::Debug;
use std::fs::{self, File, OpenOptions, TryLockError};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread;
use std::time::Duration;

/// The errors of an open when the process, or the machine, has no descriptor left: EMFILE and ENFILE,
/// which have these numbers on every Unix.
const NO_DESCRIPTOR: [i32; 2] = [24, 23];

/// The pause before an open is tried again that found no descriptor, and the most tries: a minute.
const OPEN_AGAIN: Duration = Duration::from_millis(50);
const OPENS_MAX: u32 = 1200;

/// A place for files.
///
/// What a power cut leaves behind: a file's bytes and length as of its last `sync_data`, a
/// directory's entries as of its last `sync_dir`, and any part of what came later.
/// A rename is one step: after a power cut there is the old state or the new one.
pub trait Disk: Debug + Send + Sync + 'static {
    /// Creates a file, or empties the one that is there, for reading and writing.
    fn create(&self, path: &Path) -> io::Result<Arc<dyn DiskFile>>;

    /// Opens a file that exists, for reading and writing.
    fn open(&self, path: &Path) -> io::Result<Arc<dyn DiskFile>>;

    /// Creates a directory and its parents. They are durable when this returns.
    fn create_dir_all(&self, path: &Path) -> io::Result<()>;

    /// Renames a file inside one directory, over an existing one if need be.
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()>;

    /// Removes a file. Those who have it open can still read it.
    fn remove(&self, path: &Path) -> io::Result<()>;

    /// The files (not the directories) of a directory, sorted by name.
    fn list(&self, directory: &Path) -> io::Result<Vec<FoundFile>>;

    /// Makes the creations, renames and removals in a directory durable.
    fn sync_dir(&self, directory: &Path) -> io::Result<()>;

    /// Whether there is a file or a directory of this name.
    fn exists(&self, path: &Path) -> io::Result<bool>;

    /// Takes the exclusive lock on the file, which is created if need be, until the result is
    /// dropped or the process ends. `WouldBlock`: somebody else has it.
    fn lock(&self, path: &Path) -> io::Result<Box<dyn DiskLock>>;

    /// Whether its files are those of the machine, so that a library which opens files by itself
    /// finds the same ones.
    fn is_real(&self) -> bool;
}

/// An open file; all calls name their offset, so threads can share it.
pub trait DiskFile: Debug + Send + Sync + 'static {
    /// Writes all of `bytes`, growing the file if need be.
    fn write_all_at(&self, bytes: &[u8], offset: u64) -> io::Result<()>;

    /// Fills `buffer`; a file that ends before that is an `UnexpectedEof`.
    fn read_exact_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<()>;

    /// Makes the bytes and the length durable (fdatasync).
    fn sync_data(&self) -> io::Result<()>;

    /// Cuts the file, or grows it with zeros.
    fn set_len(&self, bytes: u64) -> io::Result<()>;

    /// The length in bytes.
    fn bytes(&self) -> io::Result<u64>;
}

/// A lock that is held as long as this lives.
pub trait DiskLock: Debug + Send + Sync + 'static {}

/// A file in a directory listing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FoundFile {
    pub name: String,
    pub bytes: u64,
}

/// The directories that hold the entries of a directory and of those above it.
fn parents(path: &Path) -> Vec<PathBuf> {
    let above = path.ancestors().filter(|directory| !directory.as_os_str().is_empty());
    above
        .filter_map(|directory| {
            let parent = directory.parent()?;
            // An empty parent is the current directory.
            let is_empty = parent.as_os_str().is_empty();
            Some(if is_empty { PathBuf::from(".") } else { parent.to_path_buf() })
        })
        .collect()
}

/// Opens a file, and retries for a minute while the process has no descriptor left. Such an open has
/// changed nothing, and a burst of connections is over soon. Without the retry, a log that cannot open
/// its next segment at once ends its server.
fn opened<T>(mut open: impl FnMut() -> io::Result<T>, pause: impl Fn()) -> io::Result<T> {
    for _ in 1..OPENS_MAX {
        match open() {
            Err(error)
                if error.raw_os_error().is_some_and(|code| NO_DESCRIPTOR.contains(&code)) =>
            {
                pause();
            }
            opened => return opened,
        }
    }
    open()
}

#[allow(clippy::disallowed_methods, reason = "callers of a disk may block")]
fn pause() {
    thread::sleep(OPEN_AGAIN);
}

/// The operating system's files.
#[derive(Debug, Clone, Copy, Default)]
pub struct RealDisk;

impl RealDisk {
    /// Opens a file that this process may not write.
    pub(crate) fn open_read_only(path: &Path) -> io::Result<Arc<dyn DiskFile>> {
        Ok(Arc::new(RealFile(opened(|| File::open(path), pause)?)))
    }

    /// Returns whether a process has the exclusive lock on the file. The file need not exist.
    pub fn is_locked(path: &Path) -> io::Result<bool> {
        let file = match File::options().write(true).open(path) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(false),
            Err(error) => return Err(error),
        };
        // A shared lock, and only until this returns: a server that starts meanwhile would report
        // that the directory is in use.
        match file.try_lock_shared() {
            Ok(()) => Ok(false),
            Err(TryLockError::WouldBlock) => Ok(true),
            Err(TryLockError::Error(error)) => Err(error),
        }
    }
}

impl Disk for RealDisk {
    fn is_real(&self) -> bool {
        true
    }

    fn create(&self, path: &Path) -> io::Result<Arc<dyn DiskFile>> {
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(true).truncate(true);
        Ok(Arc::new(RealFile(opened(|| options.open(path), pause)?)))
    }

    fn open(&self, path: &Path) -> io::Result<Arc<dyn DiskFile>> {
        let mut options = OpenOptions::new();
        options.read(true).write(true);
        Ok(Arc::new(RealFile(opened(|| options.open(path), pause)?)))
    }

    fn create_dir_all(&self, path: &Path) -> io::Result<()> {
        fs::create_dir_all(path)?;
        // Also where it is there already: it may have been made by another program, or by a start
        // that ended before this.
        for parent in parents(path) {
            match self.sync_dir(&parent) {
                // Nothing was made in a directory that this process may not even read.
                Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {}
                synced => synced?,
            }
        }
        Ok(())
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        fs::rename(from, to)
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        fs::remove_file(path)
    }

    fn list(&self, directory: &Path) -> io::Result<Vec<FoundFile>> {
        let mut files = Vec::new();
        for entry in opened(|| fs::read_dir(directory), pause)? {
            let entry = entry?;
            let metadata = entry.metadata()?;
            // A name that is not UTF-8 is none of ours.
            if let (true, Ok(name)) = (metadata.is_file(), entry.file_name().into_string()) {
                files.push(FoundFile { name, bytes: metadata.len() });
            }
        }
        files.sort_by(|a, b| a.name.cmp(&b.name));
        Ok(files)
    }

    fn sync_dir(&self, directory: &Path) -> io::Result<()> {
        opened(|| File::open(directory), pause)?.sync_all()
    }

    fn exists(&self, path: &Path) -> io::Result<bool> {
        path.try_exists()
    }

    fn lock(&self, path: &Path) -> io::Result<Box<dyn DiskLock>> {
        let mut options = OpenOptions::new();
        options.write(true).create(true).truncate(false);
        let file = opened(|| options.open(path), pause)?;
        match file.try_lock() {
            Ok(()) => Ok(Box::new(RealLock { _file: file })),
            Err(TryLockError::WouldBlock) => Err(io::ErrorKind::WouldBlock.into()),
            Err(TryLockError::Error(error)) => Err(error),
        }
    }
}

#[derive(Debug)]
struct RealFile(File);

impl DiskFile for RealFile {
    fn write_all_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        self.0.write_all_at(bytes, offset)
    }

    fn read_exact_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<()> {
        self.0.read_exact_at(buffer, offset)
    }

    fn sync_data(&self) -> io::Result<()> {
        self.0.sync_data()
    }

    fn set_len(&self, bytes: u64) -> io::Result<()> {
        self.0.set_len(bytes)
    }

    fn bytes(&self) -> io::Result<u64> {
        Ok(self.0.metadata()?.len())
    }
}

/// The lock goes with the file descriptor.
#[derive(Debug)]
struct RealLock {
    _file: File,
}

impl DiskLock for RealLock {}

#[cfg(test)]
mod tests {
    use super::*;

    /// The preparer of segments failed at the first such open, and the server ended.
    #[test]
    fn an_open_without_a_descriptor_is_tried_again_and_no_other_one() {
        let tries = |code: i32, until: u32| {
            let mut tries = 0;
            let open = || {
                tries += 1;
                if tries < until { Err(io::Error::from_raw_os_error(code)) } else { Ok(()) }
            };
            let is_open = opened(open, || {}).is_ok();
            (tries, is_open)
        };
        for code in NO_DESCRIPTOR {
            assert_eq!(tries(code, 3), (3, true));
            assert_eq!(tries(code, u32::MAX), (OPENS_MAX, false));
        }
        let access_denied = 13;
        assert_eq!(tries(access_denied, 3), (1, false));
    }

    /// A directory that another program had made, or a start that ended at once, was durable only
    /// if its parent happened to be: a power cut took it, with all that was acknowledged in it.
    #[test]
    fn the_parents_of_a_directory_are_synced_also_if_it_is_there() {
        let named = |paths: &[&str]| -> Vec<PathBuf> { paths.iter().map(PathBuf::from).collect() };
        assert_eq!(parents(Path::new("/a/b/c")), named(&["/a/b", "/a", "/"]));
        assert_eq!(parents(Path::new("data/1")), named(&["data", "."]));
        let directory = tempfile::tempdir().unwrap();
        let inside = directory.path().join("x/y");
        RealDisk.create_dir_all(&inside).unwrap();
        RealDisk.create_dir_all(&inside).unwrap();
        assert!(inside.is_dir());
        // The system does not sync directories of its view of processes.
        let error = RealDisk.create_dir_all(Path::new("/proc/self/fd")).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::InvalidInput, "its parent was synced");
    }
}
