//! One frame: `length (4) · kind (1) · id (8) · body`. The length counts what follows it.

use std::io;

use bytes::{Buf, BufMut, Bytes, BytesMut};
use thiserror::Error;
use tokio::io::{AsyncRead, AsyncReadExt};

/// The bytes of a frame besides its body and its length field.
const HEADER_BYTES: usize = 9;

/// The kind of a frame that is the answer to a call.
pub(super) const ANSWER: u8 = 0;

/// The id of a call that gets no answer. Those of other calls begin above it.
pub(super) const UNANSWERED_ID: u64 = 0;

/// How much is read from a socket at once, at least, in bytes.
const READ_BYTES: usize = 64 * 1024;

/// The most room that is made at once for the rest of a frame, in bytes.
const RESERVED_BYTES_MAX: usize = 4 << 20;

/// Why a frame could not be read.
#[derive(Debug, Error)]
pub(super) enum FrameError {
    /// The length field is out of bounds: this is not a peer, or a broken one.
    #[error("a frame of {bytes} bytes, where {max} is the most")]
    Length { bytes: usize, max: usize },
    /// The socket failed.
    #[error(transparent)]
    Io(#[from] io::Error),
}

#[derive(Debug)]
pub(super) struct Frame {
    pub(super) kind: u8,
    pub(super) id: u64,
    pub(super) body: Bytes,
}

impl Frame {
    pub(super) fn encode(&self, out: &mut BytesMut) {
        let bytes = HEADER_BYTES + self.body.len();
        out.reserve(4 + bytes);
        out.put_u32(u32::try_from(bytes).expect("bodies are bounded where they are made"));
        out.put_u8(self.kind);
        out.put_u64(self.id);
        out.put_slice(&self.body);
    }
}

/// Cuts a byte stream into frames.
#[derive(Debug)]
pub(super) struct FrameReader<R> {
    input: R,
    buffer: BytesMut,
    frame_bytes_max: usize,
}

impl<R: AsyncRead + Unpin> FrameReader<R> {
    pub(super) fn new(input: R, frame_bytes_max: usize) -> Self {
        Self { input, buffer: BytesMut::new(), frame_bytes_max }
    }

    /// The next frame; `None` when the other side is done. Dropping the future loses nothing.
    pub(super) async fn next(&mut self) -> Result<Option<Frame>, FrameError> {
        loop {
            if let Some(frame) = self.split()? {
                return Ok(Some(frame));
            }
            self.buffer.reserve(READ_BYTES);
            if self.input.read_buf(&mut self.buffer).await? == 0 {
                return Ok(None);
            }
        }
    }

    fn split(&mut self) -> Result<Option<Frame>, FrameError> {
        let Ok(bytes) = self.buffer.chunk().try_get_u32() else { return Ok(None) };
        let bytes = usize::try_from(bytes).unwrap_or(usize::MAX);
        if bytes < HEADER_BYTES || bytes > self.frame_bytes_max {
            return Err(FrameError::Length { bytes, max: self.frame_bytes_max });
        }
        if self.buffer.len() < 4 + bytes {
            // Memory is taken for what has come, not for what is announced.
            self.buffer.reserve((4 + bytes - self.buffer.len()).min(RESERVED_BYTES_MAX));
            return Ok(None);
        }
        self.buffer.advance(4);
        let mut frame = self.buffer.split_to(bytes).freeze();
        let kind = frame.get_u8();
        let id = frame.get_u64();
        Ok(Some(Frame { kind, id, body: frame }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LONG: usize = 64 << 20;

    #[tokio::test]
    async fn a_length_alone_takes_no_memory() {
        let claim = u32::try_from(LONG).unwrap().to_be_bytes();
        let mut frames = FrameReader::new(&claim[..], LONG);
        assert!(frames.next().await.unwrap().is_none());
        let room = frames.buffer.capacity();
        assert!(room <= 2 * RESERVED_BYTES_MAX, "{room} bytes");
    }

    #[tokio::test]
    async fn a_frame_of_many_reads_comes_out_whole() {
        let body: Vec<u8> = (0..5 * READ_BYTES).map(|at| at.to_be_bytes()[7]).collect();
        let mut wire = BytesMut::new();
        Frame { kind: 1, id: 5, body: body.clone().into() }.encode(&mut wire);
        Frame { kind: 2, id: 6, body: Bytes::from_static(b"next") }.encode(&mut wire);
        let mut frames = FrameReader::new(&wire[..], LONG);
        let long = frames.next().await.unwrap().unwrap();
        assert_eq!((long.kind, long.id), (1, 5));
        assert!(long.body == body, "the body came out changed");
        assert_eq!(frames.next().await.unwrap().unwrap().body, "next");
        assert!(frames.next().await.unwrap().is_none());
    }
}
