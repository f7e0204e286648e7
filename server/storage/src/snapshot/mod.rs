//! Snapshot files: the state of the server at one position of the log.
//!
//! A file gets its name when it is complete and durable, so a name without a whole file behind it
//! is damage. What is in a snapshot is not known here.

mod encoder;
mod reader;
mod writer;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use bytes::Bytes;

use super::{Disk, LogIndex, StorageError};

pub use encoder::SnapshotEncoder;
pub use reader::SnapshotReader;
pub use writer::{SealedSnapshot, SnapshotWriter};

const MAGIC: [u8; 8] = *b"ZOOLETSN";
const FORMAT_VERSION: u32 = 1;

/// Magic, version, name, length of the metadata.
const HEADER_BYTES: usize = 8 + 4 + 24 + 4;

/// Length and checksum.
const CHUNK_HEADER_BYTES: usize = 8;

/// Number of chunks, bytes in them, digest.
const FOOTER_BYTES: usize = 24;

/// The longest metadata, in bytes.
const META_BYTES_MAX: usize = 1 << 20;

/// The longest chunk, in bytes; it bounds what a reader holds in memory.
const CHUNK_BYTES_MAX: usize = 256 << 10;

/// The log position of a snapshot, and the last transaction in it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct SnapshotName {
    pub term: u64,
    pub index: LogIndex,
    pub zxid: u64,
}

impl SnapshotName {
    fn file_name(self) -> String {
        format!("{:016x}-{:016x}-{:016x}.snap", self.term, self.index.0, self.zxid)
    }

    fn parse(file_name: &str) -> Option<Self> {
        let mut numbers = file_name.strip_suffix(".snap")?.split('-').map(|digits| {
            (digits.len() == 16).then(|| u64::from_str_radix(digits, 16).ok()).flatten()
        });
        let mut next = || numbers.next().flatten();
        let name = Self { term: next()?, index: LogIndex(next()?), zxid: next()? };
        (name.file_name() == file_name).then_some(name)
    }
}

/// A snapshot that is there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SnapshotInfo {
    pub name: SnapshotName,
    /// Length of the file.
    pub file_bytes: u64,
}

/// What the end of a snapshot says about it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SnapshotSummary {
    /// Length of the contents.
    pub bytes: u64,
    /// The digest of the state, as its writer computed it.
    pub digest: u64,
}

/// The snapshots of one server.
#[derive(Debug, Clone)]
pub struct SnapshotStore {
    disk: Arc<dyn Disk>,
    directory: PathBuf,
    next_temporary: Arc<AtomicU64>,
}

impl SnapshotStore {
    /// Opens the directory, which is created if need be, and removes what unfinished writers left.
    pub fn open(disk: Arc<dyn Disk>, directory: &Path) -> Result<Self, StorageError> {
        disk.create_dir_all(directory).map_err(StorageError::io("create", directory))?;
        for file in disk.list(directory).map_err(StorageError::io("list", directory))? {
            let path = directory.join(file.name);
            if path.extension().is_some_and(|extension| extension == "tmp") {
                disk.remove(&path).map_err(StorageError::io("remove", &path))?;
            }
        }
        // A snapshot may have got its name just before the server was killed. It must not be
        // used before the name is durable.
        disk.sync_dir(directory).map_err(StorageError::io("sync", directory))?;
        let directory = directory.to_path_buf();
        Ok(Self { disk, directory, next_temporary: Arc::default() })
    }

    /// Begins a snapshot, taken here or received from another server. `meta` comes back with it.
    pub fn create(&self, name: SnapshotName, meta: &Bytes) -> Result<SnapshotWriter, StorageError> {
        // Two writers may be at work on the same name: one takes it, one receives it.
        let number = self.next_temporary.fetch_add(1, Ordering::Relaxed);
        let temporary = self.directory.join(format!("{number}-{}.tmp", name.file_name()));
        SnapshotWriter::begin(self.clone(), name, temporary, meta)
    }

    /// The snapshots that are there, newest first. They have not been read.
    pub fn list(&self) -> Result<Vec<SnapshotInfo>, StorageError> {
        let files = self.disk.list(&self.directory);
        let files = files.map_err(StorageError::io("list", &self.directory))?;
        let named = files.into_iter().filter_map(|file| {
            let name = SnapshotName::parse(&file.name)?;
            Some(SnapshotInfo { name, file_bytes: file.bytes })
        });
        let mut snapshots: Vec<SnapshotInfo> = named.collect();
        snapshots.sort_by_key(|snapshot| std::cmp::Reverse(snapshot.name));
        Ok(snapshots)
    }

    /// Opens a snapshot for reading. Its header has been checked, its contents are checked as they
    /// are read.
    pub fn read(&self, name: SnapshotName) -> Result<SnapshotReader, StorageError> {
        SnapshotReader::open(&*self.disk, self.path(name), name)
    }

    /// The newest snapshot that is whole, read through to its end, and why newer ones are not.
    pub fn newest(&self) -> Result<(Option<SnapshotReader>, Vec<StorageError>), StorageError> {
        let mut damaged = Vec::new();
        for SnapshotInfo { name, .. } in self.list()? {
            let verified = self.read(name).and_then(|reader| {
                reader.verify()?;
                Ok(reader)
            });
            match verified {
                Ok(reader) => return Ok((Some(reader), damaged)),
                Err(error @ StorageError::Corrupt { .. }) => damaged.push(error),
                Err(error) => return Err(error),
            }
        }
        Ok((None, damaged))
    }

    /// Removes all but the newest `count`; those that were removed.
    pub fn retain(&self, count: usize) -> Result<Vec<SnapshotName>, StorageError> {
        let old: Vec<_> = self.list()?.into_iter().skip(count).map(|info| info.name).collect();
        for name in &old {
            let path = self.path(*name);
            self.disk.remove(&path).map_err(StorageError::io("remove", &path))?;
        }
        if !old.is_empty() {
            self.sync_directory()?;
        }
        Ok(old)
    }

    /// Where a snapshot is.
    pub fn path(&self, name: SnapshotName) -> PathBuf {
        self.directory.join(name.file_name())
    }

    fn sync_directory(&self) -> Result<(), StorageError> {
        let synced = self.disk.sync_dir(&self.directory);
        synced.map_err(StorageError::io("sync", &self.directory))
    }
}

/// The checksum of a chunk goes on from the one before it, so chunks cannot change places.
fn chunk_checksum(previous: u32, length: u32, bytes: &[u8]) -> u32 {
    crc32c::crc32c_append(crc32c::crc32c_append(previous, &length.to_be_bytes()), bytes)
}
