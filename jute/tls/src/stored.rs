//! The certificates in stores, for people who look after them.

use std::path::PathBuf;

/// The kind of an entry in a store.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub enum StoredKind {
    /// A certificate of the key's own chain.
    Certificate,
    /// The certificate of an authority that is trusted.
    Authority,
    /// A list of revoked certificates.
    Revocations,
}

impl StoredKind {
    /// All kinds.
    pub const ALL: [Self; 3] = [Self::Certificate, Self::Authority, Self::Revocations];

    /// Returns the name in metrics.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Certificate => "certificate",
            Self::Authority => "ca",
            Self::Revocations => "crl",
        }
    }
}

/// A certificate in a store, or a list of revoked ones.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredCertificate {
    /// Its kind.
    pub kind: StoredKind,
    /// The file.
    pub file: PathBuf,
    /// The name of its subject, empty if it has none; of a list, its issuer's.
    pub subject: String,
    /// The name of its issuer.
    pub issuer: String,
    /// From when it is valid, in seconds since 1970.
    pub not_before_s: i64,
    /// Until when it is valid, in seconds since 1970.
    pub not_after_s: i64,
}

impl StoredCertificate {
    /// Returns whether it is valid at a time.
    pub fn is_valid(&self, now_s: i64) -> bool {
        self.not_before_s <= now_s && now_s < self.not_after_s
    }
}
