//! The parts of the rustls configurations that follow from settings.

use std::sync::Arc;

use rustls::crypto::{CryptoProvider, ring};
use rustls::pki_types::CertificateRevocationListDer;
use rustls::sign::CertifiedKey;
use rustls::version::{TLS12, TLS13};
use rustls::{CipherSuite, RootCertStore, SupportedCipherSuite, SupportedProtocolVersion};

use super::store::load_revocations;
use crate::error::TlsError;
use crate::settings::{Protocol, TlsSettings};

impl TlsSettings {
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
        self.protocols.iter().map(|protocol| version(*protocol)).collect()
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

fn version(protocol: Protocol) -> &'static SupportedProtocolVersion {
    match protocol {
        Protocol::Tls12 => &TLS12,
        Protocol::Tls13 => &TLS13,
    }
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
}
