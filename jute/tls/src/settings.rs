//! What can be set.

use std::path::{Path, PathBuf};
use std::str::FromStr;

use crate::store_file::StoreFile;

/// Whether a server asks its clients for certificates.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ClientAuth {
    /// A client without a certificate is refused.
    #[default]
    Need,
    /// A client may do without one; one that it shows must be valid.
    Want,
    /// Clients are not asked.
    None,
}

impl ClientAuth {
    /// The name in a configuration.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Need => "need",
            Self::Want => "want",
            Self::None => "none",
        }
    }
}

impl FromStr for ClientAuth {
    type Err = ();

    /// Letter case does not count, as in Apache ZooKeeper.
    fn from_str(text: &str) -> Result<Self, ()> {
        let mut all = [Self::Need, Self::Want, Self::None].into_iter();
        all.find(|known| known.name().eq_ignore_ascii_case(text)).ok_or(())
    }
}

/// A version of TLS.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Protocol {
    /// TLS 1.2.
    Tls12,
    /// TLS 1.3.
    Tls13,
}

impl Protocol {
    /// The name in a configuration, which is Java's.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Tls12 => "TLSv1.2",
            Self::Tls13 => "TLSv1.3",
        }
    }
}

impl FromStr for Protocol {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "TLSv1.2" => Ok(Self::Tls12),
            "TLSv1.3" => Ok(Self::Tls13),
            "TLSv1" | "TLSv1.1" | "SSLv3" | "SSLv2Hello" => {
                Err(format!("{text} is broken and not supported: expected TLSv1.2 or TLSv1.3"))
            }
            _ => Err(format!("unknown protocol {text}: expected TLSv1.2 or TLSv1.3")),
        }
    }
}

/// What one side of connections does about TLS.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct TlsSettings {
    /// The key of this side, with its certificates.
    pub key_store: Option<StoreFile>,
    /// The certificates that vouch for the other side's.
    pub trust_store: Option<StoreFile>,
    /// Lists of revoked certificates: a file in PEM or DER with the list of every issuer.
    pub revocations: Option<PathBuf>,
    /// Whether a server asks its clients for certificates.
    pub client_auth: ClientAuth,
    /// Whether a client compares the name in the server's certificate with the one that it wanted.
    pub verify_server_name: bool,
    /// Whether a server compares the address of a client with those in the client's certificate.
    pub verify_client_address: bool,
    /// The versions that are spoken; all for an empty list.
    pub protocols: Vec<Protocol>,
    /// The cipher suites, by the names of the IANA; all that rustls has for an empty list.
    pub cipher_suites: Vec<String>,
}

impl Default for TlsSettings {
    /// No stores; server names are verified, client addresses are not.
    fn default() -> Self {
        Self {
            key_store: None,
            trust_store: None,
            revocations: None,
            client_auth: ClientAuth::Need,
            verify_server_name: true,
            verify_client_address: false,
            protocols: Vec::new(),
            cipher_suites: Vec::new(),
        }
    }
}

impl TlsSettings {
    /// The files that are loaded, so that changes of them can be looked for.
    pub fn files(&self) -> Vec<&Path> {
        let stores = [&self.key_store, &self.trust_store].into_iter().flatten();
        stores.flat_map(StoreFile::files).chain(self.revocations.as_deref()).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn broken_protocols_are_refused() {
        assert_eq!("TLSv1.3".parse(), Ok(Protocol::Tls13));
        let why = "TLSv1.1".parse::<Protocol>().unwrap_err();
        assert!(why.contains("broken"), "{why}");
        assert!("TLS".parse::<Protocol>().is_err());
    }
}
