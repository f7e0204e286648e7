//! What makes a `sync` linearizable: the leader says up to where the log was committed, after a
//! majority has confirmed that it still leads, and this server applies it up to there.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::{sleep, timeout};
use zoolet_replica::Input;

use super::machine::Machine;
use super::proposer::Proposer;
use super::read_index::ReadIndex;

/// The pause before the leader is asked again.
const RETRY_PAUSE: Duration = Duration::from_millis(15);

/// Serves syncs: one round for all that wait.
pub(super) async fn serve_syncs(
    proposer: Arc<Proposer>,
    machine: Arc<dyn Machine>,
    mut read_index: ReadIndex,
    proposal_timeout: Duration,
) {
    let mut done = 0;
    loop {
        let wanted = proposer.sync_wanted();
        if wanted == done {
            proposer.sync_asked().await;
            continue;
        }
        let catching_up = async {
            while !read_index.catch_up().await {
                sleep(RETRY_PAUSE).await;
            }
        };
        match timeout(proposal_timeout, catching_up).await {
            Ok(()) => machine.input(Input::Synced { through: wanted }),
            Err(_) => machine.input(Input::SyncLost { through: wanted }),
        }
        done = wanted;
    }
}
