//! Writing a snapshot piece by piece.

use std::path::PathBuf;
use std::sync::Arc;

use bytes::Bytes;

use super::{SnapshotEncoder, SnapshotInfo, SnapshotName, SnapshotReader, SnapshotStore};
use crate::{DiskFile, StorageError};

/// The bytes between two syncs of a long snapshot, so that the log's small syncs never wait for a
/// very large one.
const SYNC_BYTES: u64 = 1 << 20;

/// A snapshot in the making. Dropping it before `finish` removes it.
#[derive(Debug)]
pub struct SnapshotWriter {
    store: SnapshotStore,
    name: SnapshotName,
    temporary: PathBuf,
    file: Arc<dyn DiskFile>,
    offset: u64,
    unsynced_bytes: u64,
    /// Gone when the end is written.
    encoder: Option<SnapshotEncoder>,
    is_finished: bool,
}

impl SnapshotWriter {
    pub(super) fn begin(
        store: SnapshotStore,
        name: SnapshotName,
        temporary: PathBuf,
        meta: &Bytes,
    ) -> Result<Self, StorageError> {
        let (encoder, header) = SnapshotEncoder::begin(name, meta)?;
        let file = store.disk.create(&temporary).map_err(StorageError::io("create", &temporary))?;
        let mut writer = Self {
            store,
            name,
            temporary,
            file,
            offset: 0,
            unsynced_bytes: 0,
            encoder: Some(encoder),
            is_finished: false,
        };
        writer.put(&header)?;
        Ok(writer)
    }

    /// Adds to the contents. How they are cut into pieces does not matter.
    pub fn write(&mut self, mut bytes: &[u8]) -> Result<(), StorageError> {
        while !bytes.is_empty() {
            let encoder = self.encoder.as_mut().ok_or(StorageError::Closed)?;
            if let Some(chunk) = encoder.fill(&mut bytes) {
                self.put(&chunk)?;
            }
        }
        Ok(())
    }

    /// Ends the snapshot with the digest of the state in it. When this returns it is durable and
    /// has its name.
    pub fn finish(self, digest: u64) -> Result<SnapshotInfo, StorageError> {
        self.seal(digest)?.publish()
    }

    /// Ends the snapshot with the digest of the state in it. It is durable when this returns, and
    /// gets its name from [`SealedSnapshot::publish`].
    pub fn seal(mut self, digest: u64) -> Result<SealedSnapshot, StorageError> {
        let encoder = self.encoder.take().ok_or(StorageError::Closed)?;
        self.put(&encoder.end(digest))?;
        self.file.sync_data().map_err(StorageError::io("sync", &self.temporary))?;
        Ok(SealedSnapshot { writer: self })
    }

    fn put(&mut self, bytes: &[u8]) -> Result<(), StorageError> {
        let written = self.file.write_all_at(bytes, self.offset);
        written.map_err(StorageError::io("write", &self.temporary))?;
        self.offset += bytes.len() as u64;
        self.unsynced_bytes += bytes.len() as u64;
        if self.unsynced_bytes >= SYNC_BYTES {
            self.file.sync_data().map_err(StorageError::io("sync", &self.temporary))?;
            self.unsynced_bytes = 0;
        }
        Ok(())
    }
}

/// A snapshot that is complete and durable, but does not have its name yet, so that it can be
/// read through before it is used. Dropping it removes it.
#[derive(Debug)]
pub struct SealedSnapshot {
    writer: SnapshotWriter,
}

impl SealedSnapshot {
    /// Opens it for reading, as if it had its name.
    pub fn read(&self) -> Result<SnapshotReader, StorageError> {
        let SnapshotWriter { store, temporary, name, .. } = &self.writer;
        SnapshotReader::open(&*store.disk, temporary.clone(), *name)
    }

    /// Gives it its name, durably.
    pub fn publish(mut self) -> Result<SnapshotInfo, StorageError> {
        let writer = &mut self.writer;
        let (disk, path) = (&writer.store.disk, writer.store.path(writer.name));
        let renamed = disk.rename(&writer.temporary, &path);
        renamed.map_err(StorageError::io("rename", &writer.temporary))?;
        writer.is_finished = true;
        if !planted!("snapshot-name-not-synced") {
            writer.store.sync_directory()?;
        }
        Ok(SnapshotInfo { name: writer.name, file_bytes: writer.offset })
    }
}

impl Drop for SnapshotWriter {
    fn drop(&mut self) {
        if !self.is_finished {
            // If this fails, the next start removes it.
            let _ = self.store.disk.remove(&self.temporary);
        }
    }
}
