//! The Net seam: where sockets come from.
//!
//! Both the client port and the peer port listen and connect through [`Net`], so that a whole
//! server can run on a simulated network.

use std::fmt::Debug;
use std::future::Future;
use std::io;
use std::net::{SocketAddr, ToSocketAddrs};
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

/// A port that nobody else gets, and on which a server of this program can listen all the same, as
/// often as it starts. Nobody is connected to it while no server listens.
#[derive(Debug)]
pub struct ReservedPort {
    // Bound and never listening: Linux lets a listener that sets SO_REUSEADDR, as all of ours do,
    // bind beside such a socket, and gives its port to nobody who asks for any free one.
    _socket: TcpSocket,
    address: SocketAddr,
}

impl ReservedPort {
    /// Reserves a port; the port 0 reserves one that is free. Fails if somebody listens there.
    pub fn take(host: &str, port: u16) -> io::Result<Self> {
        let address = (host, port).to_socket_addrs()?.next();
        let address = address.ok_or_else(|| no_address(host))?;
        let socket = if address.is_ipv4() { TcpSocket::new_v4()? } else { TcpSocket::new_v6()? };
        socket.set_reuseaddr(true)?;
        socket.bind(address)?;
        Ok(Self { address: socket.local_addr()?, _socket: socket })
    }

    /// The port.
    pub fn port(&self) -> u16 {
        self.address.port()
    }
}

fn no_address(host: &str) -> io::Error {
    io::Error::new(io::ErrorKind::AddrNotAvailable, format!("{host} has no address"))
}

async fn resolve(address: &str) -> io::Result<SocketAddr> {
    lookup_host(address).await?.next().ok_or_else(|| no_address(address))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[tokio::test]
    async fn a_reserved_port_is_only_for_those_who_know_it() {
        let reserved: Vec<ReservedPort> =
            (0..200).map(|_| ReservedPort::take("127.0.0.1", 0).unwrap()).collect();
        let ports: BTreeSet<u16> = reserved.iter().map(ReservedPort::port).collect();
        assert_eq!(ports.len(), reserved.len(), "each is another");
        // Whoever asks for any port gets none of them, listening or calling.
        let mut others = Vec::new();
        for _ in 0..200 {
            let listener = std::net::TcpListener::bind(("127.0.0.1", 0)).unwrap();
            let call = std::net::TcpStream::connect(listener.local_addr().unwrap()).unwrap();
            assert!(!ports.contains(&listener.local_addr().unwrap().port()));
            assert!(!ports.contains(&call.local_addr().unwrap().port()));
            others.push((listener, call));
        }
        // A server gets it, and gets it again; nobody else can have it then.
        let port = reserved[0].port();
        let address = format!("127.0.0.1:{port}");
        for _ in 0..2 {
            assert!(RealNet.connect(&address).await.is_err(), "nobody listens");
            let listener = RealNet.listen(&address, 16).await.unwrap();
            RealNet.connect(&address).await.unwrap();
            assert!(ReservedPort::take("127.0.0.1", port).is_err());
            drop(listener);
        }
    }
}
