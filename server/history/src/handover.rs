//! The queue in front of the history's thread.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, Sender};

use crate::batch::{Batch, Packer};
use crate::counts::HistoryCounts;
use crate::store::{Store, StoreError};

/// The bytes of the batches that may wait for the thread, as much as a start applies again at most
/// while the files are being opened.
const QUEUED_BYTES_MAX: usize = 64 << 20;

/// How often what is too old is removed.
const TRIM_INTERVAL_MS: u64 = 60_000;

/// What the thread receives.
pub(crate) enum Message {
    /// With the bytes that they take in memory.
    Batch(Batch, usize),
    /// What is too old at this time, milliseconds since 1970, is to go.
    Trim(i64),
    /// A query has found these files damaged.
    Damaged(Store, StoreError),
    Close,
    /// Has the thread panic.
    #[cfg(test)]
    Panic,
}

/// What the one who hands over has.
pub(crate) struct Handover {
    pub(crate) packer: Packer,
    pub(crate) messages: Sender<Message>,
    /// The memory of batches that the thread is done with.
    pub(crate) spare: Receiver<Vec<u8>>,
    /// Whether the thread waits for a block to begin.
    pub(crate) is_block_wanted: Arc<AtomicBool>,
    /// The last time at which the thread received [`Message::Trim`], by the server's wall clock; none before
    /// the first time.
    pub(crate) trimmed_ms: Option<i64>,
}

impl Handover {
    /// Hands the batch over, or loses it: more may not wait.
    pub(crate) fn hand_over(&mut self, queued: &AtomicUsize, counts: &HistoryCounts) {
        if self.is_block_wanted.swap(false, Ordering::Relaxed) {
            self.packer.begin_block();
        }
        let Self { packer, spare, .. } = self;
        // A batch without events takes room as well.
        let bytes = packer.memory_bytes() + size_of::<Message>();
        let queued_bytes = queued.load(Ordering::Relaxed);
        if queued_bytes.saturating_add(bytes) > QUEUED_BYTES_MAX {
            // Without an event, it may wait here.
            if packer.has_events() {
                counts.add_lost(packer.lose());
            }
            return;
        }
        queued.fetch_add(bytes, Ordering::Relaxed);
        let batch = packer.take(|| spare.try_recv().unwrap_or_default());
        self.send(Message::Batch(batch, bytes));
    }

    /// Has what is too old removed, if it is time. The clock may have been set back.
    pub(crate) fn trim_if_due(&mut self, wall_ms: i64) {
        let is_recent = |at_ms: i64| at_ms.abs_diff(wall_ms) < TRIM_INTERVAL_MS;
        if !self.trimmed_ms.is_some_and(is_recent) {
            self.trimmed_ms = Some(wall_ms);
            self.send(Message::Trim(wall_ms));
        }
    }

    pub(crate) fn send(&self, message: Message) {
        // The thread ends when the history is closed; what comes later has no place.
        let _ = self.messages.send(message);
    }
}
