//! How a client reaches a server: the seam for TLS, tunnels and tests.

use std::fmt::Debug;
use std::future::Future;
use std::io;
use std::pin::Pin;

use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;

/// A connection to a server, as bytes.
pub trait Transport: AsyncRead + AsyncWrite + Send + Unpin {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin> Transport for T {}

/// A connection that is being made.
pub type Connecting<'a> = Pin<Box<dyn Future<Output = io::Result<Box<dyn Transport>>> + Send + 'a>>;

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
    /// Connects to a server of the connect string, `host:port`. A future that is dropped gives up.
    fn connect<'a>(&'a self, address: &'a str) -> Connecting<'a>;
}

/// TCP without delay: requests are small and somebody waits for each.
#[derive(Clone, Copy, Debug, Default)]
pub struct TcpConnector;

impl Connector for TcpConnector {
    fn connect<'a>(&'a self, address: &'a str) -> Connecting<'a> {
        Box::pin(async move {
            let stream = TcpStream::connect(address).await?;
            stream.set_nodelay(true)?;
            Ok(Box::new(stream) as Box<dyn Transport>)
        })
    }
}
