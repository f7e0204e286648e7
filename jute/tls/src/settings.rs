//! What can be set, and the parts of the rustls configurations that follow from it.

use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::sync::Arc;

use rustls::crypto::{CryptoProvider, ring};
use rustls::pki_types::CertificateRevocationListDer;
use rustls::sign::CertifiedKey;
use rustls::{CipherSuite, RootCertStore, SupportedCipherSuite, SupportedProtocolVersion, version};

use crate::error::TlsError;
use crate::store::{StoreFile, load_revocations};

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

    fn version(self) -> &'static SupportedProtocolVersion {
        match self {
            Self::Tls12 => &version::TLS12,
            Self::Tls13 => &version::TLS13,
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

    /// Checks the names of cipher suites, without any file.
    pub fn check_cipher_suites(names: &[String]) -> Result<(), String> {
        names.iter().try_for_each(|name| find_cipher_suite(name).map(|_| ()))
    }

    pub(crate) fn provider(&self) -> Result<Arc<CryptoProvider>, TlsError> {
        let mut provider = ring::default_provider();
        if !self.cipher_suites.is_empty() {
            let wanted = self.cipher_suites.iter().map(|name| find_cipher_suite(name));
            let wanted: Vec<CipherSuite> =
                wanted.collect::<Result<_, _>>().map_err(TlsError::setting)?;
            provider.cipher_suites.retain(|suite| wanted.contains(&suite.suite()));
        }
        Ok(Arc::new(provider))
    }

    pub(crate) fn versions(&self) -> Vec<&'static SupportedProtocolVersion> {
        if self.protocols.is_empty() {
            return rustls::ALL_VERSIONS.to_vec();
        }
        self.protocols.iter().map(|protocol| protocol.version()).collect()
    }

    /// Loads this side's private key and certificates. Returns `None` if no key store is set.
    pub(crate) fn load_key(
        &self,
        provider: &CryptoProvider,
    ) -> Result<Option<Arc<CertifiedKey>>, TlsError> {
        let Some(store) = &self.key_store else { return Ok(None) };
        let entry = store.load_key()?;
        let key = CertifiedKey::from_der(entry.chain, entry.key, provider);
        let key = key.map_err(|error| {
            let why = if matches!(error, rustls::Error::InconsistentKeys(_)) {
                "the private key does not belong to the first certificate".to_owned()
            } else {
                format!("the private key or its certificate cannot be used: {error}")
            };
            TlsError::file(&store.location, why)
        })?;
        Ok(Some(Arc::new(key)))
    }

    /// Loads the certificate authorities that the other side's certificate must come from. Returns
    /// `None` if no trust store is set.
    pub(crate) fn load_trusted(&self) -> Result<Option<Arc<RootCertStore>>, TlsError> {
        let Some(store) = &self.trust_store else { return Ok(None) };
        let mut roots = RootCertStore::empty();
        for (place, certificate) in (1..).zip(store.load_trusted()?) {
            roots.add(certificate).map_err(|error| {
                TlsError::file(&store.location, format!("certificate {place}: {error}"))
            })?;
        }
        Ok(Some(Arc::new(roots)))
    }

    pub(crate) fn load_revocations(
        &self,
    ) -> Result<Vec<CertificateRevocationListDer<'static>>, TlsError> {
        self.revocations.as_deref().map_or_else(|| Ok(Vec::new()), load_revocations)
    }
}

/// Finds a cipher suite by the name that the IANA, and Java, has for it.
fn find_cipher_suite(name: &str) -> Result<CipherSuite, String> {
    let known = || ring::DEFAULT_CIPHER_SUITES.iter().map(SupportedCipherSuite::suite);
    let found = known().find(|suite| iana_name(*suite) == name);
    found.ok_or_else(|| {
        let known: Vec<String> = known().map(iana_name).collect();
        format!("the cipher suite {name} is not supported; known are {}", known.join(", "))
    })
}

fn iana_name(suite: CipherSuite) -> String {
    let name = suite.as_str().unwrap_or_default();
    // rustls has the version in the names of those of TLS 1.3, the IANA has not.
    name.strip_prefix("TLS13_").map_or_else(|| name.to_owned(), |rest| format!("TLS_{rest}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cipher_suites_have_the_names_that_java_has() {
        let names = ["TLS_AES_256_GCM_SHA384", "TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256"];
        assert_eq!(TlsSettings::check_cipher_suites(&names.map(str::to_owned)), Ok(()));
        let cbc = ["TLS_ECDHE_RSA_WITH_AES_128_CBC_SHA256".to_owned()];
        let why = TlsSettings::check_cipher_suites(&cbc).unwrap_err();
        assert!(why.contains("CBC_SHA256 is not supported; known are TLS_AES_256"), "{why}");
        let settings =
            TlsSettings { cipher_suites: vec![names[0].to_owned()], ..TlsSettings::default() };
        assert_eq!(settings.provider().unwrap().cipher_suites.len(), 1);
    }

    #[test]
    fn broken_protocols_are_refused() {
        assert_eq!("TLSv1.3".parse(), Ok(Protocol::Tls13));
        let why = "TLSv1.1".parse::<Protocol>().unwrap_err();
        assert!(why.contains("broken"), "{why}");
        assert!("TLS".parse::<Protocol>().is_err());
    }
}
