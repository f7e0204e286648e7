//! The queue in front of the history's thread.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, Sender};

use crate::batch::{Batch, Packer};
use crate::counts::HistoryCounts;

/// The bytes of the events that may wait for the thread, as much as a start applies again at most
/// while the files are being opened.
const QUEUED_BYTES_MAX: usize = 64 << 20;

/// What the thread receives.
pub(crate) enum Message {
    /// With the bytes that they take in memory.
    Batch(Batch, usize),
    Close,
}

/// What the one who hands over has.
pub(crate) struct Handover {
    pub(crate) packer: Packer,
    pub(crate) messages: Sender<Message>,
    /// The memory of batches that the thread is done with.
    pub(crate) spare: Receiver<Vec<u8>>,
}

impl Handover {
    /// Hands the batch over, or loses it: more may not wait.
    pub(crate) fn hand_over(&mut self, queued: &AtomicUsize, counts: &HistoryCounts) {
        let Self { packer, spare, .. } = self;
        let bytes = packer.memory_bytes();
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

    pub(crate) fn send(&self, message: Message) {
        // The thread ends when the history is closed; what comes later has no place.
        let _ = self.messages.send(message);
    }
}
