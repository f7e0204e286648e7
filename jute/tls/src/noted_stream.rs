//! A stream that reports what is read and written.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// Receives the reports of a [`NotedStream`].
pub trait Notes {
    /// Notes that bytes were read, or that reading has ended or failed.
    fn read(&self);

    /// Notes that this many bytes were written; 0 if writing has failed.
    fn written(&self, bytes: usize);
}

impl<N: Notes> Notes for Arc<N> {
    fn read(&self) {
        N::read(self);
    }

    fn written(&self, bytes: usize) {
        N::written(self, bytes);
    }
}

/// A stream that reports what is read and written.
#[derive(Debug)]
pub struct NotedStream<S, N> {
    /// The stream itself.
    pub stream: S,
    /// The receiver of the reports.
    pub notes: N,
}

impl<S: Unpin, N: Notes + Unpin> NotedStream<S, N> {
    fn noted(&self, written: io::Result<usize>) -> Poll<io::Result<usize>> {
        self.notes.written(written.as_ref().map_or(0, |count| *count));
        Poll::Ready(written)
    }
}

impl<S: AsyncRead + Unpin, N: Notes + Unpin> AsyncRead for NotedStream<S, N> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let read = ready!(Pin::new(&mut self.stream).poll_read(context, buffer));
        self.notes.read();
        Poll::Ready(read)
    }
}

impl<S: AsyncWrite + Unpin, N: Notes + Unpin> AsyncWrite for NotedStream<S, N> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let written = ready!(Pin::new(&mut self.stream).poll_write(context, bytes));
        self.noted(written)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = ready!(Pin::new(&mut self.stream).poll_write_vectored(context, slices));
        self.noted(written)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}
