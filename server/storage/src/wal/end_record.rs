//! The second record of the log's end, in a separate file.
//!
//! The end mark lies in the sector after the last batch, so a single lost page can contain both, and
//! the log would seem to end earlier. This file contains the number and the checksums of a durable
//! batch: the last one after a clean close, and the first one of each new segment. A log that ends
//! before that batch, or contains a different batch at that position, is damaged.
//!
//! The record is a lower bound: later batches are known from the log alone.

use std::path::Path;

use bytes::{Buf, BufMut};
use crc32c::crc32c;

use super::format::BatchHeader;
use crate::{Disk, StorageError, read_small_file, replace_small_file};

/// The version of the file's format.
const VERSION: u8 = 1;
/// The file, in the directory of the segments.
pub(super) const FILE_NAME: &str = "end";
/// Version, flags, number, both checksums, and the checksum of all that.
const FILE_BYTES: usize = 1 + 1 + 8 + 4 + 4 + 4;
/// Set by a clean close.
const FINAL: u8 = 1;

/// The identity of a durable batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct EndRecord {
    /// Its number.
    pub(super) number: u64,
    /// The header checksum of the previous batch, which does not change when recovery rewrites this
    /// batch.
    previous: u32,
    /// Its own header checksum.
    checksum: u32,
    /// Set if only an end mark follows it in its segment.
    pub(super) is_final: bool,
}

impl EndRecord {
    pub(super) fn new(header: &BatchHeader, checksum: u32) -> Self {
        let BatchHeader { number, previous, .. } = *header;
        Self { number, previous, checksum, is_final: false }
    }

    /// Returns the record that a clean close writes.
    pub(super) fn as_final(self) -> Self {
        Self { is_final: true, ..self }
    }

    /// Compares the recorded batch with a batch of the same number. Recovery rewrites the last batch
    /// at the start of a segment, where it also contains the log's state.
    pub(super) fn is(self, header: &BatchHeader, checksum: u32, starts_segment: bool) -> bool {
        self.is_unmoved(checksum) || starts_segment && header.previous == self.previous
    }

    /// Returns whether a batch with this checksum is the recorded one at its original location.
    pub(super) fn is_unmoved(self, checksum: u32) -> bool {
        checksum == self.checksum
    }

    /// Reads the file; `None` if there is none, as in the directory of an earlier release.
    pub(super) fn read(disk: &dyn Disk, directory: &Path) -> Result<Option<Self>, StorageError> {
        let path = directory.join(FILE_NAME);
        // One byte more shows a file that is too long.
        let Some(bytes) = read_small_file(disk, &path, FILE_BYTES as u64 + 1)? else {
            return Ok(None);
        };
        let corrupt = |what: &str| StorageError::corrupt(&path, 0, what);
        if let Some(&found) = bytes.first().filter(|version| **version > VERSION) {
            let (found, supported) = (u32::from(found), u32::from(VERSION));
            return Err(StorageError::NewerFormat { path, found, supported });
        }
        let Some((mut fields, checksum)) =
            bytes.split_last_chunk::<4>().filter(|_| bytes.len() == FILE_BYTES)
        else {
            return Err(corrupt("its length is not that of its format"));
        };
        if crc32c(fields) != u32::from_be_bytes(*checksum) {
            return Err(corrupt("its checksum is wrong"));
        }
        if fields.get_u8() != VERSION {
            return Err(corrupt("it does not name its format"));
        }
        let is_final = fields.get_u8() & FINAL != 0;
        let (number, previous) = (fields.get_u64(), fields.get_u32());
        Ok(Some(Self { number, previous, checksum: fields.get_u32(), is_final }))
    }

    /// Writes the file. It is durable when this returns.
    pub(super) fn write(self, disk: &dyn Disk, directory: &Path) -> Result<(), StorageError> {
        let mut bytes = Vec::with_capacity(FILE_BYTES);
        bytes.put_u8(VERSION);
        bytes.put_u8(if self.is_final { FINAL } else { 0 });
        bytes.put_u64(self.number);
        bytes.put_u32(self.previous);
        bytes.put_u32(self.checksum);
        bytes.put_u32(crc32c(&bytes));
        replace_small_file(disk, directory, FILE_NAME, &bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::MemoryDisk;

    #[test]
    fn every_flipped_bit_and_every_length_is_noticed() {
        let (disk, directory) = (MemoryDisk::with_faults(), Path::new("wal"));
        disk.create_dir_all(directory).unwrap();
        assert_eq!(EndRecord::read(&disk, directory).unwrap(), None);
        let record = EndRecord { number: 7, previous: 0x1234, checksum: 0x5678, is_final: true };
        record.write(&disk, directory).unwrap();
        assert_eq!(EndRecord::read(&disk, directory).unwrap(), Some(record));
        let (image, path) = (disk.image(), directory.join(FILE_NAME));
        let whole = image.contents(&path).unwrap();
        for at in 0..whole.len() {
            for bit in 0..8 {
                let mut damaged = image.clone();
                damaged.flip(&path, at as u64, 1 << bit).unwrap();
                EndRecord::read(&MemoryDisk::from_image(damaged), directory).unwrap_err();
            }
            let file = disk.create(&path).unwrap();
            file.write_all_at(&whole[..at], 0).unwrap();
            EndRecord::read(&disk, directory).unwrap_err();
        }
        let file = disk.create(&path).unwrap();
        file.write_all_at(&[&whole[..], &[0]].concat(), 0).unwrap();
        EndRecord::read(&disk, directory).unwrap_err();
    }
}
