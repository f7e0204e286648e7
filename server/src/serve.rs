//! `zoolet serve`: one server in this process, until a signal stops it.

use std::future::Future;
use std::io;
use std::path::Path;

use tokio::io::AsyncReadExt;
use tokio::signal::unix::{SignalKind, signal};
use tracing::{info, warn};

use crate::cli::ServeArgs;
use crate::config::{self, ServerConfig};
use crate::node::{Node, Seams, StartError};

/// Runs the server that the arguments name.
pub(crate) async fn serve(args: ServeArgs) -> Result<(), StartError> {
    let mut config = load(&args.config, args.id)?;
    config.start_mode = args.start_mode();
    let stop = stop_requested(args.until_stdin_ends).map_err(StartError::Signals)?;
    tokio::pin!(stop);
    info!(server = config.server_id.0, data_dir = %config.data_dir.display(), "starting");
    let node = tokio::select! {
        started = Node::start(config, Seams::real()) => started?,
        reason = &mut stop => {
            // Like a kill: a server can be killed at any time.
            info!(reason, "stopped before it served");
            return Ok(());
        }
    };
    let fatal = tokio::select! {
        reason = &mut stop => {
            info!(reason, "stopping");
            None
        }
        why = node.fatal() => Some(why),
    };
    match fatal {
        None => {
            node.shutdown().await;
            info!("stopped");
            Ok(())
        }
        Some(why) => Err(StartError::Failed(why)),
    }
}

/// Reads the configuration, and logs what of it is not applicable.
fn load(path: &Path, id: Option<u8>) -> Result<ServerConfig, StartError> {
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
