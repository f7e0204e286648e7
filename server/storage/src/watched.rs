//! A disk whose syncs are watched: every write waits for a sync, so slow ones are the first thing to
//! check on a slow server.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::disk::{Disk, DiskFile, DiskLock, FoundFile};

/// Returns microseconds on a clock that never jumps and never goes back; its zero means nothing.
pub type MonotonicClock = Arc<dyn Fn() -> u64 + Send + Sync>;

/// Receives each sync: the file, and the time that it took in microseconds.
pub type SyncHook = Arc<dyn Fn(&Path, u64) + Send + Sync>;

/// Carries out the syncs of a disk.
pub trait AroundSync: fmt::Debug + Send + Sync + 'static {
    /// Carries out the sync of a file or a directory.
    fn sync(&self, path: &Path, sync: &dyn Fn() -> io::Result<()>) -> io::Result<()>;
}

/// A disk whose syncs are watched.
#[derive(Clone, Debug)]
pub struct WatchedDisk {
    disk: Arc<dyn Disk>,
    around_sync: Arc<dyn AroundSync>,
}

/// Reports how long syncs take.
struct SyncTimes {
    clock: MonotonicClock,
    hook: SyncHook,
}

impl fmt::Debug for SyncTimes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SyncTimes").finish_non_exhaustive()
    }
}

impl AroundSync for SyncTimes {
    fn sync(&self, path: &Path, sync: &dyn Fn() -> io::Result<()>) -> io::Result<()> {
        let before = (self.clock)();
        let synced = sync();
        (self.hook)(path, (self.clock)().saturating_sub(before));
        synced
    }
}

impl WatchedDisk {
    /// Has `hook` called after each sync.
    pub fn new(disk: Arc<dyn Disk>, clock: MonotonicClock, hook: SyncHook) -> Self {
        Self::around(disk, Arc::new(SyncTimes { clock, hook }))
    }

    /// Has each sync carried out by `around_sync`.
    pub fn around(disk: Arc<dyn Disk>, around_sync: Arc<dyn AroundSync>) -> Self {
        Self { disk, around_sync }
    }

    fn watched(&self, path: &Path, file: Arc<dyn DiskFile>) -> Arc<dyn DiskFile> {
        let around_sync = Arc::clone(&self.around_sync);
        Arc::new(WatchedFile { file, path: path.to_path_buf(), around_sync })
    }
}

impl Disk for WatchedDisk {
    fn is_real(&self) -> bool {
        self.disk.is_real()
    }

    fn create(&self, path: &Path) -> io::Result<Arc<dyn DiskFile>> {
        self.disk.create(path).map(|file| self.watched(path, file))
    }

    fn open(&self, path: &Path) -> io::Result<Arc<dyn DiskFile>> {
        self.disk.open(path).map(|file| self.watched(path, file))
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
        self.around_sync.sync(directory, &|| self.disk.sync_dir(directory))
    }

    fn exists(&self, path: &Path) -> io::Result<bool> {
        self.disk.exists(path)
    }

    fn lock(&self, path: &Path) -> io::Result<Box<dyn DiskLock>> {
        self.disk.lock(path)
    }
}

struct WatchedFile {
    file: Arc<dyn DiskFile>,
    path: PathBuf,
    around_sync: Arc<dyn AroundSync>,
}

impl fmt::Debug for WatchedFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.file.fmt(f)
    }
}

impl DiskFile for WatchedFile {
    fn write_all_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        self.file.write_all_at(bytes, offset)
    }

    fn read_exact_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<()> {
        self.file.read_exact_at(buffer, offset)
    }

    fn sync_data(&self) -> io::Result<()> {
        self.around_sync.sync(&self.path, &|| self.file.sync_data())
    }

    fn set_len(&self, bytes: u64) -> io::Result<()> {
        self.file.set_len(bytes)
    }

    fn bytes(&self) -> io::Result<u64> {
        self.file.bytes()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;
    use std::sync::atomic::{AtomicU64, Ordering};

    use super::*;
    use crate::MemoryDisk;

    #[test]
    fn every_sync_is_reported_with_its_time() {
        // Each look at the clock takes a step.
        let step = Arc::new(AtomicU64::new(0));
        let now_us = AtomicU64::new(0);
        let clock: MonotonicClock = {
            let step = Arc::clone(&step);
            Arc::new(move || now_us.fetch_add(step.load(Ordering::Relaxed), Ordering::Relaxed))
        };
        let reported = Arc::new(Mutex::new(Vec::new()));
        let hook: SyncHook = {
            let reported = Arc::clone(&reported);
            Arc::new(move |path, took_us| reported.lock().unwrap().push((path.to_owned(), took_us)))
        };
        let memory = MemoryDisk::new();
        memory.create_dir_all(Path::new("d")).unwrap();
        let disk = WatchedDisk::new(Arc::new(memory), clock, hook);
        let file = disk.create(Path::new("d/f")).unwrap();
        for step_us in [10, 11] {
            step.store(step_us, Ordering::Relaxed);
            file.sync_data().unwrap();
            disk.sync_dir(Path::new("d")).unwrap();
        }
        let expected = [("d/f", 10), ("d", 10), ("d/f", 11), ("d", 11)];
        assert_eq!(*reported.lock().unwrap(), expected.map(|(path, us)| (PathBuf::from(path), us)));
    }
}
