//! The frames that wait to be written to the connection.

use bytes::BytesMut;
use zoolet_jute::frame;

/// How many bytes are handed to the transport at once, before the rest of the last frame.
const CHUNK_BYTES: usize = 64 * 1024;

/// The frames of a connection in their order, and a way past them for pings: one must not wait
/// behind megabytes of data that a slow link has not taken yet.
#[derive(Debug, Default)]
pub(crate) struct Outgoing {
    /// What is being written. It ends with a whole frame.
    chunk: BytesMut,
    /// What comes behind it: whole frames.
    waiting: BytesMut,
}

impl Outgoing {
    /// Appends a frame whose payload `payload` writes. Returns its length.
    pub(crate) fn put(&mut self, payload: impl FnOnce(&mut BytesMut)) -> usize {
        let before = self.waiting.len();
        frame::put(&mut self.waiting, payload);
        self.waiting.len() - before
    }

    /// Puts a frame in front of what is not being written yet.
    pub(crate) fn put_first(&mut self, payload: impl FnOnce(&mut BytesMut)) {
        frame::put(&mut self.chunk, payload);
    }

    /// Returns how many bytes are not written yet.
    pub(crate) fn len(&self) -> usize {
        self.chunk.len() + self.waiting.len()
    }

    /// Returns the bytes to write next; empty when all are written.
    pub(crate) fn next(&mut self) -> &mut BytesMut {
        if self.chunk.is_empty() {
            self.chunk = self.waiting.split_to(self.chunk_end());
        }
        &mut self.chunk
    }

    /// Drops everything: the connection is gone.
    pub(crate) fn clear(&mut self) {
        self.chunk.clear();
        self.waiting.clear();
    }

    /// Returns where the frame ends that fills the next chunk.
    fn chunk_end(&self) -> usize {
        let mut end = 0;
        while end < CHUNK_BYTES {
            let rest = self.waiting.get(end..).unwrap_or_default();
            let Some(length) = rest.first_chunk() else { break };
            let length = usize::try_from(i32::from_be_bytes(*length)).unwrap_or_default();
            end += frame::LENGTH_BYTES + length;
        }
        end.min(self.waiting.len())
    }
}

#[cfg(test)]
mod tests {
    use bytes::{Buf, BufMut};

    use super::*;

    #[test]
    fn a_ping_waits_for_one_chunk_alone() {
        let mut outgoing = Outgoing::default();
        for number in 0..100 {
            outgoing.put(|out| out.put_bytes(number, 10_000));
        }
        outgoing.next().advance(17);
        outgoing.put_first(|out| out.put_u8(200));
        assert_eq!(outgoing.len(), 100 * 10_004 - 17 + 5);
        let mut written = BytesMut::new();
        written.put_bytes(0, 17);
        while !outgoing.next().is_empty() {
            let chunk = outgoing.next().split();
            written.put(chunk);
        }
        if let Some(head) = written.get_mut(..4) {
            head.copy_from_slice(&10_000_i32.to_be_bytes());
        }
        let mut firsts = Vec::new();
        while let Some(payload) = frame::split(&mut written, 10_000).unwrap() {
            firsts.push(payload[0]);
        }
        let ping_at = firsts.iter().position(|first| *first == 200).unwrap();
        assert_eq!(ping_at, 7, "behind the frames of one chunk");
        firsts.remove(ping_at);
        assert_eq!(firsts, (0..100).collect::<Vec<u8>>());
    }
}
