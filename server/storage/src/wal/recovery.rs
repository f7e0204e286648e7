//! Reading the log back after a stop of any kind.
//!
//! Batch n is written only after batch n - 1 was durable. So of all batches only the last can be
//! torn, and a batch that does not read while there is any sign of a later one is damage:
//!
//! - A later batch in the same segment, or a later segment, proves that this one was durable.
//! - The first batch of a segment was durable before the segment got its name.
//! - A batch that is whole but for one bit, and in which no sector ends in zeros, was written as a
//!   whole: a write that was cut short lacks sectors, or their ends.
//! - A batch up to the one in the end record was durable (`end_record`).
//! - Otherwise it was never acknowledged, and the log ends before it.
//!
//! The last batch that does read may still be unsynced: a server that was killed leaves it in the
//! operating system's cache, and a failed sync may leave it there for good. So recovery writes it
//! again: it begins a new segment with the number of that batch, and readers of a segment stop at
//! the number with which the next segment begins. Recovery changes no old byte, which makes a
//! crash in the middle of it harmless.

use std::collections::VecDeque;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use bytes::Bytes;
use crc32c::crc32c;

use super::batch_reader::{BatchRecord, decode_records, read, read_body, read_header};
use super::changed_bit::find_changed_bit;
use super::end_record::{EndRecord, FILE_NAME};
use super::format::{
    BatchHeader, EMPTY_SECTOR, FORMAT_VERSION, HeaderError, Record, SECTOR_BYTES,
    SEGMENT_HEADER_BYTES, SegmentHeader, segment_number, segment_path,
};
use super::segment::Segment;
use super::state::{LogPosition, LogState};
use super::view::EntryLocation;
use super::writer::{Chain, OldSegment};
use crate::{Disk, LogIndex, StorageError};

/// A piece of the search for later batches, in bytes.
const SEARCH_BYTES: u64 = 1 << 20;

/// Where an unfinished write was cut off.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TornTail {
    pub file: PathBuf,
    pub offset: u64,
    /// The number of the batch that is not whole.
    pub batch: u64,
    /// False if the log was closed cleanly before this batch. Otherwise a write that was interrupted
    /// by a crash and a durable write that the disk has lost look the same.
    pub may_be_acknowledged: bool,
}

/// What the segments hold.
#[derive(Debug, Default)]
pub(super) struct Replay {
    /// What the log holds, the last batch included.
    pub(super) state: LogState,
    /// For each entry of `state.entries`, its position and location.
    pub(super) entries: VecDeque<(LogPosition, EntryLocation)>,
    /// Entries of `state.entries` that were in segments older than those that are there.
    missing: Range<LogIndex>,
    /// The last batch, to be written again.
    pub(super) last_batch: Option<LastBatch>,
    pub(super) older: VecDeque<OldSegment>,
    pub(super) torn: Option<TornTail>,
    /// Damage at the end that was tolerated.
    pub(super) lost: Option<String>,
    /// The last batch, if the log was not closed cleanly after it.
    pub(super) last_in_doubt: Option<u64>,
    /// The recorded end.
    end: Option<EndRecord>,
    /// Whether the last batch read so far is the final one of the record, at its original location.
    ends_unmoved: bool,
}

/// The last batch that could be read.
#[derive(Debug)]
pub(super) struct LastBatch {
    /// What came before it.
    pub(super) chain: Chain,
    pub(super) records: Vec<Record>,
    checksum: u32,
    segment: Arc<Segment>,
    offset: u64,
}

impl LastBatch {
    /// True when its segment holds nothing else: then the new one takes its name.
    pub(super) fn fills_segment(&self) -> bool {
        self.segment.header.first_batch == self.chain.number
    }

    /// Cuts off its segment what was written again elsewhere.
    pub(super) fn trim(&self) -> Result<(), StorageError> {
        self.segment.trim(self.offset)
    }
}

/// A batch that was read and is whole.
struct RecordBatch {
    header: BatchHeader,
    checksum: u32,
    records: Vec<BatchRecord>,
}

/// What stands where a batch should be.
enum Found {
    RecordBatch(RecordBatch),
    /// Not a whole batch.
    Nothing,
    /// A header that is whole and does not belong here, or not to this body.
    Wrong(String),
}

/// Reads all segments of a directory.
pub(super) fn replay(disk: &dyn Disk, directory: &Path) -> Result<Replay, StorageError> {
    let end = EndRecord::read(disk, directory)?.filter(|_| !planted!("lost-end-is-served"));
    replay_up_to(disk, directory, end)
}

/// Reads all segments of a directory, and tolerates the loss of the last durable batches.
pub(super) fn replay_what_is_left(
    disk: &dyn Disk,
    directory: &Path,
) -> Result<Replay, StorageError> {
    let read = EndRecord::read(disk, directory).and_then(|end| replay_up_to(disk, directory, end));
    let Err(why @ StorageError::Corrupt { .. }) = read else { return read };
    // Any other damage is found again.
    let replay = replay_up_to(disk, directory, None)?;
    Ok(Replay { lost: Some(why.to_string()), ..replay })
}

fn replay_up_to(
    disk: &dyn Disk,
    directory: &Path,
    end: Option<EndRecord>,
) -> Result<Replay, StorageError> {
    let mut segments = Vec::new();
    for found in disk.list(directory).map_err(StorageError::io("list", directory))? {
        let path = directory.join(&found.name);
        if let Some(number) = segment_number(&found.name) {
            segments.push(number);
        } else if Path::new(&found.name).extension().is_some_and(|extension| extension == "tmp") {
            disk.remove(&path).map_err(StorageError::io("remove", &path))?;
        }
    }
    if let Some(end) = end.filter(|_| segments.is_empty()) {
        let what = format!("it names batch {}, and there is no segment", end.number);
        return Err(StorageError::corrupt(&directory.join(FILE_NAME), 0, what));
    }
    let mut replay = Replay { end, ..Replay::default() };
    let mut segments = segments.into_iter().peekable();
    while let Some(first_batch) = segments.next() {
        let path = segment_path(directory, first_batch);
        let segment = Arc::new(open_segment(disk, path, first_batch)?);
        replay.read_segment(&segment, segments.peek().copied())?;
    }
    replay.check_missing()?;
    Ok(replay)
}

fn open_segment(disk: &dyn Disk, path: PathBuf, first_batch: u64) -> Result<Segment, StorageError> {
    let file = disk.open(&path).map_err(StorageError::io("open", &path))?;
    let bytes = file.bytes().map_err(StorageError::io("measure", &path))?;
    let mut sector = vec![0; SEGMENT_HEADER_BYTES];
    if bytes < sector.len() as u64 {
        return Err(StorageError::corrupt(&path, bytes, "it ends inside its header"));
    }
    read(&*file, &path, &mut sector, 0)?;
    match SegmentHeader::decode(&sector) {
        Ok(header) if header.first_batch == first_batch => Ok(Segment { path, file, header }),
        Ok(header) => {
            let what = format!("it is the segment of batch {:016x}", header.first_batch);
            Err(StorageError::corrupt(&path, 0, what))
        }
        Err(HeaderError::Damaged) => {
            Err(StorageError::corrupt(&path, 0, "the segment header does not match its checksum"))
        }
        Err(HeaderError::Newer { version }) => {
            Err(StorageError::NewerFormat { path, found: version, supported: FORMAT_VERSION })
        }
    }
}

impl Replay {
    /// Reads a segment up to the batch with which the next one begins.
    fn read_segment(
        &mut self,
        segment: &Arc<Segment>,
        next_segment: Option<u64>,
    ) -> Result<(), StorageError> {
        let Segment { path, file, header } = &**segment;
        let bytes = file.bytes().map_err(StorageError::io("measure", path))?;
        if next_segment.is_none() && bytes != header.segment_bytes {
            let what = format!("it should be {} bytes long", header.segment_bytes);
            return Err(StorageError::corrupt(path, bytes, what));
        }
        let mut last_index = None;
        let mut offset = SEGMENT_HEADER_BYTES as u64;
        let mut number = header.first_batch;
        while Some(number) != next_segment {
            match read_batch(segment, bytes, offset, number)? {
                Found::RecordBatch(batch) => {
                    let stride = batch.header.stride();
                    last_index = last_index.max(batch.last_index());
                    self.take(segment, offset, batch)?;
                    offset += stride;
                    number += 1;
                }
                Found::Wrong(what) => return Err(StorageError::corrupt(path, offset, what)),
                Found::Nothing if next_segment.is_some() || number == header.first_batch => {
                    let what = format!("batch {number} was durable and cannot be read");
                    return Err(StorageError::corrupt(path, offset, what));
                }
                Found::Nothing if self.end.is_some_and(|end| end.number >= number) => {
                    let durable = self.end.map_or(number, |end| end.number);
                    let what = format!(
                        "the log ends before batch {number}, and batch {durable} was durable, as the \
                         file {FILE_NAME} shows: acknowledged writes are lost"
                    );
                    return Err(StorageError::corrupt(path, offset, what));
                }
                Found::Nothing => {
                    let changed = find_changed_bit(segment, bytes, offset, number)?;
                    if let Some(at) = changed.filter(|_| !planted!("changed-bit-ends-the-log")) {
                        let what =
                            format!("a bit has changed; the rest of batch {number} is whole");
                        return Err(StorageError::corrupt(path, at, what));
                    }
                    // Batches after it may have become zeros.
                    self.last_in_doubt = (!self.ends_unmoved).then_some(number - 1);
                    self.torn = search_later_batch(segment, bytes, offset, number)?;
                    if let Some(torn) = &mut self.torn {
                        torn.may_be_acknowledged = !self.ends_unmoved;
                    }
                    break;
                }
            }
        }
        self.older.push_back(OldSegment { path: path.clone(), last_index });
        Ok(())
    }

    /// Applies a batch.
    fn take(
        &mut self,
        segment: &Arc<Segment>,
        offset: u64,
        batch: RecordBatch,
    ) -> Result<(), StorageError> {
        let corrupt = |what: String| StorageError::corrupt(&segment.path, offset, what);
        let BatchHeader { number, previous, .. } = batch.header;
        if let Some(last) = &self.last_batch
            && last.chain.number + 1 == number
            && last.checksum != previous
        {
            return Err(corrupt(format!("batch {number} does not follow the batch before it")));
        }
        let starts_segment = number == segment.header.first_batch;
        if let Some(end) = self.end.filter(|end| end.number == number)
            && !end.is(&batch.header, batch.checksum, starts_segment)
        {
            let what = format!("batch {number} is not the one that the file {FILE_NAME} names");
            return Err(corrupt(what));
        }
        let mut records = batch.records.into_iter();
        if starts_segment {
            let Some(BatchRecord { record: Record::State(state), .. }) = records.next() else {
                return Err(corrupt("the segment does not begin with the log's state".to_owned()));
            };
            self.begin_segment(*state).map_err(&corrupt)?;
        } else if records.len() == 0 {
            // It ended the log in good order, and its work was to prove the last batch.
            return Ok(());
        }
        self.ends_unmoved = self.end.is_some_and(|end| {
            end.is_final && end.number == number && end.is_unmoved(batch.checksum)
        });
        let chain = Chain { state: self.state.clone(), number, previous };
        let mut taken = Vec::with_capacity(records.len());
        for BatchRecord { start, bytes, record } in records {
            let location =
                EntryLocation { segment: segment.clone(), offset: offset + start, bytes };
            self.apply(&record, location).map_err(&corrupt)?;
            taken.push(record);
        }
        self.last_batch = Some(LastBatch {
            chain,
            records: taken,
            checksum: batch.checksum,
            segment: segment.clone(),
            offset,
        });
        Ok(())
    }

    fn begin_segment(&mut self, state: LogState) -> Result<(), String> {
        if self.last_batch.is_none() {
            self.missing = state.entries.clone();
            self.state = state;
            return Ok(());
        }
        self.state.apply(&Record::State(Box::new(state)))
    }

    fn apply(&mut self, record: &Record, location: EntryLocation) -> Result<(), String> {
        self.state.apply(record)?;
        if let Record::Entry(entry) = record {
            self.entries.push_back((entry.position, location));
            return Ok(());
        }
        let Range { start, end } = self.state.entries;
        while self.entries.back().is_some_and(|(position, _)| position.index >= end) {
            self.entries.pop_back();
        }
        while self.entries.front().is_some_and(|(position, _)| position.index < start) {
            self.entries.pop_front();
        }
        self.missing = self.missing.start.max(start)..self.missing.end.min(end);
        Ok(())
    }

    /// Segments go only when all their entries are purged; if others are gone, so is data.
    fn check_missing(&self) -> Result<(), StorageError> {
        match self.older.front() {
            Some(oldest) if !self.missing.is_empty() => {
                let Range { start, end } = self.missing;
                let what = format!(
                    "the segments before it are gone, and with them the entries {start} to {}",
                    end.0 - 1
                );
                Err(StorageError::corrupt(&oldest.path, 0, what))
            }
            _ => Ok(()),
        }
    }
}

impl RecordBatch {
    fn last_index(&self) -> Option<LogIndex> {
        let indices = self.records.iter().map(|BatchRecord { record, .. }| match record {
            Record::Entry(entry) => Some(entry.position.index),
            Record::State(_)
            | Record::Vote(_)
            | Record::Committed(_)
            | Record::Truncate { .. }
            | Record::Purge(_) => None,
        });
        indices.max().flatten()
    }
}

fn read_batch(
    segment: &Segment,
    segment_bytes: u64,
    offset: u64,
    number: u64,
) -> Result<Found, StorageError> {
    let Some(start) = read_header(segment, segment_bytes, offset)? else {
        return Ok(Found::Nothing);
    };
    let Some((batch, checksum)) = BatchHeader::decode(segment.header.salt, &start) else {
        return Ok(Found::Nothing);
    };
    if batch.number != number {
        let what = format!("batch {} is in the place of batch {number}", batch.number);
        return Ok(Found::Wrong(what));
    }
    let Some(body) = read_body(segment, segment_bytes, offset, &batch)? else {
        return Ok(Found::Wrong(format!("batch {number} does not end inside the file")));
    };
    if crc32c(&body) != batch.body_checksum && !planted!("log-checksum-ignored") {
        return Ok(Found::Nothing);
    }
    match decode_records(Bytes::from(body), batch.records) {
        Some(records) => Ok(Found::RecordBatch(RecordBatch { header: batch, checksum, records })),
        None => Ok(Found::Wrong(format!("the records of batch {number} are inconsistent"))),
    }
}

/// Looks behind a batch that cannot be read for any later one, which would prove that it was
/// durable. If there is none, it was torn, or never written: then all is zeros.
fn search_later_batch(
    segment: &Segment,
    segment_bytes: u64,
    unreadable: u64,
    number: u64,
) -> Result<Option<TornTail>, StorageError> {
    let Segment { path, file, header } = segment;
    let mut torn = None;
    let mut offset = unreadable;
    while offset < segment_bytes {
        let length = SEARCH_BYTES.min(segment_bytes - offset);
        let mut piece = vec![0; usize::try_from(length).unwrap_or(0)];
        read(&**file, path, &mut piece, offset)?;
        for (sector, at) in piece.chunks(SECTOR_BYTES).zip((offset..).step_by(SECTOR_BYTES)) {
            // As a whole: byte by byte takes twenty times as long, for each start of a server.
            if EMPTY_SECTOR.starts_with(sector) {
                continue;
            }
            torn = Some(TornTail {
                file: path.clone(),
                offset: unreadable,
                batch: number,
                may_be_acknowledged: true,
            });
            let later = BatchHeader::decode(header.salt, sector);
            if later.is_some_and(|(later, _)| later.number > number)
                && !planted!("damage-taken-for-a-torn-end")
            {
                let what =
                    format!("batch {number} cannot be read, but a later one at byte {at} can");
                return Err(StorageError::corrupt(path, unreadable, what));
            }
        }
        offset += length;
    }
    Ok(torn)
}
