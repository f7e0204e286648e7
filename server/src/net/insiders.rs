//! Connections of other parts of this program, under the identity of a certificate that they have
//! verified. None of them has a socket: nothing outside of the program can make one.

use std::io;
use std::net::SocketAddr;

use tokio::io::DuplexStream;
use tokio::sync::mpsc;
use zoolet_tls::VerifiedCertificate;

/// The connections that wait to be accepted.
const WAITING_MAX: usize = 16;

/// The bytes that each side can be ahead of the other.
const BUFFER_BYTES: usize = 64 << 10;

/// A connection within the program.
#[derive(Debug)]
pub(super) struct Insider {
    pub(super) stream: DuplexStream,
    /// Where the owner of the certificate calls from.
    pub(super) peer: SocketAddr,
    pub(super) certificate: VerifiedCertificate,
}

/// Makes connections to a client port within its program. Clones reach the same port.
#[derive(Clone, Debug)]
pub struct Insiders(mpsc::Sender<Insider>);

/// The port's side of it.
#[derive(Debug)]
pub(super) struct ArrivingInsiders(mpsc::Receiver<Insider>);

pub(super) fn insiders() -> (Insiders, ArrivingInsiders) {
    let (sender, receiver) = mpsc::channel(WAITING_MAX);
    (Insiders(sender), ArrivingInsiders(receiver))
}

impl Insiders {
    /// Connects as the owner of a certificate, who calls from `peer`. The port counts it as one of its
    /// connections from there.
    pub async fn connect(
        &self,
        certificate: &VerifiedCertificate,
        peer: SocketAddr,
    ) -> io::Result<DuplexStream> {
        let (stream, far_end) = tokio::io::duplex(BUFFER_BYTES);
        let insider = Insider { stream: far_end, peer, certificate: certificate.clone() };
        let closed = |_| io::Error::new(io::ErrorKind::NotConnected, "the client port is closed");
        self.0.send(insider).await.map_err(closed)?;
        Ok(stream)
    }
}

impl ArrivingInsiders {
    /// Waits for the next one. Without a caller that could connect it never returns.
    pub(super) async fn next(&mut self) -> Insider {
        match self.0.recv().await {
            Some(insider) => insider,
            None => std::future::pending().await,
        }
    }
}
