//! What a server knows of itself, for an HTTP port and for programs that embed it.
//!
//! Each call copies what it needs under short holds of the host's lock, as four-letter words do
//! (decision 0015), and may run on any thread.

mod backup;
mod ensemble;
mod metrics;

use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::sync::Arc;

use tokio::sync::watch;
use zoolet_history::{Found, History, Query, QueryError};
use zoolet_jute::SessionId;
use zoolet_replica::Role;
use zoolet_replica::state::LockPlace;
use zoolet_tls::VerifiedCertificate;

pub use self::backup::Backup;
pub use self::ensemble::{Leader, Member, Membership};
pub use self::metrics::{Metric, MetricKind, MetricValue, certificate_metrics};
use super::meters::Meters;
use crate::audit::AuditLog;
use crate::config::{ServerConfig, to_cluster_toml};
use crate::fatal::Fatal;
pub use crate::host::{AdministrationRefused, NoBackup};
use crate::limits::LimitReading;
use crate::net::{ConnectionReport, PortReports, identities_of};
use crate::process;
use crate::replication::StatusSource;

/// Reads what a server knows of itself. Clones are the same server. When the server has ended, they
/// show what it knew last.
#[derive(Clone, Debug)]
pub struct Reports {
    port: PortReports,
    status: StatusSource,
    meters: Arc<Meters>,
    config: Arc<ServerConfig>,
    audit: Option<AuditLog>,
    history: Option<History>,
    /// Why a part of the server can no longer work.
    fatal: watch::Receiver<Option<String>>,
}

/// Whether a server serves.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Readiness {
    /// It serves reads and writes: it leads with a majority behind it, or follows such a leader.
    Ready,
    /// It does not, for this reason.
    NotReady(&'static str),
    /// It can no longer work.
    Failed(String),
}

/// The settings that `conf` shows.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Configuration {
    /// The port for clients.
    pub client_port: u16,
    /// Where snapshots are.
    pub data_dir: PathBuf,
    /// Where the log is.
    pub data_log_dir: PathBuf,
    /// `tickTime`, in milliseconds.
    pub tick_ms: u32,
    /// `maxClientCnxns`.
    pub connections_per_address_max: usize,
    /// The bounds of session timeouts, in milliseconds.
    pub session_timeout_ms_min: u32,
    /// The longest.
    pub session_timeout_ms_max: u32,
    /// The server's number.
    pub server_id: u8,
    /// `clientPortListenBacklog`.
    pub backlog: u32,
}

/// The sessions of the ensemble, and what they own.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct SessionsReport {
    /// When sessions expire without another sign of life, in milliseconds on the monotonic clock, with
    /// the sessions. Only the leader knows this.
    pub expiries: Vec<(u64, Vec<i64>)>,
    /// The ephemeral znodes of the sessions that have any.
    pub ephemerals: Vec<(i64, Vec<String>)>,
}

impl Reports {
    pub(super) fn new(
        config: &ServerConfig,
        port: PortReports,
        status: StatusSource,
        meters: &Arc<Meters>,
        (audit, history, fatal): (Option<AuditLog>, Option<History>, &Fatal),
    ) -> Self {
        let (meters, config) = (Arc::clone(meters), Arc::new(config.clone()));
        Self { port, status, meters, config, audit, history, fatal: fatal.watch() }
    }

    /// Notes that the server is being stopped: it is not ready any more.
    pub(super) fn stops(&self) {
        self.meters.stops();
    }

    /// Has the file of the audit log opened again, behind what is queued: the old one was renamed. The
    /// server logs when that is done, or that it has failed. Returns whether there is an audit log.
    pub fn reopen_audit_log(&self) -> bool {
        self.audit.as_ref().map(AuditLog::reopen).is_some()
    }

    /// The places that are in the queue of a lock now; the first ones by name, if there are more than
    /// `max`.
    pub fn lock_places(&self, lock: &str, max: usize) -> Vec<LockPlace> {
        self.port.host().lock_places(lock, max)
    }

    /// Looks into the history; `None` if none is kept. Blocks, for as long as it takes to read it.
    pub fn history(&self, query: &Query) -> Option<Result<Found, QueryError>> {
        self.history.as_ref().map(|history| history.find(query))
    }

    /// Returns the server's wall clock, in milliseconds since 1970.
    pub fn wall_ms(&self) -> i64 {
        self.port.host().now().wall_ms
    }

    /// Returns whether the server serves, and if not, why.
    pub fn readiness(&self) -> Readiness {
        let host = self.port.host();
        if let Some(why) = self.failure() {
            return Readiness::Failed(why);
        }
        if self.meters.is_stopping() {
            return Readiness::NotReady("the server stops");
        }
        let status = self.status.status();
        if status.diverged {
            return Readiness::NotReady("the state differs from the majority's");
        }
        match (host.serving(), host.read_only()) {
            (true, false) => Readiness::Ready,
            (true, true) => Readiness::NotReady("no leader is known: only reads are served"),
            (false, _) if !status.has_membership => {
                Readiness::NotReady("this server is not part of an ensemble yet")
            }
            (false, _) => Readiness::NotReady("no leader with a majority is known"),
        }
    }

    /// Returns why the server can no longer work, if that is so.
    pub fn failure(&self) -> Option<String> {
        let of_part = self.fatal.borrow().clone();
        of_part.or_else(|| self.port.host().failure().borrow().clone())
    }

    /// Returns whether clients are served, if only with reads.
    pub fn serving(&self) -> bool {
        self.port.host().serving()
    }

    /// Returns whether only reads are served, for want of a leader.
    pub fn read_only(&self) -> bool {
        self.port.host().read_only()
    }

    /// Returns the server's part in the ensemble.
    pub fn role(&self) -> Role {
        self.port.host().report().role
    }

    /// Returns `ZooKeeper`'s name of the server's part: `leader`, `standalone`, …
    pub fn mode(&self) -> &'static str {
        self.port.mode(self.role())
    }

    /// Returns what the server gives as its version to clients that look for `ZooKeeper`'s.
    pub fn version(&self) -> &'static str {
        PortReports::version()
    }

    /// Returns the metrics that the server has now, and those of its process.
    pub fn metrics(&self) -> Vec<Metric> {
        metrics::list(self)
    }

    /// Returns the metrics that the server has now, without those of its process: for a program with
    /// several servers, or with metrics of its own.
    pub fn server_metrics(&self) -> Vec<Metric> {
        metrics::of_server(self)
    }

    /// Returns the figures of `mntr`, with their names but for `zk_`.
    pub fn monitor(&self) -> Vec<(String, String)> {
        let text = self.port.monitor();
        let pairs = text.lines().filter_map(|line| line.strip_prefix("zk_")?.split_once('\t'));
        pairs.map(|(name, value)| (name.to_owned(), value.to_owned())).collect()
    }

    /// Returns the settings in force.
    pub fn configuration(&self) -> Configuration {
        let info = self.port.server_info();
        Configuration {
            client_port: self.port.address().port(),
            data_dir: info.data_dir.clone(),
            data_log_dir: info.data_log_dir.clone(),
            tick_ms: info.tick_ms,
            connections_per_address_max: info.connections_per_address_max,
            session_timeout_ms_min: info.session_timeout_ms_min,
            session_timeout_ms_max: info.session_timeout_ms_max,
            server_id: info.server_id,
            backlog: info.backlog,
        }
    }

    /// Returns the configuration with which the server was started, as a `cluster.toml` without
    /// passwords and the superuser's digest.
    pub fn initial_configuration(&self) -> String {
        to_cluster_toml(&[self.config.without_secrets()])
    }

    /// Returns the bytes of the snapshots' directory and of the log's.
    pub fn directory_bytes(&self) -> (u64, u64) {
        let sizes = (self.port.server_info().sizes)();
        (sizes.data, sizes.log)
    }

    /// Returns what `envi` shows.
    pub fn environment(&self) -> Vec<(&'static str, String)> {
        let version = ("zookeeper.version", self.version().to_owned());
        std::iter::once(version).chain(process::environment()).collect()
    }

    /// Returns the use, the maximum and the refusals of every limit.
    pub fn limits(&self) -> Vec<LimitReading> {
        self.port.limits()
    }

    /// Returns the address on which clients are served.
    pub fn client_addr(&self) -> SocketAddr {
        self.port.address()
    }

    /// Returns the connections of the client port.
    pub fn connections(&self) -> Vec<ConnectionReport> {
        self.port.connections()
    }

    /// Returns the sessions of the ensemble, with their ephemeral znodes. It is not one moment that
    /// is seen.
    pub fn sessions(&self) -> SessionsReport {
        let report = self.port.host().sessions();
        let mut expiries = std::collections::BTreeMap::<u64, Vec<i64>>::new();
        for known in &report.sessions {
            if let Some(expires_ms) = known.expires_ms {
                expiries.entry(expires_ms).or_default().push(known.session.0);
            }
        }
        let paths = |(owner, paths): (SessionId, zoolet_replica::state::PathList)| {
            (owner.0, paths.iter().map(ToString::to_string).collect())
        };
        SessionsReport {
            expiries: expiries.into_iter().collect(),
            ephemerals: report.ephemerals.into_iter().map(paths).collect(),
        }
    }

    /// Calls `visit` with each path that has data watches and the sessions that have them. It is not
    /// one moment that is seen.
    pub fn watched_paths(&self, mut visit: impl FnMut(String, Vec<i64>)) {
        self.port.host().watched_paths(|path, sessions| {
            visit(path, sessions.into_iter().map(|session| session.0).collect());
        });
    }

    /// Returns the last transaction that was applied, and the digest of the state behind it.
    pub fn digest(&self) -> (i64, u64) {
        let (zxid, digest) = self.port.host().digest();
        (zxid.0, digest)
    }

    /// Returns the last transaction in the newest snapshot, and when that was written, in seconds
    /// since 1970; `None` if there is none.
    pub fn last_snapshot(&self) -> Option<(u64, i64)> {
        let (zxid, file) = self.status.status().newest_snapshot?;
        Some((zxid, process::modified_s(&file)?))
    }

    /// Finds out whether credentials may administer the server, that is change something about it, or
    /// have the whole state: the superuser's, or those of an identity that the root's ACL gives every
    /// permission by name.
    pub fn permit_administration(
        &self,
        scheme: &str,
        credentials: &str,
        peer: IpAddr,
    ) -> Result<(), AdministrationRefused> {
        self.port.host().permit_administration(scheme, credentials, peer)
    }

    /// Finds out whether the owner of a certificate may administer the server. A certificate without a
    /// name, or with one that cannot be read, proves nothing.
    pub fn permit_administration_of(
        &self,
        certificate: &VerifiedCertificate,
    ) -> Result<(), AdministrationRefused> {
        let name = certificate.subject_name().unwrap_or_default();
        let identities = identities_of(name, self.config.tls.x509_super_user.as_deref());
        if identities.is_empty() {
            return Err(AdministrationRefused::NotAuthenticated);
        }
        self.port.host().permit_administration_of(&identities)
    }

    /// Returns the state at this moment, to be sent.
    pub fn backup(&self) -> Result<Backup, NoBackup> {
        // The term first: the state may be of a later one, never of an earlier one.
        let term = self.status.status().term;
        Ok(Backup::of(self.port.host().backup()?, term))
    }

    /// Ends a session as if its timeout were over. False if this server does not lead, or has no such
    /// session.
    pub fn expire_session(&self, session: i64) -> bool {
        self.port.host().expire(SessionId(session))
    }

    /// Counts connections' frames from zero, as `crst` does.
    pub fn reset_connections(&self) {
        self.port.reset_connections();
    }

    /// Counts the server's figures from zero, as `srst` does.
    pub fn reset_server(&self) {
        self.port.reset_server();
    }

    /// Returns what [`Reports::set_trace_mask`] has set. Nothing is traced by it.
    pub fn trace_mask(&self) -> u64 {
        self.port.trace_mask()
    }

    /// Sets the trace mask.
    pub fn set_trace_mask(&self, mask: u64) {
        self.port.set_trace_mask(mask);
    }
}
