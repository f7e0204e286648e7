//! Every setting: its name, unit, range and meaning, and the field that it fills. The readers check
//! a value here, the writer prints it from here, and the commented part of the root's `cluster.toml`
//! is this table as text. Defaults are in `model`, beside the fields.

use super::model::ServerConfig;
use super::setting::{Field, Setting};
use super::settings_sasl::SASL;

/// Finds a setting by its place in `cluster.toml`.
pub(super) fn find(section: &str, key: &str) -> Option<&'static Setting> {
    all().find(|setting| setting.section == section && setting.key == key)
}

/// All settings, section by section.
pub(super) fn all() -> impl Iterator<Item = &'static Setting> + Clone {
    use super::settings_tls::{CLIENT, CLIENT_SIDE, HTTP, HTTP_SIDE, PEER, PEER_SIDE};
    let clients = CLIENT.iter().chain(&CLIENT_SIDE);
    let tls = clients.chain(&PEER).chain(&PEER_SIDE).chain(&HTTP).chain(&HTTP_SIDE);
    SETTINGS.iter().chain(&SASL).chain(tls)
}

impl ServerConfig {
    /// Returns the configuration without passwords and digests of passwords.
    #[must_use]
    pub fn without_secrets(&self) -> Self {
        let mut shown = self.clone();
        for setting in all() {
            setting.hide(&mut shown);
        }
        shown
    }
}

/// For each setting its name, and the configuration with another value of it.
#[cfg(test)]
pub(crate) fn each_changed(config: &ServerConfig) -> Vec<(String, ServerConfig)> {
    let changed = |setting: &Setting| {
        let mut changed = config.clone();
        setting.change(&mut changed);
        (setting.name(), changed)
    };
    all().map(changed).collect()
}

/// The tables of `cluster.toml`, in the order in which they are printed.
pub(super) const SECTIONS: [(&str, &str); 13] = [
    ("ensemble", "What concerns all servers together."),
    ("session", "The session timeouts that clients can negotiate."),
    ("limits", "Bounds on what clients and other servers can make one server hold."),
    ("log", "The write-ahead log. It is always synced before a write is acknowledged."),
    ("snapshot", "Snapshots of the state."),
    ("znodes", "Containers, znodes with a time to live, quotas."),
    ("auth", "Who may do what."),
    ("four_letter", "Four-letter words on the client port."),
    ("http", "The HTTP port of the servers that have one."),
    ("audit", "The audit log: who has changed what, and what was refused (docs/operating.md)."),
    ("history", "The history of znodes, sessions and locks (docs/history.md)."),
    ("sasl", "Logins of clients by SASL with DIGEST-MD5 (docs/sasl.md)."),
    ("tls", "TLS: on the ports of clients, between servers, and on the HTTP port (docs/tls.md)."),
];

/// Milliseconds that still fit the wire's `int`.
const MS_MAX: u64 = 0x7fff_ffff;
/// A count past every machine's memory.
const COUNT_MAX: u64 = 1_000_000_000;
const KIB: u64 = 1 << 10;
const MIB: u64 = 1 << 20;
const GIB: u64 = 1 << 30;
/// For settings that are not a number.
const NO_RANGE: (u64, u64) = (0, 0);

/// All settings but those of SASL and TLS, section by section.
#[rustfmt::skip]
pub(super) static SETTINGS: [Setting; 79] = [
    Setting {
        section: "ensemble", key: "cluster_id", unit: "(a number)", range: (1, i64::MAX as u64),
        about: "The number of this ensemble: a server refuses peers and data of another one.\n\
                Without it, it is derived from the first server's id and ports.",
        derived: false, field: |c| Field::OptionalU64(&mut c.ensemble.cluster_id),
    },
    Setting {
        section: "ensemble", key: "tick_time_ms", unit: "ms", range: (1, 600_000),
        about: "The unit of session time.",
        derived: false, field: |c| Field::U32(&mut c.ensemble.tick_time_ms),
    },
    Setting {
        section: "ensemble", key: "init_limit_ticks", unit: "ticks", range: (1, 1_000_000),
        about: "How long a server may take to find a leader before it says so in its log. It goes on\n\
                looking.",
        derived: false, field: |c| Field::U32(&mut c.ensemble.init_limit_ticks),
    },
    Setting {
        section: "ensemble", key: "sync_limit_ticks", unit: "ticks", range: (1, 1_000_000),
        about: "How long a server may be without its leader before it stops serving.",
        derived: false, field: |c| Field::U32(&mut c.ensemble.sync_limit_ticks),
    },
    Setting {
        section: "ensemble", key: "heartbeat_ms", unit: "ms", range: (1, 60_000),
        about: "How often a leader shows that it is alive.",
        derived: false, field: |c| Field::U32(&mut c.ensemble.heartbeat_ms),
    },
    Setting {
        section: "ensemble", key: "election_timeout_ms_min", unit: "ms", range: (2, 600_000),
        about: "The shortest wait of a server before an election; more than one heartbeat. It\n\
                begins when the leader's lease ends, election_timeout_ms_max after its last sign of\n\
                life: by default, 0.65 to 0.9 s of silence start an election. A leader whose process\n\
                ends is replaced at once: its connections are closed, and its port refuses others.",
        derived: false, field: |c| Field::U32(&mut c.ensemble.election_timeout_ms_min),
    },
    Setting {
        section: "ensemble", key: "election_timeout_ms_max", unit: "ms", range: (3, 600_000),
        about: "The longest wait, and the leader's lease. Each server draws its own wait between the\n\
                two, so that they differ.",
        derived: false, field: |c| Field::U32(&mut c.ensemble.election_timeout_ms_max),
    },
    Setting {
        section: "ensemble", key: "peer_connect_timeout_ms", unit: "ms", range: (1, 600_000),
        about: "How long connecting to another server may take.",
        derived: false, field: |c| Field::U32(&mut c.ensemble.peer_connect_timeout_ms),
    },
    Setting {
        section: "ensemble", key: "feature_level_max", unit: "level", range: (0, 1_000_000),
        about: "The highest feature level that this server agrees to; 0 for that of its release.",
        derived: false, field: |c| Field::U32(&mut c.ensemble.feature_level_max),
    },
    Setting {
        section: "ensemble", key: "peer_secret_file", unit: "(the name of a file)", range: NO_RANGE,
        about: "A file with the secret of the ensemble, at least 16 bytes, the same on all servers. Each\n\
                server accepts only servers that prove that they know it. Without it, every program that\n\
                reaches the peer port is accepted. A relative path starts at the directory of this file.",
        derived: false, field: |c| Field::File(&mut c.ensemble.peer_secret_file),
    },
    Setting {
        section: "ensemble", key: "reconfig_enabled", unit: "true or false", range: NO_RANGE,
        about: "Whether the reconfig operation is allowed.",
        derived: false, field: |c| Field::Flag(&mut c.ensemble.reconfig_enabled),
    },
    Setting {
        section: "ensemble", key: "read_only_mode", unit: "true or false", range: NO_RANGE,
        about: "Whether a server that has lost its ensemble serves reads to clients that ask for it.",
        derived: false, field: |c| Field::Flag(&mut c.ensemble.read_only_mode),
    },
    Setting {
        section: "ensemble", key: "data_dir_autocreate", unit: "true or false", range: NO_RANGE,
        about: "Whether a start creates the directories of the data and of the log if they are missing.",
        derived: false, field: |c| Field::Flag(&mut c.ensemble.autocreate.data_dir),
    },
    Setting {
        section: "ensemble", key: "db_autocreate", unit: "true or false", range: NO_RANGE,
        about: "Whether servers without data may found the ensemble. Otherwise, a server without data\n\
                waits for that of its ensemble, unless its data directory has a file `initialize`.",
        derived: false, field: |c| Field::Flag(&mut c.ensemble.autocreate.db),
    },
    Setting {
        section: "session", key: "timeout_ms_min", unit: "ms", range: (1, MS_MAX),
        about: "The shortest session timeout granted. Without it: 2 ticks. A write whose outcome\n\
                cannot be known closes its connection after three quarters of it, or after three\n\
                times election_timeout_ms_max if that is longer.",
        derived: true, field: |c| Field::U32(&mut c.session.timeout_ms_min),
    },
    Setting {
        section: "session", key: "timeout_ms_max", unit: "ms", range: (1, MS_MAX),
        about: "The longest session timeout granted. Without it: 20 ticks.",
        derived: true, field: |c| Field::U32(&mut c.session.timeout_ms_max),
    },
    Setting {
        section: "limits", key: "connections_per_address_max", unit: "connections", range: (0, COUNT_MAX),
        about: "Client connections from one address; 0 means no limit.",
        derived: false, field: |c| Field::Usize(&mut c.limits.connections_per_address_max),
    },
    Setting {
        section: "limits", key: "connections_max", unit: "connections", range: (0, COUNT_MAX),
        about: "Client connections altogether; 0 means no limit.",
        derived: false, field: |c| Field::Usize(&mut c.limits.connections_max),
    },
    Setting {
        section: "limits", key: "listen_backlog", unit: "connections", range: (1, 65_535),
        about: "Connections that the operating system keeps waiting to be accepted.",
        derived: false, field: |c| Field::U32(&mut c.limits.listen_backlog),
    },
    Setting {
        section: "limits", key: "handshake_timeout_ms", unit: "ms", range: (1, 600_000),
        about: "How long a connection may take to send its connect request.",
        derived: false, field: |c| Field::U32(&mut c.limits.handshake_timeout_ms),
    },
    Setting {
        section: "limits", key: "handshakes_max", unit: "connections", range: (1, COUNT_MAX),
        about: "Connections that have not sent their connect request yet. One more takes the place of\n\
                the oldest that is silent, or of one of the address that has the most.",
        derived: false, field: |c| Field::Usize(&mut c.limits.handshakes_max),
    },
    Setting {
        section: "limits", key: "tls_handshakes_max", unit: "connections", range: (1, COUNT_MAX),
        about: "Those among them that have not agreed on TLS yet: no more than the processor can\n\
                shake hands with in the time for which a client waits.",
        derived: false, field: |c| Field::Usize(&mut c.limits.tls_handshakes_max),
    },
    Setting {
        section: "limits", key: "frame_bytes_max", unit: "bytes", range: (KIB, 256 * MIB),
        about: "The length of a client's frame; the same on all servers and clients (jute.maxbuffer).",
        derived: false, field: |c| Field::Usize(&mut c.limits.frame_bytes_max),
    },
    Setting {
        section: "limits", key: "outbox_bytes_max", unit: "bytes", range: (MIB, 64 * GIB),
        about: "Watch events that may wait for a slow reader, and the longest reply if more than 16 MiB.",
        derived: true, field: |c| Field::Usize(&mut c.limits.outbox_bytes_max),
    },
    Setting {
        section: "limits", key: "outbox_bytes_per_address_max", unit: "bytes", range: (MIB, 64 * GIB),
        about: "Memory of the events and copied replies that the clients of one address have not read; past\n\
                it, those of its connections that hold most are closed.",
        derived: false, field: |c| Field::Usize(&mut c.limits.outbox_bytes_per_address_max),
    },
    Setting {
        section: "limits", key: "outbox_bytes_total_max", unit: "bytes", range: (MIB, 64 * GIB),
        about: "The same of all clients; past it, connections of the address that holds most are closed.",
        derived: false, field: |c| Field::Usize(&mut c.limits.outbox_bytes_total_max),
    },
    Setting {
        section: "limits", key: "drain_window_ms", unit: "ms", range: (1000, MS_MAX),
        about: "A client for which something waits all the time takes at least 256 KiB, or a tenth of the\n\
                memory that it holds, in each such window, or it is closed.",
        derived: false, field: |c| Field::U32(&mut c.limits.drain_window_ms),
    },
    Setting {
        section: "limits", key: "connection_requests_max", unit: "requests", range: (1, COUNT_MAX),
        about: "Unanswered requests of one connection; past it, nothing more is read from it.",
        derived: false, field: |c| Field::Usize(&mut c.limits.connection_requests_max),
    },
    Setting {
        section: "limits", key: "requests_max", unit: "requests", range: (1, COUNT_MAX),
        about: "Unanswered requests of all connections; past it, those that have one are not read.",
        derived: false, field: |c| Field::Usize(&mut c.limits.requests_max),
    },
    Setting {
        section: "limits", key: "request_bytes_max", unit: "bytes", range: (MIB, 64 * GIB),
        about: "Bytes of unanswered requests of all connections, with the same consequence.",
        derived: true, field: |c| Field::Usize(&mut c.limits.request_bytes_max),
    },
    Setting {
        section: "limits", key: "throttled_op_wait_time_ms", unit: "ms", range: (0, MS_MAX),
        about: "A request that had to wait longer for one of these three limits is not executed: the\n\
                client gets ThrottledOp (-127). 0 means that no request is refused for its wait.",
        derived: false, field: |c| Field::U32(&mut c.limits.throttled_op_wait_time_ms),
    },
    Setting {
        section: "limits", key: "large_request_bytes_max", unit: "bytes", range: (1, 64 * GIB),
        about: "Bytes of requests of more than 8 KiB that are on their way in, or are not answered. Past it,\n\
                such requests wait in the socket, and the address that has least is next.",
        derived: false, field: |c| Field::Usize(&mut c.limits.large_request_bytes_max),
    },
    Setting {
        section: "limits", key: "sessions_max", unit: "sessions", range: (1, COUNT_MAX),
        about: "Sessions of the whole ensemble.",
        derived: false, field: |c| Field::Usize(&mut c.limits.sessions_max),
    },
    Setting {
        section: "limits", key: "sessions_per_address_max", unit: "sessions", range: (0, COUNT_MAX),
        about: "Sessions that clients of one address (of one /64 network of IPv6) have begun at this\n\
                server, with a connection or without; 0 means a quarter of sessions_max, divided by\n\
                the number of servers, so that it holds for the ensemble.",
        derived: false, field: |c| Field::Usize(&mut c.limits.sessions_per_address_max),
    },
    Setting {
        section: "limits", key: "sessions_per_identity_max", unit: "sessions", range: (0, COUNT_MAX),
        about: "Sessions that clients with one certificate have begun at this server; 0 means a half\n\
                of sessions_max, divided by the number of servers.",
        derived: false, field: |c| Field::Usize(&mut c.limits.sessions_per_identity_max),
    },
    Setting {
        section: "limits", key: "session_identities_max", unit: "identities", range: (1, 10_000),
        about: "Identities of one session, its address included. They are logged with each of its\n\
                writes. Another auth request gets AuthFailed (-115), and its connection is closed.",
        derived: false, field: |c| Field::Usize(&mut c.limits.session_identities_max),
    },
    Setting {
        section: "limits", key: "session_identity_bytes_max", unit: "bytes", range: (256, 64 * KIB),
        about: "Bytes of the identities of one session, with the same consequence.",
        derived: false, field: |c| Field::Usize(&mut c.limits.session_identity_bytes_max),
    },
    Setting {
        section: "limits", key: "acl_entries_max", unit: "entries", range: (1, 100_000),
        about: "Entries of an access list that a client of this server stores; a longer one gets\n\
                InvalidACL (-114). Longer lists that are stored already stay in force.",
        derived: false, field: |c| Field::Usize(&mut c.limits.acl_entries_max),
    },
    Setting {
        section: "limits", key: "session_watches_max", unit: "watches", range: (1, COUNT_MAX),
        about: "Watches of one session.",
        derived: false, field: |c| Field::Usize(&mut c.limits.session_watches_max),
    },
    Setting {
        section: "limits", key: "session_watch_bytes_max", unit: "bytes", range: (KIB, 64 * GIB),
        about: "Memory of the watches of one session: the path and 160 bytes for each.",
        derived: false, field: |c| Field::Usize(&mut c.limits.session_watch_bytes_max),
    },
    Setting {
        section: "limits", key: "watches_per_address_max", unit: "watches", range: (1, COUNT_MAX),
        about: "Watches of the clients of one address (of one /64 network of IPv6) on this server. Past it,\n\
                or the maximum of all, a connection with many watches is closed for one with few.",
        derived: false, field: |c| Field::Usize(&mut c.limits.watches_per_address_max),
    },
    Setting {
        section: "limits", key: "watch_bytes_per_address_max", unit: "bytes", range: (KIB, 64 * GIB),
        about: "Memory of these watches.",
        derived: false, field: |c| Field::Usize(&mut c.limits.watch_bytes_per_address_max),
    },
    Setting {
        section: "limits", key: "watches_max", unit: "watches", range: (1, COUNT_MAX),
        about: "Watches of all sessions on one server.",
        derived: false, field: |c| Field::Usize(&mut c.limits.watches_max),
    },
    Setting {
        section: "limits", key: "watch_bytes_max", unit: "bytes", range: (KIB, 64 * GIB),
        about: "Memory of the watches of all sessions on one server.",
        derived: false, field: |c| Field::Usize(&mut c.limits.watch_bytes_max),
    },
    Setting {
        section: "limits", key: "peer_frame_bytes_max", unit: "bytes", range: (MIB, 2 * GIB - 1),
        about: "The longest log entry of this server's clients: room for three times a frame, because a\n\
                string that is not UTF-8 grows that much, and for the identities.",
        derived: true, field: |c| Field::Usize(&mut c.limits.peer_frame_bytes_max),
    },
    Setting {
        section: "log", key: "segment_bytes", unit: "bytes", range: (64 * KIB, 64 * GIB),
        about: "The size that a segment file is preallocated to.",
        derived: false, field: |c| Field::U64(&mut c.log.segment_bytes),
    },
    Setting {
        section: "log", key: "entry_commands_max", unit: "commands", range: (1, 1_000_000),
        about: "Writes that are put into one log entry when they wait together.",
        derived: false, field: |c| Field::Usize(&mut c.log.entry_commands_max),
    },
    Setting {
        section: "log", key: "entry_bytes_max", unit: "bytes", range: (KIB, GIB),
        about: "Bytes of such writes; a longer single one has an entry to itself.",
        derived: false, field: |c| Field::Usize(&mut c.log.entry_bytes_max),
    },
    Setting {
        section: "log", key: "slow_sync_ms", unit: "ms", range: (1, MS_MAX),
        about: "A sync of a file that takes longer than this is reported.",
        derived: false, field: |c| Field::U32(&mut c.log.slow_sync_ms),
    },
    Setting {
        section: "snapshot", key: "commands", unit: "writes", range: (2, 1_000_000_000_000),
        about: "Writes between two snapshots.",
        derived: false, field: |c| Field::U64(&mut c.snapshot.commands),
    },
    Setting {
        section: "snapshot", key: "log_bytes", unit: "bytes", range: (0, 1_000_000 * GIB),
        about: "Bytes of log between two snapshots; 0 means that bytes do not count.",
        derived: false, field: |c| Field::U64(&mut c.snapshot.log_bytes),
    },
    Setting {
        section: "snapshot", key: "log_percent", unit: "percent", range: (0, 10_000),
        about: "How much the log grows between two snapshots, at least, beside the size of the\n\
                last one. Without it a large state would be written all the time.",
        derived: false, field: |c| Field::U32(&mut c.snapshot.log_percent),
    },
    Setting {
        section: "snapshot", key: "retain", unit: "snapshots", range: (1, 1_000_000),
        about: "How many snapshots are kept, with the log back to the oldest of them.",
        derived: false, field: |c| Field::Usize(&mut c.snapshot.retain),
    },
    Setting {
        section: "znodes", key: "reap_interval_ms", unit: "ms", range: (1, MS_MAX),
        about: "How often the leader looks for empty containers and znodes past their time to live.",
        derived: false, field: |c| Field::U32(&mut c.znodes.reap_interval_ms),
    },
    Setting {
        section: "znodes", key: "reaps_per_minute_max", unit: "znodes", range: (1, 1_000_000_000),
        about: "How many of them it deletes in a minute.",
        derived: false, field: |c| Field::U32(&mut c.znodes.reaps_per_minute_max),
    },
    Setting {
        section: "znodes", key: "never_used_ms_max", unit: "ms", range: (0, i64::MAX as u64),
        about: "How long a container that never had a child may stay; 0 means for ever.",
        derived: false, field: |c| Field::U64(&mut c.znodes.never_used_ms_max),
    },
    Setting {
        section: "znodes", key: "ttl_enabled", unit: "true or false", range: NO_RANGE,
        about: "Whether znodes with a time to live can be created.",
        derived: false, field: |c| Field::Flag(&mut c.znodes.ttl_enabled),
    },
    Setting {
        section: "znodes", key: "quota_enforced", unit: "true or false", range: NO_RANGE,
        about: "Whether hard quotas refuse writes.",
        derived: false, field: |c| Field::Flag(&mut c.znodes.quota_enforced),
    },
    Setting {
        section: "auth", key: "digest_enabled", unit: "true or false", range: NO_RANGE,
        about: "Whether the digest scheme exists.",
        derived: false, field: |c| Field::Flag(&mut c.auth.digest_enabled),
    },
    Setting {
        section: "auth", key: "digest_algorithm", unit: "SHA1, SHA-256, SHA-512 or SHA3-224 to SHA3-512", range: NO_RANGE,
        about: "How the digest scheme hashes. The same on all servers; changing it locks out the\n\
                users of every access list that is already stored, and the superuser.",
        derived: false, field: |c| Field::Algorithm(&mut c.auth.digest_algorithm),
    },
    Setting {
        section: "auth", key: "super_digest", unit: "\"user:hash\"", range: NO_RANGE,
        about: "The digest identity that may do everything. Without it, there is none.",
        derived: false, field: |c| Field::Digest(&mut c.auth.super_digest),
    },
    Setting {
        section: "auth", key: "acl_skipped", unit: "true or false", range: NO_RANGE,
        about: "Whether access lists are not checked: every client may do everything.",
        derived: false, field: |c| Field::Flag(&mut c.auth.acl_skipped),
    },
    Setting {
        section: "auth", key: "required_schemes", unit: "a list of digest, ip, sasl and x509; empty for no demand", range: NO_RANGE,
        about: "A client must have an identity of one of these schemes before it asks for anything else.\n\
                Its connection is closed otherwise. Every client has one of the scheme ip.",
        derived: false, field: |c| Field::Schemes(&mut c.auth.required_schemes),
    },
    Setting {
        section: "four_letter", key: "words", unit: "a list of four-letter words, [\"*\"] for all", range: NO_RANGE,
        about: "The words that the server answers. It always answers srvr.",
        derived: false, field: |c| Field::Words(&mut c.four_letter.words),
    },
    Setting {
        section: "http", key: "connections_max", unit: "connections", range: (1, 100_000),
        about: "Connections of each HTTP port; others are closed at once.",
        derived: false, field: |c| Field::Usize(&mut c.http.connections_max),
    },
    Setting {
        section: "http", key: "idle_timeout_ms", unit: "ms", range: (100, MS_MAX),
        about: "How long a connection may take for the head of a request, or be idle.",
        derived: false, field: |c| Field::U32(&mut c.http.idle_timeout_ms),
    },
    Setting {
        section: "http", key: "command_url", unit: "\"/path\"", range: NO_RANGE,
        about: "The path of the commands.",
        derived: false, field: |c| Field::UrlPath(&mut c.http.command_url),
    },
    Setting {
        section: "http", key: "snapshots", unit: "true or false", range: NO_RANGE,
        about: "Whether the command snapshot sends the whole state to those who may have it.",
        derived: false, field: |c| Field::Flag(&mut c.http.snapshots),
    },
    Setting {
        section: "http", key: "snapshot_interval_ms", unit: "ms", range: (0, MS_MAX),
        about: "The pause behind a snapshot that was sent, before the next one.",
        derived: false, field: |c| Field::U32(&mut c.http.snapshot_interval_ms),
    },
    Setting {
        section: "http", key: "console", unit: "true or false", range: NO_RANGE,
        about: "Whether the web console is at /console/ (docs/console.md). Who reaches the port sees with it\n\
                what a client without an identity may read.",
        derived: false, field: |c| Field::Flag(&mut c.http.console),
    },
    Setting {
        section: "http", key: "console_logins", unit: "true or false", range: NO_RANGE,
        about: "Whether users can log in to the console, and change what ACLs let them.",
        derived: false, field: |c| Field::Flag(&mut c.http.console_logins),
    },
    Setting {
        section: "audit", key: "enabled", unit: "true or false", range: NO_RANGE,
        about: "Whether each server logs the changes that its clients ask for.",
        derived: false, field: |c| Field::Flag(&mut c.audit.enabled),
    },
    Setting {
        section: "audit", key: "directory", unit: "(the name of a directory)", range: NO_RANGE,
        about: "Where the files audit-ID.log are. Without it: in the data directory of each server. A\n\
                relative path starts at the directory of this file.",
        derived: false, field: |c| Field::File(&mut c.audit.directory),
    },
    Setting {
        section: "audit", key: "file_bytes_max", unit: "bytes", range: (64 * KIB, 64 * GIB),
        about: "The length of such a file; then it becomes audit-ID.log.1, and a new one begins.",
        derived: false, field: |c| Field::U64(&mut c.audit.file_bytes_max),
    },
    Setting {
        section: "audit", key: "files_retained", unit: "files", range: (0, 10_000),
        about: "How many full files are kept.",
        derived: false, field: |c| Field::Usize(&mut c.audit.files_retained),
    },
    Setting {
        section: "history", key: "enabled", unit: "true or false", range: NO_RANGE,
        about: "Whether each server keeps what has happened to znodes, sessions and locks.",
        derived: false, field: |c| Field::Flag(&mut c.history.enabled),
    },
    Setting {
        section: "history", key: "bytes_max", unit: "bytes", range: (16 * MIB, 64 * GIB),
        about: "The length of its files, about: the earliest part is removed.",
        derived: false, field: |c| Field::U64(&mut c.history.bytes_max),
    },
    Setting {
        section: "history", key: "age_ms_max", unit: "ms", range: (60_000, 3_650 * 86_400_000),
        about: "How long it goes back.",
        derived: false, field: |c| Field::U64(&mut c.history.age_ms_max),
    },
    Setting {
        section: "history", key: "data_bytes_max", unit: "bytes", range: (0, 2048),
        about: "The most bytes that are kept of the data of each write; 0 keeps none. They are shown to\n\
                those who may administer the server.",
        derived: false, field: |c| Field::Usize(&mut c.history.data_bytes_max),
    },
];
