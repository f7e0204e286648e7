//! Why rustls ends a handshake, in plain words.
//!
//! Its own name for the reason stays in the text: it can be searched for.

use rustls::{AlertDescription, CertificateError, Error, OtherError};

use crate::error::TlsFault;

/// Returns the text for an operator.
#[allow(clippy::wildcard_enum_match_arm, reason = "the others have words of their own")]
pub(crate) fn text(error: &Error) -> String {
    match error {
        Error::InvalidCertificate(why) => {
            format!("invalid peer certificate: {}", certificate_text(why))
        }
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

/// Returns what is wrong with a certificate.
pub(crate) fn certificate_text(why: &CertificateError) -> String {
    certificate(why).unwrap_or_else(|| why.to_string())
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

/// Returns whose certificate a connection fails of. Some servers answer a missing certificate as they
/// answer a refused one.
#[allow(clippy::wildcard_enum_match_arm, reason = "the others are about no certificate")]
pub(crate) fn fault(error: &Error) -> TlsFault {
    match error {
        Error::InvalidCertificate(CertificateError::UnknownIssuer) => TlsFault::UnknownAuthority,
        Error::InvalidCertificate(
            CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. },
        ) => TlsFault::OtherName,
        Error::InvalidCertificate(_) => TlsFault::OtherCertificate,
        Error::AlertReceived(AlertDescription::CertificateRequired) => TlsFault::NoCertificate,
        Error::AlertReceived(
            AlertDescription::BadCertificate
            | AlertDescription::UnsupportedCertificate
            | AlertDescription::CertificateRevoked
            | AlertDescription::CertificateExpired
            | AlertDescription::CertificateUnknown
            | AlertDescription::UnknownCA
            | AlertDescription::AccessDenied
            | AlertDescription::DecryptError,
        ) => TlsFault::OwnCertificate,
        _ => TlsFault::Else,
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
    fn a_fault_is_found_in_the_errors_of_both_moments() {
        use crate::error::HandshakeError;
        let name = CertificateError::NotValidForName;
        for (error, expected) in [
            (
                Error::InvalidCertificate(CertificateError::UnknownIssuer),
                TlsFault::UnknownAuthority,
            ),
            (Error::InvalidCertificate(name), TlsFault::OtherName),
            (Error::InvalidCertificate(CertificateError::Expired), TlsFault::OtherCertificate),
            (Error::AlertReceived(AlertDescription::CertificateRequired), TlsFault::NoCertificate),
            (Error::AlertReceived(AlertDescription::UnknownCA), TlsFault::OwnCertificate),
            (Error::AlertReceived(AlertDescription::ProtocolVersion), TlsFault::Else),
            (Error::InvalidMessage(InvalidMessage::MissingData("x")), TlsFault::Else),
        ] {
            let read = std::io::Error::other(error.clone());
            assert_eq!(TlsFault::of(&read), expected, "{error}");
            let shaking = std::io::Error::other(HandshakeError::Tls(error));
            assert_eq!(TlsFault::of(&shaking), expected, "{shaking}");
        }
        let name = HandshakeError::Name("a b".to_owned());
        assert_eq!(TlsFault::of(&std::io::Error::other(name)), TlsFault::OtherName);
        assert_eq!(TlsFault::of(&std::io::Error::other("text")), TlsFault::Else);
    }

    #[test]
    fn a_stranger_and_a_refused_client_are_of_different_kinds() {
        let refused = Error::InvalidCertificate(CertificateError::UnknownIssuer);
        let cut_short = Error::InvalidMessage(InvalidMessage::MissingData("ProtocolVersion"));
        assert_ne!(kind(&refused), kind(&cut_short));
        assert_ne!(kind(&refused), kind(&Error::NoCertificatesPresented));
    }
}
