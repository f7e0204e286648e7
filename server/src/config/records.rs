//! What a server writes down of what has happened.

use std::path::PathBuf;

/// The audit log (`docs/operating.md`).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AuditConfig {
    /// Whether there is one.
    pub enabled: bool,
    /// The directory of its files; that of the data without it.
    pub directory: Option<PathBuf>,
    /// The length of a file, in bytes; behind it the next one begins.
    pub file_bytes_max: u64,
    /// How many full files are kept.
    pub files_retained: usize,
}

impl Default for AuditConfig {
    fn default() -> Self {
        Self { enabled: false, directory: None, file_bytes_max: 10 << 20, files_retained: 10 }
    }
}

/// The history of znodes, sessions and locks (`docs/history.md`).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HistoryConfig {
    /// Whether it is kept.
    pub enabled: bool,
    /// The bytes of its files, about; the earliest goes.
    pub bytes_max: u64,
    /// How long it goes back, in milliseconds.
    pub age_ms_max: u64,
    /// The most bytes that are kept of the data of each write; zero for none.
    pub data_bytes_max: usize,
}

impl Default for HistoryConfig {
    fn default() -> Self {
        Self { enabled: true, bytes_max: 256 << 20, age_ms_max: 7 * 86_400_000, data_bytes_max: 0 }
    }
}
