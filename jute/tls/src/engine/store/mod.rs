//! Key stores and trust stores: PEM, PKCS#12 and JKS, as `ZooKeeper` names them.

mod jks;
mod pem;
mod pkcs12;

use std::fs;
use std::path::Path;

use rustls::pki_types::{CertificateDer, CertificateRevocationListDer, PrivateKeyDer};

use crate::error::TlsError;
use crate::store_file::{BCFKS, StoreFile, StoreType};

/// What is wrong with a store whose digest is not that of an empty password.
const NO_PASSWORD: &str = "no password is given, and the store needs one, or is damaged";

/// The longest file that is read, in bytes.
const FILE_BYTES_MAX: u64 = 16 << 20;

impl StoreFile {
    /// Loads the key, and the chain of certificates that belongs to it.
    pub fn load_key(&self) -> Result<KeyEntry, TlsError> {
        let (bytes, password) = self.read()?;
        let entry = match self.format()? {
            StoreType::Pem => pem::key(&bytes, &password),
            StoreType::Pkcs12 => pkcs12::key(&bytes, &password),
            StoreType::Jks => jks::key(&bytes, &password),
        };
        entry.map_err(|why| self.failed(&password, why))
    }

    /// Loads the certificates that are trusted.
    pub fn load_trusted(&self) -> Result<Vec<CertificateDer<'static>>, TlsError> {
        let (bytes, password) = self.read()?;
        let trusted = match self.format()? {
            StoreType::Pem => pem::certificates(&bytes),
            StoreType::Pkcs12 => pkcs12::trusted(&bytes, &password),
            StoreType::Jks => jks::trusted(&bytes, &password),
        };
        let trusted = trusted.map_err(|why| self.failed(&password, why))?;
        if trusted.is_empty() {
            return Err(TlsError::file(&self.location, "the store has no trusted certificate"));
        }
        Ok(trusted)
    }

    fn failed(&self, password: &str, why: String) -> TlsError {
        // Without a password, what is wrong with it is that there is none.
        if password.is_empty() && why.contains("password") {
            return TlsError::NoPassword { file: self.location.clone(), why };
        }
        TlsError::file(&self.location, why)
    }

    fn format(&self) -> Result<StoreType, TlsError> {
        self.store_type.map_or_else(|| type_of_name(&self.location), Ok)
    }

    fn read(&self) -> Result<(Vec<u8>, String), TlsError> {
        let password = match &self.password_file {
            Some(file) => read_password(file)?,
            None => self.password.text().to_owned(),
        };
        Ok((read(&self.location)?, password))
    }
}

/// Returns the format that the ending of a file's name stands for.
fn type_of_name(file: &Path) -> Result<StoreType, TlsError> {
    match file.extension().and_then(|extension| extension.to_str()) {
        Some("pem") => Ok(StoreType::Pem),
        Some("p12") => Ok(StoreType::Pkcs12),
        Some("jks") => Ok(StoreType::Jks),
        Some("bcfks") => Err(TlsError::file(file, BCFKS)),
        _ => Err(TlsError::file(
            file,
            "the format is unknown: expected a name that ends in .pem, .p12 or .jks, or a store \
             type of PEM, PKCS12 or JKS",
        )),
    }
}

/// A private key and its chain, the certificate of the key first.
#[derive(Debug)]
pub struct KeyEntry {
    /// The chain; never empty.
    pub chain: Vec<CertificateDer<'static>>,
    /// The key.
    pub key: PrivateKeyDer<'static>,
}

/// Loads lists of revoked certificates, in PEM or DER.
pub(crate) fn load_revocations(
    file: &Path,
) -> Result<Vec<CertificateRevocationListDer<'static>>, TlsError> {
    let bytes = read(file)?;
    pem::revocations(&bytes).map_err(|why| TlsError::file(file, why))
}

fn read(file: &Path) -> Result<Vec<u8>, TlsError> {
    let cannot = |error: std::io::Error| TlsError::file(file, format!("cannot be read: {error}"));
    let bytes = fs::metadata(file).map_err(cannot)?.len();
    if bytes > FILE_BYTES_MAX {
        let why = format!("{bytes} bytes: expected at most {FILE_BYTES_MAX}");
        return Err(TlsError::file(file, why));
    }
    fs::read(file).map_err(cannot)
}

/// Reads a password; the end of the line is not a part of it.
fn read_password(file: &Path) -> Result<String, TlsError> {
    let text = String::from_utf8(read(file)?);
    let text = text.map_err(|_| TlsError::file(file, "the password is not UTF-8"))?;
    Ok(text.trim_end_matches(['\r', '\n']).to_owned())
}
