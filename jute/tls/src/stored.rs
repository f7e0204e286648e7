//! The certificates in stores, for people who look after them.

use std::path::PathBuf;

/// A certificate in a store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredCertificate {
    /// The store.
    pub file: PathBuf,
    /// The name of its subject, empty if it has none.
    pub subject: String,
    /// From when it is valid, in seconds since 1970.
    pub not_before_s: i64,
    /// Until when it is valid, in seconds since 1970.
    pub not_after_s: i64,
}
