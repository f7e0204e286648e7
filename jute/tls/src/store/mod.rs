//! Key stores and trust stores: PEM, PKCS#12 and JKS, as `ZooKeeper` names them.

mod jks;
mod pem;
mod pkcs12;

use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use rustls::pki_types::{CertificateDer, CertificateRevocationListDer, PrivateKeyDer};

use crate::error::TlsError;

/// The longest file that is read, in bytes.
const FILE_BYTES_MAX: u64 = 16 << 20;

/// The format of a store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum StoreType {
    /// Base64 between lines of dashes.
    Pem,
    /// PKCS#12.
    Pkcs12,
    /// Java's own format.
    Jks,
}

impl StoreType {
    /// The name in a configuration.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Pem => "PEM",
            Self::Pkcs12 => "PKCS12",
            Self::Jks => "JKS",
        }
    }

    /// Returns the format that the ending of a file's name stands for.
    fn of_name(file: &Path) -> Result<Self, TlsError> {
        match file.extension().and_then(|extension| extension.to_str()) {
            Some("pem") => Ok(Self::Pem),
            Some("p12") => Ok(Self::Pkcs12),
            Some("jks") => Ok(Self::Jks),
            Some("bcfks") => Err(TlsError::file(file, BCFKS)),
            _ => Err(TlsError::file(
                file,
                "the format is unknown: expected a name that ends in .pem, .p12 or .jks, or a store \
                 type of PEM, PKCS12 or JKS",
            )),
        }
    }
}

const BCFKS: &str = "BCFKS is not supported: convert the store to PKCS12 with keytool";

impl FromStr for StoreType {
    type Err = String;

    /// Letter case does not count, as in Apache ZooKeeper.
    fn from_str(text: &str) -> Result<Self, String> {
        match text.to_ascii_uppercase().as_str() {
            "PEM" => Ok(Self::Pem),
            "PKCS12" => Ok(Self::Pkcs12),
            "JKS" => Ok(Self::Jks),
            "BCFKS" => Err(BCFKS.to_owned()),
            _ => Err("expected PEM, PKCS12 or JKS".to_owned()),
        }
    }
}

/// A password. `Debug` does not show it.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Password(String);

impl Password {
    /// A password of this text.
    pub fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }

    /// The text.
    pub fn text(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Password {
    /// Shows whether there is one.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.0.is_empty() { "Password(empty)" } else { "Password(..)" })
    }
}

/// A store: where it is, and what opens it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StoreFile {
    /// The file.
    pub location: PathBuf,
    /// The password, empty for none.
    pub password: Password,
    /// A file with the password, which counts before [`password`](Self::password).
    pub password_file: Option<PathBuf>,
    /// The format; without it, the ending of the file's name decides.
    pub store_type: Option<StoreType>,
}

impl StoreFile {
    /// A store without a password, whose format is known by the ending of its name.
    pub fn new(location: impl Into<PathBuf>) -> Self {
        Self { location: location.into(), ..Self::default() }
    }

    /// Loads the key, and the chain of certificates that belongs to it.
    pub fn load_key(&self) -> Result<KeyEntry, TlsError> {
        let (bytes, password) = self.read()?;
        let entry = match self.format()? {
            StoreType::Pem => pem::key(&bytes, &password),
            StoreType::Pkcs12 => pkcs12::key(&bytes, &password),
            StoreType::Jks => jks::key(&bytes, &password),
        };
        entry.map_err(|why| TlsError::file(&self.location, why))
    }

    /// Loads the certificates that are trusted.
    pub fn load_trusted(&self) -> Result<Vec<CertificateDer<'static>>, TlsError> {
        let (bytes, password) = self.read()?;
        let trusted = match self.format()? {
            StoreType::Pem => pem::certificates(&bytes),
            StoreType::Pkcs12 => pkcs12::trusted(&bytes, &password),
            StoreType::Jks => jks::trusted(&bytes, &password),
        };
        let trusted = trusted.map_err(|why| TlsError::file(&self.location, why))?;
        if trusted.is_empty() {
            return Err(TlsError::file(&self.location, "the store has no trusted certificate"));
        }
        Ok(trusted)
    }

    /// The files that it is read from.
    pub fn files(&self) -> impl Iterator<Item = &Path> {
        [Some(&self.location), self.password_file.as_ref()]
            .into_iter()
            .flatten()
            .map(PathBuf::as_path)
    }

    fn format(&self) -> Result<StoreType, TlsError> {
        self.store_type.map_or_else(|| StoreType::of_name(&self.location), Ok)
    }

    fn read(&self) -> Result<(Vec<u8>, String), TlsError> {
        let password = match &self.password_file {
            Some(file) => read_password(file)?,
            None => self.password.0.clone(),
        };
        Ok((read(&self.location)?, password))
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
