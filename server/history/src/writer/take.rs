//! How the thread takes what was handed over.

use std::sync::atomic::Ordering;

use tracing::warn;
use zoolet_jute::Zxid;

use crate::batch::{Batch, Part};
use crate::entry::GapReason;
use crate::store::{Store, StoreError};
use crate::tail::Tail;
use crate::writer::Writer;

/// While something comes all the time, a block that is not full is written this often, by the time of
/// the entries.
const WRITE_INTERVAL_MS: u64 = 1000;

impl Writer {
    pub(super) fn take(&mut self, batch: &Batch) {
        let (mut recorded, mut lost, mut input) = (0, 0, batch.bytes.as_slice());
        self.work(|writer, store, tail| {
            while !input.is_empty() {
                match writer.take_part(store, tail, &mut input) {
                    Ok(is_new) => recorded += u64::from(is_new),
                    Err(StoreError::Batch) => {
                        input = &[];
                        writer.skip();
                        lost = batch.events.saturating_sub(recorded);
                        writer.take_gap((store, tail), batch.last, GapReason::Damage)?;
                    }
                    Err(error) => return Err(error),
                }
            }
            // The clock of the next leader may be an earlier one.
            let last_ms = tail.block().head().last_ms;
            if last_ms.abs_diff(writer.written_ms) >= WRITE_INTERVAL_MS {
                writer.write(store, tail)?;
            }
            Ok(())
        });
        self.shared.counts.add_recorded(recorded);
        self.shared.counts.add_lost(lost);
        self.miss(batch, input, recorded);
    }

    /// Looks over what cannot be written, up to where it goes.
    fn miss(&mut self, batch: &Batch, mut input: &[u8], recorded: u64) {
        let mut lost = 0;
        while !input.is_empty() {
            let Some((through, is_event)) = self.miss_part(&mut input) else {
                self.skip();
                (input, lost) = (&[], batch.events.saturating_sub(recorded));
                self.missed = self.missed.max(Some(batch.last));
                continue;
            };
            lost += u64::from(is_event);
            self.missed = self.missed.max(through);
        }
        self.shared.counts.add_lost(lost);
    }

    /// Returns how far what comes next goes, and whether it is an event; none if it cannot be read.
    fn miss_part(&mut self, input: &mut &[u8]) -> Option<(Option<Zxid>, bool)> {
        Some(match Part::next(input)? {
            Part::Block => {
                self.reader.clear();
                self.is_skipping = false;
                (None, false)
            }
            Part::Through(through) | Part::Gap(through, _) => (Some(through), false),
            Part::Event if self.is_skipping => return None,
            Part::Event => (Some(self.reader.outline(input)?.zxid), true),
        })
    }

    /// A batch cannot be read: what comes is lost, up to the next block.
    fn skip(&mut self) {
        if !self.is_skipping {
            warn!("{}: it has a gap up to the next block", StoreError::Batch);
        }
        self.is_skipping = true;
        self.is_block_wanted.store(true, Ordering::Relaxed);
    }

    /// Takes what comes next in a batch; returns whether it was an event that the history did not
    /// have.
    fn take_part(
        &mut self,
        store: &Store,
        tail: &mut Tail,
        input: &mut &[u8],
    ) -> Result<bool, StoreError> {
        let part = Part::next(input).ok_or(StoreError::Batch)?;
        match part {
            Part::Block => {
                // Also if the files fail, which the reader must not notice.
                self.reader.clear();
                self.is_skipping = false;
                self.begin_block(store, tail)?;
                self.is_copying = true;
            }
            Part::Through(through) => tail.reach(through),
            Part::Gap(through, reason) => {
                self.take_gap((store, tail), through, reason)?;
            }
            Part::Event if self.is_skipping => return Err(StoreError::Batch),
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
        if self.is_copying {
            let before = *input;
            let outline = self.reader.outline(input).ok_or(StoreError::Batch)?;
            if !tail.admits(outline.zxid) {
                self.stop_copying(store, tail)?;
                return Ok(false);
            }
            let length = before.len() - input.len();
            tail.copy(before.get(..length).unwrap_or_default(), &self.reader, &outline);
        } else {
            let event = self.reader.event(input).ok_or(StoreError::Batch)?;
            if !tail.admits(event.zxid) {
                return Ok(false);
            }
            tail.event(&event);
        }
        if tail.block().is_full() {
            self.begin_block(store, tail)?;
        }
        Ok(true)
    }

    fn take_gap(
        &mut self,
        (store, tail): (&Store, &mut Tail),
        through: Zxid,
        reason: GapReason,
    ) -> Result<(), StoreError> {
        if !tail.lacks(through, reason) {
            return Ok(());
        }
        let stopped = self.stop_copying(store, tail);
        if stopped.is_err() {
            // It is not in the batch any more.
            self.missed = self.missed.max(Some(through));
        }
        stopped?;
        tail.gap(through, reason);
        Ok(())
    }

    /// What comes next is not in the block as it was handed over: another block begins.
    fn stop_copying(&mut self, store: &Store, tail: &mut Tail) -> Result<(), StoreError> {
        if self.is_copying {
            self.begin_block(store, tail)?;
        }
        Ok(())
    }
}
