//! TLS between servers, below the handshake in which they say who they are.

use std::io;
use std::net::IpAddr;

use tokio::io::AsyncReadExt;
use tokio::sync::watch;
use zoolet_tls::{TlsAcceptor, TlsConnector, is_hello};

use super::handshake::HandshakeError;
use crate::prefixed::Prefixed;
use crate::transport::Stream;

/// What a server does about TLS to the others. What it was loaded from may be loaded again at any
/// time, for later connections.
#[derive(Clone, Debug, Default)]
pub struct PeerTls {
    /// Accepts connections by TLS; `None` to accept those without it only.
    pub acceptor: Option<watch::Receiver<TlsAcceptor>>,
    /// Calls others by TLS; `None` to call them without it.
    pub connector: Option<watch::Receiver<TlsConnector>>,
    /// Whether connections without TLS are accepted beside those with it.
    pub accepts_plain: bool,
}

impl PeerTls {
    /// Returns the plain text of a connection that was accepted.
    pub(super) async fn accept(
        &self,
        mut stream: Box<dyn Stream>,
        peer: IpAddr,
    ) -> Result<Box<dyn Stream>, HandshakeError> {
        let Some(acceptor) = &self.acceptor else { return Ok(stream) };
        let mut first = Vec::new();
        if self.accepts_plain {
            let byte = stream.read_u8().await?;
            first.push(byte);
            if !is_hello(byte) {
                return Ok(Box::new(Prefixed::new(first, stream)));
            }
        }
        let acceptor = acceptor.borrow().clone();
        Ok(Box::new(acceptor.accept(stream, peer, &first).await?.stream))
    }

    /// Returns the plain text of a connection that was made to `host:port`.
    pub(super) async fn connect(
        &self,
        stream: Box<dyn Stream>,
        address: &str,
    ) -> Result<Box<dyn Stream>, HandshakeError> {
        let Some(connector) = &self.connector else { return Ok(stream) };
        let host = address.rsplit_once(':').map_or(address, |(host, _)| host);
        let connector = connector.borrow().clone();
        match connector.connect(stream, host).await {
            Ok(stream) => Ok(Box::new(stream)),
            Err(zoolet_tls::HandshakeError::Io(error)) if is_end(&error) => {
                Err(HandshakeError::NoTls(error))
            }
            Err(error) => Err(error.into()),
        }
    }

    /// Returns why a call of another server failed, and what may be the reason.
    pub(super) fn describe(&self, error: &HandshakeError) -> String {
        if matches!(error, HandshakeError::NoAnswer(_)) && self.connector.is_none() {
            return format!(
                "{error}: it may speak TLS between servers (sslQuorum, peer_enabled), which is off \
                 on this server"
            );
        }
        error.to_string()
    }
}

impl From<zoolet_tls::HandshakeError> for HandshakeError {
    /// A socket that fails is the same with TLS and without.
    fn from(error: zoolet_tls::HandshakeError) -> Self {
        if let zoolet_tls::HandshakeError::Io(error) = error {
            Self::Io(error)
        } else {
            Self::Tls(error)
        }
    }
}

/// Whether the other side has ended the connection.
pub(super) fn is_end(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::UnexpectedEof
            | io::ErrorKind::ConnectionReset
            | io::ErrorKind::ConnectionAborted
            | io::ErrorKind::BrokenPipe
    )
}

impl HandshakeError {
    /// Returns the kind of a reason of TLS.
    pub(super) fn tls_kind(&self) -> Option<&'static str> {
        if let Self::Tls(error) = self { Some(error.kind()) } else { None }
    }

    /// Returns whether the other side ended the connection before it had sent anything wrong. Its
    /// time to connect is over if this server was stopped in the meantime.
    pub(super) fn is_hang_up(&self) -> bool {
        matches!(self, Self::Unproved) || matches!(self, Self::Io(error) if is_end(error))
    }
}
