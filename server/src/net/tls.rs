//! What a connection's first bytes decide: plain text or TLS, and whom a certificate names.

use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tokio::io::AsyncReadExt;
use tokio::sync::watch;
use zoolet_jute::Id;
use zoolet_tls::{
    Accepted, Insider, NotedStream, Notes, TlsAcceptor, VerifiedCertificate, is_hello,
};

use super::error::ConnectionError;
use super::frame_records::FrameRecords;
use super::options::PortOptions;
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

    /// The connection of a part of this program. The TLS that the certificate was shown in ends there.
    pub(super) fn inside(insider: Insider, options: &PortOptions) -> Result<Self, ConnectionError> {
        let proved = proved(insider.certificate.as_ref(), options)?;
        Ok(Self { proved, is_secure: true, ..Self::plain(Box::new(insider.stream)) })
    }

    /// Makes a connection plain text.
    pub(super) async fn of(
        stream: Box<dyn Stream>,
        peer: IpAddr,
        (spoken, has_sent): (Spoken, Arc<AtomicBool>),
        options: &PortOptions,
    ) -> Result<Self, ConnectionError> {
        if spoken == Spoken::Plain {
            return Ok(Self::plain(stream));
        }
        let Some(tls) = &options.tls else {
            let why = "TLS is to be spoken, and no key is loaded".to_owned();
            return Err(ConnectionError::Certificate(why));
        };
        let mut stream = NotedStream { stream, notes: HasSent(has_sent) };
        let mut read = Vec::new();
        if spoken == Spoken::Either {
            let first = stream.read_u8().await?;
            read.push(first);
            if !is_hello(first) {
                return Ok(Self { read, ..Self::plain(stream.stream) });
            }
        }
        let acceptor = tls.acceptor.borrow().clone();
        let Accepted { stream, certificate } = acceptor.accept(stream, peer, &read).await?;
        let proved = proved(certificate.as_ref(), options)?;
        let (stream, read) = (Box::new(FrameRecords::new(stream)), Vec::new());
        Ok(Self { stream, read, proved, is_secure: true })
    }
}

/// Whether the other side of a stream has sent something.
#[derive(Debug)]
struct HasSent(Arc<AtomicBool>);

impl Notes for HasSent {
    fn read(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    fn written(&self, _bytes: usize) {}
}

/// Returns whom the certificate of a connection names, if it has one.
fn proved(
    certificate: Option<&VerifiedCertificate>,
    options: &PortOptions,
) -> Result<Arc<[Id]>, ConnectionError> {
    let Some(certificate) = certificate else { return Ok(Arc::default()) };
    let name = certificate.subject_name().map_err(ConnectionError::Certificate)?;
    Ok(identities_of(name, options.x509_super_user.as_deref()).into())
}

/// Returns the identities of the owner of a certificate with this name.
pub(crate) fn identities_of(name: String, super_user: Option<&str>) -> Vec<Id> {
    if name.is_empty() {
        // All such certificates would be one identity.
        return Vec::new();
    }
    let is_super = super_user == Some(name.as_str());
    let superuser = is_super.then(|| Id::new("super", name.clone()));
    superuser.into_iter().chain([Id::new("x509", name)]).collect()
}
