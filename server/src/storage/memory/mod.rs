//! A disk in memory: for servers that are embedded in a program, and, with faults, for tests.
//!
//! With [`MemoryDisk::new`] every effect is durable at once, which costs nothing to keep track of.
//! [`MemoryDisk::with_faults`] keeps unsynced effects apart from durable ones, so that
//! [`Image::after_power_cut`] can give each disk that a power cut may leave behind.

mod image;
mod survival;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

pub use image::Image;
pub use survival::Survival;

use super::disk::{Disk, DiskFile, DiskLock, FoundFile};

/// How a disk call fails.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// EIO, nothing done; a sync loses what it should have written.
    Io,
    /// ENOSPC, nothing done.
    Full,
    /// A write stops halfway with ENOSPC; any other call fails with EIO.
    Short,
}

/// A disk in memory. Clones are the same disk.
#[derive(Debug, Clone)]
pub struct MemoryDisk {
    shared: Arc<Mutex<Shared>>,
}

type Observer = Box<dyn FnMut(&Image) + Send>;

#[derive(Default)]
struct Shared {
    image: Image,
    /// Whether removed files must be kept, because a power cut may bring them back.
    faults: bool,
    /// How many handles each file has.
    open: BTreeMap<u64, usize>,
    changes: u64,
    failing_change: Option<(u64, Fault)>,
    reads: u64,
    failing_read: Option<u64>,
    capacity_bytes: Option<u64>,
    is_off: bool,
    observer: Option<Observer>,
    locks: BTreeSet<PathBuf>,
}

impl fmt::Debug for Shared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Shared").field("changes", &self.changes).finish_non_exhaustive()
    }
}

impl MemoryDisk {
    /// An empty disk on which everything is durable at once.
    pub fn new() -> Self {
        let shared = Shared { image: Image::durable_at_once(), ..Shared::default() };
        Self { shared: Arc::new(Mutex::new(shared)) }
    }

    /// An empty disk that knows what was synced.
    pub fn with_faults() -> Self {
        Self::from_image(Image::default())
    }

    /// A disk that knows what was synced, holding `image`.
    pub fn from_image(image: Image) -> Self {
        let shared = Shared { image, faults: true, ..Shared::default() };
        Self { shared: Arc::new(Mutex::new(shared)) }
    }

    /// What is on the disk now.
    pub fn image(&self) -> Image {
        self.lock_shared().image.clone()
    }

    /// Makes the `number`-th changing call from now on (counted from 1) fail: every call but
    /// opening, reading, listing and locking changes something.
    pub fn fail_change(&self, number: u64, fault: Fault) {
        let mut shared = self.lock_shared();
        shared.failing_change = Some((shared.changes + number, fault));
    }

    /// Makes the `number`-th read of file contents from now on (counted from 1) fail.
    pub fn fail_read(&self, number: u64) {
        let mut shared = self.lock_shared();
        shared.failing_read = Some(shared.reads + number);
    }

    /// How many changing calls there were.
    pub fn changes(&self) -> u64 {
        self.lock_shared().changes
    }

    /// Gives the disk a size; writes that need more fail with ENOSPC.
    pub fn set_capacity(&self, bytes: Option<u64>) {
        self.lock_shared().capacity_bytes = bytes;
    }

    /// From now on every call fails, as if the server had lost its disk or its power.
    pub fn switch_off(&self) {
        self.lock_shared().is_off = true;
    }

    /// Calls `observer` with the disk after each changing call that succeeded.
    pub fn observe(&self, observer: impl FnMut(&Image) + Send + 'static) {
        self.lock_shared().observer = Some(Box::new(observer));
    }

    fn lock_shared(&self) -> MutexGuard<'_, Shared> {
        // A test that panicked in an observer has failed already.
        self.shared.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn change<T>(&self, call: impl FnOnce(&mut Image) -> io::Result<T>) -> io::Result<T> {
        let mut shared = self.lock_shared();
        if shared.next_fault()?.is_some() {
            return Err(io::Error::other("injected fault"));
        }
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
    /// Counts a changing call. An error when it must fail whatever it is; a fault when the call
    /// itself decides how it fails.
    fn next_fault(&mut self) -> io::Result<Option<Fault>> {
        self.check_power()?;
        self.changes += 1;
        match self.failing_change {
            Some((number, Fault::Full)) if number == self.changes => {
                Err(io::ErrorKind::StorageFull.into())
            }
            Some((number, fault)) if number == self.changes => Ok(Some(fault)),
            _ => Ok(None),
        }
    }

    fn check_power(&self) -> io::Result<()> {
        if self.is_off { Err(io::Error::other("the disk is switched off")) } else { Ok(()) }
    }

    fn changed(&mut self) {
        if let Some(observer) = &mut self.observer {
            observer(&self.image);
        }
    }

    fn free_removed(&mut self) {
        if !self.faults {
            let open = &self.open;
            self.image.forget_unlinked(|file| open.contains_key(&file));
        }
    }

    fn check_room(&self, more: u64) -> io::Result<()> {
        match self.capacity_bytes {
            Some(capacity) if self.image.used_bytes() + more > capacity => {
                Err(io::ErrorKind::StorageFull.into())
            }
            _ => Ok(()),
        }
    }
}

impl Disk for MemoryDisk {
    fn create(&self, path: &Path) -> io::Result<Arc<dyn DiskFile>> {
        self.change(|image| image.create(path)).map(|number| self.file(number))
    }

    fn open(&self, path: &Path) -> io::Result<Arc<dyn DiskFile>> {
        let shared = self.lock_shared();
        shared.check_power()?;
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
        shared.check_power()?;
        let files = shared.image.list(directory)?.into_iter();
        Ok(files.map(|(name, bytes)| FoundFile { name, bytes }).collect())
    }

    fn sync_dir(&self, directory: &Path) -> io::Result<()> {
        self.change(|image| image.sync_dir(directory))
    }

    fn exists(&self, path: &Path) -> io::Result<bool> {
        let shared = self.lock_shared();
        shared.check_power()?;
        Ok(shared.image.exists(path))
    }

    fn lock(&self, path: &Path) -> io::Result<Box<dyn DiskLock>> {
        let mut shared = self.lock_shared();
        shared.check_power()?;
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
        let fault = shared.next_fault()?;
        let end = offset + bytes.len() as u64;
        shared.check_room(end.saturating_sub(shared.image.bytes(self.number)))?;
        match fault {
            None => shared.image.write(self.number, bytes, offset),
            Some(Fault::Io | Fault::Full) => return Err(io::Error::other("injected fault")),
            Some(Fault::Short) => {
                let half = bytes.get(..bytes.len() / 2).unwrap_or_default();
                shared.image.write(self.number, half, offset);
                return Err(io::ErrorKind::StorageFull.into());
            }
        }
        shared.changed();
        Ok(())
    }

    fn read_exact_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<()> {
        let mut shared = self.disk.lock_shared();
        shared.check_power()?;
        shared.reads += 1;
        if shared.failing_read == Some(shared.reads) {
            return Err(io::Error::other("injected fault"));
        }
        shared.image.read(self.number, buffer, offset)
    }

    fn sync_data(&self) -> io::Result<()> {
        let mut shared = self.disk.lock_shared();
        let fault = shared.next_fault();
        if !matches!(fault, Ok(None)) {
            shared.image.fail_sync_data(self.number);
            fault?;
            return Err(io::Error::other("injected fault"));
        }
        shared.image.sync_data(self.number);
        shared.changed();
        Ok(())
    }

    fn set_len(&self, bytes: u64) -> io::Result<()> {
        let more = bytes.saturating_sub(self.bytes()?);
        self.disk.lock_shared().check_room(more)?;
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
