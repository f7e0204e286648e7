//! What the tasks of a server share, and the tasks that it starts.

use std::collections::BTreeMap;
use std::future::Future;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::sync::{Semaphore, mpsc, watch};
use tokio::task::JoinSet;
use zoolet_replica::Role;
use zoolet_storage::{LogPosition, Wal};

use super::applier::Progress;
use super::bootstrap::{Agreement, Bootstrap};
use super::committed::Committed;
use super::comparer::Comparer;
use super::directory::DirectoryIdentity;
use super::divergence::Divergence;
use super::handle::ConsensusHandle;
use super::join_error::JoinError;
use super::joining::Joining;
use super::leader_contact::LeaderContact;
use super::levels::{Ceiling, LevelKeeper};
use super::machine::Machine;
use super::moved_port::MovedPort;
use super::options::{ConfiguredMember, ReplicationOptions};
use super::patience::Patience;
use super::proposal_driver::ProposalDriver;
use super::proposer::Proposer;
use super::read_index::ReadIndex;
use super::reconfig::{Denials, Reconfigurer, Refusals};
use super::rpc_server::RpcServer;
use super::snapshot_scheduler::SnapshotScheduler;
use super::state_age::StateAge;
use super::status::StatusSource;
use super::supervisor::Supervisor;
use super::{options, reconfig, silences, sync, touches};
use crate::consensus::Leadership;
use crate::fatal::Fatal;
use crate::peer::{self, Lane, LinkOptions, Links, PeerPort, PeerPortOptions, Service};
use crate::raft::PeerSignals;
use crate::snapshots::Snapshots;
use crate::transport::Net;

/// Calls to one peer that wait, and answers to one peer that are not ready.
const CALLS_MAX: usize = 256;

/// The shortest pause by which servers found an ensemble one after the other; four of them are what
/// one with the data of an ensemble has to open its port.
const STAGGER_MIN: Duration = Duration::from_secs(1);

/// How long a caller of the peer port may take for the handshake.
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(5);

pub(super) fn reconfigurer(
    options: &Arc<ReplicationOptions>,
    read_index: ReadIndex,
    machine: Arc<dyn Machine>,
) -> Reconfigurer {
    Reconfigurer {
        handle: read_index.handle.clone(),
        links: Arc::clone(&read_index.links),
        machine,
        read_index,
        options: Arc::clone(options),
        busy: tokio::sync::Mutex::default(),
        joining: Joining::default(),
        refusals: Refusals::default(),
        denials: Denials::default(),
        asking: Semaphore::new(reconfig::ASKING_MAX),
    }
}

/// Returns who this server is to its peers. The founding is put in when a connection begins.
fn peer_identity(options: &ReplicationOptions, identity: &DirectoryIdentity) -> peer::PeerIdentity {
    let (server, directory) = (u64::from(options.server.0), identity.node().directory());
    peer::PeerIdentity { cluster: options.cluster_id, founding: 0, server, directory }
}

pub(super) fn links(
    options: &ReplicationOptions,
    identity: &DirectoryIdentity,
    net: &Arc<dyn Net>,
    fatal: &Fatal,
) -> Arc<Links> {
    let template = LinkOptions {
        net: Arc::clone(net),
        ours: peer_identity(options, identity),
        founding: identity.founding_source(),
        target: peer::Target { server: 0, directory: None },
        addresses: Vec::new(),
        lane: Lane::Control,
        secret: options.secret.clone(),
        tls: options.tls.clone(),
        frames: options::FRAMES_SENT,
        calls_max: CALLS_MAX,
        connect_timeout: options.connect_timeout,
        backoff_max: options.timing.heartbeat,
        stall_timeout: options.timing.peer_timeout(),
        probes: None,
        reach: Arc::default(),
        fatal: fatal.clone(),
    };
    let address = |member: &ConfiguredMember| (u64::from(member.server.0), member.address.clone());
    let addresses: BTreeMap<u64, String> = options.members.iter().map(address).collect();
    Arc::new(Links::new(template, addresses))
}

/// What the tasks of a server share.
#[derive(Debug)]
pub(super) struct ReplicationContext {
    pub handle: ConsensusHandle,
    pub links: Arc<Links>,
    pub machine: Arc<dyn Machine>,
    pub proposer: Arc<Proposer>,
    pub snapshots: Snapshots,
    pub applied: watch::Receiver<Option<LogPosition>>,
    pub progress: Arc<Progress>,
    pub divergence: Arc<Divergence>,
    pub leader_contact: Arc<LeaderContact>,
    pub patience: Arc<Patience>,
    pub state_age: Arc<StateAge>,
    pub identity: DirectoryIdentity,
    pub agreement: Arc<Agreement>,
    pub ceiling: Ceiling,
    pub signals: Arc<PeerSignals>,
    pub changes: Arc<Reconfigurer>,
    pub role: watch::Sender<Role>,
    pub fatal: Fatal,
    pub wal: Arc<Wal>,
}

impl ReplicationContext {
    /// Opens the peer port, and prepares another one for when the server is moved; an ensemble of
    /// one needs none.
    pub(super) async fn listen(
        &self,
        options: &ReplicationOptions,
        net: &Arc<dyn Net>,
        hung_up: mpsc::Sender<u64>,
    ) -> Result<Option<(PeerPort, MovedPort)>, JoinError> {
        let own = options.members.iter().find(|member| member.server == options.server);
        let Some(own) = own.filter(|_| !options.standalone) else { return Ok(None) };
        let address = options.listen.clone().unwrap_or_else(|| own.address.clone());
        let service: Arc<dyn Service> = Arc::new(RpcServer {
            handle: self.handle.clone(),
            machine: Arc::clone(&self.machine),
            snapshots: self.snapshots.clone(),
            applied: self.applied.clone(),
            leader_contact: Arc::clone(&self.leader_contact),
            patience: Arc::clone(&self.patience),
            state_age: Arc::clone(&self.state_age),
            identity: self.identity.clone(),
            agreement: Arc::clone(&self.agreement),
            ceiling: self.ceiling.clone(),
            changes: Arc::clone(&self.changes),
            divergence: Arc::clone(&self.divergence),
            wal: Arc::clone(&self.wal),
            committed: Arc::new(Committed::new(Arc::clone(&self.wal), self.applied.clone())),
            signals: Arc::clone(&self.signals),
            receiving: tokio::sync::Mutex::default(),
            installing: Arc::default(),
            refusals: Arc::default(),
        });
        let port_options = PeerPortOptions {
            ours: peer_identity(options, &self.identity),
            founding: self.identity.founding_source(),
            any_cluster: options.reconfig && !options.cluster_named,
            address: address.clone(),
            secret: options.secret.clone(),
            tls: options.tls.clone(),
            frames: options.frames(),
            answers_max: CALLS_MAX,
            handshake_timeout: HANDSHAKE_TIMEOUT,
            hung_up,
            fatal: self.fatal.clone(),
        };
        let port = PeerPort::listen(&**net, port_options.clone(), Arc::clone(&service)).await;
        let port = port.map_err(|source| JoinError::Listen { address, source })?;
        let (node, net, opened) = (self.handle.node(), Arc::clone(net), Mutex::default());
        Ok(Some((port, MovedPort { node, net, options: port_options, service, opened })))
    }

    /// Returns what reads the server's status; a peer counts as synced until it has not answered for
    /// `silence_max`.
    pub(super) fn status_source(&self, silence_max: Duration) -> StatusSource {
        StatusSource {
            handle: self.handle.clone(),
            applied: self.applied.clone(),
            snapshots: self.snapshots.clone(),
            divergence: Arc::clone(&self.divergence),
            state_age: Arc::clone(&self.state_age),
            signals: Arc::clone(&self.signals),
            role: self.role.subscribe(),
            proposer: Arc::clone(&self.proposer),
            silence_max,
        }
    }

    fn read_index(&self) -> ReadIndex {
        let (handle, applied) = (self.handle.clone(), self.applied.clone());
        ReadIndex { handle, links: Arc::clone(&self.links), applied }
    }

    fn driver(
        &self,
        options: &ReplicationOptions,
        leaderships: watch::Receiver<Option<Leadership>>,
    ) -> ProposalDriver {
        ProposalDriver {
            proposer: Arc::clone(&self.proposer),
            machine: Arc::clone(&self.machine),
            handle: self.handle.clone(),
            leaderships,
            links: Arc::clone(&self.links),
            batches: options.batches,
            proposal_timeout: options.timing.proposal_timeout,
            read_index: self.read_index(),
            disk: Arc::clone(&options.disk),
            directory: options.directory.clone(),
            fatal: self.fatal.clone(),
            ceiling: self.ceiling.clone(),
        }
    }

    fn level_keeper(&self) -> LevelKeeper {
        LevelKeeper {
            handle: self.handle.clone(),
            links: Arc::clone(&self.links),
            machine: Arc::clone(&self.machine),
            read_index: self.read_index(),
            ceiling: self.ceiling.clone(),
        }
    }

    fn comparer(&self) -> Comparer {
        let (handle, links) = (self.handle.clone(), Arc::clone(&self.links));
        Comparer { handle, links, divergence: Arc::clone(&self.divergence) }
    }

    fn supervisor(
        &self,
        options: &ReplicationOptions,
        moved_port: Option<MovedPort>,
        leader: watch::Sender<Option<Leadership>>,
    ) -> Supervisor {
        Supervisor {
            comparer: self.comparer(),
            handle: self.handle.clone(),
            machine: Arc::clone(&self.machine),
            leader_contact: Arc::clone(&self.leader_contact),
            patience: Arc::clone(&self.patience),
            state_age: Arc::clone(&self.state_age),
            applied: self.applied.clone(),
            read_index: self.read_index(),
            links: Arc::clone(&self.links),
            wal: Arc::clone(&self.wal),
            signals: Arc::clone(&self.signals),
            entropy: Arc::clone(&options.entropy),
            timing: options.timing,
            levels: self.level_keeper(),
            changes: Arc::clone(&self.changes),
            moved_port: moved_port.map(Arc::new),
            role: self.role.clone(),
            leader,
            fatal: self.fatal.clone(),
        }
    }

    /// Starts a task that goes on as long as the server.
    fn spawn(
        &self,
        tasks: &mut JoinSet<()>,
        task: &'static str,
        work: impl Future<Output = ()> + Send + 'static,
    ) {
        tasks.spawn(self.fatal.clone().endless(task, work));
    }

    pub(super) fn start_tasks(
        &self,
        options: &ReplicationOptions,
        hang_ups: mpsc::Receiver<u64>,
        moved_port: Option<MovedPort>,
    ) -> JoinSet<()> {
        let timing = options.timing;
        let (handle, links) = (self.handle.clone(), Arc::clone(&self.links));
        let (machine, proposer) = (Arc::clone(&self.machine), Arc::clone(&self.proposer));
        let mut tasks = JoinSet::new();
        let (leader, leaderships) = watch::channel(None);
        self.spawn(&mut tasks, "proposals", self.driver(options, leaderships).run());
        let syncs = sync::serve_syncs(
            Arc::clone(&proposer),
            Arc::clone(&machine),
            self.read_index(),
            timing.proposal_timeout,
        );
        self.spawn(&mut tasks, "syncs", syncs);
        let changes = Arc::clone(&self.changes);
        let reconfigs = reconfig::serve_reconfigs(Arc::clone(&proposer), changes);
        self.spawn(&mut tasks, "reconfigurations", reconfigs);
        let silences =
            silences::send_silences(Arc::clone(&machine), handle.clone(), Arc::clone(&links));
        self.spawn(&mut tasks, "silent sessions", silences);
        let touches = touches::send_touches(proposer, Arc::clone(&machine), handle, links);
        self.spawn(&mut tasks, "touched sessions", touches);
        let supervisor = self.supervisor(options, moved_port, leader);
        self.spawn(&mut tasks, "supervisor", supervisor.run(hang_ups));
        self.start_housekeeping(options, &mut tasks);
        tasks
    }

    /// Starts what goes on beside the log.
    fn start_housekeeping(&self, options: &ReplicationOptions, tasks: &mut JoinSet<()>) {
        let scheduler = SnapshotScheduler {
            handle: self.handle.clone(),
            snapshots: self.snapshots.clone(),
            progress: Arc::clone(&self.progress),
            divergence: Arc::clone(&self.divergence),
            pace: options.snapshot_pace,
            snapshots_retained: options.snapshots_retained,
        };
        self.spawn(tasks, "snapshots", scheduler.run());
        let bootstrap = Bootstrap {
            handle: self.handle.clone(),
            links: Arc::clone(&self.links),
            members: options.members.clone(),
            identity: self.identity.clone(),
            agreement: Arc::clone(&self.agreement),
            entropy: Arc::clone(&options.entropy),
            start_mode: options.start_mode,
            fatal: self.fatal.clone(),
            stagger: options.timing.election_max.max(STAGGER_MIN),
        };
        tasks.spawn(self.fatal.clone().finite("founding", bootstrap.run()));
    }
}
