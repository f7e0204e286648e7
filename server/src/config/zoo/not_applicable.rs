//! Keys that do nothing here, each with the reason.

use super::keys::{Key, Rule, Shape};

/// A key that has no effect, with any value.
const fn inert(name: &'static str, shape: Shape, why: &'static str) -> Key {
    Key { name, rule: Rule::Inert { shape, same: &[], why } }
}

/// A key that makes no difference as long as it says what is so anyway.
const fn same(
    name: &'static str,
    shape: Shape,
    same: &'static [&'static str],
    why: &'static str,
) -> Key {
    Key { name, rule: Rule::Inert { shape, same, why } }
}

use Shape::{Any, Number, TrueFalse, YesNo};

const SLF4J_AUDIT: &[&str] = &["org.apache.zookeeper.audit.Slf4jAuditLogger"];
const PROVIDERS: &[&str] = &[
    "org.apache.zookeeper.server.auth.DigestAuthenticationProvider",
    "org.apache.zookeeper.server.auth.IPAuthenticationProvider",
    "org.apache.zookeeper.server.auth.SASLAuthenticationProvider",
    "org.apache.zookeeper.server.auth.X509AuthenticationProvider",
];
const OFF: &[&str] = &["false"];
const ON: &[&str] = &["true"];

const ADMIN: &str = "a snapshot is restored by `zoolet restore` while the servers are stopped";
const BATCHES: &str = "all waiting writes are synced together, without a delay";
const CACHES: &str = "there is no cache of encoded replies";
const COMMIT: &str = "commits are applied in order by one task";
const CONNECTION_THROTTLE: &str =
    "new connections are bounded by connections_max and handshakes_max instead of by tokens";
const ELECTION: &str = "elections are Raft's, with timeouts of their own";
const JVM: &str = "there is no JVM to watch";
const KERBEROS: &str = "Kerberos is not supported: no client can have such an identity";
const LARGE: &str = "a request of more than 8 KiB is a large one";
const LEARNER: &str = "servers catch up by Raft's log and snapshots";
const LOCAL: &str = "every session is known to the whole ensemble, which is the stronger promise";
const LOG_FORMAT: &str = "log and snapshots have a format of their own, always with digests";
const METRICS_TLS: &str = "this port speaks plain HTTP: /metrics is also at the port of the \
     AdminServer, which speaks TLS with admin.forceHttps";
const METRICS: &str = "metrics are served by httpHost and httpPort alone";
const MULTI: &str = "only the first address of a server is used";
const NETTY: &str = "there is no Netty here";
const PATH_STATS: &str = "path statistics are not kept";
const PEER_NET: &str = "servers keep one connection in each direction, with timeouts of their own";
const PEER_SASL: &str =
    "SASL between servers is not supported: peerSecretFile or sslQuorum keeps strangers out";
const STALE: &str = "requests wait in their connection instead of being dropped";
const THREADS: &str = "the runtime has as many threads as the machine has cores";
const TRACKER: &str = "messages between servers are not kept for inspection";
const WATCHES: &str = "there is one kind of watch table";

#[rustfmt::skip]
pub(super) static INERT: &[Key] = &[
    // The ensemble.
    same("connectToLearnerMasterLimit", Number, &["0"], "initLimit bounds it as well"),
    same("observerMasterPort", Number, &["0", "-1"], "observers get the log from the leader"),
    same("leaderServes", YesNo, &["yes"], "every server serves clients, the leader as well"),
    same("syncEnabled", TrueFalse, ON, "observers always log and take snapshots"),
    same("observer.syncEnabled", TrueFalse, ON, "observers always log and take snapshots"),
    same("localSessionsEnabled", TrueFalse, OFF, LOCAL),
    same("localSessionsUpgradingEnabled", TrueFalse, OFF, LOCAL),
    inert("oraclePath", Any, "a majority of two servers is both: no oracle decides for one"),
    inert("multiAddress.reachabilityCheckTimeoutMs", Number, MULTI),
    inert("multiAddress.reachabilityCheckEnabled", TrueFalse, MULTI),
    inert("fastleader.minNotificationInterval", Number, ELECTION),
    inert("fastleader.maxNotificationInterval", Number, ELECTION),
    inert("leader.maxTimeToWaitForEpoch", Number, ELECTION),
    inert("observer.election.DelayMs", Number, ELECTION),
    inert("observer.reconnectDelayMs", Number, PEER_NET),
    inert("observerMaster.sizeLimit", Number, "observers get the log from the leader"),
    inert("electionPortBindRetry", Number, "nothing listens on the election port"),
    inert("quorumCnxnTimeoutMs", Number, PEER_NET),
    inert("quorum.cnxn.threads.size", Number, PEER_NET),
    inert("tcpKeepAlive", TrueFalse, PEER_NET),
    inert("leader.nodelay", TrueFalse, PEER_NET),
    inert("follower.nodelay", TrueFalse, PEER_NET),
    inert("leaderConnectDelayDuringRetryMs", Number, PEER_NET),
    inert("learner.asyncSending", TrueFalse, PEER_NET),
    inert("learner.closeSocketAsync", TrueFalse, PEER_NET),
    inert("leader.closeSocketAsync", TrueFalse, PEER_NET),
    inert("leader.ackLoggingFrequency", Number, LEARNER),
    inert("leader.maxConcurrentSnapSyncs", Number, LEARNER),
    inert("leader.maxConcurrentDiffSyncs", Number, LEARNER),
    inert("snapshotSizeFactor", Number, LEARNER),
    inert("forceSnapshotSync", TrueFalse, LEARNER),
    inert("commitLogCount", Number, "the log is kept back to the oldest snapshot for catching up"),
    inert("follower.skipLearnerRequestToNextProcessor", TrueFalse, LEARNER),
    inert("forward_learner_requests_to_commit_processor_disabled", TrueFalse, LEARNER),
    // Log and snapshots.
    same("forceSync", YesNo, &["yes"],
        "the log is always synced before a write is acknowledged, which is the stronger promise"),
    inert("autopurge.purgeInterval", Any,
        "old snapshots and logs are deleted after each snapshot, and 0 does not keep them"),
    same("txnLogSizeLimitInKb", Number, &["-1"], "the size of a log file is preAllocSize"),
    inert("flushDelay", Number, BATCHES),
    inert("maxWriteQueuePollTime", Number, BATCHES),
    inert("jute.maxbuffer.extrasize", Number, "reads from disk have their own limits"),
    same("snapshot.compression.method", Any, &[""], "snapshots are not compressed"),
    inert("snapshot.trust.empty", TrueFalse, LOG_FORMAT),
    same("digest.enabled", TrueFalse, ON, LOG_FORMAT),
    inert("closeSessionTxn.enabled", TrueFalse, LOG_FORMAT),
    inert("serializeLastProcessedZxid.enabled", TrueFalse, LOG_FORMAT),
    inert("emulate353TTLNodes", TrueFalse, "data of version 3.5.3 is not read"),
    // Connections and requests.
    inert("clientTcpKeepAlive", TrueFalse, "sessions find out about dead connections by pings"),
    inert("serverCnxnFactory", Any, "there is one kind of listener"),
    inert("nio.numSelectorThreads", Number, THREADS),
    inert("nio.numWorkerThreads", Number, THREADS),
    inert("nio.directBufferBytes", Number, THREADS),
    inert("nio.shutdownTimeout", Number, THREADS),
    inert("commitProcessor.numWorkerThreads", Number, COMMIT),
    inert("commitProcessor.maxReadBatchSize", Number, COMMIT),
    inert("commitProcessor.maxCommitBatchSize", Number, COMMIT),
    inert("commitProcessor.shutdownTimeout", Number, COMMIT),
    inert("maxResponseCacheSize", Number, CACHES),
    inert("maxGetChildrenResponseCacheSize", Number, CACHES),
    inert("intBufferStartingSizeBytes", Number, CACHES),
    same("request_throttle_max_requests", Number, &["0"], STALE),
    inert("request_throttle_stall_time", Number, STALE),
    inert("request_throttle_drop_stale", TrueFalse, STALE),
    inert("request_throttler.shutdownTimeout", Number, STALE),
    inert("request_stale_latency_check", TrueFalse, STALE),
    inert("request_stale_connection_check", TrueFalse, STALE),
    same("connection_throttle_tokens", Number, &["0"], CONNECTION_THROTTLE),
    inert("connection_throttle_fill_time", Number, CONNECTION_THROTTLE),
    inert("connection_throttle_fill_count", Number, CONNECTION_THROTTLE),
    inert("connection_throttle_freeze_time", Number, CONNECTION_THROTTLE),
    inert("connection_throttle_drop_increase", Number, CONNECTION_THROTTLE),
    inert("connection_throttle_drop_decrease", Number, CONNECTION_THROTTLE),
    inert("connection_throttle_decrease_ratio", Number, CONNECTION_THROTTLE),
    inert("connection_throttle_weight_enabled", TrueFalse, CONNECTION_THROTTLE),
    inert("connection_throttle_global_session_weight", Number, CONNECTION_THROTTLE),
    inert("connection_throttle_local_session_weight", Number, CONNECTION_THROTTLE),
    inert("connection_throttle_renew_session_weight", Number, CONNECTION_THROTTLE),
    inert("largeRequestThreshold", Number, LARGE),
    inert("netty.advancedFlowControl.enabled", TrueFalse, NETTY),
    inert("netty.server.earlyDropSecureConnectionHandshakes", TrueFalse, NETTY),
    inert("watchManagerName", Any, WATCHES),
    inert("watcherCleanThreadsNum", Number, WATCHES),
    inert("watcherCleanThreshold", Number, WATCHES),
    inert("watcherCleanIntervalInSeconds", Number, WATCHES),
    inert("maxInProcessingDeadWatchers", Number, WATCHES),
    inert("bitHashCacheSize", Number, WATCHES),
    inert("enableEagerACLCheck", TrueFalse, "access lists are checked once, in the order of the log"),
    // Watching the server.
    inert("admin.httpVersion", Number, "HTTP is served in version 1.1, and in 1.0 to those who ask so"),
    same("admin.restore.enabled", TrueFalse, OFF, ADMIN),
    same("metricsProvider.exportJvmInfo", TrueFalse, OFF, JVM),
    inert("metricsProvider.httpsPort", Number, METRICS_TLS),
    inert("metricsProvider.ssl.*", Any, METRICS_TLS),
    inert("metricsProvider.*", Any, METRICS),
    same("audit.impl.class", Any, SLF4J_AUDIT, "the audit log is lines of JSON in a file"),
    same("jvm.pause.monitor", TrueFalse, OFF, JVM),
    inert("jvm.pause.info-threshold.ms", Number, JVM),
    inert("jvm.pause.warn-threshold.ms", Number, JVM),
    inert("jvm.pause.sleep.time.ms", Number, JVM),
    inert("jmx.log4j.disable", TrueFalse, JVM),
    inert("jmx.log4j.mbean", Any, JVM),
    inert("messageTracker.BufferSize", Number, TRACKER),
    inert("messageTracker.Enabled", TrueFalse, TRACKER),
    same("pathStats.enabled", TrueFalse, OFF, PATH_STATS),
    inert("pathStats.*", Any, PATH_STATS),
    inert("traceFile", Any, "there is no trace file"),
    // Identities. Without the provider a client has fewer rights, never more.
    same("authProvider.*", Any, PROVIDERS,
        "only the schemes world, auth, ip, digest, sasl and x509 are there"),
    inert("letAnySaslUserDoX", Any, "an ACL must name the users of SASL that it grants something"),
    inert("requireClientAuthScheme", Any,
        "Apache ZooKeeper does not read it either: enforce.auth.enabled makes clients log in"),
    inert("sasl.client", Any, "it is for clients"),
    inert("jaasLoginRenew", Number, KERBEROS),
    same("IPAuthenticationProvider.usexforwardedfor", TrueFalse, OFF,
        "a client's address is always that of its connection"),
    inert("ensembleAuthName", Any, "clients that send the scheme ensemble are turned away"),
    inert("kerberos.removeHostFromPrincipal", TrueFalse, KERBEROS),
    inert("kerberos.removeRealmFromPrincipal", TrueFalse, KERBEROS),
    inert("kerberos.canonicalizeHostNames", TrueFalse, KERBEROS),
    inert("kerberos.minReLoginTimeMs", Number, KERBEROS),
    inert("kinit", Any, KERBEROS),
    inert("security.auth_to_local", Any, KERBEROS),
    inert("quorum.auth.kerberos.servicePrincipal", Any, KERBEROS),
    inert("quorum.auth.learner.saslLoginContext", Any, PEER_SASL),
    inert("quorum.auth.server.saslLoginContext", Any, PEER_SASL),
];
