//! The errors of a configuration file, for the person who wrote it.

use std::fmt;
use std::path::{Path, PathBuf};

/// A configuration that a server must not start with.
///
/// There is one form only, because there is one thing to do about it: print it and stop.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{}: {why}", Place::new(file, *line))]
pub struct ConfigError {
    /// The file that is wrong; for a value that came from no file, what it came from.
    pub file: PathBuf,
    /// The line in it, counted from 1; 0 when the fault is in no single line.
    pub line: usize,
    /// What is wrong, with the value in it, and what is expected instead.
    pub why: String,
}

impl ConfigError {
    /// An error at a line of a file.
    pub fn new(file: &Path, line: usize, why: impl Into<String>) -> Self {
        Self { file: file.to_path_buf(), line, why: why.into() }
    }
}

/// Something in a configuration file that works differently here, or does nothing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Warning {
    /// The file it is about.
    pub file: PathBuf,
    /// The line in it, counted from 1; 0 when it is about no single line.
    pub line: usize,
    /// The key as the file spells it.
    pub key: String,
    /// What does not happen, and why.
    pub why: String,
}

impl fmt::Display for Warning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}: {}", Place::new(&self.file, self.line), self.key, self.why)
    }
}

/// `file:line`, in the form that editors and terminals make a link of.
struct Place<'a> {
    file: &'a Path,
    line: usize,
}

impl<'a> Place<'a> {
    fn new(file: &'a Path, line: usize) -> Self {
        Self { file, line }
    }
}

impl fmt::Display for Place<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.line {
            0 => write!(f, "{}", self.file.display()),
            line => write!(f, "{}:{line}", self.file.display()),
        }
    }
}
