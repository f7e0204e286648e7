//! From when to when the certificates of the stores, and the lists of revoked ones, are valid.

use std::path::Path;

use rustls::pki_types::{CertificateDer, CertificateRevocationListDer, UnixTime};
use x509_parser::prelude::{CertificateRevocationList, FromDer, X509Certificate};

use super::store::load_revocations;
use super::subject::{name_text, subject_name};
use crate::error::TlsError;
use crate::settings::TlsSettings;
use crate::stored::{StoredCertificate, StoredKind};

impl TlsSettings {
    /// Loads the stores, and returns their certificates: those of the key, then those that are
    /// trusted, then the lists of revoked ones.
    pub fn certificates(&self) -> Result<Vec<StoredCertificate>, TlsError> {
        let mut found = Vec::new();
        if let Some(store) = &self.key_store {
            let chain = store.load_key()?.chain;
            found.extend(look_at(StoredKind::Certificate, &store.location, chain)?);
        }
        if let Some(store) = &self.trust_store {
            let trusted = store.load_trusted()?;
            found.extend(look_at(StoredKind::Authority, &store.location, trusted)?);
        }
        if let Some(file) = &self.revocations {
            let lists = load_revocations(file)?;
            found.extend(
                lists.iter().map(|list| look_at_list(file, list)).collect::<Result<Vec<_>, _>>()?,
            );
        }
        Ok(found)
    }
}

fn look_at(
    kind: StoredKind,
    file: &Path,
    certificates: Vec<CertificateDer<'static>>,
) -> Result<Vec<StoredCertificate>, TlsError> {
    let look = |certificate: CertificateDer<'_>| {
        let (_, parsed) = X509Certificate::from_der(&certificate).map_err(|error| {
            TlsError::file(file, format!("a certificate cannot be read: {error}"))
        })?;
        Ok(StoredCertificate {
            kind,
            file: file.to_owned(),
            subject: subject_name(&certificate).unwrap_or_default(),
            issuer: name_text(parsed.issuer()).unwrap_or_default(),
            not_before_s: parsed.validity().not_before.timestamp(),
            not_after_s: parsed.validity().not_after.timestamp(),
        })
    };
    certificates.into_iter().map(look).collect()
}

fn look_at_list(
    file: &Path,
    list: &CertificateRevocationListDer<'_>,
) -> Result<StoredCertificate, TlsError> {
    let (_, parsed) = CertificateRevocationList::from_der(list.as_ref()).map_err(|error| {
        TlsError::file(file, format!("a list of revoked certificates cannot be read: {error}"))
    })?;
    let issuer = name_text(parsed.issuer()).unwrap_or_default();
    Ok(StoredCertificate {
        kind: StoredKind::Revocations,
        file: file.to_owned(),
        subject: issuer.clone(),
        issuer,
        not_before_s: parsed.last_update().timestamp(),
        not_after_s: parsed.next_update().map_or(i64::MAX, |next| next.timestamp()),
    })
}

/// Returns the time by which certificates are judged, in seconds since 1970.
pub(crate) fn now_s() -> i64 {
    i64::try_from(UnixTime::now().as_secs()).unwrap_or(i64::MAX)
}
