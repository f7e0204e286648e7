//! Where key stores and trust stores are, and what opens them.

use std::fmt;
use std::path::{Path, PathBuf};
use std::str::FromStr;

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
}

pub(crate) const BCFKS: &str = "BCFKS is not supported: convert the store to PKCS12 with keytool";

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

    /// The files that it is read from.
    pub fn files(&self) -> impl Iterator<Item = &Path> {
        [Some(&self.location), self.password_file.as_ref()]
            .into_iter()
            .flatten()
            .map(PathBuf::as_path)
    }
}
