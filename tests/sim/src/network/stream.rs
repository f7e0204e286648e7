//! A program's end of a connection.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::pipe::PipeId;
use super::{MachineId, Network};

/// An end of a connection: the pipe that it writes, and the one that it reads.
#[derive(Debug)]
pub(super) struct SimStream {
    network: Option<Network>,
    write: PipeId,
    read: PipeId,
}

impl SimStream {
    /// An end that no program has yet.
    pub(super) fn unbound((_, write, read): (MachineId, PipeId, PipeId)) -> Self {
        Self { network: None, write, read }
    }

    /// The same, as a program has it.
    pub(super) fn bind(mut self, network: &Network) -> Self {
        self.network = Some(network.clone());
        self
    }
}

impl AsyncRead for SimStream {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let Some(network) = &self.network else { return Poll::Ready(Ok(())) };
        network.with(|state| state.read(self.read, context, buffer))
    }
}

impl AsyncWrite for SimStream {
    fn poll_write(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let Some(network) = &self.network else { return Poll::Ready(Ok(0)) };
        network.with(|state| state.write(self.write, context, bytes))
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        if let Some(network) = &self.network {
            network.with(|state| state.end(self.write));
        }
        Poll::Ready(Ok(()))
    }
}

impl Drop for SimStream {
    fn drop(&mut self) {
        if let Some(network) = self.network.take() {
            network.with(|state| state.close(self.write, self.read));
        }
    }
}
