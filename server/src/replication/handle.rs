//! A handle on openraft, with the few calls that the rest of this module makes.

use std::collections::BTreeSet;
use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::Instant;

use openraft::ReadPolicy;
use openraft::async_runtime::watch::WatchReceiver;
use openraft::metrics::RaftMetrics;
use openraft::raft::ClientWriteResult;
use zoolet_storage::Wal;

use super::members::is_outsider;
use super::node_ids::server_of;
use super::state_machine::{Snapshots, StateMachine};
use super::types::{Body, Callback, TypeConfig, log_id};
use crate::fatal::Fatal;

/// Who leads, and since which election.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Leadership {
    /// The leader's node.
    pub leader: u64,
    pub term: u64,
}

/// The sizes of the entries that a leader has proposed, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EntrySizes {
    /// Of the last one.
    pub last: usize,
    /// The smallest and the largest.
    pub min: usize,
    pub max: usize,
}

/// What a server knows of its time as leader.
#[derive(Debug, Default)]
struct Lead {
    /// The term in which it leads, and since when.
    since: Option<(u64, Instant)>,
    proposed: Option<EntrySizes>,
}

/// A handle on openraft. Clones are the same server.
#[derive(Clone, Debug)]
pub(super) struct RaftHandle {
    node: u64,
    wal: Arc<Wal>,
    raft: openraft::Raft<TypeConfig, StateMachine>,
    leaderships: watch::Receiver<Option<Leadership>>,
    /// The last term in which this server led and has given that up.
    given_up: Arc<AtomicU64>,
    lead: Arc<Mutex<Lead>>,
}

impl Lead {
    /// Notes the term in which this server leads.
    fn leads(&mut self, term: Option<u64>) {
        if self.since.map(|(known, _)| known) != term {
            *self = Self { since: term.map(|term| (term, Instant::now())), proposed: None };
        }
    }

    fn proposes(&mut self, bytes: usize) {
        let (min, max) = self.proposed.map_or((bytes, bytes), |known| (known.min, known.max));
        let proposed = EntrySizes { last: bytes, min: min.min(bytes), max: max.max(bytes) };
        self.proposed = Some(proposed);
    }
}

fn locked(lead: &Mutex<Lead>) -> MutexGuard<'_, Lead> {
    lead.lock().unwrap_or_else(PoisonError::into_inner)
}

impl RaftHandle {
    /// Wraps openraft; a task follows its metrics until it stops.
    pub(super) fn new(
        node: u64,
        raft: openraft::Raft<TypeConfig, StateMachine>,
        wal: Arc<Wal>,
        fatal: Fatal,
    ) -> Self {
        let (report, leaderships) = watch::channel(None);
        let lead: Arc<Mutex<Lead>> = Arc::default();
        let mut metrics = raft.metrics();
        let led = Arc::clone(&lead);
        let following = async move {
            loop {
                let (leadership, is_running) = {
                    let metrics = metrics.borrow_watched();
                    let term = metrics.current_term;
                    let leadership =
                        metrics.current_leader.map(|leader| Leadership { leader, term });
                    (leadership, metrics.running_state.is_ok())
                };
                let own = leadership.filter(|now| now.leader == node).map(|now| now.term);
                locked(&led).leads(own);
                report.send_if_modified(|known| std::mem::replace(known, leadership) != leadership);
                if !is_running || metrics.changed().await.is_err() {
                    return;
                }
            }
        };
        // It ends with openraft, which is watched.
        tokio::spawn(fatal.finite("leadership", following));
        Self { node, wal, raft, leaderships, given_up: Arc::default(), lead }
    }

    /// Returns this server's id in the log's membership.
    pub(super) fn node(&self) -> u64 {
        self.node
    }

    /// Returns this server's number.
    pub(super) fn server(&self) -> u64 {
        server_of(self.node)
    }

    /// Returns whether this server has neither entries nor what was made of some.
    pub(super) fn log_is_empty(&self) -> bool {
        let state = self.wal.state();
        state.last.is_none() && state.purged.is_none()
    }

    /// Returns whether this server's directory belongs to the ensemble, with a vote or without.
    pub(super) fn is_in_membership(&self) -> bool {
        let metrics = self.metrics();
        let member = metrics.membership_config.membership().get_node(&self.node);
        member.is_some_and(|member| !is_outsider(member))
    }

    /// Returns the numbers of the voters.
    pub(super) fn voters(&self) -> BTreeSet<u64> {
        self.metrics().membership_config.voter_ids().map(server_of).collect()
    }

    /// Returns whether the ensemble was ever changed at run time: then the configuration no longer
    /// counts.
    pub(super) fn is_ensemble_changed(&self) -> bool {
        let metrics = self.metrics();
        let mut nodes = metrics.membership_config.membership().nodes();
        nodes.any(|(_, member)| !is_outsider(member) && !member.line.is_empty())
    }

    /// Takes a snapshot. openraft ends for good when one cannot be written, on a full disk for
    /// example, so it is written here, and openraft is handed only what was written.
    pub(super) async fn take_snapshot(&self, snapshots: &Snapshots) -> io::Result<()> {
        let capturing = self.raft.with_state_machine(|machine: &mut StateMachine| {
            let captured = machine.capture();
            Box::pin(async move { captured })
        });
        let written = capturing.await.map_err(io::Error::other)?.write(snapshots).await?;
        snapshots.keep_written(written);
        self.raft.trigger().snapshot().await.map_err(io::Error::other)
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
        self.leadership().is_some_and(|leadership| leadership.leader == self.node)
    }

    /// This server is about to give its lead up: from now on its word counts no longer, while the
    /// others may already listen to another.
    pub(super) fn give_up(&self) {
        if let Some(known) = self.leadership().filter(|known| known.leader == self.node) {
            self.given_up.store(known.term, Ordering::Relaxed);
        }
    }

    pub(super) fn has_given_up(&self, term: u64) -> bool {
        self.given_up.load(Ordering::Relaxed) == term
    }

    pub(super) fn is_only_voter(&self) -> bool {
        self.metrics().membership_config.voter_ids().all(|voter| voter == self.node)
    }

    /// Puts a batch behind all that were proposed before, if this server leads, and in `term` if one
    /// is given. False when openraft has stopped.
    pub(super) async fn propose(
        &self,
        body: Body,
        term: Option<u64>,
        outcome: Callback<ClientWriteResult<TypeConfig>>,
    ) -> bool {
        locked(&self.lead).proposes(body.0.len());
        let write = self.raft.write(body).responder(outcome);
        match term {
            Some(term) => write.with_leader(log_id(term, 0).leader_id).await.is_ok(),
            None => write.await.is_ok(),
        }
    }

    /// For how long this server has led, if it does.
    pub(super) fn led_for(&self) -> Option<Duration> {
        locked(&self.lead).since.map(|(_, since)| since.elapsed())
    }

    /// What it has proposed as leader since its election, or since these were reset.
    pub(super) fn proposed(&self) -> Option<EntrySizes> {
        locked(&self.lead).proposed
    }

    pub(super) fn reset_proposed(&self) {
        locked(&self.lead).proposed = None;
    }

    /// As leader: an index up to which everything is that was committed before the call. `None`
    /// when this server does not lead, or cannot show that it does.
    pub(super) async fn read_index(&self) -> Option<u64> {
        let linearizer = self.raft.get_read_linearizer(ReadPolicy::ReadIndex).await.ok()?;
        Some(linearizer.read_log_id().index())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_leader_counts_from_its_election() {
        let mut lead = Lead::default();
        lead.leads(Some(3));
        for bytes in [50, 7, 90, 20] {
            lead.proposes(bytes);
        }
        assert_eq!(lead.proposed, Some(EntrySizes { last: 20, min: 7, max: 90 }));
        lead.leads(Some(3));
        assert!(lead.proposed.is_some() && lead.since.is_some(), "the same lead");
        lead.leads(Some(5));
        assert_eq!(lead.proposed, None);
        assert_eq!(lead.since.map(|(term, _)| term), Some(5));
        lead.leads(None);
        assert!(lead.since.is_none());
    }
}
