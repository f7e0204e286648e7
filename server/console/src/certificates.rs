//! Logins by certificate: what a console must be given for them.

use std::fmt::Debug;
use std::net::SocketAddr;

use zoolet_tls::VerifiedCertificate;

use crate::options::SharedConnector;

/// Reaches servers with the identity of a certificate that a browser has shown. The browser keeps the
/// key, so this takes more than what a client of the ensemble can do: the program of a server does it for
/// its own server.
pub trait CertificateLogins: Debug + Send + Sync {
    /// Returns what connects a session of the certificate's owner, who calls from `peer`.
    fn servers(&self, certificate: &VerifiedCertificate, peer: SocketAddr) -> SharedConnector;

    /// Returns what connects the commands of the owner to the HTTP ports of
    /// [`ConsoleOptions::http`](crate::ConsoleOptions::http).
    fn http(&self, certificate: &VerifiedCertificate, peer: SocketAddr) -> SharedConnector;
}
