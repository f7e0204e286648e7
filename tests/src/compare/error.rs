//! What can go wrong in a comparison.

use std::fmt::Display;
use std::io;
use std::path::{Path, PathBuf};

use thiserror::Error;

use crate::ports::PortError;
use crate::servers::ServersError;
use crate::tools::ToolError;

/// Why a comparison failed, or a part of it.
#[derive(Debug, Error)]
pub enum CompareError {
    #[error("{0}")]
    Option(String),
    #[error(transparent)]
    Tool(#[from] ToolError),
    #[error(transparent)]
    Ports(#[from] PortError),
    #[error(transparent)]
    Servers(#[from] ServersError),
    #[error("harness: {0}")]
    Io(#[from] io::Error),
    /// A store does not do what it is asked for.
    #[error("{store}: {what}")]
    Store { store: &'static str, what: String },
    /// A lock program does not keep to the protocol, or has ended.
    #[error("the lock program of {way}: {what}")]
    Program { way: String, what: String },
    #[error("{}: {source}", path.display())]
    File { path: PathBuf, source: io::Error },
    #[error("{0}")]
    Incomplete(String),
}

impl CompareError {
    pub(super) fn store(store: &'static str, what: impl Display) -> Self {
        Self::Store { store, what: what.to_string() }
    }

    pub(super) fn file(path: &Path) -> impl FnOnce(io::Error) -> Self {
        move |source| Self::File { path: path.to_owned(), source }
    }
}
