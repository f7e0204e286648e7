//! Reading a snapshot piece by piece.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use bytes::{Buf, Bytes};
use crc32c::crc32c;

use super::{
    CHUNK_BYTES_MAX, CHUNK_HEADER_BYTES, FOOTER_BYTES, FORMAT_VERSION, HEADER_BYTES, MAGIC,
    META_BYTES_MAX, SnapshotName, SnapshotSummary, chunk_checksum,
};
use crate::{Disk, DiskFile, LogIndex, RealDisk, StorageError};

/// A snapshot that is open. It stays readable when it is removed. Iterating gives its contents,
/// at most 256 KiB at a time; only when the iterator ends without an error was the snapshot whole.
#[derive(Debug, Clone)]
pub struct SnapshotReader {
    path: PathBuf,
    file: Arc<dyn DiskFile>,
    file_bytes: u64,
    name: SnapshotName,
    meta: Bytes,
    offset: u64,
    checksum: u32,
    chunks: u64,
    content_bytes: u64,
    summary: Option<SnapshotSummary>,
    is_done: bool,
}

impl SnapshotReader {
    pub(super) fn open(
        disk: &dyn Disk,
        path: PathBuf,
        name: SnapshotName,
    ) -> Result<Self, StorageError> {
        let file = disk.open(&path).map_err(StorageError::io("open", &path))?;
        let reader = Self::begin(file, path)?;
        if reader.name != name {
            return Err(reader.corrupt(0, "it is the snapshot of another position"));
        }
        Ok(reader)
    }

    /// Opens a snapshot that is not in a server's directory and may have any name: a backup. Its
    /// header has been checked, its contents are checked as they are read.
    pub fn open_file(path: &Path) -> Result<Self, StorageError> {
        let file = RealDisk::open_read_only(path).map_err(StorageError::io("open", path))?;
        Self::begin(file, path.to_owned())
    }

    fn begin(file: Arc<dyn DiskFile>, path: PathBuf) -> Result<Self, StorageError> {
        let file_bytes = file.bytes().map_err(StorageError::io("measure", &path))?;
        let mut reader = Self {
            path,
            file,
            file_bytes,
            name: SnapshotName { term: 0, index: LogIndex(0), zxid: 0 },
            meta: Bytes::new(),
            offset: 0,
            checksum: 0,
            chunks: 0,
            content_bytes: 0,
            summary: None,
            is_done: false,
        };
        reader.read_header()?;
        Ok(reader)
    }

    pub fn name(&self) -> SnapshotName {
        self.name
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    /// What was given when the snapshot was begun.
    pub fn meta(&self) -> &Bytes {
        &self.meta
    }

    /// What the snapshot's end says; `None` before the iterator has come to the end.
    pub fn summary(&self) -> Option<SnapshotSummary> {
        self.summary
    }

    /// Reads everything from here to the end and checks it; this reader does not move.
    pub fn verify(&self) -> Result<SnapshotSummary, StorageError> {
        let mut reader = self.clone();
        while reader.read_chunk()?.is_some() {}
        reader.summary.ok_or(StorageError::Closed)
    }

    fn read_header(&mut self) -> Result<(), StorageError> {
        let fixed = self.take(HEADER_BYTES)?;
        let mut fields = fixed.clone();
        if fields.split_to(MAGIC.len()) != MAGIC.as_slice() {
            return Err(self.corrupt(0, "it does not begin like a snapshot"));
        }
        let version = fields.get_u32();
        let term = fields.get_u64();
        let (index, zxid) = (LogIndex(fields.get_u64()), fields.get_u64());
        let meta_bytes = usize::try_from(fields.get_u32()).unwrap_or(usize::MAX);
        if meta_bytes > META_BYTES_MAX {
            return Err(self.corrupt(0, "its header does not match its checksum"));
        }
        self.meta = self.take(meta_bytes)?;
        self.checksum = crc32c::crc32c_append(crc32c(&fixed), &self.meta);
        if self.take(4)?.get_u32() != self.checksum {
            return Err(self.corrupt(0, "its header does not match its checksum"));
        }
        if version != FORMAT_VERSION {
            let (path, supported) = (self.path.clone(), FORMAT_VERSION);
            return Err(StorageError::NewerFormat { path, found: version, supported });
        }
        self.name = SnapshotName { term, index, zxid };
        Ok(())
    }

    fn read_chunk(&mut self) -> Result<Option<Bytes>, StorageError> {
        if self.is_done {
            return Ok(None);
        }
        let start = self.offset;
        let mut header = self.take(CHUNK_HEADER_BYTES)?;
        let (length, checksum) = (header.get_u32(), header.get_u32());
        let body_bytes = match usize::try_from(length).unwrap_or(usize::MAX) {
            0 => FOOTER_BYTES,
            body_bytes => body_bytes,
        };
        if body_bytes > CHUNK_BYTES_MAX {
            return Err(self.corrupt(start, "a chunk is too long"));
        }
        let mut body = self.take(body_bytes)?;
        self.checksum = chunk_checksum(self.checksum, length, &body);
        if self.checksum != checksum && !planted!("snapshot-checksum-ignored") {
            return Err(self.corrupt(start, "a chunk does not match its checksum"));
        }
        if length > 0 {
            self.chunks += 1;
            self.content_bytes += u64::from(length);
            return Ok(Some(body));
        }
        let (chunks, bytes, digest) = (body.get_u64(), body.get_u64(), body.get_u64());
        if (chunks, bytes) != (self.chunks, self.content_bytes) || self.offset != self.file_bytes {
            return Err(self.corrupt(start, "its length is not what its end says"));
        }
        self.summary = Some(SnapshotSummary { bytes, digest });
        self.is_done = true;
        Ok(None)
    }

    fn take(&mut self, bytes: usize) -> Result<Bytes, StorageError> {
        let end = self.offset + bytes as u64;
        if end > self.file_bytes {
            return Err(self.corrupt(self.file_bytes, "it ends too early"));
        }
        let mut taken = vec![0; bytes];
        let read = self.file.read_exact_at(&mut taken, self.offset);
        read.map_err(StorageError::io("read", &self.path))?;
        self.offset = end;
        Ok(Bytes::from(taken))
    }

    fn corrupt(&self, offset: u64, what: &str) -> StorageError {
        StorageError::corrupt(&self.path, offset, what)
    }
}

impl Iterator for SnapshotReader {
    type Item = Result<Bytes, StorageError>;

    fn next(&mut self) -> Option<Self::Item> {
        let chunk = self.read_chunk();
        self.is_done |= chunk.is_err();
        chunk.transpose()
    }
}
