//! The replicated log, by openraft. This is the only module that names it.
//!
//! [`open()`] opens the directory and gives the newest snapshot, from which the caller builds its
//! [`Machine`]; [`Opened::start`] then joins the ensemble. The caller puts commands in through
//! [`Proposer`] and gets them back, in the order of the log, through [`Machine::commit_many`].

mod boot;
mod bootstrap;
mod codec;
mod committed;
mod core;
mod directories;
mod directory;
mod divergence;
mod founding;
mod levels;
mod log_store;
mod machine;
mod members;
mod moved_port;
mod network;
mod open;
mod options;
mod proposer;
mod reconfig;
mod replacement;
mod service;
mod state_machine;
mod status;
mod sync;
mod types;
mod upkeep;

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::Duration;

use tokio::sync::watch;
use tokio::task::JoinSet;

use self::bootstrap::{Agreement, Bootstrap};
use self::committed::Committed;
use self::core::Core;
use self::directories::Directories;
use self::directory::{DirectoryIdentity, directory_of};
use self::divergence::{Comparer, Divergence};
use self::log_store::LogStore;
use self::moved_port::MovedPort;
use self::network::{Links, Network};
use self::proposer::Driver;
use self::reconfig::Reconfigurer;
use self::replacement::Replacer;
use self::service::{Answers, Heard};
use self::state_machine::{Progress, Snapshots, StateMachine};
use self::sync::ReadIndex;
use self::types::LogId;
use self::upkeep::{Announcer, DiskWatch, Housekeeping, RoleWatch};
use crate::peer::{self, Lane, LinkOptions, PeerPort, PeerPortOptions, Service};
use crate::replica::Role;
use crate::storage::Wal;
use crate::transport::Net;

pub use self::core::EntrySizes;
use self::levels::{Ceiling, LevelKeeper};
pub use self::machine::{Chunks, Machine, Staged, StateSnapshot};
pub use self::open::{StartError, open};
pub use self::options::{
    BatchLimits, CONNECT_TIMEOUT, ConfiguredMember, Options, SNAPSHOT_COMMANDS, SNAPSHOTS_RETAINED,
    Timing,
};
pub use self::proposer::Proposer;
pub use self::status::{PeerStatus, Status, StatusSource};

/// Calls to one peer that wait, and answers to one peer that are not ready.
const CALLS_MAX: usize = 256;

/// How long a caller of the peer port may take for the handshake.
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(5);

/// An open directory.
#[derive(Debug)]
pub struct Opened {
    options: Options,
    boot: u64,
    wal: Wal,
    snapshots: Snapshots,
    proposer: Arc<Proposer>,
    directories: Arc<Directories>,
    identity: DirectoryIdentity,
    agreement: Agreement,
}

impl Opened {
    /// The number of this start.
    pub fn boot(&self) -> u64 {
        self.boot
    }

    /// The newest snapshot's bytes, from which the state is to be built; without one it begins
    /// empty.
    pub fn snapshot(&self) -> Option<Chunks> {
        let current = self.snapshots.current()?;
        Some(Box::new(current))
    }

    /// Where the replica's wishes go.
    pub fn proposer(&self) -> Arc<Proposer> {
        Arc::clone(&self.proposer)
    }

    /// Replays the log into `machine`, which holds the state of [`Opened::snapshot`], and joins
    /// the ensemble.
    pub async fn start(
        self,
        machine: Arc<dyn Machine>,
        net: Arc<dyn Net>,
    ) -> Result<Raft, StartError> {
        let Self { options, boot, wal, snapshots, proposer, directories, identity, agreement } =
            self;
        let (fatal_report, fatal) = watch::channel(None);
        let wal = Arc::new(wal);
        let report = fatal_report.clone();
        wal.on_failure(Box::new(move |error| {
            report.send_replace(Some(error.to_string()));
        }));
        let node = identity.node();
        let links = links(&options, boot, &identity, &net);
        let state_machine =
            StateMachine::new(Arc::clone(&machine), Arc::clone(&proposer), snapshots.clone())
                .map_err(not_started)?;
        let (applied, progress) = (state_machine.applied(), state_machine.progress());
        let divergence = state_machine.divergence();
        let config = options::config(&options).validate().map_err(not_started)?;
        let network = Network { node, links: Arc::clone(&links), snapshots: snapshots.clone() };
        let log_store = LogStore::new(Arc::clone(&wal));
        let raft = openraft::Raft::build(node, Arc::new(config), network, log_store, state_machine)
            .await
            .map_err(not_started)?;
        let core = Core::new(node, raft, Arc::clone(&wal));
        let read_index =
            ReadIndex { core: core.clone(), links: Arc::clone(&links), applied: applied.clone() };
        let changes = reconfigurer(&options, read_index, Arc::clone(&machine));
        let removal = links.removal();
        let crew = Crew {
            changes: Arc::new(changes),
            links,
            machine,
            proposer,
            snapshots,
            applied,
            progress,
            divergence,
            core,
            heard: Arc::default(),
            identity,
            agreement: Arc::new(agreement),
            ceiling: Ceiling::new(),
            removal,
            role: watch::Sender::new(Role::Looking),
            fatal: fatal_report,
            wal,
        };
        let (port, moved_port) = crew.listen(&options, boot, &net).await?.unzip();
        crew.core.raft().run();
        let mut tasks = crew.start_tasks(&options);
        if let Some(moved_port) = moved_port {
            tasks.spawn(moved_port.run());
        }
        let role = crew.role.subscribe();
        let Crew { core, links, applied, snapshots, divergence, wal, identity, .. } = crew;
        Ok(Raft {
            core,
            identity,
            links,
            applied,
            snapshots,
            divergence,
            role,
            fatal,
            port,
            tasks,
            wal,
            heard_within: options.timing.silence_max(),
            _directories: directories,
        })
    }
}

fn not_started(error: impl std::fmt::Display) -> StartError {
    StartError::Raft(error.to_string())
}

fn reconfigurer(
    options: &Options,
    read_index: ReadIndex,
    machine: Arc<dyn Machine>,
) -> Reconfigurer {
    Reconfigurer {
        core: read_index.core.clone(),
        links: Arc::clone(&read_index.links),
        machine,
        read_index,
        timing: options.timing,
        configured: options.members.clone(),
        standalone: options.standalone,
        voters_min: options.voters_min,
        busy: tokio::sync::Mutex::default(),
    }
}

/// Returns who this server is to its peers. The founding is put in when a connection begins.
fn peer_identity(options: &Options, boot: u64, identity: &DirectoryIdentity) -> peer::Identity {
    let (server, directory) = (u64::from(options.server.0), directory_of(identity.node()));
    peer::Identity { cluster: options.cluster_id, founding: 0, server, directory, boot }
}

fn links(
    options: &Options,
    boot: u64,
    identity: &DirectoryIdentity,
    net: &Arc<dyn Net>,
) -> Arc<Links> {
    let template = LinkOptions {
        net: Arc::clone(net),
        ours: peer_identity(options, boot, identity),
        founding: identity.founding_source(),
        target: peer::Target { server: 0, directory: None },
        addresses: Vec::new(),
        lane: Lane::Control,
        secret: options.secret.clone(),
        frames: options::FRAMES_SENT,
        calls_max: CALLS_MAX,
        connect_timeout: options.connect_timeout,
        backoff_max: options.timing.heartbeat,
        stall_timeout: options.timing.election_max * 4,
        reach: Arc::default(),
    };
    let address = |member: &ConfiguredMember| (u64::from(member.server.0), member.address.clone());
    let addresses: BTreeMap<u64, String> = options.members.iter().map(address).collect();
    Arc::new(Links::new(template, options.timing.election_max * 4, addresses))
}

/// What the tasks of a server share.
#[derive(Debug)]
struct Crew {
    core: Core,
    links: Arc<Links>,
    machine: Arc<dyn Machine>,
    proposer: Arc<Proposer>,
    snapshots: Snapshots,
    applied: watch::Receiver<Option<LogId>>,
    progress: Arc<Progress>,
    divergence: Arc<Divergence>,
    heard: Arc<Heard>,
    identity: DirectoryIdentity,
    agreement: Arc<Agreement>,
    ceiling: Ceiling,
    removal: Arc<AtomicU64>,
    changes: Arc<Reconfigurer>,
    role: watch::Sender<Role>,
    fatal: watch::Sender<Option<String>>,
    wal: Arc<Wal>,
}

impl Crew {
    /// Opens the peer port, and prepares another one for when the server is moved; an ensemble of
    /// one needs none.
    async fn listen(
        &self,
        options: &Options,
        boot: u64,
        net: &Arc<dyn Net>,
    ) -> Result<Option<(PeerPort, MovedPort)>, StartError> {
        let own = options.members.iter().find(|member| member.server == options.server);
        let Some(own) = own.filter(|_| !options.standalone) else { return Ok(None) };
        let address = options.listen.clone().unwrap_or_else(|| own.address.clone());
        let service: Arc<dyn Service> = Arc::new(Answers {
            core: self.core.clone(),
            machine: Arc::clone(&self.machine),
            snapshots: self.snapshots.clone(),
            applied: self.applied.clone(),
            heard: Arc::clone(&self.heard),
            identity: self.identity.clone(),
            agreement: Arc::clone(&self.agreement),
            ceiling: self.ceiling.clone(),
            changes: Arc::clone(&self.changes),
            divergence: Arc::clone(&self.divergence),
            wal: Arc::clone(&self.wal),
            committed: Committed::new(Arc::clone(&self.wal), self.applied.clone()),
            removal: Arc::clone(&self.removal),
            receiving: tokio::sync::Mutex::default(),
        });
        let port_options = PeerPortOptions {
            ours: peer_identity(options, boot, &self.identity),
            founding: self.identity.founding_source(),
            any_cluster: options.reconfig && !options.cluster_named,
            address: address.clone(),
            secret: options.secret.clone(),
            frames: options.frames(),
            answers_max: CALLS_MAX,
            handshake_timeout: HANDSHAKE_TIMEOUT,
        };
        let port = PeerPort::listen(&**net, port_options.clone(), Arc::clone(&service)).await;
        let port = port.map_err(|source| StartError::Listen { address, source })?;
        let (core, net) = (self.core.clone(), Arc::clone(net));
        Ok(Some((port, MovedPort { core, net, options: port_options, service })))
    }

    fn read_index(&self) -> ReadIndex {
        let (core, applied) = (self.core.clone(), self.applied.clone());
        ReadIndex { core, links: Arc::clone(&self.links), applied }
    }

    fn driver(&self, options: &Options) -> Driver {
        Driver {
            proposer: Arc::clone(&self.proposer),
            machine: Arc::clone(&self.machine),
            core: self.core.clone(),
            links: Arc::clone(&self.links),
            batches: options.batches,
            patience: options.timing.patience,
            read_index: self.read_index(),
            disk: Arc::clone(&options.disk),
            directory: options.directory.clone(),
            fatal: self.fatal.clone(),
            ceiling: self.ceiling.clone(),
        }
    }

    fn level_keeper(&self) -> LevelKeeper {
        LevelKeeper {
            core: self.core.clone(),
            links: Arc::clone(&self.links),
            machine: Arc::clone(&self.machine),
            read_index: self.read_index(),
            ceiling: self.ceiling.clone(),
        }
    }

    fn comparer(&self) -> Comparer {
        let (core, links) = (self.core.clone(), Arc::clone(&self.links));
        Comparer { core, links, divergence: Arc::clone(&self.divergence) }
    }

    fn role_watch(&self, comparer: Comparer, timing: Timing) -> RoleWatch {
        RoleWatch {
            comparer,
            core: self.core.clone(),
            machine: Arc::clone(&self.machine),
            heard: Arc::clone(&self.heard),
            applied: self.applied.clone(),
            read_index: self.read_index(),
            links: Arc::clone(&self.links),
            timing,
            role: self.role.clone(),
            removal: Arc::clone(&self.removal),
            leads: None,
            doubts: None,
            is_out: false,
        }
    }

    fn start_tasks(&self, options: &Options) -> JoinSet<()> {
        let timing = options.timing;
        let (core, links) = (self.core.clone(), Arc::clone(&self.links));
        let (machine, proposer) = (Arc::clone(&self.machine), Arc::clone(&self.proposer));
        let mut tasks = JoinSet::new();
        tasks.spawn(self.driver(options).run());
        tasks.spawn(self.level_keeper().run());
        tasks.spawn(sync::serve_syncs(
            Arc::clone(&proposer),
            Arc::clone(&machine),
            self.read_index(),
            timing.patience,
        ));
        tasks.spawn(Arc::clone(&self.changes).follow());
        let changes = Arc::clone(&self.changes);
        tasks.spawn(reconfig::serve_reconfigs(Arc::clone(&proposer), changes));
        tasks.spawn(sync::send_touches(proposer, Arc::clone(&machine), core.clone(), links));
        let comparer = self.comparer();
        tasks.spawn(comparer.clone().run(timing.election_max));
        tasks.spawn(self.role_watch(comparer, timing).run());
        tasks.spawn(Announcer { core: core.clone(), applied: self.applied.clone() }.run());
        self.start_upkeep(options, &mut tasks);
        tasks
    }

    /// Starts what goes on beside the log.
    fn start_upkeep(&self, options: &Options, tasks: &mut JoinSet<()>) {
        let (core, timing) = (self.core.clone(), options.timing);
        let changes = Arc::clone(&self.changes);
        tasks.spawn(Replacer { changes, configured: options.members.clone() }.run());
        let housekeeping = Housekeeping {
            core: core.clone(),
            machine: Arc::clone(&self.machine),
            snapshots: self.snapshots.clone(),
            progress: Arc::clone(&self.progress),
            divergence: Arc::clone(&self.divergence),
            snapshot_commands: options.snapshot_commands,
            snapshot_log_bytes: options.snapshot_log_bytes,
            snapshots_retained: options.snapshots_retained,
            links: Arc::clone(&self.links),
        };
        tasks.spawn(housekeeping.run());
        let disk = DiskWatch {
            core: core.clone(),
            links: Arc::clone(&self.links),
            wal: Arc::clone(&self.wal),
            timing,
        };
        tasks.spawn(disk.run());
        let bootstrap = Bootstrap {
            core: core.clone(),
            links: Arc::clone(&self.links),
            members: options.members.clone(),
            identity: self.identity.clone(),
            agreement: Arc::clone(&self.agreement),
            entropy: Arc::clone(&options.entropy),
            start_mode: options.start_mode,
            fatal: self.fatal.clone(),
            stagger: timing.election_max,
        };
        tasks.spawn(bootstrap.run());
        tasks.spawn(status::watch_failure(core, Arc::clone(&self.wal), self.fatal.clone()));
    }
}

/// A server in its ensemble. Dropping it without [`Raft::shutdown`] is like a kill.
#[derive(Debug)]
pub struct Raft {
    core: Core,
    identity: DirectoryIdentity,
    links: Arc<Links>,
    applied: watch::Receiver<Option<LogId>>,
    snapshots: Snapshots,
    divergence: Arc<Divergence>,
    role: watch::Receiver<Role>,
    fatal: watch::Receiver<Option<String>>,
    port: Option<PeerPort>,
    tasks: JoinSet<()>,
    wal: Arc<Wal>,
    heard_within: Duration,
    _directories: Arc<Directories>,
}

impl Raft {
    /// The address of the peer port; an ensemble of one has none.
    pub fn peer_addr(&self) -> Option<SocketAddr> {
        self.port.as_ref().map(PeerPort::local_addr)
    }

    /// Returns the random id of the ensemble's founding; zero as long as this server is part of none.
    pub fn founding(&self) -> u64 {
        self.identity.founding()
    }

    /// Why this server can no longer work, once it cannot: its disk has failed, mostly. Whoever
    /// runs it must then end it.
    pub fn fatal(&self) -> watch::Receiver<Option<String>> {
        self.fatal.clone()
    }

    /// This server's part in the ensemble, as the machine was told.
    pub fn role(&self) -> watch::Receiver<Role> {
        self.role.clone()
    }

    /// How things stand.
    pub fn status(&self) -> Status {
        self.status_source().status()
    }

    /// Tells how things stand, for as long as anybody asks.
    pub fn status_source(&self) -> StatusSource {
        StatusSource {
            core: self.core.clone(),
            applied: self.applied.clone(),
            snapshots: self.snapshots.clone(),
            divergence: Arc::clone(&self.divergence),
            role: self.role.clone(),
            heard_within: self.heard_within,
        }
    }

    /// Makes another server the leader, if this one is.
    pub async fn hand_over(&self) {
        upkeep::hand_over(&self.core, &self.links).await;
    }

    /// Begins to take a snapshot now.
    pub fn take_snapshot(&self) {
        let (core, snapshots) = (self.core.clone(), self.snapshots.clone());
        tokio::spawn(async move {
            if let Err(error) = state_machine::take_snapshot(&core, &snapshots).await {
                tracing::warn!(%error, "no snapshot was taken");
            }
        });
    }

    /// Ends this server's part in good order: hands the lead over, and makes all that was written
    /// durable.
    pub async fn shutdown(mut self) {
        self.hand_over().await;
        self.stop().await;
    }

    /// Ends it without handing over.
    pub async fn stop(&mut self) {
        self.port = None;
        self.tasks.shutdown().await;
        if let Err(error) = self.core.raft().shutdown().await {
            tracing::warn!(%error, "openraft has not ended well");
        }
        let (done, flushed) = tokio::sync::oneshot::channel();
        // The receiver waits below; a log that has failed has been reported.
        let flushing = self.wal.flush(Box::new(move |result| drop(done.send(result))));
        if flushing.is_ok() {
            let _ = flushed.await;
        }
    }
}
