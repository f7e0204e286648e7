//! The machine's files with every change kept in memory: for a dry run of a start, which must judge
//! a directory by the start's own code and leave it as it is.

use std::collections::BTreeSet;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::disk::{Disk, DiskFile, DiskLock, FoundFile, RealDisk};
use super::memory::MemoryDisk;

/// The machine's files, opened as [`RealDisk`] opens them, and changed in memory only. Clones are the
/// same disk.
#[derive(Clone, Debug, Default)]
pub struct OverlayDisk {
    changed: MemoryDisk,
    /// The machine's files that were removed or renamed.
    removed: Arc<Mutex<BTreeSet<PathBuf>>>,
    ignores_locks: bool,
}

impl OverlayDisk {
    /// Returns a disk on which the locks of other processes do not count.
    pub fn without_locks() -> Self {
        Self { ignores_locks: true, ..Self::default() }
    }

    fn removed(&self) -> MutexGuard<'_, BTreeSet<PathBuf>> {
        self.removed.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn open_unchanged(&self, path: &Path) -> io::Result<OverlayFile> {
        if self.removed().contains(path) {
            return Err(io::ErrorKind::NotFound.into());
        }
        let (disk, path, file) = (self.clone(), path.to_owned(), RealDisk.open(path)?);
        Ok(OverlayFile { disk, path, file, copy: Mutex::default() })
    }
}

impl Disk for OverlayDisk {
    fn is_real(&self) -> bool {
        false
    }

    fn create(&self, path: &Path) -> io::Result<Arc<dyn DiskFile>> {
        if let Some(directory) = path.parent() {
            self.create_dir_all(directory)?;
        }
        self.changed.create(path)
    }

    fn open(&self, path: &Path) -> io::Result<Arc<dyn DiskFile>> {
        if self.changed.exists(path)? {
            return self.changed.open(path);
        }
        Ok(Arc::new(self.open_unchanged(path)?))
    }

    fn create_dir_all(&self, path: &Path) -> io::Result<()> {
        let existing = path.ancestors().find(|above| above.exists());
        if existing.is_some_and(|existing| !existing.is_dir()) {
            return Err(io::ErrorKind::NotADirectory.into());
        }
        self.changed.create_dir_all(path)
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        if !self.changed.exists(from)? {
            self.open_unchanged(from)?.copy()?;
        }
        self.changed.rename(from, to)?;
        self.removed().insert(from.to_owned());
        Ok(())
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        if !self.exists(path)? {
            return Err(io::ErrorKind::NotFound.into());
        }
        if self.changed.exists(path)? {
            self.changed.remove(path)?;
        }
        self.removed().insert(path.to_owned());
        Ok(())
    }

    fn list(&self, directory: &Path) -> io::Result<Vec<FoundFile>> {
        let is_there = RealDisk.exists(directory)?;
        let unchanged = if is_there { RealDisk.list(directory)? } else { Vec::new() };
        let changed = if self.changed.exists(directory)? || !is_there {
            self.changed.list(directory)?
        } else {
            Vec::new()
        };
        let removed = self.removed();
        let is_hidden = |found: &FoundFile| {
            removed.contains(&directory.join(&found.name))
                || changed.iter().any(|other| other.name == found.name)
        };
        let mut files: Vec<_> = unchanged.into_iter().filter(|it| !is_hidden(it)).collect();
        files.extend(changed.iter().cloned());
        files.sort_by(|a, b| a.name.cmp(&b.name));
        Ok(files)
    }

    fn sync_dir(&self, _: &Path) -> io::Result<()> {
        Ok(())
    }

    fn exists(&self, path: &Path) -> io::Result<bool> {
        Ok(self.changed.exists(path)? || !self.removed().contains(path) && RealDisk.exists(path)?)
    }

    /// Fails as the machine's disk does, but takes no lock there: a server may start meanwhile.
    fn lock(&self, path: &Path) -> io::Result<Box<dyn DiskLock>> {
        if !self.ignores_locks && RealDisk::is_locked(path)? {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        self.changed.lock(path)
    }
}

/// A file of the machine, copied before its first change.
#[derive(Debug)]
struct OverlayFile {
    disk: OverlayDisk,
    path: PathBuf,
    file: Arc<dyn DiskFile>,
    copy: Mutex<Option<Arc<dyn DiskFile>>>,
}

impl OverlayFile {
    fn current(&self) -> Arc<dyn DiskFile> {
        let copy = self.copy.lock().unwrap_or_else(PoisonError::into_inner);
        Arc::clone(copy.as_ref().unwrap_or(&self.file))
    }

    fn copy(&self) -> io::Result<Arc<dyn DiskFile>> {
        let mut copy = self.copy.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(copy) = &*copy {
            return Ok(Arc::clone(copy));
        }
        let mut bytes = vec![0; usize::try_from(self.file.bytes()?).map_err(io::Error::other)?];
        self.file.read_exact_at(&mut bytes, 0)?;
        let copied = self.disk.create(&self.path)?;
        copied.write_all_at(&bytes, 0)?;
        Ok(Arc::clone(copy.insert(copied)))
    }
}

impl DiskFile for OverlayFile {
    fn write_all_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        self.copy()?.write_all_at(bytes, offset)
    }

    fn read_exact_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<()> {
        self.current().read_exact_at(buffer, offset)
    }

    fn sync_data(&self) -> io::Result<()> {
        Ok(())
    }

    fn set_len(&self, bytes: u64) -> io::Result<()> {
        self.copy()?.set_len(bytes)
    }

    fn bytes(&self) -> io::Result<u64> {
        self.current().bytes()
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::{read_small_file, replace_small_file};

    #[test]
    fn changes_are_seen_here_and_nowhere_else() {
        let directory = tempfile::tempdir().unwrap();
        let (at, disk) = (directory.path(), OverlayDisk::default());
        for name in ["changed", "gone", "kept"] {
            fs::write(at.join(name), name).unwrap();
        }
        let read = |name: &str| read_small_file(&disk, &at.join(name), 100).unwrap();
        let changed = disk.open(&at.join("changed")).unwrap();
        changed.write_all_at(b"C", 0).unwrap();
        changed.set_len(3).unwrap();
        disk.remove(&at.join("gone")).unwrap();
        disk.rename(&at.join("kept"), &at.join("moved")).unwrap();
        replace_small_file(&disk, at, "new", b"new").unwrap();
        disk.create_dir_all(&at.join("in/side")).unwrap();
        assert_eq!(read("changed").unwrap(), b"Cha");
        assert_eq!(read("moved").unwrap(), b"kept");
        assert_eq!((read("gone"), read("kept")), (None, None));
        let names: Vec<_> = disk.list(at).unwrap().into_iter().map(|it| it.name).collect();
        assert_eq!(names, ["changed", "moved", "new"]);
        disk.open(&at.join("gone")).unwrap_err();
        disk.create_dir_all(&at.join("changed/below")).unwrap_err();
        let _lock = disk.lock(&at.join("lock")).unwrap();

        let mut left: Vec<_> =
            fs::read_dir(at).unwrap().map(|it| it.unwrap().file_name()).collect();
        left.sort();
        assert_eq!(left, ["changed", "gone", "kept"]);
        assert_eq!(fs::read(at.join("changed")).unwrap(), b"changed");
    }

    #[test]
    fn the_lock_of_a_server_counts_unless_it_is_ignored() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("lock");
        let lock = RealDisk.lock(&path).unwrap();
        let error = OverlayDisk::default().lock(&path).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::WouldBlock);
        OverlayDisk::without_locks().lock(&path).unwrap();
        drop(lock);
        let _overlay = OverlayDisk::default().lock(&path).unwrap();
        RealDisk.lock(&path).unwrap();
    }
}
