//! A disk whose log can be held up, as by a device that takes its time.

use std::io;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex};

use zoolet_storage::{AroundSync, MemoryDisk, WatchedDisk};

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

/// Holds up the syncs of the log's files by one gate, and those of the snapshots' by another.
#[derive(Debug)]
struct Gates {
    log: Gate,
    snapshots: Gate,
}

impl AroundSync for Gates {
    fn sync(&self, path: &Path, sync: &dyn Fn() -> io::Result<()>) -> io::Result<()> {
        let is_in = |name| path.parent().is_some_and(|directory| directory.ends_with(name));
        for (name, gate) in [("wal", &self.log), ("snapshots", &self.snapshots)] {
            if is_in(name) {
                gate.pass();
                gate.check_room()?;
            }
        }
        sync()
    }
}

/// Returns a disk whose log and snapshots can be held up.
pub(super) fn gated(disk: MemoryDisk, log: Gate, snapshots: Gate) -> WatchedDisk {
    WatchedDisk::around(Arc::new(disk), Arc::new(Gates { log, snapshots }))
}
