//! Frames in TLS records of their own.
//!
//! `ZooKeeper`'s C client waits for its socket between two frames. What OpenSSL has decrypted already
//! does not make a socket readable, so this client would wait in vain for a frame whose beginning came
//! in the same record as the end of the one before.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use zoolet_tls::TlsStream;

/// The most pieces that are written at a time.
const PIECES_MAX: usize = 64;

/// A stream by TLS that ends a record wherever a frame ends.
#[derive(Debug)]
pub(super) struct FrameRecords<S> {
    stream: TlsStream<S>,
    ends: FrameEnds,
}

/// Finds the ends of frames, each of which begins with its length in four bytes.
#[derive(Clone, Copy, Debug, Default)]
struct FrameEnds {
    /// What has been seen of the length.
    length: u32,
    length_bytes: u8,
    /// What is left of the frame, once the length is known.
    left: u32,
}

impl FrameEnds {
    /// Takes the first of the bytes that are of one frame. Returns how many they are.
    fn take(&mut self, bytes: &[u8]) -> usize {
        let mut rest = bytes.iter();
        while self.length_bytes < 4 {
            let Some(byte) = rest.next() else { return bytes.len() };
            self.length = self.length << 8 | u32::from(*byte);
            self.length_bytes += 1;
            self.left = self.length;
        }
        let available = rest.as_slice().len();
        let taken = usize::try_from(self.left).unwrap_or(usize::MAX).min(available);
        self.left -= u32::try_from(taken).unwrap_or(self.left);
        if self.left == 0 {
            *self = Self::default();
        }
        bytes.len() - available + taken
    }
}

impl<S> FrameRecords<S> {
    pub(super) fn new(stream: TlsStream<S>) -> Self {
        Self { stream, ends: FrameEnds::default() }
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncRead for FrameRecords<S> {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().stream).poll_read(context, buffer)
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncWrite for FrameRecords<S> {
    fn poll_write(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.poll_write_vectored(context, &[IoSlice::new(bytes)])
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        let mut pieces = [IoSlice::new(&[]); PIECES_MAX];
        let (mut ends, mut count) = (this.ends, 0);
        let mut rooms = pieces.iter_mut();
        'slices: for slice in slices {
            let mut bytes: &[u8] = slice;
            while !bytes.is_empty() {
                let Some(room) = rooms.next() else { break 'slices };
                let (piece, rest) =
                    bytes.split_at_checked(ends.take(bytes)).unwrap_or((bytes, &[]));
                *room = IoSlice::new(piece);
                bytes = rest;
                count += 1;
            }
        }
        let pieces = pieces.get(..count).unwrap_or_default();
        let written = Pin::new(&mut this.stream).poll_write_records(context, pieces);
        if let Poll::Ready(Ok(mut left)) = written {
            for piece in pieces {
                let part = piece.get(..left.min(piece.len())).unwrap_or_default();
                this.ends.take(part);
                left -= part.len();
            }
        }
        written
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().stream).poll_flush(context)
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().stream).poll_shutdown(context)
    }
}

#[cfg(test)]
mod tests {
    use super::FrameEnds;

    #[test]
    fn the_ends_of_frames_are_found_however_the_bytes_come() {
        let frames: [&[u8]; 4] = [b"\0\0\0\x03abc", b"\0\0\0\0", b"\0\0\x01\x01", b"\0\0\0\x01z"];
        let mut long = frames[2].to_vec();
        long.extend([7; 257]);
        let all = [frames[0], frames[1], &long, frames[3]];
        let bytes = all.concat();
        for chunk in [1, 2, 3, 5, 8, 300, bytes.len()] {
            let (mut ends, mut pieces) = (FrameEnds::default(), vec![Vec::new()]);
            for mut chunk in bytes.chunks(chunk) {
                while !chunk.is_empty() {
                    let (first, rest) = chunk.split_at(ends.take(chunk));
                    pieces.last_mut().unwrap().extend_from_slice(first);
                    if ends.length_bytes == 0 {
                        pieces.push(Vec::new());
                    }
                    chunk = rest;
                }
            }
            assert_eq!(pieces.pop(), Some(Vec::new()), "{chunk}: the last one is whole");
            assert_eq!(pieces, all, "in chunks of {chunk}");
        }
    }
}
