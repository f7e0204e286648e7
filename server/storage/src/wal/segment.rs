//! Making, finding and removing segment files.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::end_record::EndRecord;
use super::format::{
    SECTOR_BYTES, SEGMENT_HEADER_BYTES, SegmentHeader, round_up_to_sector, segment_path,
};
use crate::{Disk, DiskFile, StorageError};

/// The prepared, empty segment file, which gets its name when its first batch is in it.
pub(super) const NEXT_NAME: &str = "next.tmp";

/// One that is made while `NEXT_NAME` waits, because that is too short for its first batch.
pub(super) const LARGE_NAME: &str = "large.tmp";

/// Zeros are written in pieces of this many bytes.
const ZERO_FILL_BYTES: usize = 512 << 10;

/// A segment file that is open.
#[derive(Debug)]
pub(super) struct Segment {
    pub(super) path: PathBuf,
    pub(super) file: Arc<dyn DiskFile>,
    pub(super) header: SegmentHeader,
}

impl Segment {
    /// Cuts off what is not used, once the next segment is there. So the disk does not fill with
    /// empty ends when a server is restarted often, and the last segment is known by its full
    /// length: if it gets lost, the one before it cannot pass for it.
    pub(super) fn trim(&self, bytes: u64) -> Result<(), StorageError> {
        self.file.set_len(bytes).map_err(StorageError::io("cut", &self.path))
    }
}

/// Makes segment files of one log.
#[derive(Debug, Clone)]
pub(super) struct SegmentMaker {
    pub(super) disk: Arc<dyn Disk>,
    pub(super) directory: PathBuf,
    pub(super) segment_bytes: u64,
    pub(super) salt: u64,
}

/// A file of zeros that is durable except for its name.
#[derive(Debug)]
pub(super) struct Prepared {
    file: Arc<dyn DiskFile>,
    path: PathBuf,
    pub(super) segment_bytes: u64,
}

impl SegmentMaker {
    /// How long a segment must be whose first batch has this length, in bytes. The last sector is
    /// for an end mark.
    pub(super) fn bytes_for(&self, batch_bytes: u64) -> u64 {
        let needed = SEGMENT_HEADER_BYTES as u64 + batch_bytes + SECTOR_BYTES as u64;
        round_up_to_sector(self.segment_bytes.max(needed))
    }

    /// Writes a file full of zeros. A log that writes into it later changes no metadata, so a
    /// sync costs one flush and the disk cannot turn out to be full then.
    ///
    /// With `pause`, which is called between the pieces, each of them is made durable before the
    /// next: the disk never has more to write than one when a batch of the log wants its sync.
    pub(super) fn prepare(
        &self,
        name: &str,
        segment_bytes: u64,
        pause: Option<&dyn Fn()>,
    ) -> Result<Prepared, StorageError> {
        let path = self.directory.join(name);
        let file = self.disk.create(&path).map_err(StorageError::io("create", &path))?;
        let zeros =
            vec![0; ZERO_FILL_BYTES.min(usize::try_from(segment_bytes).unwrap_or(usize::MAX))];
        let mut offset = 0;
        while offset < segment_bytes {
            let length = (zeros.len() as u64).min(segment_bytes - offset);
            let piece = zeros.get(..usize::try_from(length).unwrap_or(0)).unwrap_or_default();
            file.write_all_at(piece, offset).map_err(StorageError::io("write", &path))?;
            offset += length;
            if let Some(pause) = pause
                && offset < segment_bytes
            {
                file.sync_data().map_err(StorageError::io("sync", &path))?;
                pause();
            }
        }
        file.sync_data().map_err(StorageError::io("sync", &path))?;
        Ok(Prepared { file, path, segment_bytes })
    }

    /// Turns a prepared file into the segment of `first_batch`, whose bytes are `batch`. A segment
    /// that has its name has its header and its first batch: whatever is wrong with those later is
    /// damage. A segment of the same name is replaced in the same step.
    pub(super) fn install(
        &self,
        prepared: Prepared,
        first_batch: u64,
        batch: &[u8],
    ) -> Result<Segment, StorageError> {
        let header =
            SegmentHeader { first_batch, segment_bytes: prepared.segment_bytes, salt: self.salt };
        let Prepared { file, path: temporary, .. } = prepared;
        let path = segment_path(&self.directory, first_batch);
        let write = |bytes: &[u8], offset| {
            file.write_all_at(bytes, offset).map_err(StorageError::io("write", &temporary))
        };
        write(&header.encode(), 0)?;
        write(batch, SEGMENT_HEADER_BYTES as u64)?;
        file.sync_data().map_err(StorageError::io("sync", &temporary))?;
        self.disk.rename(&temporary, &path).map_err(StorageError::io("rename", &temporary))?;
        self.sync_directory()?;
        Ok(Segment { path, file, header })
    }

    /// Removes a segment. It is gone for good when this returns, so that of several segments the
    /// oldest goes first whatever happens.
    pub(super) fn remove(&self, path: &Path) -> Result<(), StorageError> {
        self.disk.remove(path).map_err(StorageError::io("remove", path))?;
        self.sync_directory()
    }

    /// Records a durable batch in the end record.
    pub(super) fn record_end(&self, end: EndRecord) -> Result<(), StorageError> {
        end.write(&*self.disk, &self.directory)
    }

    fn sync_directory(&self) -> Result<(), StorageError> {
        let synced = self.disk.sync_dir(&self.directory);
        synced.map_err(StorageError::io("sync", &self.directory))
    }
}
