//! Why TLS with a server fails, and what to do about it.

use std::fmt;
use std::io;

/// How the text of a certificate that this side refuses begins.
const REFUSED_HERE: &str = "invalid peer certificate: ";

/// How the text of what the other side refuses begins.
const REFUSED_THERE: &str = "received fatal alert: ";

/// The alerts of a server that does not accept the certificate of its client. One without a
/// certificate gets the same from some servers.
const CERTIFICATE_ALERTS: [&str; 8] = [
    "BadCertificate",
    "UnsupportedCertificate",
    "CertificateRevoked",
    "CertificateExpired",
    "CertificateUnknown",
    "UnknownCA",
    "AccessDenied",
    "DecryptError",
];

/// What TLS with a server fails of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Cause {
    /// No authority of the trust store vouches for the server.
    UnknownAuthority,
    /// The server's certificate is for other names.
    OtherName,
    /// The server's certificate has expired, is revoked, or breaks another rule.
    ServerCertificate,
    /// The server demands a certificate.
    NoCertificate,
    /// The server refuses the client's certificate, or that there is none.
    ClientCertificate,
    /// Something else: perhaps the other side does not speak TLS.
    Other,
}

/// A handshake that failed, or the first read behind it, which is where TLS 1.3 reports that a
/// server refuses its client's certificate.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct TlsFailure {
    cause: Cause,
    why: String,
}

impl TlsFailure {
    pub(super) fn new(error: &io::Error) -> Self {
        let why = error.to_string();
        Self { cause: cause(&why), why }
    }

    /// Whether what has failed may be a server that speaks plain text.
    pub(super) fn may_be_plain_text(&self) -> bool {
        self.cause == Cause::Other
    }

    /// Returns what to do about it; `None` if waiting may help.
    pub(super) fn remedy(&self, has_key_store: bool) -> Option<&'static str> {
        match self.cause {
            Cause::UnknownAuthority => Some(
                "give with --trust-store the certificate of the authority that the server has its \
                 own from",
            ),
            Cause::OtherName => Some(
                "name the server in --servers as its certificate does, or give --any-server-name",
            ),
            Cause::ServerCertificate => Some("the server needs another certificate"),
            Cause::ClientCertificate if has_key_store => Some(
                "the server refuses the certificate of --key-store: it must be valid, and come \
                 from an authority in the server's trust store",
            ),
            Cause::NoCertificate | Cause::ClientCertificate => {
                Some("the server demands a certificate from its clients: give --key-store FILE")
            }
            Cause::Other => None,
        }
    }
}

impl fmt::Display for TlsFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.why.strip_prefix(REFUSED_THERE) {
            Some(alert) => write!(f, "the server ended TLS with the alert {alert}"),
            None => f.write_str(&self.why),
        }
    }
}

/// Returns what the text of an error tells; the text of rustls, whose types the connector hides.
fn cause(why: &str) -> Cause {
    if let Some((_, refused)) = why.split_once(REFUSED_HERE) {
        return match refused {
            _ if refused.starts_with("UnknownIssuer") => Cause::UnknownAuthority,
            _ if refused.starts_with("certificate not valid for name") => Cause::OtherName,
            _ => Cause::ServerCertificate,
        };
    }
    if why.contains("is not a host name that a certificate can be checked against") {
        return Cause::OtherName;
    }
    match why.split_once(REFUSED_THERE) {
        Some((_, "CertificateRequired")) => Cause::NoCertificate,
        Some((_, alert)) if CERTIFICATE_ALERTS.contains(&alert) => Cause::ClientCertificate,
        Some(_) | None => Cause::Other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn remedy(why: &str, has_key_store: bool) -> &'static str {
        TlsFailure::new(&io::Error::other(why)).remedy(has_key_store).unwrap_or_default()
    }

    #[test]
    fn each_failure_has_its_remedy() {
        let here = "the TLS handshake failed: invalid peer certificate: ";
        assert!(remedy(&format!("{here}UnknownIssuer"), true).contains("--trust-store"));
        let name = "certificate not valid for name \"a\"; certificate is only valid for b";
        assert!(remedy(&format!("{here}{name}"), true).contains("--any-server-name"));
        let expired = "certificate expired: verification time 2 (UNIX), but certificate is not \
                       valid after 1 (1 seconds ago)";
        assert!(remedy(&format!("{here}{expired}"), true).contains("another certificate"));
        let there = "received fatal alert: ";
        assert!(remedy(&format!("{there}CertificateRequired"), false).contains("give --key-store"));
        let handshake = format!("the TLS handshake failed: {there}CertificateUnknown");
        assert!(remedy(&handshake, false).contains("give --key-store"));
        assert!(remedy(&handshake, true).contains("the certificate of --key-store"));
        assert_eq!(remedy(&format!("{there}ProtocolVersion"), true), "");
        assert_eq!(remedy("the connection ended during the TLS handshake: broken pipe", true), "");
    }
}
