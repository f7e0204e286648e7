//! Whether files have changed.

use std::fs;
use std::time::SystemTime;

use crate::settings::TlsSettings;

/// When the files of settings were changed last, and how long they are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileStamps(Vec<Option<(SystemTime, u64)>>);

impl FileStamps {
    /// Looks at the files. One that is missing has no stamp.
    pub fn of(settings: &TlsSettings) -> Self {
        let stamp = |file| {
            let metadata = fs::metadata(file).ok()?;
            Some((metadata.modified().ok()?, metadata.len()))
        };
        Self(settings.files().into_iter().map(stamp).collect())
    }
}
