//! Why a bench ends without figures.

use std::fmt::Display;
use std::io;
use std::path::{Path, PathBuf};

use thiserror::Error;

use super::results::name;
use crate::builder::Kind;
use crate::ports::PortError;
use crate::servers::ServersError;
use crate::tools::ToolError;

/// What a bench fails with.
#[derive(Debug, Error)]
pub enum BenchError {
    #[error("{0}")]
    Option(String),
    #[error(transparent)]
    Servers(#[from] ServersError),
    #[error(transparent)]
    Tool(#[from] ToolError),
    #[error(transparent)]
    Ports(#[from] PortError),
    #[error("{}: {source}", path.display())]
    File { path: PathBuf, source: io::Error },
    #[error("load generator: {0}")]
    Generator(String),
    #[error("{system}: {what}")]
    System { system: &'static str, what: String },
    #[error("{part} is left out: {source}")]
    Part { part: &'static str, source: Box<BenchError> },
    #[error("{}: {why}; remove the file, or correct it", path.display())]
    Data { path: PathBuf, why: String },
    #[error("{}: no section between the lines `{begin}` and `{end}`", path.display())]
    NoSection { path: PathBuf, begin: &'static str, end: &'static str },
}

impl BenchError {
    /// Something that one of the two systems does not do.
    pub(super) fn of(system: Kind, what: impl Display) -> Self {
        Self::System { system: name(system), what: what.to_string() }
    }

    pub(super) fn file(path: &Path) -> impl FnOnce(io::Error) -> Self {
        move |source| Self::File { path: path.to_owned(), source }
    }
}
