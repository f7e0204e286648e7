//! One server in a process of its own: that of `zoolet serve` without its HTTP port, and with a witness.

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

use tokio::signal::unix::{SignalKind, signal};
use tracing::{error, info, warn};
use tracing_subscriber::EnvFilter;
use tracing_subscriber::fmt::format::Writer;
use tracing_subscriber::fmt::time::FormatTime;
use zoolet_server::embed::config;
use zoolet_server::internals::{Node, Seams, Watched};

use super::seen::FileWitness;
use super::{ChaosError, clock};

/// What is logged: the server, not its libraries.
const FILTER: &str = "off,zoolet_server=info,zoolet_storage=info,zoolet_tests=info";

/// What a server is started with.
#[derive(Clone, Debug)]
pub struct ServeArguments {
    /// The configuration.
    pub config: PathBuf,
    /// Where the witness writes.
    pub seen: PathBuf,
}

/// The machine's time, whatever is done to the clocks of the server.
struct TrueTime;

impl FormatTime for TrueTime {
    fn format_time(&self, out: &mut Writer<'_>) -> fmt::Result {
        write!(out, "{}", clock::machine_us())
    }
}

/// Runs a server until SIGTERM. Returns whether it has ended in good order.
pub fn serve(arguments: &ServeArguments) -> Result<bool, ChaosError> {
    // Another one is there only if the program has set it.
    let _ = tracing_subscriber::fmt()
        .with_env_filter(EnvFilter::new(FILTER))
        .with_timer(TrueTime)
        .with_writer(std::io::stderr)
        .with_ansi(false)
        .with_target(false)
        .try_init();
    // One thread for all that a write passes, as in `zoolet serve` (decision 0016).
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let is_stopped = runtime.block_on(live(arguments));
    runtime.shutdown_background();
    is_stopped
}

async fn live(arguments: &ServeArguments) -> Result<bool, ChaosError> {
    let (config, warnings) = config::load(&arguments.config, None)
        .map_err(|error| ChaosError::Arguments(error.to_string()))?;
    for warning in warnings {
        warn!("{warning}");
    }
    let mut stop = signal(SignalKind::terminate())?;
    let witness = FileWitness::create(&arguments.seen).map_err(ChaosError::file("the witness"))?;
    let watched = Watched::looked_at_by(Arc::new(witness));
    info!(server = config.server_id.0, "starting");
    let started = tokio::select! {
        started = Box::pin(Node::start(config, Seams { watched, ..Seams::real() })) => started,
        _ = stop.recv() => return Ok(true),
    };
    let node = match started {
        Ok(node) => node,
        Err(why) => {
            error!("the server does not start: {why}");
            return Ok(false);
        }
    };
    let failed = tokio::select! {
        why = node.fatal() => Some(why),
        _ = stop.recv() => None,
    };
    if let Some(why) = failed {
        error!("the server has failed: {why}");
        return Ok(false);
    }
    node.shutdown().await;
    info!("stopped");
    Ok(true)
}
