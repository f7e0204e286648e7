//! Why a bench ends without figures.

use std::io;
use std::path::{Path, PathBuf};

use thiserror::Error;

use crate::servers::ServersError;

/// What a bench fails with.
#[derive(Debug, Error)]
pub enum BenchError {
    #[error("{0}")]
    Option(String),
    #[error(transparent)]
    Servers(#[from] ServersError),
    #[error("{}: {source}", path.display())]
    File { path: PathBuf, source: io::Error },
    #[error("load generator: {0}")]
    Generator(String),
    #[error("{system}: {what}")]
    Failover { system: &'static str, what: String },
    #[error("{}: no section between the lines `{begin}` and `{end}`", path.display())]
    NoSection { path: PathBuf, begin: &'static str, end: &'static str },
}

impl BenchError {
    pub(super) fn file(path: &Path) -> impl FnOnce(io::Error) -> Self {
        move |source| Self::File { path: path.to_owned(), source }
    }
}
