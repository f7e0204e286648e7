//! How a client reaches a server: the seam for TLS, tunnels and tests.

use std::fmt::Debug;
use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpStream, lookup_host};
use tokio::task::JoinSet;
use tokio::time::sleep;

/// A connection to a server, as bytes.
pub trait Transport: AsyncRead + AsyncWrite + Send + Unpin {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin> Transport for T {}

/// A connection that is being made.
pub type Connecting<'a> = Pin<Box<dyn Future<Output = io::Result<Box<dyn Transport>>> + Send + 'a>>;

/// The addresses of a server that are looked up.
pub type Resolving<'a> = Pin<Box<dyn Future<Output = io::Result<Vec<String>>> + Send + 'a>>;

/// Makes connections. A TLS connector wraps what [`TcpConnector`] makes, and takes the name to
/// verify from the address; nothing else of the client changes.
///
/// ```
/// use zoolet_client::{Connecting, Connector, TcpConnector};
///
/// /// Reaches every server through one tunnel.
/// #[derive(Debug)]
/// struct Tunnel(String);
///
/// impl Connector for Tunnel {
///     fn connect<'a>(&'a self, _address: &'a str) -> Connecting<'a> {
///         TcpConnector.connect(&self.0)
///     }
/// }
/// ```
pub trait Connector: Debug + Send + Sync {
    /// Connects to a server of the connect string, `host:port`, or to an address that
    /// [`resolve`](Self::resolve) has returned for it. A future that is dropped gives up.
    fn connect<'a>(&'a self, address: &'a str) -> Connecting<'a>;

    /// Returns the addresses of a server of the connect string, `host:port`. Several of them may be
    /// connected to at a time, so that one that is dead does not block the others. By default the
    /// server's name is its only address: a connector that needs the name, as for TLS, leaves it at
    /// that.
    fn resolve<'a>(&'a self, address: &'a str) -> Resolving<'a> {
        Box::pin(async move { Ok(vec![address.to_owned()]) })
    }
}

/// TCP without delay: requests are small and somebody waits for each.
#[derive(Clone, Copy, Debug, Default)]
pub struct TcpConnector;

/// How long an address of a name may take before the next one is tried as well.
const NEXT_ADDRESS: Duration = Duration::from_millis(100);

impl Connector for TcpConnector {
    fn connect<'a>(&'a self, address: &'a str) -> Connecting<'a> {
        Box::pin(async move {
            let stream = connect_to_any(lookup_host(address).await?).await?;
            stream.set_nodelay(true)?;
            Ok(Box::new(stream) as Box<dyn Transport>)
        })
    }

    fn resolve<'a>(&'a self, address: &'a str) -> Resolving<'a> {
        Box::pin(async move {
            let mut addresses = Vec::new();
            for found in lookup_host(address).await? {
                let found = found.to_string();
                if !addresses.contains(&found) {
                    addresses.push(found);
                }
            }
            if addresses.is_empty() { Err(no_address()) } else { Ok(addresses) }
        })
    }
}

/// Connects to the first address that accepts. They are tried one after the other, and no one waits
/// for a dead one in front of it.
async fn connect_to_any(addresses: impl Iterator<Item = SocketAddr>) -> io::Result<TcpStream> {
    let mut attempts = JoinSet::new();
    for (place, address) in (0_u32..).zip(addresses) {
        attempts.spawn(async move {
            sleep(NEXT_ADDRESS * place).await;
            TcpStream::connect(address).await
        });
    }
    let mut failure = no_address();
    while let Some(attempt) = attempts.join_next().await {
        match attempt.map_err(io::Error::other)? {
            Ok(stream) => return Ok(stream),
            Err(error) => failure = error,
        }
    }
    Err(failure)
}

fn no_address() -> io::Error {
    io::Error::new(io::ErrorKind::NotFound, "the name has no address")
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::net::TcpListener;

    #[tokio::test]
    async fn an_address_that_refuses_does_not_block_the_next() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let alive = listener.local_addr().unwrap();
        let dead: SocketAddr = ([127, 0, 0, 2], alive.port()).into();
        let stream = connect_to_any([dead, alive].into_iter()).await.unwrap();
        assert_eq!(stream.peer_addr().unwrap(), alive);
        let refused = connect_to_any([dead].into_iter()).await.unwrap_err();
        assert_eq!(refused.kind(), io::ErrorKind::ConnectionRefused);
        let resolved = TcpConnector.resolve("127.0.0.1:2181").await.unwrap();
        assert_eq!(resolved, ["127.0.0.1:2181"]);
    }
}
