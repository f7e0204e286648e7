//! The one struct that the rest of the server takes its limits from.

use std::collections::BTreeMap;
use std::path::PathBuf;

use zoolet_replica::{DigestAlgorithm, FeatureLevel, ServerId};

use super::address::HostPort;
use super::autocreate::Autocreate;
pub use super::four_letter::{FourLetterConfig, Words};
use super::member::{Member, MemberRole, STANDALONE_ID, derive_cluster_id, members_text};
use super::records::{AuditConfig, HistoryConfig};
use super::sasl::SaslConfig;
use super::tls::{TlsConfig, TlsSide};

/// The whole configuration of one server.
///
/// The range of each setting is in the table of `settings`; the readers keep to it.
/// The defaults are ZooKeeper's where ZooKeeper has the setting.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServerConfig {
    /// Which of the members this server is.
    pub server_id: ServerId,
    /// All servers of the ensemble, this one among them. Never empty.
    pub members: BTreeMap<ServerId, Member>,
    /// A single server that says `Mode: standalone` and has an empty `/zookeeper/config`.
    pub standalone: bool,
    /// Where snapshots and the identity file live, and the log.
    pub data_dir: PathBuf,
    /// The directory of the log; the same one by default.
    pub data_log_dir: PathBuf,
    /// Where this server listens for clients.
    pub client_bind: HostPort,
    /// Whether the server accepts only TLS there, because the file sets no plain-text port.
    pub client_is_secure: bool,
    /// Where this server listens for clients that speak TLS, beside that.
    pub secure_client_bind: Option<HostPort>,
    /// Where this server listens for the other servers; none when it is standalone.
    pub peer_bind: Option<HostPort>,
    /// Where this server listens for HTTP requests; nowhere without it.
    pub http_bind: Option<HostPort>,
    /// Where it serves metrics alone, besides that.
    pub metrics_bind: Option<HostPort>,
    /// What this start may do about the founding of the ensemble. No file says it: it is for one
    /// start, on the command line.
    pub start_mode: StartMode,
    /// What concerns all servers together.
    pub ensemble: EnsembleConfig,
    /// How long a session lives without a sign of life.
    pub session: SessionConfig,
    /// Bounds on what clients and peers can make this server hold.
    pub limits: Limits,
    /// The write-ahead log.
    pub log: LogConfig,
    /// Snapshots of the state.
    pub snapshot: SnapshotConfig,
    /// Containers, znodes with a time to live, quotas.
    pub znodes: ZnodeConfig,
    /// Who may do what.
    pub auth: AuthConfig,
    /// Logins of clients.
    pub sasl: SaslConfig,
    /// TLS.
    pub tls: TlsConfig,
    /// Four-letter words.
    pub four_letter: FourLetterConfig,
    /// The HTTP port.
    pub http: HttpConfig,
    /// The log of what was changed by whom.
    pub audit: AuditConfig,
    /// `[history]`.
    pub history: HistoryConfig,
}

/// What a start may do about the founding of the ensemble.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum StartMode {
    /// A server without data founds the ensemble with the other voters if none of them has data.
    #[default]
    FoundOrJoin,
    /// The ensemble is known to exist: a server without data waits until it is taken in.
    Join,
    /// This server alone becomes a new ensemble, with the data that it has. The servers of the old
    /// one are refused from then on, until their directories are emptied; then they are taken in.
    /// Whatever this server lacks of what the old ensemble has acknowledged is lost.
    ForceNew,
}

impl ServerConfig {
    /// The id that servers of one ensemble have in common: the given one, or one derived from
    /// the first member's id and ports. Never 0.
    pub fn cluster_id(&self) -> u64 {
        self.ensemble.cluster_id.unwrap_or_else(|| derive_cluster_id(&self.members))
    }

    /// The files and directories that the settings name, but for the data directories.
    pub fn files_mut(&mut self) -> impl Iterator<Item = &mut PathBuf> {
        let secret = self.ensemble.peer_secret_file.iter_mut();
        let tls = [&mut self.tls.client, &mut self.tls.peer, &mut self.tls.http].into_iter();
        let tls = tls.flat_map(TlsSide::files);
        secret.chain(tls).chain(self.audit.directory.iter_mut()).chain(self.sasl.files())
    }

    /// The member lines of `/zookeeper/config`, without the version line, which the state adds.
    /// Empty for a standalone server (protocol, section 6.2).
    pub fn members_text(&self) -> String {
        if self.standalone { String::new() } else { members_text(&self.members) }
    }

    /// This server's entry in the list of members.
    pub fn member(&self) -> Option<&Member> {
        self.members.get(&self.server_id)
    }

    /// Whether clients can speak TLS on any port.
    pub fn speaks_tls(&self) -> bool {
        let is_unified = self.tls.client_port_unification;
        self.client_is_secure || self.secure_client_bind.is_some() || is_unified
    }

    /// Whether the HTTP port speaks TLS, if only beside plain HTTP.
    pub fn speaks_https(&self) -> bool {
        self.http_bind.is_some() && (self.tls.http_enabled || self.tls.http_port_unification)
    }

    /// The file of the audit log, if there is to be one.
    pub fn audit_file(&self) -> Option<PathBuf> {
        let directory = self.audit.directory.as_ref().unwrap_or(&self.data_dir);
        self.audit.enabled.then(|| directory.join(format!("audit-{}.log", self.server_id)))
    }

    /// Whether this server votes or observes.
    pub fn role(&self) -> MemberRole {
        self.member().map_or(MemberRole::Participant, |member| member.role)
    }

    /// How long a server may take to find a leader before it says so, in milliseconds.
    pub fn init_limit_ms(&self) -> u64 {
        u64::from(self.ensemble.init_limit_ticks) * u64::from(self.ensemble.tick_time_ms)
    }

    /// How long a server may be without its leader before it stops serving, in milliseconds.
    pub fn sync_limit_ms(&self) -> u64 {
        u64::from(self.ensemble.sync_limit_ticks) * u64::from(self.ensemble.tick_time_ms)
    }
}

/// A standalone server on ZooKeeper's usual port, with its files in `data`.
impl Default for ServerConfig {
    fn default() -> Self {
        let client = HostPort::new("0.0.0.0", 2181);
        let member = Member::alone(client.clone());
        Self {
            server_id: STANDALONE_ID,
            members: BTreeMap::from([(STANDALONE_ID, member)]),
            standalone: true,
            data_dir: PathBuf::from("data"),
            data_log_dir: PathBuf::from("data"),
            client_bind: client,
            client_is_secure: false,
            secure_client_bind: None,
            peer_bind: None,
            http_bind: None,
            metrics_bind: None,
            start_mode: StartMode::default(),
            ensemble: EnsembleConfig::default(),
            session: SessionConfig::default(),
            limits: Limits::default(),
            log: LogConfig::default(),
            snapshot: SnapshotConfig::default(),
            znodes: ZnodeConfig::default(),
            auth: AuthConfig::default(),
            sasl: SaslConfig::default(),
            tls: TlsConfig::default(),
            four_letter: FourLetterConfig::default(),
            http: HttpConfig::default(),
            audit: AuditConfig::default(),
            history: HistoryConfig::default(),
        }
    }
}

/// What concerns all servers together.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EnsembleConfig {
    /// The id that was given to the ensemble; see [`ServerConfig::cluster_id`].
    pub cluster_id: Option<u64>,
    /// The unit of session time, in milliseconds.
    pub tick_time_ms: u32,
    /// How long a server may take to find a leader before it says so, in ticks.
    pub init_limit_ticks: u32,
    /// How long a server may be without its leader before it stops serving, in ticks.
    pub sync_limit_ticks: u32,
    /// How often a leader shows that it is alive, in milliseconds.
    pub heartbeat_ms: u32,
    /// The shortest wait of a server before it begins an election, after the end of the leader's lease,
    /// in milliseconds.
    pub election_timeout_ms_min: u32,
    /// The longest such wait, and the leader's lease. Each server draws its own wait between the two.
    pub election_timeout_ms_max: u32,
    /// How long connecting to another server may take, in milliseconds.
    pub peer_connect_timeout_ms: u32,
    /// The file with the secret that the servers share: 16 bytes at least, the white space around it
    /// not counted. It is read once, at the start. Without it any server may join on the peer port.
    pub peer_secret_file: Option<PathBuf>,
    /// Whether the reconfig operation is allowed (protocol, section 15.4).
    pub reconfig_enabled: bool,
    /// Whether a server without its ensemble serves reads to clients that ask for it (protocol,
    /// section 7.9).
    pub read_only_mode: bool,
    /// The missing things that a start may create.
    pub autocreate: Autocreate,
    /// Whether a server without others is not an ensemble (`standaloneEnabled`): then a
    /// reconfiguration cannot leave one voter alone.
    pub standalone_enabled: bool,
    /// The feature level of this release.
    pub feature_level: FeatureLevel,
    /// The highest feature level that this server agrees to; zero for that of the release.
    pub feature_level_max: u32,
}

impl Default for EnsembleConfig {
    fn default() -> Self {
        Self {
            cluster_id: None,
            tick_time_ms: 3000,
            init_limit_ticks: 10,
            sync_limit_ticks: 5,
            heartbeat_ms: 100,
            election_timeout_ms_min: 200,
            election_timeout_ms_max: 450,
            peer_connect_timeout_ms: 1000,
            peer_secret_file: None,
            reconfig_enabled: false,
            read_only_mode: false,
            autocreate: Autocreate::default(),
            standalone_enabled: true,
            feature_level: FeatureLevel::OF_RELEASE,
            feature_level_max: 0,
        }
    }
}

/// The timeouts that clients can negotiate (protocol, section 7.3).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SessionConfig {
    /// The shortest timeout granted, in milliseconds; 2 ticks by default.
    pub timeout_ms_min: u32,
    /// The longest timeout granted, in milliseconds; 20 ticks by default.
    pub timeout_ms_max: u32,
}

impl Default for SessionConfig {
    fn default() -> Self {
        Self { timeout_ms_min: 6000, timeout_ms_max: 60_000 }
    }
}

/// Bounds on what clients and peers can make this server hold (protocol, section 1.3).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Limits {
    /// Client connections from one address; 0 means no limit.
    pub connections_per_address_max: usize,
    /// Client connections altogether; 0 means no limit.
    pub connections_max: usize,
    /// Connections that the operating system keeps waiting to be accepted.
    pub listen_backlog: u32,
    /// How long a connection may take to send its connect request, in milliseconds.
    pub handshake_timeout_ms: u32,
    /// Connections that have not sent their connect request yet.
    pub handshakes_max: usize,
    /// Those among them that TLS is not agreed on.
    pub tls_handshakes_max: usize,
    /// The length of a client's frame, in bytes, its length field not counted.
    pub frame_bytes_max: usize,
    /// Replies and notifications waiting for one slow reader, in bytes.
    pub outbox_bytes_max: usize,
    /// Memory of unread data for the clients of one address, in bytes.
    pub outbox_bytes_per_address_max: usize,
    /// Memory of unread data for all clients, in bytes.
    pub outbox_bytes_total_max: usize,
    /// The window in which a client with a backlog takes a part of it, in milliseconds.
    pub drain_window_ms: u32,
    /// Unanswered requests of one connection; past it, nothing more is read from it.
    pub connection_requests_max: usize,
    /// Unanswered requests of all connections; past it, nothing more is read from those that
    /// have one.
    pub requests_max: usize,
    /// Bytes of unanswered requests of all connections, with the same consequence.
    pub request_bytes_max: usize,
    /// A request that had to wait longer for one of these three limits, in milliseconds, is refused
    /// with `ThrottledOp`; 0 means that none is.
    pub throttled_op_wait_time_ms: u32,
    /// Bytes of requests of more than 8 KiB that are on their way in, or are not answered; past it,
    /// such requests wait in the socket.
    pub large_request_bytes_max: usize,
    /// Sessions of the whole ensemble.
    pub sessions_max: usize,
    /// Sessions that clients of one address have begun at this server; 0 means a quarter of
    /// `sessions_max`, divided by the servers.
    pub sessions_per_address_max: usize,
    /// Sessions that clients with one certificate have begun at this server; 0 means a half of
    /// `sessions_max`, divided by the servers.
    pub sessions_per_identity_max: usize,
    /// The identities of one session.
    pub session_identities_max: usize,
    /// The bytes of the identities of one session.
    pub session_identity_bytes_max: usize,
    /// The entries of an ACL that a client of this server can store.
    pub acl_entries_max: usize,
    /// Watches of one session.
    pub session_watches_max: usize,
    /// The memory of one session's watches, in bytes.
    pub session_watch_bytes_max: usize,
    /// Watches of the clients of one address on this server.
    pub watches_per_address_max: usize,
    /// The memory of these watches, in bytes.
    pub watch_bytes_per_address_max: usize,
    /// Watches of all sessions on this server.
    pub watches_max: usize,
    /// The memory of all watches on this server, in bytes.
    pub watch_bytes_max: usize,
    /// The longest log entry that this server makes of its clients' requests, and that it takes
    /// from other servers, in bytes.
    pub peer_frame_bytes_max: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            connections_per_address_max: 60,
            connections_max: 0,
            listen_backlog: 1024,
            handshake_timeout_ms: 10_000,
            handshakes_max: 1000,
            tls_handshakes_max: 100,
            frame_bytes_max: 0x000f_ffff,
            outbox_bytes_max: 64 << 20,
            outbox_bytes_per_address_max: 128 << 20,
            outbox_bytes_total_max: 256 << 20,
            drain_window_ms: 60_000,
            connection_requests_max: 1000,
            requests_max: 1000,
            request_bytes_max: 256 << 20,
            large_request_bytes_max: 32 << 20,
            throttled_op_wait_time_ms: 0,
            sessions_max: 1_000_000,
            sessions_per_address_max: 0,
            sessions_per_identity_max: 0,
            session_identities_max: 16,
            session_identity_bytes_max: 2 << 10,
            acl_entries_max: 256,
            session_watches_max: 1_000_000,
            session_watch_bytes_max: 64 << 20,
            watches_per_address_max: 5_000_000,
            watch_bytes_per_address_max: 128 << 20,
            watches_max: 10_000_000,
            watch_bytes_max: 256 << 20,
            peer_frame_bytes_max: 64 << 20,
        }
    }
}

/// The write-ahead log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LogConfig {
    /// The size that a segment file is preallocated to, in bytes.
    pub segment_bytes: u64,
    /// Commands in one log entry.
    pub entry_commands_max: usize,
    /// Bytes of commands in one log entry; a longer single command has an entry to itself.
    pub entry_bytes_max: usize,
    /// A sync that takes longer than this is reported, in milliseconds.
    pub slow_sync_ms: u32,
}

impl Default for LogConfig {
    fn default() -> Self {
        Self {
            segment_bytes: 64 << 20,
            entry_commands_max: 512,
            entry_bytes_max: 1 << 20,
            slow_sync_ms: 1000,
        }
    }
}

/// Snapshots of the state.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SnapshotConfig {
    /// Commands applied between two snapshots.
    pub commands: u64,
    /// Bytes of log between two snapshots; 0 means that bytes do not count.
    pub log_bytes: u64,
    /// Bytes of log between two snapshots, at least, in percent of the bytes of the last one.
    pub log_percent: u32,
    /// How many snapshots are kept, with the log back to the oldest of them.
    pub retain: usize,
}

impl Default for SnapshotConfig {
    fn default() -> Self {
        Self { commands: 100_000, log_bytes: 4 << 30, log_percent: 50, retain: 3 }
    }
}

/// Containers, znodes with a time to live, quotas (protocol, sections 11 and 12).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ZnodeConfig {
    /// How often the leader looks for znodes to reap, in milliseconds.
    pub reap_interval_ms: u32,
    /// How many it deletes in a minute.
    pub reaps_per_minute_max: u32,
    /// How long a container that never had a child may stay, in milliseconds; 0 means for ever.
    pub never_used_ms_max: u64,
    /// Whether znodes with a time to live can be created.
    pub ttl_enabled: bool,
    /// Whether hard quotas refuse writes.
    pub quota_enforced: bool,
}

impl Default for ZnodeConfig {
    fn default() -> Self {
        Self {
            reap_interval_ms: 60_000,
            reaps_per_minute_max: 10_000,
            never_used_ms_max: 0,
            ttl_enabled: false,
            quota_enforced: false,
        }
    }
}

/// Who may do what (protocol, section 9).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AuthConfig {
    /// Whether the digest scheme exists.
    pub digest_enabled: bool,
    /// How the digest scheme hashes `user:password`; the same on all servers and for ever,
    /// because stored access lists depend on it.
    pub digest_algorithm: DigestAlgorithm,
    /// The digest identity that may do everything, as `user:hash`.
    pub super_digest: Option<String>,
    /// Whether access lists are left unchecked.
    pub acl_skipped: bool,
    /// The schemes of which a client must have an identity of one, before it is served; none for no
    /// such demand.
    pub required_schemes: Vec<String>,
}

impl Default for AuthConfig {
    fn default() -> Self {
        Self {
            digest_enabled: true,
            digest_algorithm: DigestAlgorithm::Sha1,
            super_digest: None,
            acl_skipped: false,
            required_schemes: Vec::new(),
        }
    }
}

/// The HTTP port (`docs/monitoring.md`).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HttpConfig {
    /// The most connections.
    pub connections_max: usize,
    /// How long a connection may send and take nothing, in milliseconds.
    pub idle_timeout_ms: u32,
    /// The path of the commands.
    pub command_url: String,
    /// Whether the command `snapshot` is there.
    pub snapshots: bool,
    /// The pause between two snapshots, in milliseconds.
    pub snapshot_interval_ms: u32,
    /// Whether the web console is there (`docs/console.md`).
    pub console: bool,
    /// Whether users can log in to it, and change znodes.
    pub console_logins: bool,
}

impl Default for HttpConfig {
    fn default() -> Self {
        Self {
            connections_max: 100,
            idle_timeout_ms: 30_000,
            command_url: "/commands".to_owned(),
            snapshots: true,
            snapshot_interval_ms: 300_000,
            console: true,
            console_logins: false,
        }
    }
}
