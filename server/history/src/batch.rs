//! What the thread that applies commands hands over: many entries in one piece of memory, as they
//! will be in blocks, so that the history's thread has little left to do.
//!
//! Between the entries there is what belongs in no block: where a block begins, how far the log was
//! handed over, and where something is missing.

use std::mem;

use zoolet_jute::Zxid;
use zoolet_replica::HistoryItem;

use crate::block::BLOCK_BYTES;
use crate::entries::Writer;
use crate::entry::GapReason;
use crate::varint;

/// The bytes with which a batch is full: a wake-up of a thread for each 2,000 events or so.
const BATCH_BYTES: usize = 64 << 10;

/// The memory of a batch: the last entry may exceed it by what one entry has at most.
const MEMORY_BYTES: usize = BATCH_BYTES + (16 << 10);

/// A batch of fewer bytes is handed over as a copy, which takes no more memory than it has bytes.
const COPIED_BYTES_MAX: usize = 16 << 10;

/// What a byte says that begins no entry, beside the tags of entries.
mod tag {
    pub(super) const BLOCK: u8 = 0x8;
    pub(super) const THROUGH: u8 = 0x9;
    pub(super) const GAP: u8 = 0xa;
}

/// Entries on their way to the history's thread.
#[derive(Debug)]
pub(crate) struct Batch {
    pub(crate) bytes: Vec<u8>,
    /// How many events are in it.
    pub(crate) events: u64,
    /// The last transaction of it, or of those before it.
    pub(crate) last: Zxid,
}

/// Puts what was applied into a batch.
#[derive(Debug)]
pub(crate) struct Packer {
    writer: Writer,
    batch: Batch,
    /// The bytes of the entries of the block that is under way; none if the next event begins one.
    block_bytes: Option<usize>,
    /// What is done of the log, if the batch does not say so.
    through: Option<Zxid>,
}

impl Default for Packer {
    fn default() -> Self {
        Self {
            writer: Writer::default(),
            batch: Batch { bytes: Vec::with_capacity(MEMORY_BYTES), events: 0, last: Zxid(0) },
            block_bytes: None,
            through: None,
        }
    }
}

impl Packer {
    /// Whether there is nothing to hand over.
    pub(crate) fn is_empty(&self) -> bool {
        self.batch.bytes.is_empty() && self.through.is_none()
    }

    /// Whether it is time to hand the batch over.
    pub(crate) fn is_full(&self) -> bool {
        self.batch.bytes.len() >= BATCH_BYTES
    }

    /// Whether there are events in the batch.
    pub(crate) fn has_events(&self) -> bool {
        self.batch.events > 0
    }

    /// The memory that the batch takes once it is handed over.
    pub(crate) fn memory_bytes(&self) -> usize {
        if self.is_copied() { self.batch.bytes.len() } else { self.batch.bytes.capacity() }
    }

    /// Adds what was applied.
    pub(crate) fn item(&mut self, item: &HistoryItem) {
        match item {
            HistoryItem::Event(event) => {
                let before_bytes = self.begin_block_if_due();
                let bytes = &mut self.batch.bytes;
                let begin = bytes.len();
                self.writer.event(event, bytes);
                self.block_bytes = Some(before_bytes + bytes.len() - begin);
                self.batch.events += 1;
                self.batch.last = event.zxid;
            }
            HistoryItem::Skipped { through, .. } => self.gap(*through, GapReason::Snapshot),
            HistoryItem::Through(through) => self.through = Some(*through),
        }
    }

    /// Adds that everything up to a transaction may be missing.
    pub(crate) fn gap(&mut self, through: Zxid, reason: GapReason) {
        self.batch.bytes.push(tag::GAP | reason.code() << 4);
        varint::put_signed(&mut self.batch.bytes, through.0);
        (self.block_bytes, self.batch.last) = (None, through);
    }

    /// Has the next event begin a block, which is read without what precedes it.
    pub(crate) fn begin_block(&mut self) {
        self.block_bytes = None;
    }

    /// Takes the batch, and begins the next one with this memory.
    pub(crate) fn take(&mut self, spare: impl FnOnce() -> Vec<u8>) -> Batch {
        if let Some(through) = self.through.take() {
            self.batch.bytes.push(tag::THROUGH);
            varint::put_signed(&mut self.batch.bytes, through.0);
        }
        let (events, last) = (mem::take(&mut self.batch.events), self.batch.last);
        if self.is_copied() {
            let bytes = self.batch.bytes.as_slice().to_vec();
            self.batch.bytes.clear();
            return Batch { bytes, events, last };
        }
        let mut next = spare();
        next.reserve_exact(MEMORY_BYTES);
        Batch { bytes: mem::replace(&mut self.batch.bytes, next), events, last }
    }

    /// Gives the batch up, and notes that it is lost: one note, however many follow each other.
    /// Returns how many events were in it.
    pub(crate) fn lose(&mut self) -> u64 {
        let through = self.batch.last;
        self.batch.bytes.clear();
        self.gap(through, GapReason::Overload);
        mem::take(&mut self.batch.events)
    }

    fn is_copied(&self) -> bool {
        self.batch.bytes.len() < COPIED_BYTES_MAX
    }

    /// Returns how many bytes of the block there are.
    fn begin_block_if_due(&mut self) -> usize {
        match self.block_bytes {
            Some(bytes) if bytes < BLOCK_BYTES => bytes,
            _ => {
                self.batch.bytes.push(tag::BLOCK);
                self.writer.clear();
                0
            }
        }
    }
}

/// What comes next in a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Part {
    /// Entries of another block follow.
    Block,
    /// Everything up to this transaction was handed over.
    Through(Zxid),
    /// Everything up to this transaction may be missing.
    Gap(Zxid, GapReason),
    /// An event, which is not taken off the front.
    Event,
}

impl Part {
    /// Looks at the front of a batch, and takes off what is not an event. None if that is damaged, which
    /// it never is in memory.
    pub(crate) fn next(input: &mut &[u8]) -> Option<Self> {
        let first = *input.first()?;
        let kind = first & 0xf;
        if kind < tag::BLOCK {
            return Some(Self::Event);
        }
        input.split_off_first();
        Some(match kind {
            tag::BLOCK => Self::Block,
            tag::THROUGH => Self::Through(Zxid(varint::take_signed(input)?)),
            tag::GAP => Self::Gap(Zxid(varint::take_signed(input)?), GapReason::of(first >> 4)?),
            _ => return None,
        })
    }
}
