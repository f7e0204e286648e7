//! Reading what is in the place of a batch, be it whole or not.

use bytes::{Buf, Bytes};

use std::path::Path;

use super::format::{BATCH_HEADER_BYTES, BatchHeader, Record};
use super::segment::Segment;
use crate::{DiskFile, StorageError};

/// A record, and where it is in its batch.
pub(super) struct BatchRecord {
    /// From the start of the batch, in bytes.
    pub(super) start: u64,
    pub(super) bytes: u32,
    pub(super) record: Record,
}

pub(super) fn read(
    file: &dyn DiskFile,
    path: &Path,
    buffer: &mut [u8],
    offset: u64,
) -> Result<(), StorageError> {
    file.read_exact_at(buffer, offset).map_err(StorageError::io("read", path))
}

/// Returns the bytes in the place of a batch's header; `None` behind the end of the segment.
pub(super) fn read_header(
    Segment { path, file, .. }: &Segment,
    segment_bytes: u64,
    offset: u64,
) -> Result<Option<[u8; BATCH_HEADER_BYTES]>, StorageError> {
    let mut start = [0; BATCH_HEADER_BYTES];
    if offset + start.len() as u64 > segment_bytes {
        return Ok(None);
    }
    read(&**file, path, &mut start, offset)?;
    Ok(Some(start))
}

/// Returns the records of a batch as they stand there; `None` if the segment ends before they do.
pub(super) fn read_body(
    Segment { path, file, .. }: &Segment,
    segment_bytes: u64,
    offset: u64,
    batch: &BatchHeader,
) -> Result<Option<Vec<u8>>, StorageError> {
    let body_offset = offset + BATCH_HEADER_BYTES as u64;
    if body_offset + u64::from(batch.body_bytes) > segment_bytes {
        return Ok(None);
    }
    let body_bytes = usize::try_from(batch.body_bytes)
        .map_err(|_| StorageError::refused("a batch does not fit into memory"))?;
    let mut body = vec![0; body_bytes];
    read(&**file, path, &mut body, body_offset)?;
    Ok(Some(body))
}

/// Returns the records of a body; `None` if they are not whole, or not of that number.
pub(super) fn decode_records(mut body: Bytes, count: u32) -> Option<Vec<BatchRecord>> {
    let mut records = Vec::new();
    let mut start = BATCH_HEADER_BYTES as u64;
    while body.has_remaining() {
        let before = body.remaining();
        let record = Record::decode(&mut body)?;
        let bytes = u32::try_from(before - body.remaining()).ok()?;
        records.push(BatchRecord { start, bytes, record });
        start += u64::from(bytes);
    }
    (u32::try_from(records.len()) == Ok(count)).then_some(records)
}
