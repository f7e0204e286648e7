//! Every key that an Apache ZooKeeper server knows, and what it does here
//! (protocol, sections 15.1 and 15.2).

use super::not_applicable::INERT;
use super::refused::REFUSED;
use super::rule::{own, text, true_false};
use super::tls_keys::{CLIENT_SIDE, HTTP_SIDE, PEER_SIDE, TLS};

pub(super) use super::rule::{Key, Low, Rule, Shape};

/// Finds what becomes of a key, given without the prefix `zookeeper.`.
pub(super) fn find(name: &str) -> Option<Rule> {
    let exact = all().find(|key| key.name == name);
    let family = || all().find(|key| is_of_family(name, key.name));
    exact.or_else(family).map(|key| key.rule)
}

fn is_of_family(name: &str, family: &str) -> bool {
    let rest = family.strip_suffix('*').and_then(|prefix| name.strip_prefix(prefix));
    match rest {
        None | Some("") => false,
        Some(_) => true,
    }
}

/// All keys that have a rule.
pub(super) fn all() -> impl Iterator<Item = &'static Key> {
    let tls = TLS.iter().chain(&CLIENT_SIDE).chain(&PEER_SIDE).chain(&HTTP_SIDE);
    HONORED.iter().chain(INERT).chain(REFUSED).chain(tls)
}

const fn number(name: &'static str, setting: (&'static str, &'static str), low: Low) -> Key {
    Key { name, rule: Rule::Number { setting, scale: 1, low } }
}

const fn kib(name: &'static str, setting: (&'static str, &'static str), low: Low) -> Key {
    Key { name, rule: Rule::Number { setting, scale: 1024, low } }
}

const fn clamped(
    name: &'static str,
    setting: (&'static str, &'static str),
    scale: i128,
    low: Low,
) -> Key {
    Key { name, rule: Rule::Clamped { setting, scale, low } }
}

/// The keys that do here what they do there, and `peerSecretFile`, `auditDirectory`,
/// `aclEntriesMax`, `outboxBytes…`, `drainWindowMs`,
/// `session…Max` and `watch…Max`, `saslUsersFile`, `snapLogPercent`, `history…`,
/// `admin.console.…`, `admin.ssl.…` and `admin.certReload`, which are zoolet's own.
#[rustfmt::skip]
static HONORED: &[Key] = &[
    own("dataDir"),
    own("dataLogDir"),
    own("clientPort"),
    own("clientPortAddress"),
    own("dynamicConfigFile"),
    own("standaloneEnabled"),
    own("peerType"),
    own("quorumListenOnAllIPs"),
    own("multiAddress.enabled"),
    own("electionAlg"),
    own("server.*"),
    own("group.*"),
    own("weight.*"),
    number("tickTime", ("ensemble", "tick_time_ms"), Low::Wrong),
    number("initLimit", ("ensemble", "init_limit_ticks"), Low::Wrong),
    number("syncLimit", ("ensemble", "sync_limit_ticks"), Low::Wrong),
    number("cnxTimeout", ("ensemble", "peer_connect_timeout_ms"), Low::Unset),
    text("peerSecretFile", ("ensemble", "peer_secret_file")),
    true_false("reconfigEnabled", ("ensemble", "reconfig_enabled")),
    true_false("readonlymode.enabled", ("ensemble", "read_only_mode")),
    true_false("datadir.autocreate", ("ensemble", "data_dir_autocreate")),
    true_false("db.autocreate", ("ensemble", "db_autocreate")),
    number("minSessionTimeout", ("session", "timeout_ms_min"), Low::Unset),
    number("maxSessionTimeout", ("session", "timeout_ms_max"), Low::Unset),
    number("maxClientCnxns", ("limits", "connections_per_address_max"), Low::Zero),
    number("maxCnxns", ("limits", "connections_max"), Low::Zero),
    clamped("clientPortListenBacklog", ("limits", "listen_backlog"), 1, Low::Unset),
    number("nio.sessionlessCnxnTimeout", ("limits", "handshake_timeout_ms"), Low::Wrong),
    number("netty.server.outstandingHandshake.limit", ("limits", "tls_handshakes_max"), Low::Unset),
    clamped("jute.maxbuffer", ("limits", "frame_bytes_max"), 1, Low::Wrong),
    number("globalOutstandingLimit", ("limits", "requests_max"), Low::Wrong),
    number("throttled_op_wait_time", ("limits", "throttled_op_wait_time_ms"), Low::Zero),
    number("largeRequestMaxBytes", ("limits", "large_request_bytes_max"), Low::Wrong),
    number("sessionIdentitiesMax", ("limits", "session_identities_max"), Low::Wrong),
    number("sessionIdentityBytesMax", ("limits", "session_identity_bytes_max"), Low::Wrong),
    number("aclEntriesMax", ("limits", "acl_entries_max"), Low::Wrong),
    number("outboxBytesPerAddressMax", ("limits", "outbox_bytes_per_address_max"), Low::Wrong),
    number("outboxBytesTotalMax", ("limits", "outbox_bytes_total_max"), Low::Wrong),
    number("sessionsMax", ("limits", "sessions_max"), Low::Wrong),
    number("sessionsPerAddressMax", ("limits", "sessions_per_address_max"), Low::Zero),
    number("sessionsPerIdentityMax", ("limits", "sessions_per_identity_max"), Low::Zero),
    number("sessionWatchesMax", ("limits", "session_watches_max"), Low::Wrong),
    number("sessionWatchBytesMax", ("limits", "session_watch_bytes_max"), Low::Wrong),
    number("watchesPerAddressMax", ("limits", "watches_per_address_max"), Low::Wrong),
    number("watchBytesPerAddressMax", ("limits", "watch_bytes_per_address_max"), Low::Wrong),
    number("watchesMax", ("limits", "watches_max"), Low::Wrong),
    number("watchBytesMax", ("limits", "watch_bytes_max"), Low::Wrong),
    number("drainWindowMs", ("limits", "drain_window_ms"), Low::Wrong),
    clamped("preAllocSize", ("log", "segment_bytes"), 1024, Low::Wrong),
    clamped("maxBatchSize", ("log", "entry_commands_max"), 1, Low::Unset),
    number("fsync.warningthresholdms", ("log", "slow_sync_ms"), Low::Wrong),
    number("snapCount", ("snapshot", "commands"), Low::Raised(2)),
    kib("snapSizeLimitInKb", ("snapshot", "log_bytes"), Low::Zero),
    number("snapLogPercent", ("snapshot", "log_percent"), Low::Zero),
    number("autopurge.snapRetainCount", ("snapshot", "retain"), Low::Raised(3)),
    number("znode.container.checkIntervalMs", ("znodes", "reap_interval_ms"), Low::Wrong),
    number("znode.container.maxPerMinute", ("znodes", "reaps_per_minute_max"), Low::Wrong),
    number("znode.container.maxNeverUsedIntervalMs", ("znodes", "never_used_ms_max"), Low::Zero),
    true_false("extendedTypesEnabled", ("znodes", "ttl_enabled")),
    true_false("enforceQuota", ("znodes", "quota_enforced")),
    Key { name: "skipACL", rule: Rule::Yes { setting: ("auth", "acl_skipped") } },
    true_false("DigestAuthenticationProvider.enabled", ("auth", "digest_enabled")),
    text("DigestAuthenticationProvider.digestAlg", ("auth", "digest_algorithm")),
    text("DigestAuthenticationProvider.superDigest", ("auth", "super_digest")),
    own("enforce.auth.enabled"),
    own("enforce.auth.schemes"),
    own("sessionRequireClientSASLAuth"),
    own("superUser"),
    own("superUser.*"),
    text("java.security.auth.login.config", ("sasl", "jaas_file")),
    text("sasl.serverconfig", ("sasl", "jaas_section")),
    text("saslUsersFile", ("sasl", "users_file")),
    text("SASLAuthenticationProvider.superPassword", ("sasl", "super_password")),
    true_false("allowSaslFailedClients", ("sasl", "failed_logins_served")),
    text("4lw.commands.whitelist", ("four_letter", "words")),
    own("admin.enableServer"),
    own("admin.serverAddress"),
    own("admin.serverPort"),
    clamped("admin.idleTimeout", ("http", "idle_timeout_ms"), 1, Low::Wrong),
    text("admin.commandURL", ("http", "command_url")),
    true_false("admin.snapshot.enabled", ("http", "snapshots")),
    true_false("admin.console.enabled", ("http", "console")),
    true_false("admin.console.logins", ("http", "console_logins")),
    clamped("admin.rateLimiterIntervalInMS", ("http", "snapshot_interval_ms"), 1, Low::Zero),
    true_false("audit.enable", ("audit", "enabled")),
    text("auditDirectory", ("audit", "directory")),
    true_false("historyEnabled", ("history", "enabled")),
    number("historyBytesMax", ("history", "bytes_max"), Low::Wrong),
    number("historyAgeMsMax", ("history", "age_ms_max"), Low::Wrong),
    number("historyDataBytesMax", ("history", "data_bytes_max"), Low::Wrong),
    own("metricsProvider.className"),
    own("metricsProvider.httpHost"),
    own("metricsProvider.httpPort"),
];
