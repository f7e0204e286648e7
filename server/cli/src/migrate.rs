//! `zoolet import` and `zoolet export`: moving in from Apache `ZooKeeper`, and out to it.

use std::io::{self, Write};
use std::time::Duration;

use thiserror::Error;
use tokio::time::Instant;
use tracing::{info, warn};
use zoolet_migrate::{ImportOptions, MigrateError, Progress};
use zoolet_server::embed::config::{self, ConfigError};
use zoolet_server::embed::{self, DataError};

use crate::cli::{ExportArgs, ImportArgs};
use crate::serve::log_all;

/// The time between two lines about the progress.
const PROGRESS_PAUSE: Duration = Duration::from_secs(2);

/// Why data cannot be moved.
#[derive(Debug, Error)]
pub(crate) enum MoveError {
    /// The configuration is wrong.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// Apache `ZooKeeper`'s side.
    #[error(transparent)]
    Migrate(#[from] MigrateError),
    /// Our own side.
    #[error(transparent)]
    Data(#[from] DataError),
    /// The summary cannot be written.
    #[error("cannot write to standard output: {0}")]
    Output(io::Error),
}

/// Founds a server's directory with the data of an Apache `ZooKeeper` server.
pub(crate) fn import(args: &ImportArgs) -> Result<(), MoveError> {
    // What is refused is refused before anything else is said.
    let (config, warnings) = config::load(&args.config, args.id)?;
    embed::check_empty(&config)?;
    log_all(&warnings);
    let options = ImportOptions {
        data: args.from.clone(),
        logs: args.log_from.clone(),
        digests: !args.ignore_digests,
    };
    let mut reported_at = Instant::now();
    let mut report = |Progress { znodes, transactions }: Progress| {
        if reported_at.elapsed() >= PROGRESS_PAUSE {
            reported_at = Instant::now();
            info!(znodes, transactions, "reading");
        }
    };
    let imported = zoolet_migrate::import(&options, &mut report)?;
    for note in &imported.notes {
        warn!("{note}");
    }
    let state = &imported.state;
    info!(znodes = state.node_count(), data_dir = %config.data_dir.display(), "writing");
    let founded = embed::found_with(&config, state, imported.epoch, args.epoch)?;
    print(&format!(
        "imported {}\n  transactions applied  {}\n  last zxid             {:#x}\n  \
         zxids begin above     epoch {}\n  \
         znodes                {}\n  ephemeral znodes      {}\n  sessions              {}\n  \
         bytes of data         {}\n  digest                {:#x} (version {}; {} compared)\n\
         server {} is the ensemble {:#018x} now, in {}\n",
        imported.snapshot.display(),
        imported.transactions,
        imported.last_zxid().0,
        founded.epoch,
        state.node_count(),
        state.ephemerals_count(),
        state.session_count(),
        state.data_bytes(),
        imported.digest,
        imported.digest_version(),
        imported.digests_compared,
        config.server_id.0,
        founded.founding,
        config.data_dir.display(),
    ))
}

/// Writes the data of a server that does not run for Apache `ZooKeeper`.
pub(crate) fn export(args: &ExportArgs) -> Result<(), MoveError> {
    let (config, warnings) = config::load(&args.config, args.id)?;
    zoolet_migrate::check_export(&args.to)?;
    log_all(&warnings);
    info!(data_dir = %config.data_dir.display(), "reading");
    let (state, epoch) = embed::state_of(&config, args.epoch)?;
    info!(znodes = state.node_count(), to = %args.to.display(), "writing");
    let exported = zoolet_migrate::export(&state, epoch, &args.to)?;
    print(&format!(
        "exported {}\n  last zxid             {:#x}\n  \
         zxids begin in        epoch {}\n  znodes                {}\n  \
         sessions              {}\n  digest                {:#x} (version 2)\n",
        exported.path.display(),
        exported.last_zxid.0,
        epoch,
        exported.znodes,
        exported.sessions,
        exported.digest,
    ))
}

fn print(text: &str) -> Result<(), MoveError> {
    let mut out = io::stdout();
    out.write_all(text.as_bytes()).and_then(|()| out.flush()).map_err(MoveError::Output)
}
