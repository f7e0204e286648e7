//! The bytes of a segment file. All integers are big-endian; every checksum is CRC32C.
//!
//! ```text
//! segment   header sector · batch · batch · … · zeros
//! batch     header · records · padding to a full sector
//! record    length · checksum · type · fields
//! ```

use std::path::{Path, PathBuf};

use bytes::{Buf, BufMut, Bytes};
use crc32c::{crc32c, crc32c_append};

use super::state::{Entry, LogPosition, LogState};
use crate::LogIndex;

pub(super) const FORMAT_VERSION: u32 = 1;

/// Batches start at multiples of this, in bytes. So the bytes of a sector that was acknowledged
/// never change, and a torn write cannot hurt them.
pub(super) const SECTOR_BYTES: usize = 512;
/// A sector of zeros.
pub(super) const EMPTY_SECTOR: [u8; SECTOR_BYTES] = [0; SECTOR_BYTES];

const SEGMENT_MAGIC: [u8; 8] = *b"ZOOLETWL";
const BATCH_MAGIC: [u8; 4] = *b"BTCH";

pub(super) const SEGMENT_HEADER_BYTES: usize = SECTOR_BYTES;
pub(super) const BATCH_HEADER_BYTES: usize = 32;
pub(super) const RECORD_HEADER_BYTES: usize = 8;

pub(super) fn round_up_to_sector(bytes: u64) -> u64 {
    bytes.next_multiple_of(SECTOR_BYTES as u64)
}

/// A segment is named after its first batch.
pub(super) fn segment_path(directory: &Path, first_batch: u64) -> PathBuf {
    directory.join(format!("{first_batch:016x}.wal"))
}

/// The number in a segment's name; `None` for a file that is not a segment.
pub(super) fn segment_number(name: &str) -> Option<u64> {
    let digits = name.strip_suffix(".wal").filter(|digits| digits.len() == 16)?;
    u64::from_str_radix(digits, 16).ok()
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct SegmentHeader {
    pub(super) first_batch: u64,
    pub(super) segment_bytes: u64,
    /// Goes into the checksum of every batch header, so that no client's data can look like one.
    pub(super) salt: u64,
}

#[derive(Debug, PartialEq, Eq)]
pub(super) enum HeaderError {
    Damaged,
    Newer { version: u32 },
}

impl SegmentHeader {
    pub(super) fn encode(&self) -> Vec<u8> {
        let mut sector = Vec::with_capacity(SEGMENT_HEADER_BYTES);
        sector.put_slice(&SEGMENT_MAGIC);
        sector.put_u32(FORMAT_VERSION);
        sector.put_u64(self.first_batch);
        sector.put_u64(self.segment_bytes);
        sector.put_u64(self.salt);
        sector.resize(SEGMENT_HEADER_BYTES - 4, 0);
        sector.put_u32(crc32c(&sector));
        sector
    }

    pub(super) fn decode(sector: &[u8]) -> Result<Self, HeaderError> {
        let Some((mut fields, mut checksum)) = sector.split_at_checked(SEGMENT_HEADER_BYTES - 4)
        else {
            return Err(HeaderError::Damaged);
        };
        if checksum.try_get_u32() != Ok(crc32c(fields)) || !fields.starts_with(&SEGMENT_MAGIC) {
            return Err(HeaderError::Damaged);
        }
        fields.advance(SEGMENT_MAGIC.len());
        let version = fields.get_u32();
        if version != FORMAT_VERSION {
            return Err(HeaderError::Newer { version });
        }
        let (first_batch, segment_bytes) = (fields.get_u64(), fields.get_u64());
        Ok(Self { first_batch, segment_bytes, salt: fields.get_u64() })
    }
}

/// What one write and one sync make durable together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct BatchHeader {
    /// Counts the batches from 1, over all segments.
    pub(super) number: u64,
    /// The header checksum of the batch before. That one was durable before this was written.
    pub(super) previous: u32,
    pub(super) records: u32,
    pub(super) body_bytes: u32,
    pub(super) body_checksum: u32,
}

impl BatchHeader {
    /// The header's bytes, and its checksum, which covers the body's through this.
    pub(super) fn encode(&self, salt: u64) -> (Vec<u8>, u32) {
        let mut fields = Vec::with_capacity(BATCH_HEADER_BYTES);
        fields.put_u64(self.number);
        fields.put_u32(self.previous);
        fields.put_u32(self.records);
        fields.put_u32(self.body_bytes);
        fields.put_u32(self.body_checksum);
        let checksum = batch_checksum(salt, &fields);
        let mut header = Vec::with_capacity(BATCH_HEADER_BYTES);
        header.put_slice(&BATCH_MAGIC);
        header.put_u32(checksum);
        header.put_slice(&fields);
        (header, checksum)
    }

    /// `None` when these bytes are not a batch header of a segment with this salt.
    pub(super) fn decode(salt: u64, mut bytes: &[u8]) -> Option<(Self, u32)> {
        bytes = bytes.strip_prefix(&BATCH_MAGIC)?;
        let checksum = bytes.try_get_u32().ok()?;
        let mut fields = bytes.get(..BATCH_HEADER_BYTES - BATCH_MAGIC.len() - 4)?;
        if checksum != batch_checksum(salt, fields) {
            return None;
        }
        let header = Self {
            number: fields.get_u64(),
            previous: fields.get_u32(),
            records: fields.get_u32(),
            body_bytes: fields.get_u32(),
            body_checksum: fields.get_u32(),
        };
        Some((header, checksum))
    }

    /// Bytes from this batch to the next one.
    pub(super) fn stride(&self) -> u64 {
        round_up_to_sector(BATCH_HEADER_BYTES as u64 + u64::from(self.body_bytes))
    }
}

fn batch_checksum(salt: u64, fields: &[u8]) -> u32 {
    crc32c_append(crc32c(&salt.to_be_bytes()), fields)
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Record {
    /// What the log held before this batch; first in the first batch of each segment, so that the
    /// older segments can go.
    State(Box<LogState>),
    Entry(Entry),
    Vote(Bytes),
    Committed(Option<LogPosition>),
    Truncate {
        from: LogIndex,
        last: Option<LogPosition>,
    },
    Purge(LogPosition),
}

const STATE: u8 = 1;
const ENTRY: u8 = 2;
const VOTE: u8 = 3;
const COMMITTED: u8 = 4;
const TRUNCATE: u8 = 5;
const PURGE: u8 = 6;

const POSITION_BYTES: usize = 24;

impl Record {
    /// The length of the record as it is written.
    pub(super) fn encoded_bytes(&self) -> usize {
        let option = |position: &Option<LogPosition>| 1 + position.map_or(0, |_| POSITION_BYTES);
        let fields = match self {
            Self::State(state) => {
                let vote = 1 + state.vote.as_ref().map_or(0, |vote| 4 + vote.len());
                let positions =
                    option(&state.committed) + option(&state.purged) + option(&state.last);
                vote + positions + 16
            }
            Self::Entry(entry) => POSITION_BYTES + 1 + entry.body.len(),
            Self::Vote(vote) => vote.len(),
            Self::Committed(position) => option(position),
            Self::Truncate { last, .. } => 8 + option(last),
            Self::Purge(_) => POSITION_BYTES,
        };
        RECORD_HEADER_BYTES + 1 + fields
    }

    pub(super) fn encode(&self, buffer: &mut Vec<u8>) {
        let start = buffer.len();
        buffer.put_bytes(0, RECORD_HEADER_BYTES);
        match self {
            Self::State(state) => {
                buffer.put_u8(STATE);
                put_state(buffer, state);
            }
            Self::Entry(entry) => {
                buffer.put_u8(ENTRY);
                put_position(buffer, &entry.position);
                buffer.put_u8(entry.kind);
                buffer.put_slice(&entry.body);
            }
            Self::Vote(vote) => {
                buffer.put_u8(VOTE);
                buffer.put_slice(vote);
            }
            Self::Committed(position) => {
                buffer.put_u8(COMMITTED);
                put_option(buffer, position.as_ref());
            }
            Self::Truncate { from, last } => {
                buffer.put_u8(TRUNCATE);
                buffer.put_u64(from.0);
                put_option(buffer, last.as_ref());
            }
            Self::Purge(position) => {
                buffer.put_u8(PURGE);
                put_position(buffer, position);
            }
        }
        if let Some((header, fields)) = buffer
            .get_mut(start..)
            .and_then(|record| record.split_at_mut_checked(RECORD_HEADER_BYTES))
        {
            let length = u32::try_from(fields.len()).unwrap_or(u32::MAX).to_be_bytes();
            let checksum = crc32c_append(crc32c(&length), fields).to_be_bytes();
            header.copy_from_slice([length, checksum].as_flattened());
        }
    }

    /// Takes one record off `bytes`; `None` when it is not whole.
    pub(super) fn decode(bytes: &mut Bytes) -> Option<Self> {
        let length = bytes.try_get_u32().ok()?;
        let checksum = bytes.try_get_u32().ok()?;
        let length_in_memory = usize::try_from(length).ok()?;
        if bytes.len() < length_in_memory {
            return None;
        }
        let mut fields = bytes.split_to(length_in_memory);
        if checksum != crc32c_append(crc32c(&length.to_be_bytes()), &fields) {
            return None;
        }
        let record = match fields.try_get_u8().ok()? {
            STATE => Self::State(Box::new(get_state(&mut fields)?)),
            ENTRY => {
                let position = get_position(&mut fields)?;
                let kind = fields.try_get_u8().ok()?;
                Self::Entry(Entry { position, kind, body: std::mem::take(&mut fields) })
            }
            VOTE => Self::Vote(std::mem::take(&mut fields)),
            COMMITTED => Self::Committed(get_option(&mut fields).ok()?),
            TRUNCATE => {
                let from = LogIndex(fields.try_get_u64().ok()?);
                Self::Truncate { from, last: get_option(&mut fields).ok()? }
            }
            PURGE => Self::Purge(get_position(&mut fields)?),
            _ => return None,
        };
        fields.is_empty().then_some(record)
    }
}

fn put_position(buffer: &mut Vec<u8>, position: &LogPosition) {
    buffer.put_u64(position.term);
    buffer.put_u64(position.node);
    buffer.put_u64(position.index.0);
}

fn get_position(fields: &mut Bytes) -> Option<LogPosition> {
    let term = fields.try_get_u64().ok()?;
    let node = fields.try_get_u64().ok()?;
    Some(LogPosition { term, node, index: LogIndex(fields.try_get_u64().ok()?) })
}

fn put_option(buffer: &mut Vec<u8>, position: Option<&LogPosition>) {
    buffer.put_u8(u8::from(position.is_some()));
    if let Some(position) = position {
        put_position(buffer, position);
    }
}

struct Malformed;

fn get_option(fields: &mut Bytes) -> Result<Option<LogPosition>, Malformed> {
    match fields.try_get_u8() {
        Ok(0) => Ok(None),
        Ok(1) => get_position(fields).map(Some).ok_or(Malformed),
        Ok(_) | Err(_) => Err(Malformed),
    }
}

fn put_state(buffer: &mut Vec<u8>, state: &LogState) {
    buffer.put_u8(u8::from(state.vote.is_some()));
    if let Some(vote) = &state.vote {
        buffer.put_u32(u32::try_from(vote.len()).unwrap_or(u32::MAX));
        buffer.put_slice(vote);
    }
    put_option(buffer, state.committed.as_ref());
    put_option(buffer, state.purged.as_ref());
    put_option(buffer, state.last.as_ref());
    buffer.put_u64(state.entries.start.0);
    buffer.put_u64(state.entries.end.0);
}

fn get_state(fields: &mut Bytes) -> Option<LogState> {
    let vote = match fields.try_get_u8().ok()? {
        0 => None,
        1 => {
            let length = usize::try_from(fields.try_get_u32().ok()?).ok()?;
            (fields.len() >= length).then(|| Some(fields.split_to(length)))?
        }
        _ => return None,
    };
    let committed = get_option(fields).ok()?;
    let purged = get_option(fields).ok()?;
    let last = get_option(fields).ok()?;
    let start = LogIndex(fields.try_get_u64().ok()?);
    let end = LogIndex(fields.try_get_u64().ok()?);
    (start <= end).then_some(LogState { vote, committed, purged, entries: start..end, last })
}
