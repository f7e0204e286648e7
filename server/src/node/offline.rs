//! The directory of a configured server that does not run.

use std::path::Path;
use std::sync::Arc;

use zoolet_replica::state::State;
use zoolet_storage::{RealDisk, WalOptions};

use crate::clock::{Clock, RealClock};
use crate::config::ServerConfig;
use crate::entropy::{Entropy, RealEntropy};
use crate::replication::{self, OfflineOptions};

pub(crate) use crate::replication::OfflineError;
pub use crate::replication::{Founded, Recovered, Restored};

/// Makes the empty directory of a configured server that of an ensemble of its own, with this
/// state. Blocks.
pub(crate) fn found(
    config: &ServerConfig,
    state: &State,
    known: u32,
    epoch: Option<u32>,
) -> Result<Founded, OfflineError> {
    replication::found(&options(config)?, state, known.into(), epoch)
}

/// Refuses a configured server whose directory is not empty. Blocks.
pub(crate) fn check_empty(config: &ServerConfig) -> Result<(), OfflineError> {
    replication::refuse_files(&options(config)?)
}

/// Returns the state of a configured server that does not run. Blocks.
pub(crate) fn state_of(config: &ServerConfig) -> Result<State, OfflineError> {
    replication::state_of(&options(config)?)
}

/// Makes a configured server that does not run an ensemble of its own. Blocks.
pub(crate) fn recover(
    config: &ServerConfig,
    epoch: Option<u32>,
) -> Result<Recovered, OfflineError> {
    replication::recover(&options(config)?, epoch)
}

/// Founds the empty directory of a configured server with a backup. Blocks.
pub(crate) fn restore(
    config: &ServerConfig,
    backup: &Path,
    epoch: Option<u32>,
) -> Result<Restored, OfflineError> {
    replication::restore(&options(config)?, backup, epoch)
}

fn options(config: &ServerConfig) -> Result<OfflineOptions, OfflineError> {
    let own = config.members.get(&config.server_id);
    let own = own.ok_or(replication::JoinError::NotAMember(config.server_id))?;
    let entropy: Arc<dyn Entropy> = Arc::new(RealEntropy);
    Ok(OfflineOptions {
        disk: Arc::new(RealDisk),
        directory: config.data_dir.clone(),
        log_directory: config.data_log_dir.clone(),
        server: config.server_id,
        address: own.peer.to_string(),
        cluster_id: config.cluster_id(),
        wal: WalOptions {
            segment_bytes: config.log.segment_bytes,
            salt: entropy.number(),
            ..WalOptions::default()
        },
        entropy,
        wall_ms: RealClock::new().now().wall_ms,
    })
}
