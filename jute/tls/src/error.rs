//! Why TLS cannot be set up, and why a handshake fails.

use std::io;
#[cfg(feature = "rustls")]
use std::path::Path;
use std::path::PathBuf;

use thiserror::Error;

/// Why TLS cannot be set up; for an operator.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum TlsError {
    /// A file cannot be used.
    #[error("{}: {why}", file.display())]
    File {
        /// The file.
        file: PathBuf,
        /// What is wrong with it, and what is expected.
        why: String,
    },
    /// A store cannot be opened without a password.
    #[error("{}: {why}", file.display())]
    NoPassword {
        /// The file.
        file: PathBuf,
        /// What needs the password.
        why: String,
    },
    /// A setting has a value that cannot be put in force.
    #[error("{0}")]
    Setting(String),
    /// The program was built without TLS.
    #[error(
        "TLS is configured, and this program was built without it: build it with the feature `tls`"
    )]
    NotBuilt,
}

#[cfg(feature = "rustls")]
impl TlsError {
    pub(crate) fn file(file: &Path, why: impl Into<String>) -> Self {
        Self::File { file: file.to_owned(), why: why.into() }
    }

    pub(crate) fn setting(why: impl Into<String>) -> Self {
        Self::Setting(why.into())
    }
}

/// Whose certificate a connection by TLS fails of, and why, on the side that has called.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum TlsFault {
    /// No authority of the trust store has issued the other side's certificate.
    UnknownAuthority,
    /// The other side's certificate is for other names.
    OtherName,
    /// The other side's certificate has expired, is revoked, or breaks another rule.
    OtherCertificate,
    /// The other side demands a certificate, and got none.
    NoCertificate,
    /// The other side refuses this side's certificate, or that there is none.
    OwnCertificate,
    /// No certificate: perhaps the other side does not speak TLS.
    Else,
}

impl TlsFault {
    /// Returns what an error of connecting, or of reading or writing behind it, is about.
    pub fn of(error: &io::Error) -> Self {
        let Some(inner) = error.get_ref() else { return Self::Else };
        if let Some(error) = inner.downcast_ref::<HandshakeError>() {
            return error.fault();
        }
        #[cfg(feature = "rustls")]
        if let Some(error) = inner.downcast_ref::<rustls::Error>() {
            return crate::engine::reason::fault(error);
        }
        Self::Else
    }
}

/// Why a handshake failed.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum HandshakeError {
    /// The other side does not speak TLS.
    #[error("TLS expected: the other side speaks plain text")]
    Plaintext,
    /// The other side's certificate is not accepted, or another rule of TLS is broken.
    #[cfg(feature = "rustls")]
    #[error("the TLS handshake failed: {}", crate::engine::reason::text(.0))]
    Tls(#[from] rustls::Error),
    /// The other side has no certificate for the address that it connects from.
    #[error("the certificate of the other side is not valid for its address {0}")]
    Address(std::net::IpAddr),
    /// The name of the other side cannot be checked.
    #[error("`{0}` is not a host name that a certificate can be checked against")]
    Name(String),
    /// The handshake was not started: too many others were computed before it.
    #[error(
        "the TLS handshake was not started within 3 s: the processor does not keep up with the \
         clients that connect (a P-256 key takes a tenth of the time of an RSA key)"
    )]
    Queue,
    /// The connection ended.
    #[error("the connection ended during the TLS handshake: {0}")]
    Io(#[from] io::Error),
}

impl HandshakeError {
    fn fault(&self) -> TlsFault {
        match self {
            #[cfg(feature = "rustls")]
            Self::Tls(error) => crate::engine::reason::fault(error),
            Self::Address(_) | Self::Name(_) => TlsFault::OtherName,
            Self::Plaintext | Self::Queue | Self::Io(_) => TlsFault::Else,
        }
    }

    /// Returns the kind of the reason: a log that is limited in its lines should be so for each kind,
    /// or one hides the other.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Plaintext => "plain text",
            #[cfg(feature = "rustls")]
            Self::Tls(error) => crate::engine::reason::kind(error),
            Self::Address(_) => "address",
            Self::Name(_) => "name",
            Self::Queue => "queue",
            Self::Io(_) => "connection",
        }
    }
}
