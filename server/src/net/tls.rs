//! What a connection's first bytes decide: plain text or TLS, and whom a certificate names.

use std::net::IpAddr;
use std::sync::Arc;

use tokio::io::AsyncReadExt;
use tokio::sync::watch;
use zoolet_jute::Id;
use zoolet_tls::{Accepted, TlsAcceptor, is_hello, subject_name};

use super::error::ConnectionError;
use super::frame_records::FrameRecords;
use crate::transport::Stream;

/// What is spoken on a port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Spoken {
    /// Plain text.
    Plain,
    /// TLS.
    Tls,
    /// What each client begins with.
    Either,
}

/// What the client port needs for TLS.
#[derive(Clone, Debug)]
pub(crate) struct PortTls {
    /// What was loaded; it may be loaded again at any time.
    pub acceptor: watch::Receiver<TlsAcceptor>,
    /// The name of the certificate that may do everything.
    pub super_user: Option<String>,
}

/// A connection as plain text.
#[derive(Debug)]
pub(super) struct Opened {
    pub(super) stream: Box<dyn Stream>,
    /// What was read already.
    pub(super) read: Vec<u8>,
    /// Whom its certificate names.
    pub(super) proved: Arc<[Id]>,
    /// Whether it speaks TLS.
    pub(super) is_secure: bool,
}

impl Opened {
    pub(super) fn plain(stream: Box<dyn Stream>) -> Self {
        Self { stream, read: Vec::new(), proved: Arc::default(), is_secure: false }
    }

    /// Makes a connection plain text.
    pub(super) async fn of(
        mut stream: Box<dyn Stream>,
        peer: IpAddr,
        spoken: Spoken,
        tls: Option<&PortTls>,
    ) -> Result<Self, ConnectionError> {
        if spoken == Spoken::Plain {
            return Ok(Self::plain(stream));
        }
        let Some(tls) = tls else {
            let why = "TLS is to be spoken, and no key is loaded".to_owned();
            return Err(ConnectionError::Certificate(why));
        };
        let mut read = Vec::new();
        if spoken == Spoken::Either {
            let first = stream.read_u8().await?;
            read.push(first);
            if !is_hello(first) {
                return Ok(Self { read, ..Self::plain(stream) });
            }
        }
        let acceptor = tls.acceptor.borrow().clone();
        let Accepted { stream, certificate } = acceptor.accept(stream, peer, &read).await?;
        let proved = match certificate {
            Some(certificate) => tls.identities(&certificate)?,
            None => Vec::new(),
        };
        let (stream, read) = (Box::new(FrameRecords::new(stream)), Vec::new());
        Ok(Self { stream, read, proved: proved.into(), is_secure: true })
    }
}

impl PortTls {
    /// Returns whom a certificate names.
    fn identities(&self, certificate: &[u8]) -> Result<Vec<Id>, ConnectionError> {
        let name = subject_name(certificate).map_err(ConnectionError::Certificate)?;
        if name.is_empty() {
            // All such certificates would be one identity.
            return Ok(Vec::new());
        }
        let is_super = self.super_user.as_deref() == Some(name.as_str());
        let superuser = is_super.then(|| Id::new("super", name.clone()));
        Ok(superuser.into_iter().chain([Id::new("x509", name)]).collect())
    }
}
