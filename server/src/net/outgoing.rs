//! The bytes of a connection that its socket does not take yet.

use std::collections::VecDeque;
use std::io::IoSlice;

use bytes::Buf;

use crate::outbox::Chunk;

/// The most chunks in one write.
pub(super) const CHUNKS_MAX: usize = 16;

/// Chunks on their way into the socket.
#[derive(Debug, Default)]
pub(super) struct Outgoing(pub(super) VecDeque<Chunk>);

impl Outgoing {
    /// Makes the first bytes to be written; false if there is nothing to write.
    pub(super) fn make_front(&mut self) -> bool {
        while let Some(front) = self.0.front_mut() {
            let made = match front {
                Chunk::Bytes(bytes) | Chunk::Uncounted { bytes, .. } if !bytes.is_empty() => {
                    return true;
                }
                Chunk::Bytes(_) | Chunk::Uncounted { .. } => None,
                Chunk::Later(later) => later.pieces.next(),
            };
            match made {
                Some(bytes) => self.0.push_front(Chunk::Uncounted { bytes, _pin: None }),
                None => {
                    self.0.pop_front();
                }
            }
        }
        false
    }

    /// Fills `slices` with the bytes that are made; returns how many slices there are.
    pub(super) fn fill<'a>(&'a self, slices: &mut [IoSlice<'a>]) -> usize {
        let mut count = 0;
        for (slice, chunk) in slices.iter_mut().zip(&self.0) {
            let (Chunk::Bytes(bytes) | Chunk::Uncounted { bytes, .. }) = chunk else { break };
            *slice = IoSlice::new(bytes);
            count += 1;
        }
        count
    }

    /// Drops what the socket has taken. Returns how many of these bytes were counted as memory of
    /// the outbox.
    pub(super) fn advance(&mut self, written: usize) -> usize {
        let (mut rest, mut counted) = (written, 0);
        while let Some(front) = self.0.front_mut() {
            let is_counted = matches!(front, Chunk::Bytes(_));
            let (Chunk::Bytes(bytes) | Chunk::Uncounted { bytes, .. }) = front else { break };
            let taken = rest.min(bytes.len());
            bytes.advance(taken);
            rest -= taken;
            counted += if is_counted { taken } else { 0 };
            if !bytes.is_empty() {
                break;
            }
            self.0.pop_front();
        }
        if self.0.is_empty() {
            self.0 = VecDeque::new();
        }
        counted
    }
}
