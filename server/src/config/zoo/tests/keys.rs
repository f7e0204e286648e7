//! Every key of protocol sections 15.1 and 15.2, and what becomes of it.

use std::collections::BTreeSet;

use zoolet_replica::{DigestAlgorithm, ServerId};
use zoolet_tls::{ClientAuth, Protocol, StoreType};

use super::https_keys::ADMIN_TLS;
use crate::config::address::HostPort;
use crate::config::files::{OnDisk, Source};
use crate::config::model::{ServerConfig, Words};
use crate::config::settings::{all as all_settings, find as find_setting};
use crate::config::zoo::keys::{Low, Rule, Shape, all, find};

/// All lines.
fn rows() -> impl Iterator<Item = &'static (&'static str, Outcome)> {
    SECTION_15_1.iter().chain(SECTION_15_2).chain(ADMIN_TLS)
}

/// What a line does.
pub(super) enum Outcome {
    /// It is taken over; the function looks at the place.
    Honored(fn(&ServerConfig) -> bool),
    /// It says what is so anyway.
    Silent,
    /// It is named in a warning.
    Warned,
    /// It is an error.
    Refused,
}
use Outcome::{Honored, Refused, Silent, Warned};

pub(super) fn read(text: &str) -> Result<(ServerConfig, Vec<String>), String> {
    let source = Source { file: "zoo.cfg".into(), text: text.to_owned() };
    match crate::config::zoo::read(&source, Some(ServerId(1)), &OnDisk) {
        Ok((config, warnings)) => Ok((config, warnings.iter().map(ToString::to_string).collect())),
        Err(error) => Err(error.to_string()),
    }
}

/// The warning about the prefix alone.
pub(super) const IN_FORCE: &str = "in force here, and without effect in a file of Apache ZooKeeper";

/// A server alone, or one of three when the line is about the member list.
pub(super) fn with_line(line: &str) -> String {
    let ensemble = "server.1=a:1:2\nserver.2=b:1:2\nserver.3=c:1:2\n";
    let bare = line.strip_prefix("zookeeper.").unwrap_or(line);
    let of_ensemble = ["group.", "weight.", "peerType", "quorumListen", "standalone", "multiA"];
    let ensemble = if of_ensemble.iter().any(|key| bare.starts_with(key)) { ensemble } else { "" };
    format!("{line}\ndataDir=/nonexistent/d\nclientPort=5\n{ensemble}")
}

fn check(line: &str, outcome: &Outcome) {
    let key = line.split('=').next().unwrap();
    let mut result = read(&with_line(line));
    if let Ok((_, warnings)) = &mut result {
        warnings.retain(|warning| !warning.contains(IN_FORCE));
    }
    let place = "zoo.cfg:1: ";
    match (outcome, result) {
        (Honored(look), Ok((config, warnings))) => {
            assert!(look(&config), "{line} is not in {config:?}");
            assert!(warnings.is_empty(), "{line}: {warnings:?}");
        }
        (Silent, Ok((_, warnings))) => assert!(warnings.is_empty(), "{line}: {warnings:?}"),
        (Warned, Ok((_, warnings))) => {
            assert_eq!(warnings.len(), 1, "{line}: {warnings:?}");
            assert!(warnings[0].starts_with(&format!("{place}{key}: not applicable: ")), "{line}");
        }
        (Refused, Err(error)) => {
            let bare = key.strip_prefix("zookeeper.").unwrap_or(key);
            assert!(error.starts_with(place) && error.contains(bare), "{line}: {error}");
        }
        (_, other) => panic!("{line}: {other:?}"),
    }
}

#[rustfmt::skip]
static SECTION_15_1: &[(&str, Outcome)] = &[
    ("dataLogDir=/l", Honored(|c| c.data_log_dir.to_str() == Some("/l"))),
    ("clientPortAddress=h", Honored(|c| c.client_bind.to_string() == "h:5")),
    ("secureClientPort=2281", Refused),
    ("secureClientPortAddress=h", Refused),
    ("tickTime=7", Honored(|c| c.ensemble.tick_time_ms == 7 && c.session.timeout_ms_max == 140)),
    ("minSessionTimeout=7", Honored(|c| c.session.timeout_ms_min == 7)),
    ("maxSessionTimeout=70000", Honored(|c| c.session.timeout_ms_max == 70_000)),
    ("initLimit=7", Honored(|c| c.ensemble.init_limit_ticks == 7)),
    ("syncLimit=7", Honored(|c| c.ensemble.sync_limit_ticks == 7)),
    ("connectToLearnerMasterLimit=0", Silent),
    ("connectToLearnerMasterLimit=7", Warned),
    ("maxClientCnxns=7", Honored(|c| c.limits.connections_per_address_max == 7)),
    ("netty.server.outstandingHandshake.limit=7", Honored(|c| c.limits.tls_handshakes_max == 7)),
    ("maxCnxns=7", Honored(|c| c.limits.connections_max == 7)),
    ("clientPortListenBacklog=7", Honored(|c| c.limits.listen_backlog == 7)),
    ("server.1=h:1:2", Honored(|c| c.members[&c.server_id].peer.to_string() == "h:1")),
    ("group.1=1:2:3", Warned),
    ("group.1=1:2", Refused),
    ("weight.1=1", Warned),
    ("weight.1=2", Refused),
    ("peerType=participant", Silent),
    ("observerMasterPort=0", Silent),
    ("observerMasterPort=2191", Warned),
    ("electionAlg=3", Silent),
    ("electionAlg=1", Refused),
    ("leaderServes=yes", Silent),
    ("leaderServes=no", Warned),
    ("quorumListenOnAllIPs=true",
        Honored(|c| c.peer_bind.as_ref().unwrap().to_string() == "0.0.0.0:1")),
    ("dynamicConfigFile=/nonexistent/zoo.cfg.dynamic", Refused),
    ("standaloneEnabled=false", Honored(|c| !c.standalone)),
    ("reconfigEnabled=true", Honored(|c| c.ensemble.reconfig_enabled)),
    ("localSessionsEnabled=false", Silent),
    ("localSessionsEnabled=true", Warned),
    ("localSessionsUpgradingEnabled=true", Warned),
    ("syncEnabled=true", Silent),
    ("syncEnabled=false", Warned),
    ("autopurge.snapRetainCount=7", Honored(|c| c.snapshot.retain == 7)),
    ("autopurge.purgeInterval=0", Warned),
    ("autopurge.purgeInterval=24", Warned),
    ("metricsProvider.className=org.apache.zookeeper.metrics.impl.DefaultMetricsProvider", Silent),
    (
        "metricsProvider.className=org.apache.zookeeper.metrics.prometheus.PrometheusMetricsProvider\n\
         metricsProvider.httpHost=127.0.0.1",
        Honored(|c| c.metrics_bind == Some(HostPort::new("127.0.0.1", 7000))),
    ),
    ("metricsProvider.className=org.example.Metrics", Warned),
    ("metricsProvider.httpHost=127.0.0.1", Silent),
    ("metricsProvider.httpPort=7000", Silent),
    ("metricsProvider.exportJvmInfo=true", Warned),
    ("sslQuorum=false", Silent),
    ("sslQuorum=true", Honored(|c| c.tls.peer_enabled)),
    ("portUnification=true", Honored(|c| c.tls.peer_port_unification)),
    ("sslQuorumReloadCertFiles=true", Honored(|c| c.tls.peer.reload)),
    ("quorum.auth.enableSasl=false", Silent),
    ("quorum.auth.enableSasl=true", Refused),
    ("quorum.auth.learnerRequireSasl=true", Refused),
    ("quorum.auth.serverRequireSasl=true", Refused),
    ("quorum.auth.kerberos.servicePrincipal=x", Warned),
    ("quorum.auth.learner.saslLoginContext=x", Warned),
    ("quorum.auth.server.saslLoginContext=x", Warned),
    ("quorum.cnxn.threads.size=20", Warned),
    ("multiAddress.enabled=true", Silent),
    ("multiAddress.reachabilityCheckTimeoutMs=5", Warned),
    ("multiAddress.reachabilityCheckEnabled=true", Warned),
    ("jvm.pause.monitor=false", Silent),
    ("jvm.pause.monitor=true", Warned),
    ("jvm.pause.warn-threshold.ms=5", Warned),
    ("jvm.pause.info-threshold.ms=5", Warned),
    ("jvm.pause.sleep.time.ms=5", Warned),
    ("oraclePath=/x", Warned),
];

#[rustfmt::skip]
static SECTION_15_2: &[(&str, Outcome)] = &[
    ("jute.maxbuffer=5000", Honored(|c| c.limits.frame_bytes_max == 5000)),
    ("jute.maxbuffer=0xfffff", Honored(|c| c.limits.frame_bytes_max == 0xf_ffff)),
    ("zookeeper.jute.maxbuffer.extrasize=5", Warned),
    ("zookeeper.4lw.commands.whitelist=stat, *", Honored(|c| c.four_letter.words == Words::All)),
    ("4lw.commands.whitelist=stat,ruok", Honored(|c| c.four_letter.words.allow("ruok"))),
    ("zookeeper.globalOutstandingLimit=7", Honored(|c| c.limits.requests_max == 7)),
    ("zookeeper.snapCount=7", Honored(|c| c.snapshot.commands == 7)),
    ("zookeeper.snapSizeLimitInKb=7", Honored(|c| c.snapshot.log_bytes == 7168)),
    ("zookeeper.preAllocSize=128", Honored(|c| c.log.segment_bytes == 128 << 10)),
    ("zookeeper.txnLogSizeLimitInKb=-1", Silent),
    ("zookeeper.txnLogSizeLimitInKb=5", Warned),
    ("zookeeper.commitLogCount=500", Warned),
    ("zookeeper.forceSync=yes", Silent),
    ("zookeeper.forceSync=no", Warned),
    ("fsync.warningthresholdms=7", Honored(|c| c.log.slow_sync_ms == 7)),
    ("zookeeper.fsync.warningthresholdms=7", Honored(|c| c.log.slow_sync_ms == 7)),
    ("zookeeper.flushDelay=5", Warned),
    ("zookeeper.maxWriteQueuePollTime=5", Warned),
    ("zookeeper.maxBatchSize=7", Honored(|c| c.log.entry_commands_max == 7)),
    ("zookeeper.snapshot.compression.method=", Silent),
    ("zookeeper.snapshot.compression.method=gz", Warned),
    ("zookeeper.snapshot.trust.empty=true", Warned),
    ("zookeeper.digest.enabled=true", Silent),
    ("zookeeper.digest.enabled=false", Warned),
    ("zookeeper.closeSessionTxn.enabled=false", Warned),
    ("zookeeper.serializeLastProcessedZxid.enabled=false", Warned),
    ("zookeeper.db.autocreate=true", Silent),
    ("zookeeper.db.autocreate=false", Honored(|c| !c.ensemble.autocreate.db)),
    ("zookeeper.datadir.autocreate=false", Honored(|c| !c.ensemble.autocreate.data_dir)),
    ("zookeeper.skipACL=yes", Honored(|c| c.auth.acl_skipped)),
    ("zookeeper.skipACL=no", Honored(|c| !c.auth.acl_skipped)),
    ("zookeeper.enforceQuota=true", Honored(|c| c.znodes.quota_enforced)),
    ("zookeeper.enableEagerACLCheck=true", Warned),
    ("zookeeper.extendedTypesEnabled=true", Honored(|c| c.znodes.ttl_enabled)),
    ("zookeeper.emulate353TTLNodes=true", Warned),
    ("znode.container.checkIntervalMs=7", Honored(|c| c.znodes.reap_interval_ms == 7)),
    ("znode.container.maxPerMinute=7", Honored(|c| c.znodes.reaps_per_minute_max == 7)),
    ("znode.container.maxNeverUsedIntervalMs=7", Honored(|c| c.znodes.never_used_ms_max == 7)),
    ("readonlymode.enabled=false", Honored(|c| !c.ensemble.read_only_mode)),
    ("readonlymode.enabled=true", Honored(|c| c.ensemble.read_only_mode)),
    ("zookeeper.DigestAuthenticationProvider.superDigest=super:x=",
        Honored(|c| c.auth.super_digest.as_deref() == Some("super:x="))),
    ("zookeeper.DigestAuthenticationProvider.digestAlg=sha-512",
        Honored(|c| c.auth.digest_algorithm == DigestAlgorithm::Sha512)),
    ("zookeeper.DigestAuthenticationProvider.digestAlg=SHA3-256",
        Honored(|c| c.auth.digest_algorithm == DigestAlgorithm::Sha3_256)),
    ("zookeeper.DigestAuthenticationProvider.digestAlg=MD5", Refused),
    ("zookeeper.DigestAuthenticationProvider.enabled=false", Honored(|c| !c.auth.digest_enabled)),
    ("zookeeper.X509AuthenticationProvider.superUser=CN=x",
        Honored(|c| c.tls.x509_super_user.as_deref() == Some("CN=x"))),
    ("zookeeper.superUser=x", Honored(|c| c.sasl.super_users == ["x"])),
    ("zookeeper.superUser.1=x", Honored(|c| c.sasl.super_users == ["x"])),
    ("zookeeper.SASLAuthenticationProvider.superPassword=x",
        Honored(|c| c.sasl.super_password.is_some())),
    ("zookeeper.authProvider.1=x", Warned),
    ("authProvider.1=org.apache.zookeeper.server.auth.SASLAuthenticationProvider", Silent),
    ("zookeeper.sessionRequireClientSASLAuth=false", Silent),
    ("zookeeper.sessionRequireClientSASLAuth=true", Refused),
    ("zookeeper.allowSaslFailedClients=true", Honored(|c| c.sasl.failed_logins_served)),
    ("zookeeper.enforce.auth.enabled=false", Silent),
    ("zookeeper.enforce.auth.enabled=true", Refused),
    ("zookeeper.enforce.auth.schemes=digest", Warned),
    ("requireClientAuthScheme=sasl", Warned),
    ("letAnySaslUserDoX=x", Warned),
    ("zookeeper.sasl.serverconfig=Server", Refused),
    ("java.security.auth.login.config=/x",
        Honored(|c| c.sasl.jaas_file.as_deref() == Some("/x".as_ref()))),
    ("saslUsersFile=/x", Honored(|c| c.sasl.users_file.as_deref() == Some("/x".as_ref()))),
    ("zookeeper.kerberos.removeHostFromPrincipal=true", Warned),
    ("zookeeper.kerberos.removeRealmFromPrincipal=true", Warned),
    ("zookeeper.serverCnxnFactory=org.apache.zookeeper.server.NIOServerCnxnFactory", Warned),
    ("zookeeper.client.portUnification=false", Silent),
    ("zookeeper.client.portUnification=true", Refused),
    ("zookeeper.client.certReload=true", Honored(|c| c.tls.client.reload)),
    ("zookeeper.ssl.keyStore.location=/x",
        Honored(|c| c.tls.client.key_store.file.as_deref() == Some("/x".as_ref()))),
    ("zookeeper.ssl.keyStore.password=x", Honored(|c| c.tls.client.key_store.password.is_some())),
    ("zookeeper.ssl.keyStore.passwordPath=/x",
        Honored(|c| c.tls.client.key_store.password_file.is_some())),
    ("zookeeper.ssl.keyStore.type=jks",
        Honored(|c| c.tls.client.key_store.store_type == Some(StoreType::Jks))),
    ("zookeeper.ssl.keyStore.type=BCFKS", Refused),
    ("zookeeper.ssl.trustStore.location=/x", Honored(|c| c.tls.client.trust_store.file.is_some())),
    ("zookeeper.ssl.clientAuth=WANT", Honored(|c| c.tls.client.client_auth == ClientAuth::Want)),
    ("zookeeper.ssl.clientAuth=perhaps", Refused),
    ("zookeeper.ssl.clientHostnameVerification=true",
        Honored(|c| c.tls.client.verify_client_address)),
    ("zookeeper.ssl.hostnameVerification=true", Warned),
    ("zookeeper.ssl.protocol=TLSv1.2", Honored(|c| c.tls.client.protocols == [Protocol::Tls12])),
    ("zookeeper.ssl.protocol=TLSv1.3", Honored(|c| c.tls.client.protocols.is_empty())),
    ("zookeeper.ssl.protocol=TLSv1.1", Refused),
    ("zookeeper.ssl.enabledProtocols=TLSv1.3,TLSv1.2", Honored(|c| c.tls.client.protocols.len() == 2)),
    ("zookeeper.ssl.enabledProtocols=TLSv1.3,TLSv1", Refused),
    ("zookeeper.ssl.ciphersuites=TLS_AES_256_GCM_SHA384",
        Honored(|c| c.tls.client.cipher_suites == ["TLS_AES_256_GCM_SHA384"])),
    ("zookeeper.ssl.ciphersuites=TLS_RSA_WITH_AES_128_CBC_SHA", Refused),
    ("zookeeper.ssl.crl=false", Silent),
    ("zookeeper.ssl.crl=true", Refused),
    ("ssl.crlFile=/x", Honored(|c| c.tls.client.revocations.is_some())),
    ("zookeeper.ssl.ocsp=false", Silent),
    ("zookeeper.ssl.ocsp=true", Refused),
    ("zookeeper.ssl.context.supplier.class=x", Refused),
    ("zookeeper.ssl.authProvider=x509", Silent),
    ("zookeeper.ssl.authProvider=mine", Warned),
    ("zookeeper.ssl.quorum.keyStore.location=/x",
        Honored(|c| c.tls.peer.key_store.file.as_deref() == Some("/x".as_ref()))),
    ("zookeeper.ssl.quorum.hostnameVerification=false",
        Honored(|c| !c.tls.peer.verify_server_name)),
    ("zookeeper.ssl.quorum.crl=true", Refused),
    ("zookeeper.ssl.trustStore.password=x",
        Honored(|c| c.tls.client.trust_store.password.is_some())),
    ("zookeeper.ssl.trustStore.passwordPath=/x",
        Honored(|c| c.tls.client.trust_store.password_file.is_some())),
    ("zookeeper.ssl.trustStore.type=PEM",
        Honored(|c| c.tls.client.trust_store.store_type.is_some())),
    ("zookeeper.ssl.allowReverseDnsLookup=true", Refused),
    ("zookeeper.ssl.handshakeDetectionTimeoutMillis=5000", Warned),
    ("zookeeper.ssl.sslProvider=OPENSSL", Warned),
    ("zookeeper.ssl.quorum.keyStore.password=x",
        Honored(|c| c.tls.peer.key_store.password.is_some())),
    ("zookeeper.ssl.quorum.keyStore.passwordPath=/x",
        Honored(|c| c.tls.peer.key_store.password_file.is_some())),
    ("zookeeper.ssl.quorum.keyStore.type=PKCS12",
        Honored(|c| c.tls.peer.key_store.store_type.is_some())),
    ("zookeeper.ssl.quorum.trustStore.location=/x",
        Honored(|c| c.tls.peer.trust_store.file.is_some())),
    ("zookeeper.ssl.quorum.trustStore.password=x",
        Honored(|c| c.tls.peer.trust_store.password.is_some())),
    ("zookeeper.ssl.quorum.trustStore.passwordPath=/x",
        Honored(|c| c.tls.peer.trust_store.password_file.is_some())),
    ("zookeeper.ssl.quorum.trustStore.type=PEM",
        Honored(|c| c.tls.peer.trust_store.store_type.is_some())),
    ("zookeeper.ssl.quorum.clientAuth=none",
        Honored(|c| c.tls.peer.client_auth == ClientAuth::None)),
    ("zookeeper.ssl.quorum.clientHostnameVerification=true",
        Honored(|c| c.tls.peer.verify_client_address)),
    ("zookeeper.ssl.quorum.enabledProtocols=TLSv1.3",
        Honored(|c| c.tls.peer.protocols == [Protocol::Tls13])),
    ("zookeeper.ssl.quorum.ciphersuites=TLS_AES_128_GCM_SHA256",
        Honored(|c| c.tls.peer.cipher_suites.len() == 1)),
    ("zookeeper.ssl.quorum.crlFile=/x", Honored(|c| c.tls.peer.revocations.is_some())),
    ("zookeeper.ssl.quorum.protocol=TLSv1.2",
        Honored(|c| c.tls.peer.protocols == [Protocol::Tls12])),
    ("zookeeper.ssl.quorum.ocsp=true", Refused),
    ("zookeeper.ssl.quorum.allowReverseDnsLookup=true", Refused),
    ("zookeeper.ssl.quorum.context.supplier.class=x", Refused),
    ("zookeeper.ssl.quorum.handshakeDetectionTimeoutMillis=5000", Warned),
    ("zookeeper.ssl.quorum.sslProvider=OPENSSL", Warned),
    ("zookeeper.ssl.quorum.authProvider=mine", Warned),
    ("authProvider.x509=org.apache.zookeeper.server.auth.X509AuthenticationProvider", Silent),
    ("zookeeper.fips-mode=false", Warned),
    ("zookeeper.fips-mode=true", Warned),
    ("zookeeper.nio.sessionlessCnxnTimeout=7", Honored(|c| c.limits.handshake_timeout_ms == 7)),
    ("zookeeper.nio.numSelectorThreads=5", Warned),
    ("zookeeper.nio.numWorkerThreads=5", Warned),
    ("zookeeper.nio.directBufferBytes=5", Warned),
    ("zookeeper.maxResponseCacheSize=5", Warned),
    ("zookeeper.maxGetChildrenResponseCacheSize=5", Warned),
    ("zookeeper.request_throttle_max_requests=0", Silent),
    ("zookeeper.request_throttle_max_requests=5", Warned),
    ("zookeeper.request_throttle_stall_time=5", Warned),
    ("zookeeper.request_throttle_drop_stale=true", Warned),
    (
        "zookeeper.throttled_op_wait_time=5",
        Honored(|c| c.limits.throttled_op_wait_time_ms == 5),
    ),
    ("sessionIdentitiesMax=5", Honored(|c| c.limits.session_identities_max == 5)),
    ("sessionIdentityBytesMax=500", Honored(|c| c.limits.session_identity_bytes_max == 500)),
    ("aclEntriesMax=5", Honored(|c| c.limits.acl_entries_max == 5)),
    ("zookeeper.request_stale_latency_check=true", Warned),
    ("zookeeper.request_stale_connection_check=true", Warned),
    ("zookeeper.connection_throttle_tokens=0", Silent),
    ("zookeeper.connection_throttle_tokens=5", Warned),
    ("zookeeper.connection_throttle_decrease_ratio=0.5", Warned),
    ("zookeeper.largeRequestMaxBytes=5", Honored(|c| c.limits.large_request_bytes_max == 5)),
    ("zookeeper.largeRequestThreshold=-1", Warned),
    ("zookeeper.watchManagerName=x", Warned),
    ("zookeeper.admin.enableServer=false", Silent),
    (
        "zookeeper.admin.enableServer=true\nadmin.serverAddress=localhost",
        Honored(|c| c.http_bind == Some(HostPort::new("localhost", 8080))),
    ),
    ("admin.serverAddress=::1", Honored(|c| c.http_bind == Some(HostPort::new("::1", 8080)))),
    (
        "admin.serverPort=8081\nadmin.serverAddress=0.0.0.0",
        Honored(|c| c.http_bind == Some(HostPort::new("0.0.0.0", 8081))),
    ),
    ("admin.idleTimeout=5000", Honored(|c| c.http.idle_timeout_ms == 5000)),
    ("admin.commandURL=/x", Honored(|c| c.http.command_url == "/x")),
    ("admin.httpVersion=11", Warned),
    ("admin.rateLimiterIntervalInMS=5", Honored(|c| c.http.snapshot_interval_ms == 5)),
    ("admin.snapshot.enabled=true", Silent),
    ("admin.snapshot.enabled=false", Honored(|c| !c.http.snapshots)),
    ("admin.console.enabled=true", Silent),
    ("admin.console.enabled=false", Honored(|c| !c.http.console)),
    ("admin.console.logins=true", Honored(|c| c.http.console_logins)),
    ("admin.restore.enabled=true", Warned),
    ("zookeeper.audit.enable=false", Silent),
    ("zookeeper.audit.enable=true", Honored(|c| c.audit.enabled)),
    ("audit.impl.class=org.apache.zookeeper.audit.Slf4jAuditLogger", Silent),
    ("audit.impl.class=com.example.Own", Warned),
    ("historyEnabled=false", Honored(|c| !c.history.enabled)),
    ("snapLogPercent=7", Honored(|c| c.snapshot.log_percent == 7)),
    ("snapLogPercent=-1", Honored(|c| c.snapshot.log_percent == 0)),
    (
        "outboxBytesPerAddressMax=2097152",
        Honored(|c| c.limits.outbox_bytes_per_address_max == 2 << 20),
    ),
    ("outboxBytesTotalMax=2097152", Honored(|c| c.limits.outbox_bytes_total_max == 2 << 20)),
    ("sessionsMax=70000", Honored(|c| c.limits.sessions_max == 70_000)),
    ("sessionsPerAddressMax=70000", Honored(|c| c.limits.sessions_per_address_max == 70_000)),
    ("sessionsPerIdentityMax=70000", Honored(|c| c.limits.sessions_per_identity_max == 70_000)),
    ("sessionWatchesMax=70000", Honored(|c| c.limits.session_watches_max == 70_000)),
    ("sessionWatchBytesMax=70000", Honored(|c| c.limits.session_watch_bytes_max == 70_000)),
    ("watchesPerAddressMax=70000", Honored(|c| c.limits.watches_per_address_max == 70_000)),
    ("watchBytesPerAddressMax=70000", Honored(|c| c.limits.watch_bytes_per_address_max == 70_000)),
    ("watchesMax=70000", Honored(|c| c.limits.watches_max == 70_000)),
    ("watchBytesMax=70000", Honored(|c| c.limits.watch_bytes_max == 70_000)),
    ("drainWindowMs=5000", Honored(|c| c.limits.drain_window_ms == 5000)),
    ("historyBytesMax=33554432", Honored(|c| c.history.bytes_max == 32 << 20)),
    ("historyAgeMsMax=3600000", Honored(|c| c.history.age_ms_max == 3_600_000)),
    ("historyDataBytesMax=64", Honored(|c| c.history.data_bytes_max == 64)),
    (
        "auditDirectory=/var/log/zoolet",
        Honored(|c| c.audit.directory.as_deref() == Some("/var/log/zoolet".as_ref())),
    ),
    ("zookeeper.tcpKeepAlive=true", Warned),
    ("zookeeper.clientTcpKeepAlive=true", Warned),
    ("zookeeper.cnxTimeout=7", Honored(|c| c.ensemble.peer_connect_timeout_ms == 7)),
    (
        "zookeeper.peerSecretFile=/etc/zoolet/secret",
        Honored(|c| c.ensemble.peer_secret_file.as_deref() == Some("/etc/zoolet/secret".as_ref())),
    ),
    ("zookeeper.electionPortBindRetry=5", Warned),
    ("zookeeper.learner.asyncSending=true", Warned),
    ("zookeeper.learner.closeSocketAsync=true", Warned),
    ("zookeeper.leader.closeSocketAsync=true", Warned),
    ("zookeeper.leader.maxConcurrentSnapSyncs=5", Warned),
    ("zookeeper.leader.maxConcurrentDiffSyncs=5", Warned),
    ("zookeeper.ensembleAuthName=x", Warned),
];

#[test]
fn every_documented_key_is_honored_named_in_a_warning_or_refused() {
    for (line, outcome) in rows() {
        check(line, outcome);
    }
}

#[test]
fn the_prefix_makes_no_difference() {
    for (line, outcome) in rows() {
        match line.strip_prefix("zookeeper.") {
            Some(bare) => check(bare, outcome),
            None => check(&format!("zookeeper.{line}"), outcome),
        }
    }
}

#[test]
fn every_key_that_does_something_is_in_the_table() {
    let rows: BTreeSet<&str> = rows()
        .filter_map(|(line, _)| line.split('=').next())
        .map(|key| key.strip_prefix("zookeeper.").unwrap_or(key))
        .chain(["dataDir", "clientPort"])
        .collect();
    let honored =
        all().filter(|key| !matches!(key.rule, Rule::Inert { .. } | Rule::Refused { .. }));
    for key in honored {
        let name = key.name.trim_end_matches('*');
        assert!(rows.iter().any(|row| row.starts_with(name)), "{name} has no row");
    }
}

#[test]
fn keys_that_do_nothing_still_refuse_a_value_of_another_kind() {
    for key in all() {
        let (Rule::Inert { shape, .. } | Rule::Refused { shape, .. }) = key.rule else { continue };
        let name = key.name.replace('*', "x");
        let error = read(&with_line(&format!("{name}=?")));
        match shape {
            Shape::Any => {}
            Shape::TrueFalse => assert!(error.unwrap_err().contains("expected true or false")),
            Shape::YesNo => assert!(error.unwrap_err().contains("expected yes or no")),
            Shape::Number => assert!(error.unwrap_err().contains("expected a number")),
        }
    }
}

#[test]
fn every_rule_names_a_setting_once_and_every_key_has_one_rule() {
    let mut names = BTreeSet::new();
    let mut settings = BTreeSet::new();
    for key in all() {
        assert!(names.insert(key.name), "{} has two rules", key.name);
        assert!(find(&key.name.replace('*', "x")).is_some(), "{}", key.name);
        let setting = match key.rule {
            Rule::Number { setting, low, .. } | Rule::Clamped { setting, low, .. } => {
                if let Low::Raised(min) = low {
                    assert!(min > 0);
                }
                setting
            }
            Rule::TrueFalse { setting } | Rule::Yes { setting } | Rule::Text { setting } => setting,
            Rule::Own | Rule::Inert { .. } | Rule::Refused { .. } => continue,
        };
        assert!(find_setting(setting.0, setting.1).is_some(), "{}", key.name);
        assert!(settings.insert(setting), "{} is set twice", key.name);
    }
    assert!(settings.len() < all_settings().count());
}

/// What an operator reads is kept in step with the table.
#[test]
fn the_manual_names_every_key_that_is_honored_or_refused() {
    let manual = include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/operating.md"));
    for key in all().filter(|key| !matches!(key.rule, Rule::Inert { .. })) {
        let name = format!("`{}`", key.name.replace('*', "N"));
        assert!(manual.contains(&name), "{name} is not in docs/operating.md");
        let (Rule::Number { setting, .. }
        | Rule::Clamped { setting, .. }
        | Rule::TrueFalse { setting }
        | Rule::Yes { setting }
        | Rule::Text { setting }) = key.rule
        else {
            continue;
        };
        let row = manual.lines().find(|line| line.starts_with('|') && line.contains(&name));
        let setting = format!("`{}.{}`", setting.0, setting.1);
        assert!(row.is_some_and(|row| row.contains(&setting)), "{name} fills {setting}");
    }
}
