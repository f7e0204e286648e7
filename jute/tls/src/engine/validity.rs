//! From when to when the certificates of the stores are valid.

use std::path::Path;

use rustls::pki_types::CertificateDer;
use x509_parser::prelude::{FromDer, X509Certificate};

use super::subject::subject_name;
use crate::error::TlsError;
use crate::settings::TlsSettings;
use crate::stored::StoredCertificate;

impl TlsSettings {
    /// Loads the stores, and returns their certificates: those of the key, then those that are
    /// trusted.
    pub fn certificates(&self) -> Result<Vec<StoredCertificate>, TlsError> {
        let mut found = Vec::new();
        if let Some(store) = &self.key_store {
            found.extend(look_at(&store.location, store.load_key()?.chain)?);
        }
        if let Some(store) = &self.trust_store {
            found.extend(look_at(&store.location, store.load_trusted()?)?);
        }
        Ok(found)
    }
}

fn look_at(
    file: &Path,
    certificates: Vec<CertificateDer<'static>>,
) -> Result<Vec<StoredCertificate>, TlsError> {
    let look = |certificate: CertificateDer<'_>| {
        let (_, parsed) = X509Certificate::from_der(&certificate).map_err(|error| {
            TlsError::file(file, format!("a certificate cannot be read: {error}"))
        })?;
        Ok(StoredCertificate {
            file: file.to_owned(),
            subject: subject_name(&certificate).unwrap_or_default(),
            not_before_s: parsed.validity().not_before.timestamp(),
            not_after_s: parsed.validity().not_after.timestamp(),
        })
    };
    certificates.into_iter().map(look).collect()
}
