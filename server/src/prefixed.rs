//! A stream whose first bytes were read before.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// A stream that gives back the bytes that were read from it, and then goes on.
#[derive(Debug)]
pub(crate) struct Prefixed<S> {
    prefix: Vec<u8>,
    stream: S,
}

impl<S> Prefixed<S> {
    pub(crate) fn new(prefix: Vec<u8>, stream: S) -> Self {
        Self { prefix, stream }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Prefixed<S> {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        if this.prefix.is_empty() {
            return Pin::new(&mut this.stream).poll_read(context, buffer);
        }
        let bytes = this.prefix.len().min(buffer.remaining());
        buffer.put_slice(this.prefix.drain(..bytes).as_slice());
        if this.prefix.is_empty() {
            this.prefix = Vec::new();
        }
        Poll::Ready(Ok(()))
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Prefixed<S> {
    fn poll_write(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.get_mut().stream).poll_write(context, bytes)
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.get_mut().stream).poll_write_vectored(context, slices)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
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
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    use super::*;

    #[tokio::test]
    async fn what_was_read_comes_first() {
        let (mut ours, theirs) = tokio::io::duplex(64);
        ours.write_all(b"rest").await.unwrap();
        let mut stream = Prefixed::new(b"first, ".to_vec(), theirs);
        let mut read = [0; 3];
        stream.read_exact(&mut read).await.unwrap();
        assert_eq!(&read, b"fir");
        let mut read = [0; 8];
        stream.read_exact(&mut read).await.unwrap();
        assert_eq!(&read, b"st, rest");
        stream.write_all(b"back").await.unwrap();
        let mut read = [0; 4];
        ours.read_exact(&mut read).await.unwrap();
        assert_eq!(&read, b"back");
    }
}
