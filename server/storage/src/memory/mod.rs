//! A disk in memory: for servers that are embedded in a program, and, with faults, for tests.
//!
//! With [`MemoryDisk::new`] every effect is durable at once, which costs nothing to keep track of.
//! With the feature `faults`, `MemoryDisk::with_faults` keeps unsynced effects apart from durable
//! ones, so that `Image::after_power_cut` can give each disk that a power cut may leave behind.

#[cfg_attr(not(feature = "faults"), path = "no_faults.rs")]
mod faults;
mod image;
#[cfg(feature = "faults")]
mod survival;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

#[cfg(feature = "faults")]
pub use faults::{Fault, Power};
#[cfg(feature = "faults")]
pub use image::Image;
#[cfg(feature = "faults")]
pub use survival::Survival;

use self::faults::Faults;
#[cfg(not(feature = "faults"))]
use self::image::Image;
use super::disk::{Disk, DiskFile, DiskLock, FoundFile};

/// A disk in memory. Clones are the same disk.
#[derive(Debug, Clone)]
pub struct MemoryDisk {
    shared: Arc<Mutex<Shared>>,
}

#[derive(Default)]
struct Shared {
    image: Image,
    faults: Faults,
    /// How many handles each file has.
    open: BTreeMap<u64, usize>,
    locks: BTreeSet<PathBuf>,
}

impl fmt::Debug for Shared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Shared").field("faults", &self.faults).finish_non_exhaustive()
    }
}

impl MemoryDisk {
    /// An empty disk on which everything is durable at once.
    pub fn new() -> Self {
        let shared = Shared { image: Image::durable_at_once(), ..Shared::default() };
        Self { shared: Arc::new(Mutex::new(shared)) }
    }

    fn lock_shared(&self) -> MutexGuard<'_, Shared> {
        // A test that panicked in an observer has failed already.
        self.shared.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn change<T>(&self, call: impl FnOnce(&mut Image) -> io::Result<T>) -> io::Result<T> {
        let mut shared = self.lock_shared();
        shared.faults.before_change()?;
        let result = call(&mut shared.image)?;
        shared.changed();
        Ok(result)
    }

    fn file(&self, number: u64) -> Arc<dyn DiskFile> {
        *self.lock_shared().open.entry(number).or_default() += 1;
        Arc::new(MemoryFile { disk: self.clone(), number })
    }
}

impl Default for MemoryDisk {
    fn default() -> Self {
        Self::new()
    }
}

impl Shared {
    fn changed(&mut self) {
        self.faults.changed(&self.image);
    }

    fn free_removed(&mut self) {
        if !self.faults.keep_removed() {
            let open = &self.open;
            self.image.forget_unlinked(|file| open.contains_key(&file));
        }
    }
}

impl Disk for MemoryDisk {
    fn is_real(&self) -> bool {
        false
    }

    fn create(&self, path: &Path) -> io::Result<Arc<dyn DiskFile>> {
        self.change(|image| image.create(path)).map(|number| self.file(number))
    }

    fn open(&self, path: &Path) -> io::Result<Arc<dyn DiskFile>> {
        let shared = self.lock_shared();
        shared.faults.check_power()?;
        let number = shared.image.find(path)?;
        drop(shared);
        Ok(self.file(number))
    }

    fn create_dir_all(&self, path: &Path) -> io::Result<()> {
        self.change(|image| {
            image.create_dir_all(path);
            Ok(())
        })
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.change(|image| image.rename(from, to))?;
        self.lock_shared().free_removed();
        Ok(())
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        self.change(|image| image.remove(path))?;
        self.lock_shared().free_removed();
        Ok(())
    }

    fn list(&self, directory: &Path) -> io::Result<Vec<FoundFile>> {
        let shared = self.lock_shared();
        shared.faults.check_power()?;
        let files = shared.image.list(directory)?.into_iter();
        Ok(files.map(|(name, bytes)| FoundFile { name, bytes }).collect())
    }

    fn sync_dir(&self, directory: &Path) -> io::Result<()> {
        self.change(|image| image.sync_dir(directory))
    }

    fn exists(&self, path: &Path) -> io::Result<bool> {
        let shared = self.lock_shared();
        shared.faults.check_power()?;
        Ok(shared.image.exists(path))
    }

    fn lock(&self, path: &Path) -> io::Result<Box<dyn DiskLock>> {
        let mut shared = self.lock_shared();
        shared.faults.check_power()?;
        if !shared.locks.insert(path.to_path_buf()) {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        Ok(Box::new(MemoryLock { disk: self.clone(), path: path.to_path_buf() }))
    }
}

#[derive(Debug)]
struct MemoryFile {
    disk: MemoryDisk,
    number: u64,
}

impl DiskFile for MemoryFile {
    fn write_all_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        let mut shared = self.disk.lock_shared();
        let end = offset + bytes.len() as u64;
        let more = end.saturating_sub(shared.image.bytes(self.number));
        let Shared { faults, image, .. } = &mut *shared;
        if let Some(half) = faults.before_write(image, bytes, more)? {
            image.write(self.number, half, offset);
            return Err(io::ErrorKind::StorageFull.into());
        }
        image.write(self.number, bytes, offset);
        shared.changed();
        Ok(())
    }

    fn read_exact_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<()> {
        let mut shared = self.disk.lock_shared();
        shared.faults.before_read()?;
        shared.image.read(self.number, buffer, offset)
    }

    fn sync_data(&self) -> io::Result<()> {
        let mut shared = self.disk.lock_shared();
        if let Err(error) = shared.faults.before_change() {
            // Without power, what was written before stays as it was.
            if !shared.faults.is_off() {
                shared.image.fail_sync_data(self.number);
            }
            return Err(error);
        }
        shared.image.sync_data(self.number);
        shared.changed();
        Ok(())
    }

    fn set_len(&self, bytes: u64) -> io::Result<()> {
        let more = bytes.saturating_sub(self.bytes()?);
        let shared = self.disk.lock_shared();
        shared.faults.check_room(&shared.image, more)?;
        drop(shared);
        self.disk.change(|image| {
            image.set_len(self.number, bytes);
            Ok(())
        })
    }

    fn bytes(&self) -> io::Result<u64> {
        Ok(self.disk.lock_shared().image.bytes(self.number))
    }
}

impl Drop for MemoryFile {
    fn drop(&mut self) {
        let mut shared = self.disk.lock_shared();
        if let Some(handles) = shared.open.get_mut(&self.number) {
            *handles -= 1;
            if *handles == 0 {
                shared.open.remove(&self.number);
                shared.free_removed();
            }
        }
    }
}

#[derive(Debug)]
struct MemoryLock {
    disk: MemoryDisk,
    path: PathBuf,
}

impl Drop for MemoryLock {
    fn drop(&mut self) {
        self.disk.lock_shared().locks.remove(&self.path);
    }
}

impl DiskLock for MemoryLock {}
