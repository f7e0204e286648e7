//! What the fault suites share: a load whose every answer is recorded, the checks of what was
//! recorded, and the ways to hurt servers.
//!
//! A [`Writer`] is one session that writes, and that knows after each answer what must be there;
//! [`check`] looks for it afterwards, [`convergence`] compares the servers with each other. Kills
//! are in [`crate::servers`].

use std::io;
use std::time::Duration;

use thiserror::Error;
use zoolet_client::{Client, ClientOptions};

use crate::servers::ServersError;
use crate::tools::ToolError;

pub mod check;
pub mod convergence;
pub mod load;
pub mod netns;
pub mod netns_ensemble;
pub mod read;
pub mod seed;
pub mod session_history;
pub mod witness;
pub mod writer;

pub use load::Load;
pub use seed::Seed;
pub use session_history::SessionHistory;
pub use writer::Writer;

/// Why a fault suite fails.
#[derive(Debug, Error)]
pub enum Failure {
    /// The servers broke a promise; the text says which.
    #[error("{0}")]
    Broken(String),
    #[error("client: {0}")]
    Client(#[from] zoolet_client::Error),
    #[error(transparent)]
    Servers(#[from] ServersError),
    #[error(transparent)]
    Tool(#[from] ToolError),
    #[error("harness: {0}")]
    Io(#[from] io::Error),
}

/// An error unless the servers kept this promise.
pub fn promised(kept: bool, broken: impl FnOnce() -> String) -> Result<(), Failure> {
    if kept { Ok(()) } else { Err(Failure::Broken(broken())) }
}

/// A client with the longest session that the suites' servers grant, so that only a server's fault
/// can end it.
pub async fn connect(servers: &str) -> Result<Client, Failure> {
    let options = ClientOptions::new().session_timeout(Duration::from_secs(10));
    let options = options.connect_timeout(Duration::from_mins(1));
    Ok(options.connect(servers).await?)
}
