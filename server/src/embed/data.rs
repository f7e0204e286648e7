//! The data directory of a server that does not run: what moving in and out of an ensemble needs,
//! and what an operator does in an emergency.

use std::path::Path;

use thiserror::Error;
use zoolet_replica::state::State;

use crate::config::ServerConfig;
use crate::node::{self, OfflineError};
pub use crate::node::{Recovered, Restored};

/// Why a data directory cannot be founded or read. Its message is one line for an operator, with the
/// file.
#[derive(Debug, Error)]
#[error(transparent)]
pub struct DataError(#[from] OfflineError);

/// Makes the empty directory of a configured server that of an ensemble of this server alone, with
/// `state`. When the server is started, it takes the other configured servers in, which must be
/// empty. A directory with files is refused. Zxids begin above `epoch`, and above that of the state's
/// last transaction. Returns the random id of the founding. Blocks.
pub fn found_with(config: &ServerConfig, state: &State, epoch: u32) -> Result<u64, DataError> {
    Ok(node::found(config, state, epoch)?)
}

/// Refuses a configured server whose directory has files, as [`found_with`] and [`restore`] do: for
/// programs that read a lot before they get there. Blocks.
pub fn check_empty(config: &ServerConfig) -> Result<(), DataError> {
    Ok(node::check_empty(config)?)
}

/// Returns the state of a configured server behind the last entry of its log. The server must not
/// run. Entries that no majority has acknowledged count as well, so the server with the longest log
/// has everything that was acknowledged. Blocks.
pub fn state_of(config: &ServerConfig) -> Result<State, DataError> {
    Ok(node::state_of(config)?)
}

/// Makes an ensemble of a configured server alone, with the data that it has, for when a majority is
/// lost for good. The server must not run. Entries that no majority has acknowledged become
/// committed; what was acknowledged without this server is lost. The others are refused from then
/// on, until their directories are emptied. Blocks.
pub fn recover(config: &ServerConfig) -> Result<Recovered, DataError> {
    Ok(node::recover(config)?)
}

/// Founds the empty directory of a configured server with a backup, as [`found_with`] does with a
/// state. Each byte of the backup is checked before anything is written. Blocks.
pub fn restore(config: &ServerConfig, backup: &Path, epoch: u32) -> Result<Restored, DataError> {
    Ok(node::restore(config, backup, epoch)?)
}
