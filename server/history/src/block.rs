//! The bytes of a block: what sled keeps.
//!
//! A head (version, number of the first entry, count, zxids, times), the filter, and the entries.
//! The entries are those of [`crate::entries`], each against the one before it.
//!
//! | bytes | what |
//! |---|---|
//! | 1 | version, 2 |
//! | 8 | number of the first entry |
//! | 4 | number of entries |
//! | 8, 8 | first and last zxid |
//! | 4 | how many events of the last zxid there are, in blocks before as well |
//! | 8, 8 | first and last time, milliseconds since 1970 |
//! | 1024 | filter |
//! | the rest | entries |

use bytes::{Buf, BufMut};
use thiserror::Error;
use zoolet_jute::Zxid;
use zoolet_replica::HistoryEvent;

use crate::entries::{Outline, Reader, Writer};
use crate::entry::{Entry, Gap};
use crate::filter::{FILTER_BYTES, Filter};

/// The format of blocks.
pub(crate) const VERSION: u8 = 2;
const HEAD_BYTES: usize = 1 + 8 + 4 + 8 + 8 + 4 + 8 + 8;

/// Where the entries begin.
const ENTRIES_AT: usize = HEAD_BYTES + FILTER_BYTES;

/// The bytes of entries with which a block is full. sled keeps values of this size in its log; of
/// values above 12 KiB it makes files of their own, which are not synced with it.
pub(crate) const BLOCK_BYTES: usize = 8 << 10;

/// A block cannot be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub(crate) enum BlockError {
    #[error("a block of the history is damaged: {0}")]
    Damaged(&'static str),
    #[error("a block of the history has the format {0}, and this release reads {VERSION} alone")]
    Format(u8),
}

/// The head of a block.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Head {
    /// The number of the first entry.
    pub(crate) first: u64,
    /// How many entries there are.
    pub(crate) count: u32,
    pub(crate) first_zxid: Zxid,
    pub(crate) last_zxid: Zxid,
    /// How many events of the last zxid there are, in blocks before as well.
    pub(crate) at_last: u32,
    pub(crate) first_ms: i64,
    pub(crate) last_ms: i64,
}

impl Head {
    /// The number behind that of the last entry.
    pub(crate) fn end(&self) -> u64 {
        self.first.saturating_add(u64::from(self.count))
    }

    /// Reads the head of a block, and returns it with the filter and the bytes of the entries.
    pub(crate) fn read(mut block: &[u8]) -> Result<(Self, &[u8], &[u8]), BlockError> {
        if block.len() < ENTRIES_AT {
            return Err(BlockError::Damaged("it is too short"));
        }
        let version = block.get_u8();
        if version != VERSION {
            return Err(BlockError::Format(version));
        }
        let head = Self {
            first: block.get_u64(),
            count: block.get_u32(),
            first_zxid: Zxid(block.get_i64()),
            last_zxid: Zxid(block.get_i64()),
            at_last: block.get_u32(),
            first_ms: block.get_i64(),
            last_ms: block.get_i64(),
        };
        let (filter, entries) = block.split_at(FILTER_BYTES);
        Ok((head, filter, entries))
    }

    fn put(&self, mut out: &mut [u8]) {
        out.put_u8(VERSION);
        out.put_u64(self.first);
        out.put_u32(self.count);
        out.put_i64(self.first_zxid.0);
        out.put_i64(self.last_zxid.0);
        out.put_u32(self.at_last);
        out.put_i64(self.first_ms);
        out.put_i64(self.last_ms);
    }
}

/// A block that is being filled.
#[derive(Debug)]
pub(crate) struct BlockBuilder {
    head: Head,
    /// All of it; the head is put in when it is asked for.
    bytes: Vec<u8>,
    writer: Writer,
}

impl BlockBuilder {
    /// A block whose first entry has this number, behind one that ends at this time.
    pub(crate) fn new(first: u64, last_ms: i64) -> Self {
        let bytes = Vec::with_capacity(ENTRIES_AT + BLOCK_BYTES + BLOCK_BYTES / 4);
        let (head, writer) = (Head::default(), Writer::default());
        let mut builder = Self { head, bytes, writer };
        builder.begin(first, last_ms);
        builder
    }

    /// Begins the next block, with the memory of this one.
    pub(crate) fn begin(&mut self, first: u64, last_ms: i64) {
        self.head = Head { first, last_ms, ..Head::default() };
        self.bytes.clear();
        self.bytes.resize(ENTRIES_AT, 0);
        self.writer.clear();
    }

    pub(crate) fn head(&self) -> &Head {
        &self.head
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.head.count == 0
    }

    pub(crate) fn is_full(&self) -> bool {
        self.bytes.len() >= ENTRIES_AT + BLOCK_BYTES
    }

    /// Adds an event as it was handed over, and read a moment ago.
    pub(crate) fn copy(&mut self, bytes: &[u8], reader: &Reader, outline: &Outline) {
        self.filter().add_outline(reader, outline);
        self.count(outline.zxid, outline.time_ms);
        self.bytes.extend_from_slice(bytes);
    }

    /// Adds an event.
    pub(crate) fn event(&mut self, event: &HistoryEvent) {
        self.filter().add(event);
        self.count(event.zxid, event.time_ms);
        self.writer.event(event, &mut self.bytes);
    }

    /// Adds a gap, at the time of the entry before it.
    pub(crate) fn gap(&mut self, gap: Gap) {
        self.filter().add_gap();
        self.count(gap.through, self.head.last_ms);
        self.writer.gap(gap, &mut self.bytes);
    }

    fn filter(&mut self) -> Filter<'_> {
        Filter(self.bytes.get_mut(HEAD_BYTES..ENTRIES_AT).unwrap_or_default())
    }

    fn count(&mut self, zxid: Zxid, time_ms: i64) {
        let head = &mut self.head;
        if head.count == 0 {
            (head.first_zxid, head.first_ms) = (zxid, time_ms);
        }
        (head.last_zxid, head.last_ms) = (zxid, time_ms);
        head.count += 1;
    }

    /// Notes up to where the log was handed over, and how many events of that transaction there are.
    pub(crate) fn reached(&mut self, zxid: Zxid, events: u32) {
        (self.head.last_zxid, self.head.at_last) = (zxid, events);
    }

    /// The bytes of the block, as it is now.
    pub(crate) fn bytes(&mut self) -> &[u8] {
        let head = self.head;
        if let Some(place) = self.bytes.get_mut(..HEAD_BYTES) {
            head.put(place);
        }
        &self.bytes
    }

    /// A copy of the block, as it is now.
    pub(crate) fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = self.bytes.clone();
        if let Some(place) = bytes.get_mut(..HEAD_BYTES) {
            self.head.put(place);
        }
        bytes
    }
}

/// Reads the entries of a block.
pub(crate) fn entries(head: &Head, mut bytes: &[u8]) -> Result<Vec<Entry>, BlockError> {
    let mut reader = Reader::default();
    let mut entries = Vec::new();
    for offset in 0..head.count {
        let kind = reader.entry(&mut bytes).ok_or(BlockError::Damaged("an entry is damaged"))?;
        entries.push(Entry { number: head.first.saturating_add(u64::from(offset)), kind });
    }
    Ok(entries)
}

#[cfg(test)]
mod tests;
