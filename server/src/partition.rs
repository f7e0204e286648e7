//! A switch that cuts a server off from a part of its network, for tests of programs.
//!
//! While it is cut nothing arrives and nothing leaves, and no connection breaks: as behind a router
//! that drops packets. What was on its way is there when it heals, in order, unless a side has given
//! up the connection.

use std::fmt::Debug;
use std::future::poll_fn;
use std::io::{self, IoSlice};
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, Waker};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use crate::transport::{BoxFuture, Listener, Net, Stream};

/// Whether what goes through a [`PartitionedNet`] is held back.
#[derive(Debug, Default)]
pub(crate) struct Partition {
    is_cut: AtomicBool,
    // Invariant: empty unless it is cut.
    waiting: Mutex<Vec<Waker>>,
}

impl Partition {
    /// Holds everything back from now on.
    pub(crate) fn cut(&self) {
        self.is_cut.store(true, Ordering::SeqCst);
    }

    /// Ends that.
    pub(crate) fn heal(&self) {
        let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        self.is_cut.store(false, Ordering::SeqCst);
        for waker in waiting.drain(..) {
            waker.wake();
        }
    }

    /// Becomes ready when it is not cut.
    fn poll_healed(&self, context: &Context<'_>) -> Poll<()> {
        if !self.is_cut.load(Ordering::SeqCst) {
            return Poll::Ready(());
        }
        let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        // It may have healed before this had the lock.
        if !self.is_cut.load(Ordering::SeqCst) {
            return Poll::Ready(());
        }
        if !waiting.iter().any(|known| known.will_wake(context.waker())) {
            waiting.push(context.waker().clone());
        }
        Poll::Pending
    }

    async fn healed(&self) {
        poll_fn(|context| self.poll_healed(context)).await;
    }
}

/// A network behind a [`Partition`].
#[derive(Debug)]
pub(crate) struct PartitionedNet {
    net: Arc<dyn Net>,
    partition: Arc<Partition>,
}

impl PartitionedNet {
    pub(crate) fn new(net: Arc<dyn Net>, partition: Arc<Partition>) -> Self {
        Self { net, partition }
    }
}

impl Net for PartitionedNet {
    fn listen<'a>(
        &'a self,
        address: &'a str,
        backlog: u32,
    ) -> BoxFuture<'a, io::Result<Box<dyn Listener>>> {
        Box::pin(async move {
            let listener = self.net.listen(address, backlog).await?;
            let partition = Arc::clone(&self.partition);
            Ok(Box::new(PartitionedListener { listener, partition }) as Box<dyn Listener>)
        })
    }

    fn connect<'a>(&'a self, address: &'a str) -> BoxFuture<'a, io::Result<Box<dyn Stream>>> {
        Box::pin(async move {
            self.partition.healed().await;
            let stream = self.net.connect(address).await?;
            Ok(partitioned(stream, &self.partition))
        })
    }
}

#[derive(Debug)]
struct PartitionedListener {
    listener: Box<dyn Listener>,
    partition: Arc<Partition>,
}

impl Listener for PartitionedListener {
    fn accept(&mut self) -> BoxFuture<'_, io::Result<(Box<dyn Stream>, SocketAddr)>> {
        Box::pin(async move {
            // The system takes calls in meanwhile: their callers wait for an answer.
            self.partition.healed().await;
            let (stream, address) = self.listener.accept().await?;
            Ok((partitioned(stream, &self.partition), address))
        })
    }

    fn local_addr(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }
}

fn partitioned(stream: Box<dyn Stream>, partition: &Arc<Partition>) -> Box<dyn Stream> {
    Box::new(PartitionedStream { stream, partition: Arc::clone(partition) })
}

#[derive(Debug)]
struct PartitionedStream {
    stream: Box<dyn Stream>,
    partition: Arc<Partition>,
}

impl AsyncRead for PartitionedStream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        std::task::ready!(self.partition.poll_healed(context));
        Pin::new(&mut self.stream).poll_read(context, buffer)
    }
}

impl AsyncWrite for PartitionedStream {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        std::task::ready!(self.partition.poll_healed(context));
        Pin::new(&mut self.stream).poll_write(context, bytes)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        parts: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        std::task::ready!(self.partition.poll_healed(context));
        Pin::new(&mut self.stream).poll_write_vectored(context, parts)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        std::task::ready!(self.partition.poll_healed(context));
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::time::timeout;

    use super::*;
    use crate::transport::RealNet;

    const MOMENT: Duration = Duration::from_millis(50);
    const LONG: Duration = Duration::from_secs(20);

    #[tokio::test]
    async fn what_a_cut_holds_back_arrives_when_it_heals() {
        let partition = Arc::new(Partition::default());
        let net = PartitionedNet::new(Arc::new(RealNet), Arc::clone(&partition));
        let mut listener = net.listen("127.0.0.1:0", 16).await.unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let mut call = RealNet.connect(&address).await.unwrap();
        let (mut accepted, _) = listener.accept().await.unwrap();
        call.write_all(b"a").await.unwrap();
        assert_eq!(accepted.read_u8().await.unwrap(), b'a');

        partition.cut();
        call.write_all(b"b").await.unwrap();
        assert!(timeout(MOMENT, accepted.read_u8()).await.is_err(), "nothing arrives");
        assert!(timeout(MOMENT, accepted.write_all(b"c")).await.is_err(), "nothing leaves");
        assert!(timeout(MOMENT, net.connect(&address)).await.is_err(), "no call goes out");
        let mut later = RealNet.connect(&address).await.unwrap();
        later.write_all(b"d").await.unwrap();
        assert!(timeout(MOMENT, listener.accept()).await.is_err(), "none comes in");

        // One that waits when it heals is woken.
        let reading = tokio::spawn(async move { accepted.read_u8().await.unwrap() });
        tokio::time::sleep(MOMENT).await;
        partition.heal();
        assert_eq!(timeout(LONG, reading).await.unwrap().unwrap(), b'b');
        let (mut accepted, _) = timeout(LONG, listener.accept()).await.unwrap().unwrap();
        assert_eq!(accepted.read_u8().await.unwrap(), b'd');
    }
}
