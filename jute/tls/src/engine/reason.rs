//! Why rustls ends a handshake, in plain words.
//!
//! Its own name for the reason stays in the text: it can be searched for, and `zooletctl` looks at
//! what follows `invalid peer certificate: `.

use rustls::{CertificateError, Error, OtherError};

/// Returns the text for an operator.
#[allow(clippy::wildcard_enum_match_arm, reason = "the others have words of their own")]
pub(crate) fn text(error: &Error) -> String {
    match error {
        Error::InvalidCertificate(why) => match certificate(why) {
            Some(words) => format!("invalid peer certificate: {words}"),
            None => error.to_string(),
        },
        Error::InvalidMessage(why) => format!(
            "the other side sent a message that is cut short, damaged, or not of TLS ({why:?})"
        ),
        Error::PeerIncompatible(why) => format!(
            "the two sides have no version, cipher suite or signature of TLS in common ({why:?})"
        ),
        Error::PeerMisbehaved(why) => format!("the other side broke a rule of TLS ({why:?})"),
        _ => error.to_string(),
    }
}

/// Returns what is wrong with a certificate, where rustls has only a name for it.
#[allow(clippy::wildcard_enum_match_arm, reason = "the others have words of their own")]
fn certificate(why: &CertificateError) -> Option<String> {
    let words = match why {
        CertificateError::UnknownIssuer => "no authority in the trust store has issued it",
        CertificateError::BadEncoding => "it is damaged",
        CertificateError::BadSignature => "its signature is wrong",
        CertificateError::Revoked => "it is in a list of revoked certificates",
        CertificateError::UnknownRevocationStatus => {
            "no list of revoked certificates is of its issuer"
        }
        CertificateError::ExpiredRevocationList => {
            "the list of revoked certificates of its issuer is out of date"
        }
        CertificateError::UnhandledCriticalExtension => "it makes a demand that is not known here",
        CertificateError::Other(OtherError(other)) => {
            return Some(other_certificate(&other.to_string()));
        }
        _ => return None,
    };
    Some(format!("{why:?}: {words}"))
}

/// The reasons of the verifier that rustls only hands on; `name` is the verifier's.
fn other_certificate(name: &str) -> String {
    let words = match name {
        "CaUsedAsEndEntity" => {
            "it is the certificate of an authority (CA:TRUE), which no server or client may have as \
             its own"
        }
        "EndEntityUsedAsCa" => "one that is not of an authority (CA:FALSE) has issued it",
        "PathLenConstraintViolated" => "its issuer may not issue certificates of authorities",
        "UnsupportedCertVersion" => "it is not of version 3",
        _ => return name.to_owned(),
    };
    format!("{name}: {words}")
}

/// Returns the kind of a reason. What can have different culprits is of different kinds.
#[allow(clippy::wildcard_enum_match_arm, reason = "a new reason is of the kind `other`")]
pub(crate) fn kind(error: &Error) -> &'static str {
    match error {
        Error::InvalidCertificate(why) => match why {
            CertificateError::UnknownIssuer => "unknown issuer",
            CertificateError::Expired
            | CertificateError::ExpiredContext { .. }
            | CertificateError::NotValidYet
            | CertificateError::NotValidYetContext { .. } => "time of a certificate",
            CertificateError::Revoked => "revoked certificate",
            CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. } => {
                "name in a certificate"
            }
            _ => "certificate",
        },
        Error::NoCertificatesPresented => "no certificate",
        Error::AlertReceived(_) => "alert",
        Error::InvalidMessage(_)
        | Error::InappropriateMessage { .. }
        | Error::InappropriateHandshakeMessage { .. } => "message",
        Error::PeerIncompatible(_) => "incompatible",
        _ => "other",
    }
}

#[cfg(test)]
mod tests {
    use rustls::{InvalidMessage, PeerIncompatible};

    use super::*;

    #[test]
    fn names_of_rustls_get_words() {
        for (error, expected) in [
            (
                Error::InvalidCertificate(CertificateError::UnknownIssuer),
                "invalid peer certificate: UnknownIssuer: no authority in the trust store",
            ),
            (
                Error::InvalidMessage(InvalidMessage::MissingData("ProtocolVersion")),
                "cut short, damaged, or not of TLS (MissingData(\"ProtocolVersion\"))",
            ),
            (
                Error::PeerIncompatible(PeerIncompatible::NoCipherSuitesInCommon),
                "in common (NoCipherSuitesInCommon)",
            ),
            (Error::NoCertificatesPresented, "peer sent no certificates"),
        ] {
            let said = text(&error);
            assert!(said.contains(expected), "{said}");
        }
        assert!(other_certificate("CaUsedAsEndEntity").contains("CA:TRUE"));
        assert_eq!(other_certificate("NewReason"), "NewReason");
    }

    #[test]
    fn a_stranger_and_a_refused_client_are_of_different_kinds() {
        let refused = Error::InvalidCertificate(CertificateError::UnknownIssuer);
        let cut_short = Error::InvalidMessage(InvalidMessage::MissingData("ProtocolVersion"));
        assert_ne!(kind(&refused), kind(&cut_short));
        assert_ne!(kind(&refused), kind(&Error::NoCertificatesPresented));
    }
}
