//! What a server has of a connection by TLS.

use crate::TlsStream;

/// A connection that was accepted.
#[derive(Debug)]
pub struct Accepted<S> {
    /// The stream.
    pub stream: TlsStream<S>,
    /// The certificate of the client in DER, if it has shown one; it is verified.
    pub certificate: Option<Vec<u8>>,
}
