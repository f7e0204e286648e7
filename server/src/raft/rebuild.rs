//! The mark of a server that is being rebuilt: it had lost its log, and does not have everything
//! back that it may once have acknowledged. Its log stops being empty with the leader's first
//! message, so only this tells a start in the middle of a rebuild from any other.

use std::path::PathBuf;
use std::sync::Arc;

use crate::storage::{Disk, StorageError};

/// For whoever finds the file. That it exists is all that counts.
const TEXT: &[u8] = b"This server is being rebuilt by its ensemble, and votes when it has all \
data. It removes this file itself.\n";

/// The mark beside a log. Clones are the same mark.
#[derive(Clone, Debug)]
pub(super) struct RebuildMark {
    disk: Arc<dyn Disk>,
    directory: PathBuf,
}

impl RebuildMark {
    pub(super) fn new(disk: Arc<dyn Disk>, directory: PathBuf) -> Self {
        Self { disk, directory }
    }

    fn path(&self) -> PathBuf {
        self.directory.join("rebuilding")
    }

    pub(super) fn is_set(&self) -> Result<bool, StorageError> {
        let path = self.path();
        self.disk.exists(&path).map_err(StorageError::io("look for", &path))
    }

    /// Sets the mark. It is durable when this returns.
    pub(super) fn set(&self) -> Result<(), StorageError> {
        let path = self.path();
        let file = self.disk.create(&path).map_err(StorageError::io("create", &path))?;
        file.write_all_at(TEXT, 0).map_err(StorageError::io("write", &path))?;
        file.sync_data().map_err(StorageError::io("sync", &path))?;
        self.sync_directory()
    }

    /// Takes the mark away.
    pub(super) fn clear(&self) -> Result<(), StorageError> {
        let path = self.path();
        self.disk.remove(&path).map_err(StorageError::io("remove", &path))?;
        self.sync_directory()
    }

    fn sync_directory(&self) -> Result<(), StorageError> {
        let synced = self.disk.sync_dir(&self.directory);
        synced.map_err(StorageError::io("sync", &self.directory))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::storage::{MemoryDisk, Survival};

    #[test]
    fn the_mark_survives_a_power_cut() {
        let disk = MemoryDisk::with_faults();
        let mark = |disk: &MemoryDisk| {
            disk.create_dir_all("data".as_ref()).unwrap();
            RebuildMark::new(Arc::new(disk.clone()), PathBuf::from("data"))
        };
        let after = |disk: &MemoryDisk| {
            MemoryDisk::from_image(disk.image().after_power_cut(Survival::Nothing))
        };
        assert!(!mark(&disk).is_set().unwrap());
        mark(&disk).set().unwrap();
        assert!(mark(&after(&disk)).is_set().unwrap());
        mark(&disk).set().unwrap();
        mark(&disk).clear().unwrap();
        assert!(!mark(&after(&disk)).is_set().unwrap());
    }
}
