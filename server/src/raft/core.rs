//! A handle on openraft, with the few calls that the rest of this module makes.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use tokio::sync::watch;

use openraft::ReadPolicy;
use openraft::async_runtime::watch::WatchReceiver;
use openraft::metrics::RaftMetrics;
use openraft::raft::ClientWriteResult;

use super::state_machine::StateMachine;
use super::types::{Body, Callback, TypeConfig};

/// Who leads, and since which election.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Leadership {
    pub leader: u64,
    pub term: u64,
}

/// A handle on openraft. Clones are the same server.
#[derive(Clone, Debug)]
pub(super) struct Core {
    server: u64,
    raft: openraft::Raft<TypeConfig, StateMachine>,
    leaderships: watch::Receiver<Option<Leadership>>,
    /// The last term in which this server led and has given that up.
    given_up: Arc<AtomicU64>,
}

impl Core {
    /// Wraps openraft; a task follows its metrics until it stops.
    pub(super) fn new(server: u64, raft: openraft::Raft<TypeConfig, StateMachine>) -> Self {
        let (report, leaderships) = watch::channel(None);
        let mut metrics = raft.metrics();
        tokio::spawn(async move {
            loop {
                let (leadership, is_running) = {
                    let metrics = metrics.borrow_watched();
                    let term = metrics.current_term;
                    let leadership =
                        metrics.current_leader.map(|leader| Leadership { leader, term });
                    (leadership, metrics.running_state.is_ok())
                };
                report.send_if_modified(|known| std::mem::replace(known, leadership) != leadership);
                if !is_running || metrics.changed().await.is_err() {
                    return;
                }
            }
        });
        Self { server, raft, leaderships, given_up: Arc::default() }
    }

    pub(super) fn server(&self) -> u64 {
        self.server
    }

    pub(super) fn raft(&self) -> &openraft::Raft<TypeConfig, StateMachine> {
        &self.raft
    }

    pub(super) fn metrics(&self) -> RaftMetrics<TypeConfig> {
        self.raft.metrics().borrow_watched().clone()
    }

    /// Follows who leads.
    pub(super) fn leaderships(&self) -> watch::Receiver<Option<Leadership>> {
        self.leaderships.clone()
    }

    pub(super) fn leadership(&self) -> Option<Leadership> {
        *self.leaderships.borrow()
    }

    pub(super) fn is_leader(&self) -> bool {
        self.leadership().is_some_and(|leadership| leadership.leader == self.server)
    }

    /// This server is about to give its lead up: from now on its word counts no longer, while the
    /// others may already listen to another.
    pub(super) fn give_up(&self) {
        if let Some(known) = self.leadership().filter(|known| known.leader == self.server) {
            self.given_up.store(known.term, Ordering::Relaxed);
        }
    }

    pub(super) fn has_given_up(&self, term: u64) -> bool {
        self.given_up.load(Ordering::Relaxed) == term
    }

    pub(super) fn is_only_voter(&self) -> bool {
        self.metrics().membership_config.voter_ids().all(|voter| voter == self.server)
    }

    /// Puts a batch behind all that were proposed before. False when openraft has stopped.
    pub(super) async fn propose(
        &self,
        body: Body,
        told: Callback<ClientWriteResult<TypeConfig>>,
    ) -> bool {
        self.raft.client_write_ff(body, Some(told)).await.is_ok()
    }

    /// As leader: an index up to which everything is that was committed before the call. `None`
    /// when this server does not lead, or cannot show that it does.
    pub(super) async fn read_index(&self) -> Option<u64> {
        let linearizer = self.raft.get_read_linearizer(ReadPolicy::ReadIndex).await.ok()?;
        Some(linearizer.read_log_id().index())
    }
}
