//! The replication of the state: what a server does for and with its ensemble around the consensus
//! on the log.
//!
//! [`open()`] opens the directory and gives the newest snapshot, from which the caller builds its
//! [`Machine`]; [`Opened::start`] then joins the ensemble. The caller puts commands in through
//! [`Proposer`] and gets them back, in the order of the log, through [`Machine::commit_many`].

mod applier;
mod blocking;
mod boot;
mod bootstrap;
mod committed;
mod comparer;
mod context;
mod directories;
mod directory;
mod divergence;
mod epoch;
mod forced;
mod founding;
mod handle;
mod join_error;
mod joining;
mod leader_contact;
mod levels;
mod machine;
mod members;
mod moved_port;
mod offline;
mod open;
mod options;
mod patience;
mod proposal_driver;
mod proposal_queue;
mod proposer;
mod read_index;
mod reconfig;
mod recover;
mod replacement;
mod role;
mod rpc_server;
mod silences;
mod snapshot_pace;
mod snapshot_scheduler;
mod state_age;
mod status;
mod succession;
mod supervisor;
mod sync;
mod touches;
mod transfer;

#[cfg(test)]
mod tests;

use std::net::SocketAddr;
use std::sync::{Arc, Weak};

use tokio::sync::{mpsc, watch};
use tokio::task::JoinSet;
use zoolet_replica::{Boot, Role};
use zoolet_storage::Wal;

use self::applier::MachineApplier;
use self::bootstrap::Agreement;
use self::context::{ReplicationContext, links, reconfigurer};
use self::directories::Directories;
use self::directory::DirectoryIdentity;
use self::handle::ConsensusHandle;
use self::levels::Ceiling;
use self::patience::Patience;
use self::read_index::ReadIndex;
use self::state_age::StateAge;
use crate::fatal::Fatal;
use crate::peer::{Links, PeerPort};
use crate::raft::{self, RaftParts};
use crate::snapshots::{Chunks, Snapshots};
use crate::transport::Net;

/// How many ends of peers' connections wait to be looked at. More are dropped: a server has several
/// connections, so a later end of another one is enough.
const HANG_UPS_MAX: usize = 64;

pub(crate) use self::epoch::time_until_past;
pub(crate) use self::join_error::JoinError;
pub(crate) use self::machine::Machine;
pub use self::offline::Founded;
pub(crate) use self::offline::OfflineError;
pub(crate) use self::offline::{OfflineOptions, found, refuse_files, state_of};
pub(crate) use self::open::{check_claim, open};
pub(crate) use self::options::{BatchLimits, ConfiguredMember, ReplicationOptions, Timing};
pub(crate) use self::proposer::Proposer;
pub use self::recover::{Recovered, Restored};
pub(crate) use self::recover::{recover, restore};
pub(crate) use self::snapshot_pace::SnapshotPace;
pub(crate) use self::status::{Status, StatusSource};

/// An open directory.
#[derive(Debug)]
pub(crate) struct Opened {
    options: ReplicationOptions,
    boot: Boot,
    wal: Arc<Wal>,
    snapshots: Snapshots,
    proposer: Arc<Proposer>,
    directories: Arc<Directories>,
    identity: DirectoryIdentity,
    agreement: Agreement,
}

impl Opened {
    /// The number of this start.
    pub(crate) fn boot(&self) -> Boot {
        self.boot
    }

    /// The newest snapshot's bytes, from which the state is to be built; without one it begins
    /// empty.
    pub(crate) fn snapshot(&self) -> Option<Chunks> {
        let current = self.snapshots.current()?;
        Some(Box::new(current))
    }

    /// How many entries the log has behind that snapshot.
    pub(crate) fn entries_behind(&self) -> u64 {
        let snapshot = self.snapshots.current().map_or(0, |current| current.name().index.0);
        let last = self.wal.state().last.map_or(0, |last| last.index.0);
        last.saturating_sub(snapshot)
    }

    /// Leaves the writing of the log to the caller: see [`Wal::write_by_hand`].
    pub(crate) fn write_by_hand(&self) -> Weak<Wal> {
        self.wal.write_by_hand();
        Arc::downgrade(&self.wal)
    }

    /// Where the replica's wishes go.
    pub(crate) fn proposer(&self) -> Arc<Proposer> {
        Arc::clone(&self.proposer)
    }

    /// Replays the log into `machine`, which holds the state of [`Opened::snapshot`], and joins
    /// the ensemble. Why it can no longer work goes to `fatal`.
    pub(crate) async fn start(
        self,
        machine: Arc<dyn Machine>,
        net: Arc<dyn Net>,
        fatal: Fatal,
    ) -> Result<Replication, JoinError> {
        let Self { options, wal, snapshots, proposer, directories, identity, agreement, .. } = self;
        let options = Arc::new(options);
        report_failure(&wal, &fatal);
        let links = links(&options, &identity, &net, &fatal);
        let applier = applier(&snapshots, &machine, &proposer)?;
        let (applied, progress) = (applier.applied(), applier.progress());
        let (divergence, signals) = (applier.divergence(), Arc::default());
        let parts = RaftParts {
            node: identity.node(),
            wal: Arc::clone(&wal),
            snapshots: snapshots.clone(),
            applier,
            links: Arc::clone(&links),
            signals: Arc::clone(&signals),
            fatal: fatal.clone(),
            loss_mark: directories.loss_mark(fatal.clone()),
        };
        let consensus = raft::start(options.raft(), parts).await.map_err(JoinError::Raft)?;
        let handle = ConsensusHandle::new(consensus, Arc::clone(&wal));
        let read_index = ReadIndex {
            handle: handle.clone(),
            links: Arc::clone(&links),
            applied: applied.clone(),
        };
        let state_age = StateAge::new(options.entropy.number(), options.timing.heartbeat / 2);
        let changes = reconfigurer(&options, read_index, Arc::clone(&machine));
        let context = ReplicationContext {
            changes: Arc::new(changes),
            signals,
            links,
            machine,
            proposer,
            snapshots,
            applied,
            progress,
            divergence,
            handle,
            leader_contact: Arc::default(),
            patience: Arc::new(Patience::new(&options.timing)),
            state_age: Arc::new(state_age),
            identity,
            agreement: Arc::new(agreement),
            ceiling: Ceiling::new(),
            role: watch::Sender::new(Role::Looking),
            fatal,
            wal,
        };
        let (hung_up, hang_ups) = mpsc::channel(HANG_UPS_MAX);
        let (port, moved_port) = context.listen(&options, &net, hung_up).await?.unzip();
        context.handle.run();
        let tasks = context.start_tasks(&options, hang_ups, moved_port);
        let status = context.status_source(options.timing.silence_max());
        let ReplicationContext { handle, links, wal, .. } = context;
        Ok(Replication { handle, links, status, port, tasks, wal, _directories: directories })
    }
}

fn report_failure(wal: &Wal, fatal: &Fatal) {
    let fatal = fatal.clone();
    wal.on_failure(Box::new(move |error| fatal.report(error.to_string())));
}

/// Returns what applies the entries behind the newest snapshot.
fn applier(
    snapshots: &Snapshots,
    machine: &Arc<dyn Machine>,
    proposer: &Arc<Proposer>,
) -> Result<Arc<MachineApplier>, JoinError> {
    let current = snapshots.current();
    let last = current.as_ref().map(raft::last_of).transpose().map_err(not_started)?.flatten();
    Ok(Arc::new(MachineApplier::new(Arc::clone(machine), Arc::clone(proposer), last)))
}

fn not_started(error: impl std::fmt::Display) -> JoinError {
    JoinError::Raft(error.to_string())
}

/// A server in its ensemble. Dropping it without [`Replication::shutdown`] is like a kill.
#[derive(Debug)]
pub(crate) struct Replication {
    handle: ConsensusHandle,
    links: Arc<Links>,
    status: StatusSource,
    port: Option<PeerPort>,
    tasks: JoinSet<()>,
    wal: Arc<Wal>,
    _directories: Arc<Directories>,
}

impl Replication {
    /// The address of the peer port; an ensemble of one has none.
    pub(crate) fn peer_addr(&self) -> Option<SocketAddr> {
        self.port.as_ref().map(PeerPort::local_addr)
    }

    /// This server's part in the ensemble, as the machine knows it.
    pub(crate) fn role(&self) -> watch::Receiver<Role> {
        self.status.role.clone()
    }

    /// Reads the server's status at any time.
    pub(crate) fn status_source(&self) -> StatusSource {
        self.status.clone()
    }

    /// Makes another server the leader, if this one is.
    pub(crate) async fn transfer_leadership(&self) {
        transfer::transfer_leadership(&self.handle, &self.links).await;
    }

    /// Ends this server's part in good order: hands the lead over, and makes all that was written
    /// durable.
    pub(crate) async fn shutdown(mut self) {
        self.transfer_leadership().await;
        self.stop().await;
    }

    /// Ends it without handing over.
    pub(crate) async fn stop(&mut self) {
        if let Some(port) = self.port.take() {
            port.close().await;
        }
        self.tasks.shutdown().await;
        if let Err(error) = self.handle.shutdown().await {
            tracing::warn!(error, "the log's replication has not ended well");
        }
        let (done, flushed) = tokio::sync::oneshot::channel();
        // The receiver waits below; a log that has failed has been reported.
        let flushing = self.wal.flush(Box::new(move |result| drop(done.send(result))));
        if flushing.is_ok() {
            let _ = flushed.await;
        }
    }
}
