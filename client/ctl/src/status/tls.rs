//! Why TLS with a server fails, and what to do about it.

use std::fmt;
use std::io;

use zoolet_client::tls::TlsFault;

/// How the text of what the server refuses ends: with the name of an alert behind this.
const ALERT: &str = "received fatal alert: ";

/// A handshake that failed, or the first read behind it, which is where TLS 1.3 reports that a
/// server refuses its client's certificate.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct TlsFailure {
    fault: TlsFault,
    why: String,
}

impl TlsFailure {
    pub(super) fn new(error: &io::Error) -> Self {
        Self { fault: TlsFault::of(error), why: error.to_string() }
    }

    /// Whether what has failed may be a server that speaks plain text.
    pub(super) fn may_be_plain_text(&self) -> bool {
        self.fault == TlsFault::Else
    }

    /// Returns what to do about it; `None` if waiting may help.
    pub(super) fn remedy(&self, has_key_store: bool) -> Option<&'static str> {
        match self.fault {
            TlsFault::UnknownAuthority => Some(
                "give with --trust-store the certificate of the authority that the server has its \
                 own from",
            ),
            TlsFault::OtherName => Some(
                "name the server in --servers as its certificate does, or give --any-server-name",
            ),
            TlsFault::OtherCertificate => Some("the server needs another certificate"),
            TlsFault::OwnCertificate if has_key_store => Some(
                "the server refuses the certificate of --key-store: it must be valid, and come \
                 from an authority in the server's trust store",
            ),
            TlsFault::NoCertificate | TlsFault::OwnCertificate => {
                Some("the server demands a certificate from its clients: give --key-store FILE")
            }
            TlsFault::Else | _ => None,
        }
    }
}

impl fmt::Display for TlsFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.why.split_once(ALERT) {
            Some((_, alert)) => write!(f, "the server ended TLS with the alert {alert}"),
            None => f.write_str(&self.why),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refused_certificate_has_another_remedy_than_a_missing_one() {
        let failure = |fault| TlsFailure { fault, why: String::new() };
        let remedy = |fault, has_key_store| failure(fault).remedy(has_key_store).unwrap();
        assert!(remedy(TlsFault::OwnCertificate, true).contains("the certificate of --key-store"));
        for has_key_store in [false, true] {
            let fault = TlsFault::NoCertificate;
            assert!(remedy(fault, has_key_store).contains("give --key-store FILE"));
        }
        assert!(remedy(TlsFault::OwnCertificate, false).contains("give --key-store FILE"));
        assert!(failure(TlsFault::Else).may_be_plain_text());
        assert_eq!(failure(TlsFault::Else).remedy(true), None);
    }
}
