//! A snapshot as bytes, piece by piece: what a file gets, and what is sent to be one.

use bytes::{BufMut, Bytes, BytesMut};
use crc32c::crc32c;

use super::{
    CHUNK_BYTES_MAX, CHUNK_HEADER_BYTES, FOOTER_BYTES, FORMAT_VERSION, HEADER_BYTES, MAGIC,
    META_BYTES_MAX, SnapshotName, chunk_checksum,
};
use crate::StorageError;

/// Puts a snapshot together. What it returns, one after the other, is the file.
#[derive(Debug)]
pub struct SnapshotEncoder {
    checksum: u32,
    /// The chunk that is being filled, behind room for its header.
    chunk: BytesMut,
    chunks: u64,
    content_bytes: u64,
}

impl SnapshotEncoder {
    /// Begins a snapshot; the bytes are its header. `meta` comes back with it.
    pub fn begin(name: SnapshotName, meta: &Bytes) -> Result<(Self, Bytes), StorageError> {
        let meta_bytes = u32::try_from(meta.len()).ok().filter(|_| meta.len() <= META_BYTES_MAX);
        let meta_bytes = meta_bytes
            .ok_or_else(|| StorageError::refused("the snapshot's metadata is too long"))?;
        let mut header = BytesMut::with_capacity(HEADER_BYTES + meta.len() + 4);
        header.put_slice(&MAGIC);
        header.put_u32(FORMAT_VERSION);
        header.put_u64(name.term);
        header.put_u64(name.index.0);
        header.put_u64(name.zxid);
        header.put_u32(meta_bytes);
        header.put_slice(meta);
        let checksum = crc32c(&header);
        header.put_u32(checksum);
        let chunk = BytesMut::zeroed(CHUNK_HEADER_BYTES);
        Ok((Self { checksum, chunk, chunks: 0, content_bytes: 0 }, header.freeze()))
    }

    /// Takes from the front of `bytes` as much as fits into the chunk that is being filled. Returns
    /// that chunk if it is full. How the contents are cut into pieces does not matter.
    pub fn fill(&mut self, bytes: &mut &[u8]) -> Option<Bytes> {
        let room = CHUNK_BYTES_MAX + CHUNK_HEADER_BYTES - self.chunk.len();
        let (now, later) = bytes.split_at(room.min(bytes.len()));
        self.chunk.put_slice(now);
        *bytes = later;
        (self.chunk.len() == CHUNK_BYTES_MAX + CHUNK_HEADER_BYTES).then(|| self.end_chunk())
    }

    /// Ends the snapshot with the digest of the state in it.
    pub fn end(mut self, digest: u64) -> Bytes {
        let mut end = BytesMut::new();
        if self.chunk.len() > CHUNK_HEADER_BYTES {
            end.put_slice(&self.end_chunk());
        }
        let mut footer = BytesMut::with_capacity(FOOTER_BYTES);
        footer.put_u64(self.chunks);
        footer.put_u64(self.content_bytes);
        footer.put_u64(digest);
        end.put_u32(0);
        end.put_u32(chunk_checksum(self.checksum, 0, &footer));
        end.put_slice(&footer);
        end.freeze()
    }

    fn end_chunk(&mut self) -> Bytes {
        let contents = self.chunk.split_off(CHUNK_HEADER_BYTES);
        // A chunk is never longer than `CHUNK_BYTES_MAX`.
        let length = u32::try_from(contents.len()).unwrap_or(u32::MAX);
        self.checksum = chunk_checksum(self.checksum, length, &contents);
        self.chunk.clear();
        self.chunk.put_u32(length);
        self.chunk.put_u32(self.checksum);
        self.chunk.unsplit(contents);
        self.chunks += 1;
        self.content_bytes += u64::from(length);
        let next = BytesMut::zeroed(CHUNK_HEADER_BYTES);
        std::mem::replace(&mut self.chunk, next).freeze()
    }
}
