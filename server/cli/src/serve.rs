//! `zoolet serve`: one server in this process, until a signal stops it.

use std::future::Future;
use std::io;
use std::path::Path;

use thiserror::Error;
use tokio::io::AsyncReadExt;
use tokio::signal::unix::{SignalKind, signal};
use tracing::{info, warn};

use crate::cli::ServeArgs;
use zoolet_server::embed::config::{self, ConfigError, ServerConfig};
use zoolet_server::embed::{Server, StartError};

/// Why a server does not start, or cannot go on.
#[derive(Debug, Error)]
pub(crate) enum ServeError {
    /// The configuration is wrong.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// Signals cannot be handled.
    #[error("cannot handle signals: {0}")]
    Signals(io::Error),
    /// The server does not start.
    #[error(transparent)]
    Start(#[from] StartError),
    /// The server can no longer work.
    #[error("the server has failed: {0}")]
    Failed(String),
}

/// Runs the server that the arguments name.
pub(crate) async fn serve(args: ServeArgs) -> Result<(), ServeError> {
    let mut config = load(&args.config, args.id)?;
    config.start_mode = args.start_mode();
    let stop = stop_requested(args.until_stdin_ends).map_err(ServeError::Signals)?;
    tokio::pin!(stop);
    info!(server = config.server_id.0, data_dir = %config.data_dir.display(), "starting");
    let server = tokio::select! {
        started = Server::start(config) => started?,
        reason = &mut stop => {
            // Like a kill: a server can be killed at any time.
            info!(reason, "stopped before it served");
            return Ok(());
        }
    };
    let failed = tokio::select! {
        reason = &mut stop => {
            info!(reason, "stopping");
            None
        }
        why = server.failed() => Some(why),
    };
    match failed {
        None => {
            server.shutdown().await;
            info!("stopped");
            Ok(())
        }
        Some(why) => Err(ServeError::Failed(why)),
    }
}

/// Reads the configuration, and logs what of it is not applicable.
pub(crate) fn load(path: &Path, id: Option<u8>) -> Result<ServerConfig, ConfigError> {
    let (config, warnings) = config::load(path, id)?;
    for warning in warnings {
        warn!("{warning}");
    }
    Ok(config)
}

/// Becomes ready when a signal asks the process to stop; the handlers are in place when this returns.
fn stop_requested(until_stdin_ends: bool) -> io::Result<impl Future<Output = &'static str>> {
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    Ok(async move {
        tokio::select! {
            _ = terminate.recv() => "SIGTERM",
            _ = interrupt.recv() => "SIGINT",
            () = stdin_ends(), if until_stdin_ends => "the supervisor is gone",
        }
    })
}

/// Waits until standard input ends or fails.
async fn stdin_ends() {
    let mut input = tokio::io::stdin();
    let mut ignored = [0; 64];
    while let Ok(1..) = input.read(&mut ignored).await {}
}
