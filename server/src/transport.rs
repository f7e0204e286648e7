//! The Net seam: where sockets come from.
//!
//! Both the client port and the peer port listen and connect through [`Net`], so that a whole
//! server can run on a simulated network.

use std::fmt::Debug;
use std::future::Future;
use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, ToSocketAddrs};
use std::pin::Pin;

use socket2::SockRef;
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
pub(crate) struct RealNet;

impl Net for RealNet {
    fn listen<'a>(
        &'a self,
        address: &'a str,
        backlog: u32,
    ) -> BoxFuture<'a, io::Result<Box<dyn Listener>>> {
        Box::pin(async move {
            let listener = listen(address, backlog).await?;
            Ok(Box::new(listener) as Box<dyn Listener>)
        })
    }

    fn connect<'a>(&'a self, address: &'a str) -> BoxFuture<'a, io::Result<Box<dyn Stream>>> {
        Box::pin(async move {
            let stream = TcpStream::connect(split_address(address)?).await?;
            stream.set_nodelay(true)?;
            Ok(Box::new(stream) as Box<dyn Stream>)
        })
    }
}

/// Listens on `host:port` as a server does for its clients: `0.0.0.0` is every address of the machine,
/// and a port that a [`ReservedPort`] holds is free.
pub async fn listen(address: &str, backlog: u32) -> io::Result<TcpListener> {
    let address = resolve(address).await?;
    if address.ip() == Ipv4Addr::UNSPECIFIED {
        return listen_everywhere(address.port(), backlog);
    }
    let socket = if address.is_ipv4() { TcpSocket::new_v4()? } else { TcpSocket::new_v6()? };
    listen_on(&socket, address)?;
    socket.listen(backlog)
}

impl Listener for TcpListener {
    fn accept(&mut self) -> BoxFuture<'_, io::Result<(Box<dyn Stream>, SocketAddr)>> {
        Box::pin(async move {
            let (stream, address) = TcpListener::accept(self).await?;
            // It fails where the client is gone already; its first read will say so.
            let _ = stream.set_nodelay(true);
            Ok((Box::new(stream) as Box<dyn Stream>, plain(address)))
        })
    }

    fn local_addr(&self) -> io::Result<SocketAddr> {
        let address = TcpListener::local_addr(self)?;
        let is_everywhere =
            address.ip() == Ipv6Addr::UNSPECIFIED && !SockRef::from(self).only_v6()?;
        // Where it can be reached: not everyone has IPv6.
        Ok(if is_everywhere { (Ipv4Addr::UNSPECIFIED, address.port()).into() } else { address })
    }
}

/// A port that no other program gets, and on which a server of this program can listen all the same, as
/// often as it starts. No connection to it succeeds while no server listens.
#[derive(Debug)]
pub struct ReservedPort {
    // Bound and never listening: on Linux a listener that sets SO_REUSEADDR, as all of ours do,
    // can bind beside such a socket, and a program that asks for any free port does not get it.
    _socket: TcpSocket,
    address: SocketAddr,
}

impl ReservedPort {
    /// Reserves a port; the port 0 reserves one that is free. Fails if somebody listens there.
    pub fn take(host: &str, port: u16) -> io::Result<Self> {
        let address = (resolvable(host), port).to_socket_addrs()?.next();
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
    let mut found = lookup_host(split_address(address)?).await?;
    found.next().ok_or_else(|| no_address(address))
}

/// Splits `host:port`. The brackets of IPv6 are left out: `fe80::1%eth0` is resolved without them
/// only.
fn split_address(address: &str) -> io::Result<(&str, u16)> {
    let invalid = || io::Error::new(io::ErrorKind::InvalidInput, "expected host:port");
    let (host, port) = address.rsplit_once(':').ok_or_else(invalid)?;
    let host = host.strip_prefix('[').and_then(|open| open.strip_suffix(']')).unwrap_or(host);
    Ok((resolvable(host), port.parse().map_err(|_| invalid())?))
}

/// A host without the interface that it names, where that has no meaning. A link-local address
/// needs it; Java writes it behind all others too.
fn resolvable(host: &str) -> &str {
    let is_global =
        |address: &Ipv6Addr| !address.is_unicast_link_local() && !address.is_multicast();
    match host.split_once('%') {
        Some((address, _)) if address.parse().is_ok_and(|address| is_global(&address)) => address,
        _ => host,
    }
}

/// Listens on all addresses of the machine, those of IPv6 too where there is any, as Java does for
/// 0.0.0.0.
fn listen_everywhere(port: u16, backlog: u32) -> io::Result<TcpListener> {
    let both = TcpSocket::new_v6().and_then(|socket| {
        SockRef::from(&socket).set_only_v6(false)?;
        listen_on(&socket, (Ipv6Addr::UNSPECIFIED, port).into())?;
        socket.listen(backlog)
    });
    match both {
        Err(error) if error.kind() != io::ErrorKind::AddrInUse => {
            let socket = TcpSocket::new_v4()?;
            listen_on(&socket, (Ipv4Addr::UNSPECIFIED, port).into())?;
            socket.listen(backlog)
        }
        both => both,
    }
}

/// Binds a socket that is going to listen.
fn listen_on(socket: &TcpSocket, address: SocketAddr) -> io::Result<()> {
    // A server that restarts must not wait for its old connections' TIME_WAIT.
    socket.set_reuseaddr(true)?;
    socket.bind(address)
}

/// The IPv4 address of a peer that came by IPv4 to a socket of both kinds.
fn plain(address: SocketAddr) -> SocketAddr {
    let ip = address.ip().to_canonical();
    if ip.is_ipv4() { (ip, address.port()).into() } else { address }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    /// `clientPort` alone is every address of the machine, as in Apache's: it was those of IPv4.
    #[tokio::test]
    async fn the_wildcard_listens_on_both_kinds_of_addresses() {
        let mut listener = RealNet.listen("0.0.0.0:0", 16).await.unwrap();
        let address = listener.local_addr().unwrap();
        assert_eq!(address.ip(), Ipv4Addr::UNSPECIFIED);
        for host in ["127.0.0.1", "::1"] {
            let call = TcpStream::connect((host, address.port())).await.unwrap();
            let (_, peer) = listener.accept().await.unwrap();
            // Access lists and limits know IPv4 addresses as such.
            assert_eq!(peer, call.local_addr().unwrap());
        }
        let taken = RealNet.listen(&address.to_string(), 16).await.unwrap_err();
        assert_eq!(taken.kind(), io::ErrorKind::AddrInUse);
    }

    /// A link-local address says on which interface it is.
    #[tokio::test]
    async fn an_address_may_have_a_scope() {
        let listener = RealNet.listen("[0:0:0:0:0:0:0:1%lo]:0", 16).await.unwrap();
        let port = listener.local_addr().unwrap().port();
        RealNet.connect(&format!("[::1%lo]:{port}")).await.unwrap();
        let found = resolve("[fe80::1%lo]:2181").await.unwrap();
        assert!(matches!(found, SocketAddr::V6(found) if found.scope_id() != 0), "{found}");
    }

    #[tokio::test]
    async fn a_reserved_port_is_only_for_those_who_know_it() {
        let reserved: Vec<ReservedPort> =
            (0..200).map(|_| ReservedPort::take("127.0.0.1", 0).unwrap()).collect();
        let ports: BTreeSet<u16> = reserved.iter().map(ReservedPort::port).collect();
        assert_eq!(ports.len(), reserved.len(), "each is another");
        // A program that asks for any port gets none of them, listening or calling.
        let mut others = Vec::new();
        for _ in 0..200 {
            let listener = std::net::TcpListener::bind(("127.0.0.1", 0)).unwrap();
            let call = std::net::TcpStream::connect(listener.local_addr().unwrap()).unwrap();
            assert!(!ports.contains(&listener.local_addr().unwrap().port()));
            assert!(!ports.contains(&call.local_addr().unwrap().port()));
            others.push((listener, call));
        }
        // A server gets it, and gets it again; no other can have it then.
        let port = reserved[0].port();
        let address = format!("127.0.0.1:{port}");
        for _ in 0..2 {
            assert!(RealNet.connect(&address).await.is_err(), "without a listener");
            let listener = RealNet.listen(&address, 16).await.unwrap();
            RealNet.connect(&address).await.unwrap();
            assert!(ReservedPort::take("127.0.0.1", port).is_err());
            drop(listener);
        }
    }
}
