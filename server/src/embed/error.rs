//! Why an embedded server or ensemble does not do what a caller wants.

use std::io;

use thiserror::Error;

use super::ensemble::READY_LIMIT;
use crate::config::ConfigError;
use crate::node::{self, StartErrorKind};

/// Why a server does not start. Its message is one line for an operator, with the file or address.
#[derive(Debug, Error)]
#[error(transparent)]
pub struct StartError(#[from] node::StartError);

impl StartError {
    /// Returns what is wrong, for a program that can do something about it.
    pub fn kind(&self) -> StartErrorKind {
        self.0.kind()
    }
}

/// Why a call on an embedded ensemble fails.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum EmbedError {
    /// A server does not start.
    #[error("server {server}: {source}")]
    Start {
        /// Which server, counted from 0.
        server: usize,
        /// Why.
        source: StartError,
    },
    /// The settings do not fit together.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// No port is free, or no thread can be started.
    #[error("cannot start a server: {0}")]
    Io(#[from] io::Error),
    /// The server does not exist.
    #[error("unknown server {server}: the ensemble has {servers}, counted from 0")]
    NoServer {
        /// The number in the call.
        server: usize,
        /// How many servers the ensemble has.
        servers: usize,
    },
    /// The server is not in the state that the call needs.
    #[error("server {server} is {is}")]
    WrongState {
        /// Which server, counted from 0.
        server: usize,
        /// Its state: `running`, `paused`, `stopped` or `failed`.
        is: &'static str,
    },
    /// No majority of the servers that run has a leader in time.
    #[error("the ensemble does not serve after {} s", READY_LIMIT.as_secs())]
    NotReady,
}
