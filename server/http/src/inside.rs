//! Connections to an HTTP port from within its program: those of the console that the port shows, which
//! needs no certificates to reach its own server.

use std::io;
use std::net::SocketAddr;

use tokio::io::DuplexStream;
use tokio::sync::mpsc;
use zoolet_console::Opened;
use zoolet_tls::VerifiedCertificate;

/// The connections that wait to be accepted.
const WAITING_MAX: usize = 16;

/// The bytes that each side can be ahead of the other.
const BUFFER_BYTES: usize = 64 << 10;

/// A connection within the program, and the address that counts as its caller's.
pub(crate) type Insider = (Opened, SocketAddr);

/// Makes connections to an HTTP port within its program. Clones reach the same port.
#[derive(Clone, Debug)]
pub struct InsideHttp(mpsc::Sender<Insider>);

pub(crate) fn channel() -> (InsideHttp, mpsc::Receiver<Insider>) {
    let (sender, receiver) = mpsc::channel(WAITING_MAX);
    (InsideHttp(sender), receiver)
}

impl InsideHttp {
    /// Connects for a caller from `peer`, who has shown this certificate or none.
    pub async fn connect(
        &self,
        peer: SocketAddr,
        certificate: Option<VerifiedCertificate>,
    ) -> io::Result<DuplexStream> {
        let (stream, far_end) = tokio::io::duplex(BUFFER_BYTES);
        let opened = Opened { stream: Box::new(far_end), is_secure: true, certificate };
        let closed = |_| io::Error::new(io::ErrorKind::NotConnected, "the HTTP port is closed");
        self.0.send((opened, peer)).await.map_err(closed)?;
        Ok(stream)
    }
}
