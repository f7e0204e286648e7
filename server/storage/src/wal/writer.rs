//! Writing: batches of records go into the current segment, one write and one sync each.

use std::collections::VecDeque;
use std::path::PathBuf;
use std::sync::Arc;

use bytes::BufMut;
use crc32c::crc32c;

use super::end_record::EndRecord;
use super::format::{
    BATCH_HEADER_BYTES, BatchHeader, Record, SECTOR_BYTES, SEGMENT_HEADER_BYTES, round_up_to_sector,
};
use super::segment::{LARGE_NAME, NEXT_NAME, Prepared, Segment, SegmentMaker};
use super::segment_preparer::SegmentPreparer;
use super::state::LogState;
use super::view::EntryLocation;
use crate::{LogIndex, StorageError};

/// The next batch's place in the chain of batches, and what the log holds before it.
#[derive(Debug, Clone)]
pub(super) struct Chain {
    pub(super) state: LogState,
    /// The number of the next batch.
    pub(super) number: u64,
    /// The header checksum of the last batch.
    pub(super) previous: u32,
}

/// A batch as it is written.
#[derive(Debug)]
struct Encoded {
    bytes: Vec<u8>,
    /// The batch as the end of the log; `None` for an end mark.
    end: Option<EndRecord>,
    /// For each entry in it: its index, and offset and length of its record, in bytes.
    entries: Vec<(LogIndex, u64, u32)>,
}

impl Chain {
    /// The beginning of a log.
    pub(super) fn first() -> Self {
        Self { state: LogState::default(), number: 1, previous: 0 }
    }

    /// Encodes the next batch into `buffer`, and counts it as written: if the write fails, nothing
    /// is written ever after.
    fn encode<'a>(
        &mut self,
        mut buffer: Vec<u8>,
        salt: u64,
        with_state: bool,
        records: impl Iterator<Item = &'a Record>,
    ) -> Result<Encoded, StorageError> {
        buffer.clear();
        buffer.put_bytes(0, BATCH_HEADER_BYTES);
        let mut header = BatchHeader {
            number: self.number,
            previous: self.previous,
            records: 0,
            body_bytes: 0,
            body_checksum: 0,
        };
        if with_state {
            Record::State(Box::new(self.state.clone())).encode(&mut buffer);
            header.records += 1;
        }
        let mut entries = Vec::new();
        for record in records {
            let start = buffer.len();
            record.encode(&mut buffer);
            header.records += 1;
            if let Record::Entry(entry) = record {
                let bytes = u32::try_from(buffer.len() - start).map_err(too_long)?;
                entries.push((entry.position.index, start as u64, bytes));
            }
            self.state.apply(record).map_err(StorageError::refused)?;
        }
        let body = buffer.get(BATCH_HEADER_BYTES..).unwrap_or_default();
        header.body_bytes = u32::try_from(body.len()).map_err(too_long)?;
        header.body_checksum = crc32c(body);
        let (encoded_header, checksum) = header.encode(salt);
        if let Some(room) = buffer.get_mut(..BATCH_HEADER_BYTES) {
            room.copy_from_slice(&encoded_header);
        }
        let stride = usize::try_from(header.stride()).map_err(too_long)?;
        buffer.resize(stride, 0);
        self.number += 1;
        self.previous = checksum;
        let end = (header.records > 0).then(|| EndRecord::new(&header, checksum));
        Ok(Encoded { bytes: buffer, end, entries })
    }
}

fn too_long(_: std::num::TryFromIntError) -> StorageError {
    StorageError::refused("the batch is too long")
}

/// A segment that is no longer written to.
#[derive(Debug)]
pub(super) struct OldSegment {
    pub(super) path: PathBuf,
    /// The highest index of an entry in it, truncated ones included; `None`: no entries.
    pub(super) last_index: Option<LogIndex>,
}

/// Appends batches to the segment files.
#[derive(Debug)]
pub(super) struct Writer {
    maker: SegmentMaker,
    /// `None`: everything is done in the caller's thread.
    preparer: Option<SegmentPreparer>,
    chain: Chain,
    current: Arc<Segment>,
    /// Where the next batch goes.
    offset: u64,
    current_last_index: Option<LogIndex>,
    older: VecDeque<OldSegment>,
    buffer: Vec<u8>,
    /// The last batch with records, which is durable.
    end: Option<EndRecord>,
    /// The first batch of a new segment that has yet to be recorded.
    end_to_record: Option<EndRecord>,
    /// Set while the end record must keep showing that the end of the log is lost.
    pub(super) keeps_end_record: bool,
}

/// Where the entries of a batch are, in the order of the batch.
pub(super) type EntryLocations = Vec<(LogIndex, EntryLocation)>;

impl Writer {
    /// Begins a new segment with `records`. When this returns, the log is durable up to them.
    pub(super) fn start(
        maker: SegmentMaker,
        mut chain: Chain,
        older: VecDeque<OldSegment>,
        records: &[Record],
    ) -> Result<(Self, EntryLocations), StorageError> {
        let first_batch = chain.number;
        let encoded = chain.encode(Vec::new(), maker.salt, true, records.iter())?;
        let segment_bytes = maker.bytes_for(encoded.bytes.len() as u64);
        let prepared = maker.prepare(NEXT_NAME, segment_bytes, None)?;
        let current = Arc::new(maker.install(prepared, first_batch, &encoded.bytes)?);
        let mut writer = Self {
            maker,
            preparer: None,
            chain,
            current,
            offset: SEGMENT_HEADER_BYTES as u64,
            current_last_index: None,
            older,
            buffer: Vec::new(),
            end: None,
            end_to_record: None,
            keeps_end_record: false,
        };
        let locations = writer.wrote(encoded);
        Ok((writer, locations))
    }

    /// From now on a second thread prepares and removes segments.
    pub(super) fn set_preparer(&mut self, preparer: SegmentPreparer) {
        self.preparer = Some(preparer);
    }

    /// Writes one batch; it is durable when this returns. After an error the writer must not be
    /// used again.
    pub(super) fn write<'a>(
        &mut self,
        records: impl Iterator<Item = &'a Record> + Clone,
    ) -> Result<EntryLocations, StorageError> {
        let body_bytes: usize = records.clone().map(Record::encoded_bytes).sum();
        let bytes = round_up_to_sector((BATCH_HEADER_BYTES + body_bytes) as u64);
        let end = self.offset + bytes + SECTOR_BYTES as u64;
        if end > self.current.header.segment_bytes {
            return self.write_into_new_segment(records);
        }
        self.write_into_current(records)
    }

    fn write_into_current<'a>(
        &mut self,
        records: impl Iterator<Item = &'a Record>,
    ) -> Result<EntryLocations, StorageError> {
        let buffer = std::mem::take(&mut self.buffer);
        let salt = self.current.header.salt;
        let encoded = self.chain.encode(buffer, salt, false, records)?;
        let Segment { file, path, .. } = &*self.current;
        let written = file.write_all_at(&encoded.bytes, self.offset);
        written.map_err(StorageError::io("write", path))?;
        if !planted!("log-not-synced") {
            file.sync_data().map_err(StorageError::io("sync", path))?;
        }
        Ok(self.wrote(encoded))
    }

    fn write_into_new_segment<'a>(
        &mut self,
        records: impl Iterator<Item = &'a Record>,
    ) -> Result<EntryLocations, StorageError> {
        let first_batch = self.chain.number;
        let buffer = std::mem::take(&mut self.buffer);
        let encoded = self.chain.encode(buffer, self.maker.salt, true, records)?;
        let prepared = self.prepared(encoded.bytes.len() as u64)?;
        let next = Arc::new(self.maker.install(prepared, first_batch, &encoded.bytes)?);
        let full = std::mem::replace(&mut self.current, next);
        full.trim(self.offset)?;
        let last_index = self.current_last_index.take();
        self.older.push_back(OldSegment { path: full.path.clone(), last_index });
        self.offset = SEGMENT_HEADER_BYTES as u64;
        self.end_to_record = encoded.end;
        Ok(self.wrote(encoded))
    }

    fn prepared(&mut self, batch_bytes: u64) -> Result<Prepared, StorageError> {
        let segment_bytes = self.maker.bytes_for(batch_bytes);
        let Some(preparer) = &mut self.preparer else {
            return self.maker.prepare(NEXT_NAME, segment_bytes, None);
        };
        if segment_bytes > self.maker.bytes_for(0) {
            return self.maker.prepare(LARGE_NAME, segment_bytes, None);
        }
        preparer.take_prepared()
    }

    fn wrote(&mut self, encoded: Encoded) -> EntryLocations {
        let location = |(index, start, bytes)| {
            let segment = self.current.clone();
            (index, EntryLocation { segment, offset: self.offset + start, bytes })
        };
        let locations: EntryLocations = encoded.entries.into_iter().map(location).collect();
        let highest = locations.iter().map(|(index, _)| *index).max();
        self.current_last_index = self.current_last_index.max(highest);
        self.offset += encoded.bytes.len() as u64;
        self.end = encoded.end.or(self.end);
        self.buffer = encoded.bytes;
        locations
    }

    /// Does what no caller waits for: records the first batch of a new segment, removes the segments
    /// that hold only purged entries, and has the next segment prepared before this one is full.
    pub(super) fn tidy(&mut self) -> Result<(), StorageError> {
        if let Some(end) = self.end_to_record.take().filter(|_| !self.keeps_end_record) {
            match &self.preparer {
                Some(preparer) => preparer.record_end(end),
                None => self.maker.record_end(end)?,
            }
        }
        let purged = self.chain.state.purged.map(|purged| purged.index);
        while self.older.front().is_some_and(|oldest| {
            oldest.last_index <= purged || planted!("segments-removed-too-early")
        }) {
            let Some(oldest) = self.older.pop_front() else { break };
            match &self.preparer {
                Some(preparer) => preparer.remove(oldest.path),
                None => self.maker.remove(&oldest.path)?,
            }
        }
        if let Some(preparer) = &mut self.preparer
            && self.offset > self.current.header.segment_bytes / 4
        {
            preparer.prepare_next();
        }
        Ok(())
    }

    /// Records the end of the log as it is, after it was kept from being replaced.
    pub(super) fn replace_end_record(&mut self) -> Result<(), StorageError> {
        // No record is pending in the preparer, which got none until now.
        if let Some(end) = self.end {
            self.maker.record_end(end)?;
        }
        self.keeps_end_record = false;
        Ok(())
    }

    /// Ends the log in good order: a last, empty batch proves that the one before was durable, so
    /// that damage in it cannot pass for a torn write. The disk may lose both together, so the batch
    /// is also recorded in a second file.
    pub(super) fn finish(&mut self) -> Result<(), StorageError> {
        self.write_into_current(std::iter::empty())?;
        // A pending record of the segment's first batch must not replace the final one.
        self.preparer = None;
        match self.end.filter(|_| !self.keeps_end_record) {
            Some(end) => self.maker.record_end(end.as_final()),
            None => Ok(()),
        }
    }
}
