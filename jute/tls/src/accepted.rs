//! What a server has of a connection by TLS.

use std::fmt;

use crate::TlsStream;

/// A connection that was accepted.
#[derive(Debug)]
pub struct Accepted<S> {
    /// The stream.
    pub stream: TlsStream<S>,
    /// The certificate of the client, if it has shown one.
    pub certificate: Option<VerifiedCertificate>,
}

/// The certificate of a client that has proved that it has the key, issued by a trusted authority. Only
/// [`TlsAcceptor::accept`](crate::TlsAcceptor::accept) makes one.
#[derive(Clone, PartialEq, Eq)]
pub struct VerifiedCertificate(Vec<u8>);

impl VerifiedCertificate {
    /// Takes a certificate in DER that the handshake has verified.
    #[cfg(feature = "rustls")]
    pub(crate) fn new(der: Vec<u8>) -> Self {
        Self(der)
    }

    /// Returns the name of its subject in the form of RFC 2253, empty if it has none, or why it cannot
    /// be read.
    pub fn subject_name(&self) -> Result<String, String> {
        crate::subject_name(&self.0)
    }
}

impl fmt::Debug for VerifiedCertificate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("VerifiedCertificate").field(&self.subject_name()).finish()
    }
}
