//! The directory of a configured server that does not run.

use std::path::Path;
use std::sync::Arc;
use std::thread::sleep;

use zoolet_replica::state::State;
use zoolet_storage::{Identity, OverlayDisk, RealDisk, StorageError, WalMode, WalOptions};

use crate::clock::{Clock, RealClock};
use crate::config::ServerConfig;
use crate::entropy::{Entropy, RealEntropy};
use crate::replication::{self, JoinError, OfflineOptions};

use super::{Seams, StartError, open, settings};
pub(crate) use crate::replication::OfflineError;
pub use crate::replication::{Founded, Recovered, Restored};

/// The longest segment of the log that a dry run begins, in bytes.
const DRY_RUN_SEGMENT_BYTES: u64 = 1 << 20;

/// Makes the empty directory of a configured server that of an ensemble of its own, with this
/// state. Blocks.
pub(crate) fn found(
    config: &ServerConfig,
    state: &State,
    known: u32,
    epoch: Option<u32>,
) -> Result<Founded, OfflineError> {
    let founded = replication::found(&options(config)?, state, known.into(), epoch)?;
    wait_past(founded.epoch);
    Ok(founded)
}

/// Refuses a configured server whose directory is not empty. Blocks.
pub(crate) fn check_empty(config: &ServerConfig) -> Result<(), OfflineError> {
    replication::refuse_files(&options(config)?)
}

/// Returns the state of a configured server that does not run, and the epoch in which zxids must begin
/// wherever this state is used. Blocks.
pub(crate) fn state_of(
    config: &ServerConfig,
    epoch: Option<u32>,
) -> Result<(State, u32), OfflineError> {
    let (state, epoch) = replication::state_of(&options(config)?, epoch)?;
    wait_past(epoch);
    Ok((state, epoch))
}

/// Makes a configured server that does not run an ensemble of its own. Blocks.
pub(crate) fn recover(
    config: &ServerConfig,
    epoch: Option<u32>,
) -> Result<Recovered, OfflineError> {
    let recovered = replication::recover(&options(config)?, epoch)?;
    wait_past(recovered.epoch);
    Ok(recovered)
}

/// Founds the empty directory of a configured server with a backup. Blocks.
pub(crate) fn restore(
    config: &ServerConfig,
    backup: &Path,
    epoch: Option<u32>,
) -> Result<Restored, OfflineError> {
    let restored = replication::restore(&options(config)?, backup, epoch)?;
    wait_past(restored.epoch);
    Ok(restored)
}

/// The result of a dry run of a start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DryRun {
    /// They are empty, or not there yet.
    NoData,
    /// They hold the data of this server, which can be read up to the last entry of its log.
    HasData,
    /// They hold the data of this server, and a process has them locked. The log was not read.
    InUse,
}

/// Opens the directories and reads the log as a start does, and changes nothing on the disk. Blocks.
pub(crate) fn dry_run(config: &ServerConfig) -> Result<DryRun, StartError> {
    // Names the source of the lines that a start would log.
    let _span = tracing::info_span!("dry_run").entered();
    let options = |disk| {
        let seams = Seams { disk: Arc::new(disk), ..Seams::real() };
        let no_secrets = (None, settings::peer_port_tls(config, None));
        let mut options = settings::raft_options(config, &seams, no_secrets, &Arc::default());
        // The new segment is in memory.
        options.wal.mode = WalMode::Inline;
        options.wal.segment_bytes = options.wal.segment_bytes.min(DRY_RUN_SEGMENT_BYTES);
        options
    };
    let wall_ms = RealClock::new().now().wall_ms;
    let (opened, mut state) = match open(options(OverlayDisk::default()), wall_ms) {
        Err(StartError::Raft(JoinError::Storage(StorageError::Locked { path })))
            if path == config.data_dir =>
        {
            replication::check_claim(options(OverlayDisk::without_locks()))?;
            return Ok(DryRun::InUse);
        }
        opened => opened?,
    };
    opened.replay(&mut state).map_err(|error| StartError::Failed(error.to_string()))?;
    let is_claimed = Identity::peek(&RealDisk, &config.data_dir)?.is_some();
    Ok(if is_claimed { DryRun::HasData } else { DryRun::NoData })
}

/// Waits until the clock is past an epoch, so that the next founding begins above it.
#[allow(clippy::disallowed_methods, reason = "a command waits, and no server")]
fn wait_past(epoch: u32) {
    if let Some(wait) = replication::time_until_past(epoch, RealClock::new().now().wall_ms) {
        sleep(wait);
    }
}

fn options(config: &ServerConfig) -> Result<OfflineOptions, OfflineError> {
    let own = config.members.get(&config.server_id);
    let own = own.ok_or(JoinError::NotAMember(config.server_id))?;
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
