//! Writing a snapshot piece by piece.

use std::path::PathBuf;
use std::sync::Arc;

use bytes::{BufMut, Bytes};
use crc32c::crc32c;

use super::{
    CHUNK_BYTES_MAX, CHUNK_HEADER_BYTES, FOOTER_BYTES, FORMAT_VERSION, HEADER_BYTES, MAGIC,
    META_BYTES_MAX, SnapshotInfo, SnapshotName, SnapshotReader, SnapshotStore, chunk_checksum,
};
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
    checksum: u32,
    /// The chunk that is being filled, behind room for its header.
    chunk: Vec<u8>,
    chunks: u64,
    content_bytes: u64,
    is_finished: bool,
}

impl SnapshotWriter {
    pub(super) fn begin(
        store: SnapshotStore,
        name: SnapshotName,
        temporary: PathBuf,
        meta: &Bytes,
    ) -> Result<Self, StorageError> {
        let meta_bytes = u32::try_from(meta.len()).ok().filter(|_| meta.len() <= META_BYTES_MAX);
        let meta_bytes = meta_bytes
            .ok_or_else(|| StorageError::refused("the snapshot's metadata is too long"))?;
        let file = store.disk.create(&temporary).map_err(StorageError::io("create", &temporary))?;
        let mut header = Vec::with_capacity(HEADER_BYTES + meta.len() + 4);
        header.put_slice(&MAGIC);
        header.put_u32(FORMAT_VERSION);
        header.put_u64(name.term);
        header.put_u64(name.index.0);
        header.put_u64(name.zxid);
        header.put_u32(meta_bytes);
        header.put_slice(meta);
        let checksum = crc32c(&header);
        header.put_u32(checksum);
        let mut writer = Self {
            store,
            name,
            temporary,
            file,
            offset: 0,
            unsynced_bytes: 0,
            checksum,
            chunk: vec![0; CHUNK_HEADER_BYTES],
            chunks: 0,
            content_bytes: 0,
            is_finished: false,
        };
        writer.put(&header)?;
        Ok(writer)
    }

    /// Adds to the contents. How they are cut into pieces does not matter.
    pub fn write(&mut self, mut bytes: &[u8]) -> Result<(), StorageError> {
        while !bytes.is_empty() {
            let room = CHUNK_BYTES_MAX + CHUNK_HEADER_BYTES - self.chunk.len();
            let (now, later) = bytes.split_at(room.min(bytes.len()));
            self.chunk.put_slice(now);
            bytes = later;
            if self.chunk.len() == CHUNK_BYTES_MAX + CHUNK_HEADER_BYTES {
                self.write_chunk()?;
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
        if self.chunk.len() > CHUNK_HEADER_BYTES {
            self.write_chunk()?;
        }
        let mut footer = Vec::with_capacity(FOOTER_BYTES);
        footer.put_u64(self.chunks);
        footer.put_u64(self.content_bytes);
        footer.put_u64(digest);
        let checksum = chunk_checksum(self.checksum, 0, &footer);
        let mut end = Vec::with_capacity(CHUNK_HEADER_BYTES + FOOTER_BYTES);
        end.put_u32(0);
        end.put_u32(checksum);
        end.put_slice(&footer);
        self.put(&end)?;
        self.file.sync_data().map_err(StorageError::io("sync", &self.temporary))?;
        Ok(SealedSnapshot { writer: self })
    }

    fn write_chunk(&mut self) -> Result<(), StorageError> {
        let mut chunk = std::mem::take(&mut self.chunk);
        let Some((header, bytes)) = chunk.split_at_mut_checked(CHUNK_HEADER_BYTES) else {
            return Err(StorageError::Closed);
        };
        let length =
            u32::try_from(bytes.len()).map_err(|_| StorageError::refused("a chunk is too long"))?;
        self.checksum = chunk_checksum(self.checksum, length, bytes);
        header.copy_from_slice([length.to_be_bytes(), self.checksum.to_be_bytes()].as_flattened());
        self.chunks += 1;
        self.content_bytes += u64::from(length);
        self.put(&chunk)?;
        chunk.truncate(CHUNK_HEADER_BYTES);
        self.chunk = chunk;
        Ok(())
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
