//! The data directory of a server that does not run: what moving in and out of an ensemble needs,
//! and what an operator does in an emergency.

use std::path::Path;

use thiserror::Error;
use zoolet_replica::state::State;

use super::StartError;
use crate::config::ServerConfig;
use crate::node::{self, OfflineError};
pub use crate::node::{DryRun, Founded, Recovered, Restored};

/// Why a data directory cannot be founded or read. Its message is one line for an operator, with the
/// file.
#[derive(Debug, Error)]
#[error(transparent)]
pub struct DataError(#[from] OfflineError);

/// Makes the empty directory of a configured server that of an ensemble of this server alone, with
/// `state`. When the server is started, it takes the other configured servers in, which must be
/// empty. A directory with files is refused. `known` is the newest epoch that the source of the state
/// knows, with or without a transaction. Zxids begin above `epoch`, which has to be above that, or
/// else above any epoch that a server can have used. Blocks.
pub fn found_with(
    config: &ServerConfig,
    state: &State,
    known: u32,
    epoch: Option<u32>,
) -> Result<Founded, DataError> {
    Ok(node::found(config, state, known, epoch)?)
}

/// Refuses a configured server whose directory has files, as [`found_with`] and [`restore`] do: for
/// programs that read a lot before they get there. Blocks.
pub fn check_empty(config: &ServerConfig) -> Result<(), DataError> {
    Ok(node::check_empty(config)?)
}

/// Returns the state of a configured server after the last entry of its log, and the epoch in which
/// zxids must begin wherever this state is used: `epoch`, or by default one above any that a server
/// can have used. The server must not run. Entries that no majority has acknowledged count as well, so the
/// server with the longest log has everything that was acknowledged. Blocks.
pub fn state_of(config: &ServerConfig, epoch: Option<u32>) -> Result<(State, u32), DataError> {
    Ok(node::state_of(config, epoch)?)
}

/// Makes an ensemble of a configured server alone, with the data that it has, for when a majority is
/// lost for good. The server must not run. Entries that no majority has acknowledged become
/// committed; what was acknowledged without this server is lost. The others are refused from then
/// on, until their directories are emptied. Zxids begin above `epoch`, or else above any epoch that a
/// server can have used. Blocks.
pub fn recover(config: &ServerConfig, epoch: Option<u32>) -> Result<Recovered, DataError> {
    Ok(node::recover(config, epoch)?)
}

/// Founds the empty directory of a configured server with a backup, as [`found_with`] does with a
/// state. Each byte of the backup is checked before anything is written. Blocks.
pub fn restore(
    config: &ServerConfig,
    backup: &Path,
    epoch: Option<u32>,
) -> Result<Restored, DataError> {
    Ok(node::restore(config, backup, epoch)?)
}

/// Judges the directories of a configured server by the code of a start, to the last entry of the log,
/// and changes nothing on the disk. Directories that are in use are judged without their log. Takes
/// the time and the memory of a start. Blocks.
pub fn dry_run(config: &ServerConfig) -> Result<DryRun, StartError> {
    Ok(node::dry_run(config)?)
}
