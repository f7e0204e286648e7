//! What of the configuration goes to which layer.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use tracing::{info, warn};
use zoolet_history::HistoryOptions;
use zoolet_jute::ErrorCode;
use zoolet_replica::{Boot, Policy};
use zoolet_storage::{DirectorySizes, Disk, WalMode, WalOptions, WatchedDisk};
use zoolet_tls::{LoadedTls, TlsSettings};

use crate::audit::AuditOptions;
use crate::config::{
    self, AuditConfig, ClientAuth, ConfigError, HistoryConfig, MemberRole, ServerConfig,
};
use crate::descriptors;
use crate::host;
use crate::net::{
    EnsembleFigures, EnsembleSource, PortOptions, PortTls, ServerInfo, Sizes, Spoken,
};
use crate::node::Seams;
use crate::node::meters::Meters;
use crate::peer::{PeerTls, Secret, SecretError};
use crate::process;
use crate::replication::{self, BatchLimits, ConfiguredMember, Timing};
use crate::sasl::{Logins, OnFailure};

/// How long the outcome of a proposal may stay unknown, in election timeouts.
const PATIENCE_ELECTIONS: u32 = 12;

/// How long the loss of a leader may stop all writes, in election timeouts: its lease, the longest
/// wait of a candidate, and the election.
const TAKEOVER_ELECTIONS: u32 = 3;

/// The longest command that the log takes, whatever the configuration allows, in bytes.
const COMMAND_BYTES_MAX: usize = 512 << 20;

/// The disk of a server, whose syncs are counted, and the slow ones logged.
pub(super) fn watched_disk(
    config: &ServerConfig,
    seams: &Seams,
    meters: &Arc<Meters>,
) -> WatchedDisk {
    let limit_us = slow_sync_us(config);
    let meters = Arc::clone(meters);
    let hook = move |path: &Path, took_us: u64| {
        let is_slow = took_us > limit_us;
        meters.synced(took_us, is_slow);
        if is_slow {
            warn!(file = %path.display(), took_ms = took_us / 1000, "slow sync");
        }
    };
    let clock = Arc::clone(&seams.clock);
    let now_us = Arc::new(move || clock.mono_us());
    WatchedDisk::new(Arc::clone(&seams.disk), now_us, Arc::new(hook))
}

/// How long a sync may take before it is logged, in microseconds.
fn slow_sync_us(config: &ServerConfig) -> u64 {
    u64::from(config.log.slow_sync_ms) * 1000
}

/// The audit log, if there is to be one.
pub(super) fn audit_options(config: &ServerConfig) -> Option<AuditOptions> {
    let AuditConfig { enabled: _, directory: _, file_bytes_max, files_retained } = config.audit;
    config.audit_file().map(|file| AuditOptions {
        file,
        file_bytes_max,
        files_retained,
        server: config.server_id.0,
        user: process::user(),
    })
}

/// The history, if it is to be kept.
pub(super) fn history_options(config: &ServerConfig) -> Option<HistoryOptions> {
    let HistoryConfig { enabled, bytes_max, age_ms_max, data_bytes_max: _ } = config.history;
    let directory = config.data_dir.join("history");
    enabled.then_some(HistoryOptions { directory, bytes_max, age_ms_max })
}

/// How long a server may be without a leader before it says so.
pub(super) fn leader_wanted_within(config: &ServerConfig) -> Duration {
    Duration::from_millis(config.init_limit_ms())
}

/// How long a proposal may take: less than the shortest session, so that its clients learn of it
/// from their server, but never so short that the loss of a leader loses what was proposed. That
/// takes the leader's lease and the longest election timeout, which is as long, and the election.
fn proposal_timeout(config: &ServerConfig) -> Duration {
    let election_max = millis(config.ensemble.election_timeout_ms_max);
    let within_session = millis(config.session.timeout_ms_min) * 3 / 4;
    (election_max * PATIENCE_ELECTIONS).min(within_session).max(election_max * TAKEOVER_ELECTIONS)
}

/// How long a leader that was replaced may go on counting signs of life: as long as it trusts the last
/// answers of a majority, and until it looks again. Its successor may have been elected before that
/// (`succession`).
fn takeover_grace_ms(config: &ServerConfig) -> u64 {
    let timing = timing(config);
    let grace =
        if config.standalone { Duration::ZERO } else { timing.silence_max() + timing.heartbeat };
    u64::try_from(grace.as_millis()).unwrap_or(u64::MAX)
}

fn timing(config: &ServerConfig) -> Timing {
    let ensemble = &config.ensemble;
    Timing {
        heartbeat: millis(ensemble.heartbeat_ms),
        election_min: millis(ensemble.election_timeout_ms_min),
        election_max: millis(ensemble.election_timeout_ms_max),
        proposal_timeout: proposal_timeout(config),
        sync_limit: Duration::from_millis(config.sync_limit_ms()),
    }
}

/// How often the replica learns the time. Reaping may be wanted more often than that.
pub(super) fn ticker_period(config: &ServerConfig) -> Duration {
    const PERIOD_MS_MIN: u64 = 5;
    let period_ms = zoolet_replica::ticker_period_ms(u64::from(config.ensemble.tick_time_ms));
    let reap_ms = u64::from(config.znodes.reap_interval_ms).max(PERIOD_MS_MIN);
    Duration::from_millis(period_ms.min(reap_ms))
}

/// What the servers prove to each other that they know.
pub(super) fn secret(config: &ServerConfig, seams: &Seams) -> Result<Option<Secret>, SecretError> {
    let file = config.ensemble.peer_secret_file.as_ref().filter(|_| !config.standalone);
    let tls = &config.tls;
    let is_proved_by_tls =
        tls.peer_enabled && !tls.peer_port_unification && tls.peer.client_auth == ClientAuth::Need;
    if file.is_none() && !config.standalone && !is_proved_by_tls {
        info!(
            "ensemble.peer_secret_file is not set, and certificates are not demanded on the peer \
             port: any program that reaches it can act as a server"
        );
    }
    let entropy = || Arc::clone(&seams.entropy);
    file.map(|file| Secret::of_file(file, config::read_secret(file), entropy())).transpose()
}

/// How clients log in, if they can. Reads the files with their passwords.
pub(super) fn logins(config: &ServerConfig, seams: &Seams) -> Result<Option<Logins>, ConfigError> {
    let Some((users, warnings)) = config.sasl.read_users()? else { return Ok(None) };
    for warning in warnings {
        warn!("{warning}");
    }
    info!(users = users.len(), "clients can log in by SASL");
    let is_required = config.auth.required_schemes.iter().any(|scheme| scheme == "sasl");
    let on_failure = match (is_required, config.sasl.failed_logins_served) {
        (true, _) => OnFailure::Close(ErrorCode::SessionClosedRequireSaslAuth),
        (false, false) => OnFailure::Close(ErrorCode::AuthFailed),
        (false, true) => OnFailure::Serve,
    };
    let (super_users, entropy) = (config.sasl.super_users.clone(), Arc::clone(&seams.entropy));
    Ok(Some(Logins { users, super_users, on_failure, entropy }))
}

/// The TLS settings of the port for clients, if TLS is spoken on one.
pub(super) fn client_tls(config: &ServerConfig) -> Option<TlsSettings> {
    config.speaks_tls().then(|| config.tls.client.settings())
}

/// The TLS settings between servers, if they speak it.
pub(super) fn peer_tls(config: &ServerConfig) -> Option<TlsSettings> {
    let is_on = config.tls.peer_enabled || config.tls.peer_port_unification;
    (is_on && !config.standalone).then(|| config.tls.peer.settings())
}

/// What a server does about TLS to the others, with what was loaded for it.
pub(super) fn peer_port_tls(config: &ServerConfig, loaded: Option<&LoadedTls>) -> PeerTls {
    PeerTls {
        acceptor: loaded.map(LoadedTls::acceptor),
        connector: loaded.and_then(LoadedTls::connector).filter(|_| config.tls.peer_enabled),
        accepts_plain: config.tls.peer_port_unification,
    }
}

/// What the port for clients does about TLS, with what was loaded for it.
pub(super) fn client_port_tls(loaded: Option<&LoadedTls>) -> Option<PortTls> {
    loaded.map(|loaded| PortTls { acceptor: loaded.acceptor() })
}

pub(super) fn raft_options(
    config: &ServerConfig,
    seams: &Seams,
    (secret, tls): (Option<Secret>, PeerTls),
    meters: &Arc<Meters>,
) -> replication::ReplicationOptions {
    let ensemble = &config.ensemble;
    let members = config.members.iter().map(|(id, member)| ConfiguredMember {
        server: *id,
        address: member.peer.to_string(),
        is_voter: member.role == MemberRole::Participant,
        line: member.to_string(),
    });
    replication::ReplicationOptions {
        server: config.server_id,
        cluster_id: config.cluster_id(),
        cluster_named: ensemble.cluster_id.is_some(),
        reconfig: ensemble.reconfig_enabled,
        standalone: config.standalone,
        // As in Apache ZooKeeper: one voter alone is not an ensemble by default.
        voters_min: if ensemble.standalone_enabled { 2 } else { 1 },
        members: members.collect(),
        listen: config.peer_bind.as_ref().map(ToString::to_string),
        disk: Arc::new(watched_disk(config, seams, meters)),
        directory: config.data_dir.clone(),
        log_directory: config.data_log_dir.clone(),
        secret,
        tls,
        entry_bytes_max: config.limits.peer_frame_bytes_max,
        wal: WalOptions {
            segment_bytes: config.log.segment_bytes,
            salt: seams.entropy.number(),
            mode: if seams.watched.log_writer().is_some() {
                WalMode::Inline
            } else {
                WalMode::Threads
            },
            ..WalOptions::default()
        },
        batches: BatchLimits {
            commands_max: config.log.entry_commands_max,
            bytes_max: config.log.entry_bytes_max,
        },
        snapshot_pace: replication::SnapshotPace {
            commands: config.snapshot.commands,
            log_bytes_max: config.snapshot.log_bytes,
            log_percent: u64::from(config.snapshot.log_percent),
        },
        snapshots_retained: config.snapshot.retain,
        entropy: Arc::clone(&seams.entropy),
        start_mode: config.start_mode,
        autocreate: ensemble.autocreate,
        connect_timeout: millis(ensemble.peer_connect_timeout_ms),
        timing: timing(config),
    }
}

pub(super) fn replica_options(config: &ServerConfig, boot: Boot) -> zoolet_replica::Options {
    let session_ms = |ms: u32| i32::try_from(ms).unwrap_or(i32::MAX);
    let sessions_max = config.limits.sessions_max;
    // Each server counts its own sessions, so the shares of all servers together are that part.
    let share = |max: usize, parts: usize| {
        let of_one = sessions_max / parts / config.members.len().max(1);
        if max > 0 { max } else { of_one.max(1) }
    };
    zoolet_replica::Options {
        tick_ms: u64::from(config.ensemble.tick_time_ms),
        session_timeout_ms_min: session_ms(config.session.timeout_ms_min),
        session_timeout_ms_max: session_ms(config.session.timeout_ms_max),
        sessions_max,
        sessions_per_address_max: share(config.limits.sessions_per_address_max, 4),
        sessions_per_identity_max: share(config.limits.sessions_per_identity_max, 2),
        takeover_grace_ms: takeover_grace_ms(config),
        leader_loss_limit_ms: config.sync_limit_ms(),
        read_only_mode: config.ensemble.read_only_mode && !config.standalone,
        audit: config.audit.enabled,
        history: config.history.enabled,
        history_data_bytes_max: config.history.data_bytes_max,
        policy: Policy {
            skip_acl: config.auth.acl_skipped,
            enforce_quota: config.znodes.quota_enforced,
            extended_types: config.znodes.ttl_enabled,
            reconfig: config.ensemble.reconfig_enabled,
        },
        super_digest: config.auth.super_digest.clone(),
        digest_auth: config.auth.digest_enabled,
        digest_algorithm: config.auth.digest_algorithm,
        required_schemes: config.auth.required_schemes.clone(),
        identities_per_connection_max: config.limits.session_identities_max,
        identity_bytes_per_connection_max: config.limits.session_identity_bytes_max,
        acl_entries_max: config.limits.acl_entries_max,
        watches_per_connection_max: config.limits.session_watches_max,
        watch_bytes_per_connection_max: config.limits.session_watch_bytes_max,
        watches_per_address_max: config.limits.watches_per_address_max,
        watch_bytes_per_address_max: config.limits.watch_bytes_per_address_max,
        watches_max: config.limits.watches_max,
        watch_bytes_max: config.limits.watch_bytes_max,
        container_interval_ms: u64::from(config.znodes.reap_interval_ms),
        containers_per_minute_max: config.znodes.reaps_per_minute_max,
        container_never_used_ms: i64::try_from(config.znodes.never_used_ms_max).unwrap_or(i64::MAX),
        config_text: (!config.standalone).then(|| config.members_text()),
        boot_is_certain: false,
        level_of_release: config.ensemble.feature_level,
        level_max: config.ensemble.feature_level_max,
        command_bytes_max: config.limits.peer_frame_bytes_max.min(COMMAND_BYTES_MAX),
        ..zoolet_replica::Options::new(config.server_id, boot)
    }
}

pub(super) fn host_limits(config: &ServerConfig) -> host::FlowLimits {
    host::FlowLimits {
        connection_requests_max: config.limits.connection_requests_max,
        requests_max: config.limits.requests_max,
        bytes_max: config.limits.request_bytes_max,
        wait_ms_max: u64::from(config.limits.throttled_op_wait_time_ms),
    }
}

pub(super) fn port_options(
    config: &ServerConfig,
    server_info: ServerInfo,
    (tls, logins): (Option<PortTls>, Option<Logins>),
) -> PortOptions {
    let spoken = match (config.client_is_secure, config.tls.client_port_unification) {
        (true, _) => Spoken::Tls,
        (false, true) => Spoken::Either,
        (false, false) => Spoken::Plain,
    };
    if config.client_is_secure && config.tls.client_port_unification {
        warn!("client_port_unification has no effect: the server accepts only TLS");
    }
    let limits = &config.limits;
    PortOptions {
        address: config.client_bind.to_string(),
        spoken,
        secure_address: config.secure_client_bind.as_ref().map(ToString::to_string),
        tls,
        x509_super_user: config.tls.x509_super_user.clone(),
        logins,
        backlog: limits.listen_backlog,
        frame_bytes_max: limits.frame_bytes_max,
        handshake_timeout_ms: u64::from(limits.handshake_timeout_ms),
        handshakes_max: limits.handshakes_max,
        tls_handshakes_max: limits.tls_handshakes_max,
        connections_per_address_max: limits.connections_per_address_max,
        connections_max: limits.connections_max,
        descriptors_max: descriptors::clients_max(limits.connections_max, descriptor_needs(config)),
        large_request_bytes_max: limits.large_request_bytes_max,
        outbox_bytes_max: limits.outbox_bytes_max,
        outbox_bytes_per_address_max: limits.outbox_bytes_per_address_max,
        outbox_bytes_total_max: limits.outbox_bytes_total_max,
        drain_window_ms: u64::from(limits.drain_window_ms),
        server_info,
    }
}

/// Returns the file descriptors that the other ports of the server need.
fn descriptor_needs(config: &ServerConfig) -> descriptors::Needs {
    let http_ports = [&config.http_bind, &config.metrics_bind].into_iter().flatten().count();
    descriptors::Needs {
        peers: if config.standalone { 0 } else { config.members.len().saturating_sub(1).max(2) },
        http_ports,
        http_max: config.http.connections_max,
    }
}

/// What four-letter words report.
pub(super) fn server_info(
    config: &ServerConfig,
    disk: Arc<dyn Disk>,
    ensemble: impl EnsembleSource + 'static,
) -> ServerInfo {
    let (data_dir, data_log_dir) = (config.data_dir.clone(), config.data_log_dir.clone());
    let member = config.member();
    ServerInfo {
        words: config.four_letter.words.clone(),
        standalone: config.standalone,
        server_id: config.server_id.0,
        data_dir: data_dir.clone(),
        data_log_dir: data_log_dir.clone(),
        sizes: Arc::new(move || {
            let DirectorySizes { data, log } =
                DirectorySizes::measure(&*disk, &data_dir, &data_log_dir);
            Sizes { data, log }
        }),
        tick_ms: config.ensemble.tick_time_ms,
        connections_per_address_max: config.limits.connections_per_address_max,
        session_timeout_ms_min: config.session.timeout_ms_min,
        session_timeout_ms_max: config.session.timeout_ms_max,
        backlog: config.limits.listen_backlog,
        init_limit_ticks: config.ensemble.init_limit_ticks,
        sync_limit_ticks: config.ensemble.sync_limit_ticks,
        peer_port: member.map_or(0, |member| member.peer.port),
        election_port: member.map_or(0, |member| member.election_port),
        is_observer: config.role() == MemberRole::Observer,
        members_text: config.members_text(),
        ensemble: (!config.standalone).then(|| Arc::new(ensemble) as Arc<dyn EnsembleSource>),
    }
}

/// The ensemble as the replication knows it.
pub(super) struct KnownEnsemble {
    source: replication::StatusSource,
    /// The number of configured voters, until there is a membership.
    configured_voters: usize,
}

impl KnownEnsemble {
    pub(super) fn new(config: &ServerConfig, source: replication::StatusSource) -> Self {
        let members = config.members.values();
        let voters = members.filter(|member| member.role == MemberRole::Participant);
        Self { source, configured_voters: voters.count() }
    }
}

impl EnsembleSource for KnownEnsemble {
    fn figures(&self) -> EnsembleFigures {
        ensemble_figures(&self.source.status(), self.configured_voters)
    }

    fn reset(&self) {
        self.source.reset_proposed();
    }
}

fn ensemble_figures(status: &replication::Status, configured_voters: usize) -> EnsembleFigures {
    let synced = |is_voter: bool| {
        let peers = status.peers.iter().filter(|peer| peer.is_voter == is_voter);
        peers.filter(|peer| peer.is_synced).count()
    };
    let voters = status.peers.iter().filter(|peer| peer.is_voter).count();
    let voters = voters + usize::from(status.is_voter);
    EnsembleFigures {
        leader: status.leader,
        voters: if status.has_membership { voters } else { configured_voters },
        learners: status.peers.len(),
        synced_followers: synced(true),
        synced_observers: synced(false),
        leader_uptime_ms: status
            .led_for
            .map_or(0, |long| u64::try_from(long.as_millis()).unwrap_or(u64::MAX)),
        proposal_sizes: status.proposed.map_or([-1; 3], |sizes| {
            [sizes.last, sizes.min, sizes.max].map(|bytes| i64::try_from(bytes).unwrap_or(i64::MAX))
        }),
        term: status.term,
        last_log: status.last_log.unwrap_or_default().0,
        applied: status.applied.unwrap_or_default().0,
        snapshot: status.snapshot.unwrap_or_default().0,
        snapshots_sent: status.snapshots_sent,
        diverged: status.diverged,
        differing: status.differing.len(),
        agreed: status.agreed.unwrap_or_default().0,
        state_age_ms: status
            .state_age
            .map_or(-1, |age| i64::try_from(age.as_millis()).unwrap_or(i64::MAX)),
        age_stops: status.age_stops,
        step_downs: status.step_downs,
    }
}

fn millis(ms: u32) -> Duration {
    Duration::from_millis(u64::from(ms))
}

#[cfg(test)]
mod tests;
