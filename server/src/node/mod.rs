//! One server: the only place where the layers meet.

mod client_address;
mod controls;
mod history;
mod listening;
mod machine;
mod meters;
mod offline;
mod reports;
mod settings;
mod start_error_kind;
mod tls;

use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use thiserror::Error;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::{Instant, MissedTickBehavior, interval, timeout};
use tracing::warn;
use zoolet_history::History;
use zoolet_replica::state::{RestoreError, State};
use zoolet_replica::{Input, Replica, Role};
use zoolet_storage::{Disk, RealDisk, StorageError};
use zoolet_tls::{Insiders, LoadedTls};

use self::client_address::Configured;
pub(crate) use self::controls::Controls;
use self::controls::Partitions;
use self::listening::Listening;
use self::machine::HostMachine;
use self::meters::{Meters, StartFigures, whole_ms};
pub(crate) use self::offline::OfflineError;
pub use self::offline::{DryRun, Founded, Recovered, Restored};
pub(crate) use self::offline::{check_empty, dry_run, found, recover, restore, state_of};
pub use self::reports::{
    AdministrationRefused, Backup, Configuration, Leader, Member, Membership, Metric, MetricKind,
    MetricValue, NoBackup, Readiness, Reports, SessionsReport, certificate_metrics,
};
pub use self::start_error_kind::StartErrorKind;
use crate::audit::{AuditError, AuditLog};
use crate::clock::{Clock, RealClock};
use crate::config::{ConfigError, ServerConfig};
use crate::entropy::{Entropy, RealEntropy};
use crate::fatal::Fatal;
pub use crate::histogram::Distribution;
use crate::host::Host;
pub use crate::limits::LimitReading;
pub use crate::net::ConnectionReport;
use crate::net::{self, ClientPort};
use crate::peer::SecretError;
use crate::process::blocking;
use crate::replication::{self, Replication};
use crate::sasl::Logins;
use crate::transport::{Net, RealNet};
use crate::witness::Watched;

/// How long a stopping server waits for its leadership to be taken over and its log to be durable.
const SHUTDOWN_LIMIT: Duration = Duration::from_secs(5);

/// The world, as a server sees it.
#[derive(Clone, Debug)]
pub struct Seams {
    /// Files.
    pub disk: Arc<dyn Disk>,
    /// Time.
    pub clock: Arc<dyn Clock>,
    /// Chance.
    pub entropy: Arc<dyn Entropy>,
    /// Sockets.
    pub net: Arc<dyn Net>,
    /// Who looks on.
    pub watched: Watched,
}

impl Seams {
    /// The machine's own.
    pub fn real() -> Self {
        Self {
            disk: Arc::new(RealDisk),
            clock: Arc::new(RealClock::new()),
            entropy: Arc::new(RealEntropy),
            net: Arc::new(RealNet),
            watched: Watched::default(),
        }
    }
}

/// Why a server does not start, or cannot go on; for an operator.
#[derive(Debug, Error)]
pub enum StartError {
    /// The configuration is wrong.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// The secret of the servers cannot be used.
    #[error(transparent)]
    Secret(#[from] SecretError),
    /// TLS cannot be set up.
    #[error("cannot set up TLS {0}: {1}")]
    Tls(&'static str, String),
    /// The log does not start.
    #[error(transparent)]
    Raft(#[from] replication::JoinError),
    /// The newest snapshot cannot be read.
    #[error("cannot read the newest snapshot: {0}")]
    Snapshot(#[from] RestoreError),
    /// The audit log cannot be opened.
    #[error(transparent)]
    Audit(#[from] AuditError),
    /// The client port cannot be opened.
    #[error("cannot listen for clients on {address}: {source}")]
    Listen {
        /// The address.
        address: String,
        /// What the system says.
        source: io::Error,
    },
    /// The server can no longer work.
    #[error("the server has failed: {0}")]
    Failed(String),
}

/// A running server.
#[derive(Debug)]
pub struct Node {
    host: Arc<Host>,
    replication: Replication,
    port: ClientPort,
    ticker: JoinHandle<((), (), (), (), (), Vec<()>)>,
    fatal: Fatal,
    reports: Reports,
    audit: Option<AuditLog>,
    history: Option<History>,
    partitions: Partitions,
}

impl Node {
    /// Opens the directory, replays the log, and joins the ensemble. It need not have found a
    /// leader when this returns.
    pub async fn start(config: ServerConfig, seams: Seams) -> Result<Self, StartError> {
        let begun = Instant::now();
        let meters = Arc::new(Meters::default());
        let secret = settings::secret(&config, &seams)?;
        let logins = settings::logins(&config, &seams)?;
        let (clients, peers) = (settings::client_tls(&config), settings::peer_tls(&config));
        let client_tls = tls::load("for clients", clients, &config.tls.client, None).await?;
        let hosts = Some(config.peer_hosts());
        let peer_tls = tls::load("between servers", peers, &config.tls.peer, hosts).await?;
        meters.certificates_in(tls::certificates([&client_tls, &peer_tls]));
        let peer_port_tls = settings::peer_port_tls(&config, peer_tls.as_ref());
        let options = settings::raft_options(&config, &seams, (secret, peer_port_tls), &meters);
        let wall_ms = seams.clock.now().wall_ms;
        // Reading a big directory takes long, and blocks.
        let (opened, state) = blocking(move || open(options, wall_ms))
            .await
            .map_err(|error| StartError::Failed(error.to_string()))??;
        let load_ms = whole_ms(begun.elapsed());
        let begun = Begun { at: begun, load_ms, entries: opened.entries_behind() };
        let mut replica_options = settings::replica_options(&config, opened.boot());
        replica_options.history &= seams.disk.is_real();
        let replica = Replica::new(replica_options, state);
        let proposer = opened.proposer();
        let limits = settings::host_limits(&config);
        let clock = Arc::clone(&seams.clock);
        let host = Host::new(replica, clock, proposer, limits, Arc::clone(meters.limits()));
        let fatal = Fatal::default();
        let audit = open_audit(&config, &seams, &meters, &fatal)?;
        if let Some(audit) = &audit {
            host.audit_to(Arc::new(audit.clone()));
        }
        let history = history::open(&config, (&seams, &meters), &host);
        let prepared = Prepared {
            config,
            seams,
            host,
            opened,
            fatal,
            meters,
            begun,
            client_tls,
            peer_tls,
            logins,
            audit: audit.clone(),
            history: history.clone(),
        };
        let started = Box::pin(Self::join(prepared)).await;
        if let Some(audit) = audit {
            if started.is_ok() {
                audit.started();
            } else {
                audit.not_started();
                close_audit(audit).await;
            }
        }
        if started.is_err() {
            history::close(history).await;
        }
        started
    }

    /// Joins the ensemble, and serves clients.
    async fn join(prepared: Prepared) -> Result<Self, StartError> {
        let Prepared {
            config,
            seams,
            host,
            opened,
            fatal,
            meters,
            begun,
            client_tls,
            peer_tls,
            logins,
            audit,
            history,
        } = prepared;
        if let Some(witness) = seams.watched.log_writer() {
            witness.log_opened(opened.write_by_hand());
        }
        let machine = HostMachine { host: Arc::clone(&host), watched: seams.watched.clone() };
        let machine = Arc::new(machine);
        let partitions = Partitions::default();
        let replication = opened.start(machine, partitions.peer_net(&seams), fatal.clone()).await?;
        let disk = Arc::clone(&seams.disk);
        let ensemble = settings::KnownEnsemble::new(&config, replication.status_source());
        let server_info = settings::server_info(&config, disk, ensemble);
        let port_tls = settings::client_port_tls(client_tls.as_ref());
        let port_options = settings::port_options(&config, server_info, (port_tls, logins));
        let (wanted, followed) = watch::channel(config.client_bind.to_string());
        let net = partitions.client_net(&seams);
        let port = net::listen(port_options, Arc::clone(&host), net, followed, &fatal)
            .await
            .map_err(|error| StartError::Listen { address: error.address, source: error.source })?;
        let addresses = Configured::new(&config).follow(replication.status_source(), wanted);
        let ticks = tick(Arc::clone(&host), settings::ticker_period(&config));
        let watch = watch_for_leader(replication.role(), settings::leader_wanted_within(&config));
        let ticks = fatal.clone().endless("session clock", ticks);
        let work = fatal.clone().endless("unfinished work", Arc::clone(&host).finish_work());
        let watch = fatal.clone().finite("leader watch", watch);
        let addresses = fatal.clone().endless("client address", addresses);
        let kept = (audit.clone(), history.clone(), &fatal);
        let status = replication.status_source();
        let reports = Reports::new(&config, port.reports(), status, &meters, kept);
        let Begun { at, load_ms, entries } = begun;
        meters.started(StartFigures { load_ms, all_ms: whole_ms(at.elapsed()), entries });
        let role = replication.role();
        let looks =
            fatal.clone().finite("leader meter", async move { meters.watch_role(role).await });
        let reloads = [(client_tls, config.tls.client.reload), (peer_tls, config.tls.peer.reload)];
        let reloads = reloads.map(|(loaded, again)| tls::follow(fatal.clone(), loaded, again));
        let reloads = futures_util::future::join_all(reloads);
        let ticker =
            tokio::spawn(async { tokio::join!(ticks, work, watch, addresses, looks, reloads) });
        let clients = (port.local_addr(), port.secure_addr());
        Listening::new(&config, clients, replication.peer_addr()).log(config.server_id.0);
        Ok(Self { host, replication, port, ticker, fatal, reports, audit, history, partitions })
    }

    /// The address on which clients are served now, as changes of the ensemble move it.
    pub(crate) fn client_addrs(&self) -> watch::Receiver<SocketAddr> {
        self.port.bound()
    }

    /// The server's part in the ensemble, now and as it changes.
    pub fn role(&self) -> watch::Receiver<Role> {
        self.replication.role()
    }

    /// Reads what the server knows of itself.
    pub fn reports(&self) -> Reports {
        self.reports.clone()
    }

    /// Makes connections to the client port within the program.
    pub(crate) fn insiders(&self) -> Insiders {
        self.port.insiders()
    }

    /// Changes the server for a test.
    pub(crate) fn controls(&self) -> Controls {
        Controls { host: Arc::clone(&self.host), partitions: self.partitions.clone() }
    }

    /// Waits until the server can no longer work, and says why.
    pub fn fatal(&self) -> impl Future<Output = String> + Send + use<> {
        let (mut fatal, mut failure) = (self.fatal.watch(), self.host.failure());
        async move {
            let why = tokio::select! {
                why = fatal.wait_for(Option::is_some) => why,
                why = failure.wait_for(Option::is_some) => why,
            };
            match why {
                Ok(why) => why.clone().unwrap_or_default(),
                Err(_) => "its tasks have ended".to_owned(),
            }
        }
    }

    /// Ends at once, as a kill does, but for the wait until nothing of it uses the disk any more.
    pub(crate) async fn kill(mut self) {
        self.reports.stops();
        self.port.close();
        self.ticker.abort();
        self.replication.stop().await;
        history::close(self.history.take()).await;
    }

    /// Stops in good order: no new clients, the lead handed over, the log durable.
    pub async fn shutdown(self) {
        self.reports.stops();
        if let Some(audit) = &self.audit {
            audit.stops();
        }
        self.port.close();
        if timeout(SHUTDOWN_LIMIT, self.replication.shutdown()).await.is_err() {
            warn!(limit_s = SHUTDOWN_LIMIT.as_secs(), "the log does not stop in time");
        }
        self.ticker.abort();
        if let Some(audit) = self.audit {
            close_audit(audit).await;
        }
        history::close(self.history).await;
    }
}

/// What a start has made before the server joins the ensemble.
struct Prepared {
    config: ServerConfig,
    seams: Seams,
    host: Arc<Host>,
    opened: replication::Opened,
    fatal: Fatal,
    meters: Arc<Meters>,
    begun: Begun,
    client_tls: Option<LoadedTls>,
    peer_tls: Option<LoadedTls>,
    logins: Option<Logins>,
    audit: Option<AuditLog>,
    history: Option<History>,
}

/// When a start began, how long its directory took, in milliseconds, and the entries of the log behind
/// its newest snapshot.
#[derive(Clone, Copy)]
struct Begun {
    at: Instant,
    load_ms: u64,
    entries: u64,
}

/// Opens the audit log, if there is to be one.
fn open_audit(
    config: &ServerConfig,
    seams: &Seams,
    meters: &Meters,
    fatal: &Fatal,
) -> Result<Option<AuditLog>, AuditError> {
    let Some(options) = settings::audit_options(config) else { return Ok(None) };
    let seams = (Arc::clone(&seams.disk), Arc::clone(&seams.clock));
    AuditLog::open(options, seams, Arc::clone(meters.audit()), fatal.clone()).map(Some)
}

/// Waits until what is queued for the audit log is written.
async fn close_audit(audit: AuditLog) {
    let closing = tokio::task::spawn_blocking(move || audit.close());
    if timeout(SHUTDOWN_LIMIT, closing).await.is_err() {
        warn!(limit_s = SHUTDOWN_LIMIT.as_secs(), "the audit log does not end in time");
    }
}

/// Logs each time when the server is without a leader for too long.
async fn watch_for_leader(mut role: watch::Receiver<Role>, limit: Duration) {
    let is_lost = |role: &Role| *role == Role::Looking;
    // The role ends with the server.
    while role.wait_for(is_lost).await.is_ok() {
        let found = timeout(limit, role.wait_for(|role| !is_lost(role))).await;
        let found = found.map(|found| found.is_ok());
        if found.is_err() {
            let limit_ms = limit.as_millis();
            warn!(
                limit_ms,
                "no leader found within initLimit, still looking: a majority of the voters must run \
                 and reach one another's peer ports"
            );
        }
        let is_found = match found {
            Ok(is_found) => is_found,
            Err(_) => role.wait_for(|role| !is_lost(role)).await.is_ok(),
        };
        if !is_found {
            return;
        }
    }
}

/// Opens the log, and reads the state from the newest snapshot.
fn open(
    options: replication::ReplicationOptions,
    wall_ms: i64,
) -> Result<(replication::Opened, State), StartError> {
    let opened = replication::open(options, wall_ms)?;
    let state = match opened.snapshot() {
        Some(chunks) => State::restore(chunks)?,
        None => State::new(),
    };
    Ok((opened, state))
}

/// Reports to the host that time passes, several times in each tick.
async fn tick(host: Arc<Host>, period: Duration) {
    let mut interval = interval(period);
    interval.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        interval.tick().await;
        host.input(Input::Tick);
    }
}

impl From<StorageError> for StartError {
    fn from(error: StorageError) -> Self {
        Self::Raft(error.into())
    }
}

#[cfg(test)]
mod tests;
