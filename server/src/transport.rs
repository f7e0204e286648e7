//! The Net seam: where sockets come from.
//!
//! Both the client port and the peer port listen and connect through [`Net`], so that a whole
//! server can run on a simulated network.

use std::fmt::Debug;
use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;

use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpSocket, TcpStream, lookup_host};

/// A future that is boxed, because seams are objects.
pub type BoxFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// A byte stream between two hosts.
pub trait Stream: AsyncRead + AsyncWrite + Debug + Send + Unpin + 'static {}
impl<T: AsyncRead + AsyncWrite + Debug + Send + Unpin + 'static> Stream for T {}

/// A socket that accepts streams.
pub trait Listener: Debug + Send + 'static {
    /// Waits for the next stream.
    fn accept(&mut self) -> BoxFuture<'_, io::Result<(Box<dyn Stream>, SocketAddr)>>;

    /// The address that it really listens on, with the port that the system chose.
    fn local_addr(&self) -> io::Result<SocketAddr>;
}

/// A network.
pub trait Net: Debug + Send + Sync + 'static {
    /// Listens on `host:port`; `backlog` is the most connections that wait to be accepted.
    fn listen<'a>(
        &'a self,
        address: &'a str,
        backlog: u32,
    ) -> BoxFuture<'a, io::Result<Box<dyn Listener>>>;

    /// Connects to `host:port`.
    fn connect<'a>(&'a self, address: &'a str) -> BoxFuture<'a, io::Result<Box<dyn Stream>>>;
}

/// The machine's TCP.
#[derive(Clone, Copy, Debug, Default)]
pub struct RealNet;

impl Net for RealNet {
    fn listen<'a>(
        &'a self,
        address: &'a str,
        backlog: u32,
    ) -> BoxFuture<'a, io::Result<Box<dyn Listener>>> {
        Box::pin(async move {
            let address = resolve(address).await?;
            let socket =
                if address.is_ipv4() { TcpSocket::new_v4()? } else { TcpSocket::new_v6()? };
            // A server that restarts must not wait for its old connections' TIME_WAIT.
            socket.set_reuseaddr(true)?;
            socket.bind(address)?;
            Ok(Box::new(socket.listen(backlog)?) as Box<dyn Listener>)
        })
    }

    fn connect<'a>(&'a self, address: &'a str) -> BoxFuture<'a, io::Result<Box<dyn Stream>>> {
        Box::pin(async move {
            let stream = TcpStream::connect(address).await?;
            stream.set_nodelay(true)?;
            Ok(Box::new(stream) as Box<dyn Stream>)
        })
    }
}

impl Listener for TcpListener {
    fn accept(&mut self) -> BoxFuture<'_, io::Result<(Box<dyn Stream>, SocketAddr)>> {
        Box::pin(async move {
            let (stream, address) = TcpListener::accept(self).await?;
            // It fails where the client is gone already; its first read will say so.
            let _ = stream.set_nodelay(true);
            Ok((Box::new(stream) as Box<dyn Stream>, address))
        })
    }

    fn local_addr(&self) -> io::Result<SocketAddr> {
        TcpListener::local_addr(self)
    }
}

async fn resolve(address: &str) -> io::Result<SocketAddr> {
    lookup_host(address).await?.next().ok_or_else(|| {
        io::Error::new(io::ErrorKind::AddrNotAvailable, format!("{address} has no address"))
    })
}
