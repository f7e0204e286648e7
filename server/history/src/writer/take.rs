//! How the thread takes what was handed over.

use crate::batch::{Batch, Part};
use crate::block::BlockError;
use crate::store::{Store, StoreError};
use crate::tail::Tail;
use crate::writer::Writer;

/// What was handed over cannot be read, which means a defect.
const BATCH_DAMAGED: BlockError = BlockError("a batch is damaged");

/// While something comes all the time, a block that is not full is written this often, by the time of
/// the entries.
const WRITE_INTERVAL_MS: u64 = 1000;

impl Writer {
    pub(super) fn take(&mut self, batch: &Batch) {
        let (mut recorded, mut input) = (0, batch.bytes.as_slice());
        self.work(|writer, store, tail| {
            while !input.is_empty() {
                recorded += u64::from(writer.take_part(store, tail, &mut input)?);
            }
            // The clock of the next leader may be an earlier one.
            let last_ms = tail.block().head().last_ms;
            if last_ms.abs_diff(writer.written_ms) >= WRITE_INTERVAL_MS {
                writer.write(store, tail)?;
            }
            Ok(())
        });
        self.shared.counts.add_recorded(recorded);
        self.miss(input);
    }

    /// Looks over what cannot be written, up to where it goes.
    fn miss(&mut self, mut input: &[u8]) {
        let mut lost = 0;
        while let Some(part) = Part::next(&mut input) {
            let through = match part {
                Part::Block => {
                    self.reader.clear();
                    continue;
                }
                Part::Through(through) | Part::Gap(through, _) => through,
                Part::Event => {
                    let Some(outline) = self.reader.outline(&mut input) else { break };
                    lost += 1;
                    outline.zxid
                }
            };
            self.missed = self.missed.max(Some(through));
        }
        self.shared.counts.add_lost(lost);
    }

    /// Takes what comes next in a batch; returns whether it was an event that the history did not
    /// have.
    fn take_part(
        &mut self,
        store: &Store,
        tail: &mut Tail,
        input: &mut &[u8],
    ) -> Result<bool, StoreError> {
        let part = Part::next(input).ok_or(BATCH_DAMAGED)?;
        match part {
            Part::Block => {
                // Also if the files fail, which the reader must not notice.
                self.reader.clear();
                self.begin_block(store, tail)?;
                self.is_copying = true;
            }
            Part::Through(through) => tail.reach(through),
            Part::Gap(through, reason) => {
                if tail.lacks(through, reason) {
                    let stopped = self.stop_copying(store, tail);
                    if stopped.is_err() {
                        // It is not in the batch any more.
                        self.missed = self.missed.max(Some(through));
                    }
                    stopped?;
                    tail.gap(through, reason);
                }
            }
            Part::Event => return self.take_event(store, tail, input),
        }
        Ok(false)
    }

    fn take_event(
        &mut self,
        store: &Store,
        tail: &mut Tail,
        input: &mut &[u8],
    ) -> Result<bool, StoreError> {
        let zxid = self.reader.peek_zxid(input).ok_or(BATCH_DAMAGED)?;
        if !tail.admits(zxid) {
            self.reader.outline(input).ok_or(BATCH_DAMAGED)?;
            self.stop_copying(store, tail)?;
            return Ok(false);
        }
        if self.is_copying {
            let before = *input;
            let outline = self.reader.outline(input).ok_or(BATCH_DAMAGED)?;
            let length = before.len() - input.len();
            tail.copy(before.get(..length).unwrap_or_default(), &self.reader, &outline);
        } else {
            tail.event(&self.reader.event(input).ok_or(BATCH_DAMAGED)?);
        }
        if tail.block().is_full() {
            self.begin_block(store, tail)?;
        }
        Ok(true)
    }

    /// What comes next is not in the block as it was handed over: another block begins.
    fn stop_copying(&mut self, store: &Store, tail: &mut Tail) -> Result<(), StoreError> {
        if self.is_copying {
            self.begin_block(store, tail)?;
        }
        Ok(())
    }
}
