//! Connections of other parts of a program to one of its ports, under the identity of a certificate that
//! they have verified, or under none. None of them has a socket: nothing outside of the program can make
//! one.

use std::io;
use std::net::SocketAddr;

use tokio::io::DuplexStream;
use tokio::sync::mpsc;

use crate::VerifiedCertificate;

/// The connections that wait to be accepted.
const WAITING_MAX: usize = 16;

/// The bytes that each side can be ahead of the other.
const BUFFER_BYTES: usize = 64 << 10;

/// A connection within the program.
#[derive(Debug)]
pub struct Insider {
    /// The port's end.
    pub stream: DuplexStream,
    /// The address that counts as the caller's.
    pub peer: SocketAddr,
    /// The certificate that the caller has shown to the part that connects.
    pub certificate: Option<VerifiedCertificate>,
}

/// Makes connections to a port within its program. Clones reach the same port.
#[derive(Clone, Debug)]
pub struct Insiders {
    port: &'static str,
    sender: mpsc::Sender<Insider>,
}

/// The port's side of it.
#[derive(Debug)]
pub struct ArrivingInsiders(mpsc::Receiver<Insider>);

/// Makes both sides; `port` is the port's name in errors.
pub fn insiders(port: &'static str) -> (Insiders, ArrivingInsiders) {
    let (sender, receiver) = mpsc::channel(WAITING_MAX);
    (Insiders { port, sender }, ArrivingInsiders(receiver))
}

impl Insiders {
    /// Connects for a caller from `peer`, who has shown this certificate or none. The port counts it as
    /// one of its connections from there.
    pub async fn connect(
        &self,
        peer: SocketAddr,
        certificate: Option<VerifiedCertificate>,
    ) -> io::Result<DuplexStream> {
        let (stream, far_end) = tokio::io::duplex(BUFFER_BYTES);
        let insider = Insider { stream: far_end, peer, certificate };
        self.sender.send(insider).await.map_err(|_| self.closed())?;
        Ok(stream)
    }

    fn closed(&self) -> io::Error {
        io::Error::new(io::ErrorKind::NotConnected, format!("the {} is closed", self.port))
    }
}

impl ArrivingInsiders {
    /// Waits for the next one. Without a caller that could connect it never returns.
    pub async fn next(&mut self) -> Insider {
        match self.0.recv().await {
            Some(insider) => insider,
            None => std::future::pending().await,
        }
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    use super::*;

    #[tokio::test]
    async fn what_one_side_writes_the_other_reads_until_the_port_is_closed() {
        let (insiders, mut arriving) = insiders("test port");
        let peer = SocketAddr::from(([192, 0, 2, 1], 7));
        let mut near = insiders.connect(peer, None).await.unwrap();
        let mut insider = arriving.next().await;
        assert_eq!((insider.peer, insider.certificate), (peer, None));
        near.write_all(b"ask").await.unwrap();
        let mut read = [0; 3];
        insider.stream.read_exact(&mut read).await.unwrap();
        assert_eq!(&read, b"ask");
        drop(arriving);
        let error = insiders.connect(peer, None).await.unwrap_err();
        assert_eq!(error.to_string(), "the test port is closed");
    }
}
