//! The few files that a configuration is read from.

use std::io;
use std::path::{Path, PathBuf};

use super::error::ConfigError;

/// How a reader gets at files, so that tests can hand it texts instead.
pub(super) trait Files {
    /// The whole content of a file.
    fn read(&self, path: &Path) -> io::Result<Vec<u8>>;
}

/// The files of this machine.
pub(super) struct OnDisk;

impl Files for OnDisk {
    fn read(&self, path: &Path) -> io::Result<Vec<u8>> {
        std::fs::read(path)
    }
}

/// The text of a file and the name to report it under.
#[derive(Debug, Clone)]
pub(super) struct Source {
    pub(super) file: PathBuf,
    pub(super) text: String,
}

impl Source {
    /// Longer than any configuration, and short enough to be read by mistake.
    pub(super) const BYTES_MAX: usize = 4 << 20;

    pub(super) fn read(files: &dyn Files, path: &Path) -> Result<Self, ConfigError> {
        let bytes = files.read(path).map_err(|error| {
            ConfigError::new(path, 0, format!("the file cannot be read: {error}"))
        })?;
        Self::decode(path, bytes)
    }

    pub(super) fn decode(path: &Path, bytes: Vec<u8>) -> Result<Self, ConfigError> {
        if bytes.len() > Self::BYTES_MAX {
            let why = format!("{} bytes: too long for a configuration", bytes.len());
            return Err(ConfigError::new(path, 0, why));
        }
        let file = path.to_path_buf();
        match String::from_utf8(bytes) {
            Ok(text) => Ok(Self { file, text }),
            Err(error) => {
                let offset = error.utf8_error().valid_up_to();
                let text = String::from_utf8_lossy(error.as_bytes()).into_owned();
                let line = Self { file, text }.line_of(offset);
                Err(ConfigError::new(path, line, "the text is not UTF-8"))
            }
        }
    }

    pub(super) fn error(&self, line: usize, why: impl Into<String>) -> ConfigError {
        ConfigError::new(&self.file, line, why)
    }

    /// The line of a byte offset, counted from 1.
    pub(super) fn line_of(&self, offset: usize) -> usize {
        1 + self.text.bytes().take(offset).filter(|byte| *byte == b'\n').count()
    }
}
