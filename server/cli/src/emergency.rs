//! `zoolet restore` and `zoolet recover`: what is done to a directory while no server runs on it
//! (docs/runbook.md).

use std::io::{self, Write};

use thiserror::Error;
use tracing::{info, warn};
use zoolet_server::embed::config::{self, ConfigError};
use zoolet_server::embed::{self, DataError};

use crate::cli::{RecoverArgs, RestoreArgs};
use crate::serve::{load, log_all};

/// Why nothing was restored or recovered.
#[derive(Debug, Error)]
pub(crate) enum EmergencyError {
    /// The configuration is wrong.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// The directory, or the backup.
    #[error(transparent)]
    Data(#[from] DataError),
    /// The summary cannot be written.
    #[error("cannot write to standard output: {0}")]
    Output(io::Error),
}

/// Founds a server's directory with a backup.
pub(crate) fn restore(args: &RestoreArgs) -> Result<(), EmergencyError> {
    let (config, warnings) = config::load(&args.config, args.id)?;
    embed::check_empty(&config)?;
    log_all(&warnings);
    info!(from = %args.from.display(), data_dir = %config.data_dir.display(), "restoring");
    let restored = embed::restore(&config, &args.from, args.epoch)?;
    print(&format!(
        "restored {}\n  last zxid             {:#x}\n  zxids begin above     epoch {}\n  \
         znodes                {}\n  ephemeral znodes      {}\n  sessions              {}\n  \
         digest                {:#x}\n\
         server {} is the ensemble {:#018x} now, in {}\n\
         start it, and the other servers with empty directories and --join\n",
        args.from.display(),
        restored.zxid,
        restored.epoch,
        restored.znodes,
        restored.ephemerals,
        restored.sessions,
        restored.digest,
        config.server_id.0,
        restored.founding,
        config.data_dir.display(),
    ))
}

/// Makes an ensemble of a server that has lost the others.
pub(crate) fn recover(args: &RecoverArgs) -> Result<(), EmergencyError> {
    let config = load(&args.config, args.id)?;
    info!(data_dir = %config.data_dir.display(), "reading");
    let recovered = embed::recover(&config, args.epoch)?;
    if let Some(lost) = &recovered.lost {
        warn!(lost, "the end of the log is lost, and with it writes that were acknowledged");
    }
    let place = place(recovered.last_index, recovered.committed_index);
    print(&format!(
        "server {} is an ensemble of its own now: {:#018x}, before {:#018x}\n  \
         last entry            {} ({place})\n  \
         last zxid             {:#x}\n  zxids begin above     epoch {}\n  \
         znodes                {}\n  sessions              {}\n  note                  {}\n\
         all entries are kept, also those that were not known to be committed; what the other servers \
         acknowledged without this one is lost: restart the clients, which may have seen it\n\
         start it, and the other servers with empty directories and --join: with their old data they \
         are refused\n",
        config.server_id.0,
        recovered.founding,
        recovered.old_founding,
        recovered.last_index,
        recovered.zxid,
        recovered.epoch,
        recovered.znodes,
        recovered.sessions,
        recovered.note.display(),
    ))
}

/// Returns where the last entry is, seen from the last that was known to be committed.
fn place(last: u64, committed: u64) -> String {
    match last.saturating_sub(committed) {
        0 => "known to be committed".to_owned(),
        later => format!("{later} later than the last that was known to be committed"),
    }
}

fn print(text: &str) -> Result<(), EmergencyError> {
    let mut out = io::stdout();
    out.write_all(text.as_bytes()).and_then(|()| out.flush()).map_err(EmergencyError::Output)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `1 behind` read as if the entry lagged.
    #[test]
    fn an_entry_that_is_not_known_to_be_committed_is_later() {
        assert_eq!(place(13, 13), "known to be committed");
        assert!(place(13, 12).starts_with("1 later than the last"));
    }
}
