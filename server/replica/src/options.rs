//! What the configuration decides about a replica.

use sha1::{Digest, Sha1};
use sha2::{Sha256, Sha512};
use sha3::{Sha3_224, Sha3_256, Sha3_384, Sha3_512};

use super::level::FeatureLevel;
use super::numbers::ServerId;
use super::policy::Policy;
use crate::Boot;

/// How the digest scheme hashes `user:password`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DigestAlgorithm {
    /// Apache `ZooKeeper`'s default.
    Sha1,
    /// `SHA-256`.
    Sha256,
    /// `SHA-512`.
    Sha512,
    /// `SHA3-224`.
    Sha3_224,
    /// `SHA3-256`.
    Sha3_256,
    /// `SHA3-384`.
    Sha3_384,
    /// `SHA3-512`.
    Sha3_512,
}

impl DigestAlgorithm {
    /// All that are supported.
    pub const ALL: [Self; 7] = [
        Self::Sha1,
        Self::Sha256,
        Self::Sha512,
        Self::Sha3_224,
        Self::Sha3_256,
        Self::Sha3_384,
        Self::Sha3_512,
    ];

    /// The name that Java gives it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Sha1 => "SHA1",
            Self::Sha256 => "SHA-256",
            Self::Sha512 => "SHA-512",
            Self::Sha3_224 => "SHA3-224",
            Self::Sha3_256 => "SHA3-256",
            Self::Sha3_384 => "SHA3-384",
            Self::Sha3_512 => "SHA3-512",
        }
    }

    pub(super) fn hash(self, bytes: &[u8]) -> Vec<u8> {
        match self {
            Self::Sha1 => Sha1::digest(bytes).to_vec(),
            Self::Sha256 => Sha256::digest(bytes).to_vec(),
            Self::Sha512 => Sha512::digest(bytes).to_vec(),
            Self::Sha3_224 => Sha3_224::digest(bytes).to_vec(),
            Self::Sha3_256 => Sha3_256::digest(bytes).to_vec(),
            Self::Sha3_384 => Sha3_384::digest(bytes).to_vec(),
            Self::Sha3_512 => Sha3_512::digest(bytes).to_vec(),
        }
    }
}

/// The replica's limits and switches. All are this server's own, except that [`Policy`] travels
/// with each command.
#[derive(Clone, Debug)]
#[allow(clippy::struct_excessive_bools, reason = "each is a switch of its own")]
pub struct Options {
    /// This server.
    pub server: ServerId,
    /// The number of its start; later starts have larger numbers.
    pub boot: Boot,
    /// Whether no earlier start can have had that number. Until [`super::Input::Started`] says so,
    /// commands under it in the log are taken for another start's.
    pub boot_is_certain: bool,
    /// The unit of session time (`tickTime`).
    pub tick_ms: u64,
    /// The shortest session timeout (`minSessionTimeout`).
    pub session_timeout_ms_min: i32,
    /// The longest session timeout (`maxSessionTimeout`).
    pub session_timeout_ms_max: i32,
    /// The most sessions of the ensemble; new ones are refused at it.
    pub sessions_max: usize,
    /// The most sessions that clients of one address have begun at this server; zero for no limit.
    /// IPv6 addresses of one /64 network are counted together.
    pub sessions_per_address_max: usize,
    /// The most sessions that clients with one certificate have begun at this server; zero for no
    /// limit.
    pub sessions_per_identity_max: usize,
    /// How much more time than its timeout a new leader gives each session: so long its predecessor may
    /// go on counting signs of life.
    pub takeover_grace_ms: u64,
    /// How long clients are served without a leader, behind the end of the last lease.
    pub leader_loss_limit_ms: u64,
    /// Whether reads are served for longer, to clients that ask for it (`readonlymode.enabled`).
    pub read_only_mode: bool,
    /// Whether [`super::Output::Audit`] reports what is changed (`audit.enable`).
    pub audit: bool,
    /// Whether [`super::Replica::drain_history`] returns what was changed; the caller takes it.
    pub history: bool,
    /// The most bytes of data in each of its events; zero for none.
    pub history_data_bytes_max: usize,
    /// The switches on which effects depend.
    pub policy: Policy,
    /// Who may do everything (`DigestAuthenticationProvider.superDigest`).
    pub super_digest: Option<String>,
    /// Whether the scheme `digest` exists (`DigestAuthenticationProvider.enabled`).
    pub digest_auth: bool,
    /// How it hashes (`DigestAuthenticationProvider.digestAlg`).
    pub digest_algorithm: DigestAlgorithm,
    /// The schemes of which a connection must have an identity of one before it asks for anything
    /// else; none for no such demand (`enforce.auth.schemes`).
    pub required_schemes: Vec<String>,
    /// The most identities of a connection: they travel with each of its writes.
    pub identities_per_connection_max: usize,
    /// The most bytes of all identities of a connection.
    pub identity_bytes_per_connection_max: usize,
    /// The most entries of an ACL that a client may store. Stored ones may have more.
    pub acl_entries_max: usize,
    /// The most paths that a connection may watch.
    pub watches_per_connection_max: usize,
    /// The memory of a connection's watches in bytes: the paths and the entries in the tables.
    pub watch_bytes_per_connection_max: usize,
    /// The most paths that the clients of one address watch, each connection's counted.
    pub watches_per_address_max: usize,
    /// The memory of these watches in bytes.
    pub watch_bytes_per_address_max: usize,
    /// The most pairs of a connection and a path that it watches.
    pub watches_max: usize,
    /// The memory of all watches in bytes.
    pub watch_bytes_max: usize,
    /// How often the leader looks for empty containers and overdue znodes
    /// (`znode.container.checkIntervalMs`).
    pub container_interval_ms: u64,
    /// The most of them that it reaps in a minute (`znode.container.maxPerMinute`).
    pub containers_per_minute_max: u32,
    /// After this time a container that never had a child is reaped as well; zero for never
    /// (`znode.container.maxNeverUsedIntervalMs`).
    pub container_never_used_ms: i64,
    /// The bytes of replies that a client may leave unread before requests that wait for their turn
    /// wait for it to read as well.
    pub unread_bytes_max: usize,
    /// The longest command that is put into the log, in bytes; a longer write is refused.
    pub command_bytes_max: usize,
    /// The feature level of this release: commands above it cannot be applied.
    pub level_of_release: FeatureLevel,
    /// The highest feature level that this server agrees to; zero for that of the release.
    pub level_max: u32,
    /// What the leader writes to `/zookeeper/config`: the servers, a line each, without the version
    /// line. `None` for a server without an ensemble.
    pub config_text: Option<String>,
}

/// How often [`super::Input::Tick`] comes when a tick is this long, in milliseconds.
pub fn ticker_period_ms(tick_ms: u64) -> u64 {
    (tick_ms / 8).clamp(10, 250)
}

impl Options {
    /// The highest feature level that this server agrees to.
    pub(super) fn level_offered(&self) -> FeatureLevel {
        match self.level_max {
            0 => self.level_of_release,
            max => FeatureLevel(max).clamp(FeatureLevel::FIRST, self.level_of_release),
        }
    }

    /// A server to which nothing happens for longer than this, not even that time passes, was
    /// stopped: a healthy one ticks more often, and the shortest session lasts for longer.
    pub(super) fn pause_ms(&self) -> u64 {
        let shortest_ms = u64::try_from(self.session_timeout_ms_min).unwrap_or(0);
        (self.tick_ms.min(shortest_ms) / 2).max(2 * ticker_period_ms(self.tick_ms))
    }

    /// The defaults of Apache `ZooKeeper`, and generous limits where it has none.
    pub fn new(server: ServerId, boot: Boot) -> Self {
        Self {
            server,
            boot,
            boot_is_certain: true,
            tick_ms: 2000,
            session_timeout_ms_min: 4000,
            session_timeout_ms_max: 40_000,
            sessions_max: 100_000,
            sessions_per_address_max: 0,
            sessions_per_identity_max: 0,
            takeover_grace_ms: 0,
            leader_loss_limit_ms: 10_000,
            read_only_mode: false,
            audit: false,
            history: false,
            history_data_bytes_max: 0,
            policy: Policy::default(),
            super_digest: None,
            digest_auth: true,
            digest_algorithm: DigestAlgorithm::Sha1,
            required_schemes: Vec::new(),
            identities_per_connection_max: 16,
            identity_bytes_per_connection_max: 2 << 10,
            acl_entries_max: 256,
            watches_per_connection_max: 100_000,
            watch_bytes_per_connection_max: 128 << 20,
            watches_per_address_max: 5_000_000,
            watch_bytes_per_address_max: 512 << 20,
            watches_max: 5_000_000,
            watch_bytes_max: 512 << 20,
            container_interval_ms: 60_000,
            containers_per_minute_max: 10_000,
            container_never_used_ms: 0,
            unread_bytes_max: 1 << 20,
            command_bytes_max: 64 << 20,
            level_of_release: FeatureLevel::OF_RELEASE,
            level_max: 0,
            config_text: None,
        }
    }
}
