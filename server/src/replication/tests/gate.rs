//! A disk whose log can be held up, as by a device that takes its time.

use std::io;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex};

use zoolet_storage::{Disk, DiskFile, DiskLock, FoundFile, MemoryDisk};

/// While it is closed, no sync of the log returns, and nothing of it becomes durable.
#[derive(Clone, Debug, Default)]
pub(super) struct Gate {
    shared: Arc<(Mutex<bool>, Condvar)>,
    /// Whether each sync fails for want of room, and how many have.
    is_full: Arc<AtomicBool>,
    refused: Arc<AtomicU64>,
}

impl Gate {
    pub(super) fn close(&self) {
        *self.shared.0.lock().unwrap() = true;
    }

    pub(super) fn open(&self) {
        *self.shared.0.lock().unwrap() = false;
        self.shared.1.notify_all();
    }

    /// From now on syncs fail, or no longer do, for want of room.
    pub(super) fn fill(&self, is_full: bool) {
        self.is_full.store(is_full, Ordering::SeqCst);
    }

    /// How many syncs have failed for want of room.
    pub(super) fn refused(&self) -> u64 {
        self.refused.load(Ordering::SeqCst)
    }

    fn check_room(&self) -> io::Result<()> {
        if self.is_full.load(Ordering::SeqCst) {
            self.refused.fetch_add(1, Ordering::SeqCst);
            return Err(io::ErrorKind::StorageFull.into());
        }
        Ok(())
    }

    pub(super) fn pass(&self) {
        let (is_closed, opened) = &*self.shared;
        drop(opened.wait_while(is_closed.lock().unwrap(), |is_closed| *is_closed).unwrap());
    }
}

#[derive(Debug)]
pub(super) struct GatedDisk {
    pub(super) disk: MemoryDisk,
    pub(super) gate: Gate,
    /// Holds up the snapshots.
    pub(super) snapshots: Gate,
}

#[derive(Debug)]
struct GatedFile {
    file: Arc<dyn DiskFile>,
    /// Only the files of the log and the snapshots have one.
    gate: Option<Gate>,
}

impl GatedDisk {
    fn gated(&self, path: &Path, file: Arc<dyn DiskFile>) -> Arc<dyn DiskFile> {
        let is_in = |name| path.parent().is_some_and(|directory| directory.ends_with(name));
        let log = is_in("wal").then(|| self.gate.clone());
        let gate = log.or_else(|| is_in("snapshots").then(|| self.snapshots.clone()));
        Arc::new(GatedFile { file, gate })
    }
}

impl Disk for GatedDisk {
    fn create(&self, path: &Path) -> io::Result<Arc<dyn DiskFile>> {
        Ok(self.gated(path, self.disk.create(path)?))
    }

    fn open(&self, path: &Path) -> io::Result<Arc<dyn DiskFile>> {
        Ok(self.gated(path, self.disk.open(path)?))
    }

    fn create_dir_all(&self, path: &Path) -> io::Result<()> {
        self.disk.create_dir_all(path)
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.disk.rename(from, to)
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        self.disk.remove(path)
    }

    fn list(&self, directory: &Path) -> io::Result<Vec<FoundFile>> {
        self.disk.list(directory)
    }

    fn sync_dir(&self, directory: &Path) -> io::Result<()> {
        self.disk.sync_dir(directory)
    }

    fn exists(&self, path: &Path) -> io::Result<bool> {
        self.disk.exists(path)
    }

    fn lock(&self, path: &Path) -> io::Result<Box<dyn DiskLock>> {
        self.disk.lock(path)
    }
}

impl DiskFile for GatedFile {
    fn write_all_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        self.file.write_all_at(bytes, offset)
    }

    fn read_exact_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<()> {
        self.file.read_exact_at(buffer, offset)
    }

    fn sync_data(&self) -> io::Result<()> {
        self.gate.iter().for_each(Gate::pass);
        self.gate.iter().try_for_each(Gate::check_room)?;
        self.file.sync_data()
    }

    fn set_len(&self, bytes: u64) -> io::Result<()> {
        self.file.set_len(bytes)
    }

    fn bytes(&self) -> io::Result<u64> {
        self.file.bytes()
    }
}
