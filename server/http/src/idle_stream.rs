//! A connection whose idleness is noticed: one that neither sends nor takes anything for too long is
//! closed, whatever it is in the middle of.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::sleep;

/// What a connection has done so far.
#[derive(Debug, Default)]
pub(crate) struct Activity {
    /// Rises with each byte that is sent or taken.
    steps: AtomicU64,
    /// Requests that are being answered.
    busy: AtomicUsize,
}

impl Activity {
    /// Notes that a request is being answered until the guard is dropped.
    pub(crate) fn answering(self: &Arc<Self>) -> Answering {
        self.busy.fetch_add(1, Ordering::Relaxed);
        Answering(Arc::clone(self))
    }

    /// Waits until nothing has happened for `limit`, or up to twice as long.
    pub(crate) async fn until_idle(&self, limit: Duration) {
        loop {
            let before = self.steps.load(Ordering::Relaxed);
            sleep(limit).await;
            let is_busy = self.busy.load(Ordering::Relaxed) > 0;
            if !is_busy && self.steps.load(Ordering::Relaxed) == before {
                return;
            }
        }
    }

    fn step(&self) {
        self.steps.fetch_add(1, Ordering::Relaxed);
    }
}

/// A request that is being answered.
#[derive(Debug)]
pub(crate) struct Answering(Arc<Activity>);

impl Drop for Answering {
    fn drop(&mut self) {
        self.0.busy.fetch_sub(1, Ordering::Relaxed);
        self.0.step();
    }
}

/// A stream that notes its activity.
#[derive(Debug)]
pub(crate) struct IdleStream<S> {
    pub(crate) stream: S,
    pub(crate) activity: Arc<Activity>,
}

impl<S: AsyncRead + Unpin> AsyncRead for IdleStream<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let read = Pin::new(&mut self.stream).poll_read(context, buffer);
        if read.is_ready() {
            self.activity.step();
        }
        read
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for IdleStream<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write(context, bytes);
        if written.is_ready() {
            self.activity.step();
        }
        written
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}
