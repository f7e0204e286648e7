//! The directory of one server: who may use it, and where things are in it.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::disk::{Disk, DiskLock};
use super::error::StorageError;
use super::identity::FILE_NAME;

/// A server's directory, locked against every other server as long as this lives.
#[derive(Debug)]
pub struct DataDir {
    disk: Arc<dyn Disk>,
    path: PathBuf,
    _lock: Box<dyn DiskLock>,
}

impl DataDir {
    /// Creates the directory if need be, and locks it.
    pub fn open(disk: Arc<dyn Disk>, path: &Path) -> Result<Self, StorageError> {
        disk.create_dir_all(path).map_err(StorageError::io("create", path))?;
        let lock_path = path.join("lock");
        let lock = disk.lock(&lock_path).map_err(|error| {
            if error.kind() == io::ErrorKind::WouldBlock {
                StorageError::Locked { path: path.to_path_buf() }
            } else {
                StorageError::io("lock", &lock_path)(error)
            }
        })?;
        Ok(Self { disk, path: path.to_path_buf(), _lock: lock })
    }

    pub fn disk(&self) -> Arc<dyn Disk> {
        self.disk.clone()
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Where the log is.
    pub fn wal_path(&self) -> PathBuf {
        self.path.join("wal")
    }

    /// Where the snapshots are.
    pub fn snapshot_path(&self) -> PathBuf {
        self.path.join("snapshots")
    }

    pub(super) fn identity_path(&self) -> PathBuf {
        self.path.join(FILE_NAME)
    }
}

/// The bytes of a server's files.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DirectorySizes {
    /// Of the data directory, without what is only in the log's.
    pub data: u64,
    /// Of the log's directory; the same when there is only one.
    pub log: u64,
}

impl DirectorySizes {
    /// Measures them, as far as the disk tells.
    pub fn measure(disk: &dyn Disk, data: &Path, log: &Path) -> Self {
        let bytes = |directory: &Path| -> u64 {
            let parts =
                [directory.to_path_buf(), directory.join("wal"), directory.join("snapshots")];
            let files = parts.iter().filter_map(|part| disk.list(part).ok()).flatten();
            files.map(|file| file.bytes).sum()
        };
        Self { data: bytes(data), log: bytes(log) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::MemoryDisk;

    #[test]
    fn a_directory_has_one_server_at_a_time() {
        let disk: Arc<dyn Disk> = Arc::new(MemoryDisk::new());
        let first = DataDir::open(disk.clone(), Path::new("data")).unwrap();
        let second = DataDir::open(disk.clone(), Path::new("data")).unwrap_err();
        assert_eq!(second.to_string(), "data is in use by another server");
        drop(first);
        DataDir::open(disk, Path::new("data")).unwrap();
    }
}
