//! Every setting must reach a layer: one that is read and then dropped is worse than an error.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use zoolet_replica::{Boot, ServerId};
use zoolet_storage::MemoryDisk;

use super::*;
use crate::config::{self, HostPort, LoopbackPorts};

fn seams() -> Seams {
    let entropy = Arc::new(FixedEntropy);
    Seams { disk: Arc::new(MemoryDisk::new()), entropy, ..Seams::real() }
}

#[derive(Debug)]
struct FixedEntropy;

impl crate::entropy::Entropy for FixedEntropy {
    fn number(&self) -> u64 {
        1
    }
}

/// The first of three servers, with everything on that switches others on.
fn server() -> ServerConfig {
    let ports = |n: u16| LoopbackPorts { client: 2180 + n, peer: 2887 + n };
    let all = ServerConfig::loopback_ensemble(&[ports(1), ports(2), ports(3)], "d".as_ref());
    let mut server = all.unwrap().remove(0);
    server.secure_client_bind = Some(HostPort::new("127.0.0.1", 2281));
    server.tls.peer_port_unification = true;
    for side in [&mut server.tls.client, &mut server.tls.peer] {
        side.key_store.file = Some(PathBuf::from("key.pem"));
        side.trust_store.file = Some(PathBuf::from("trust.pem"));
    }
    server
}

/// A quarter of all sessions at each server let one address fill an ensemble of four.
#[test]
fn the_servers_together_grant_an_address_a_quarter_of_the_sessions() {
    let mut config = server();
    let limits = |config: &ServerConfig| {
        let options = replica_options(config, Boot(1));
        (options.sessions_per_address_max, options.sessions_per_identity_max)
    };
    for (sessions_max, expected) in [(120, (10, 20)), (8, (1, 1))] {
        config.limits.sessions_max = sessions_max;
        assert_eq!(limits(&config), expected);
    }
    config.limits.sessions_per_address_max = 7;
    assert_eq!(limits(&config).0, 7);
}

/// What the layers receive, `conf`'s printing aside.
fn received(config: &ServerConfig) -> Vec<String> {
    let words = &config.four_letter.words;
    // Where its files are makes no difference without an audit log.
    let mut audited = config.clone();
    audited.audit.enabled = true;
    let mut port = port_parts(config);
    port.push(format!("{words:?}"));
    port.extend([
        format!(
            "{:?}",
            raft_options(config, &seams(), (None, PeerTls::default()), &Arc::default())
        ),
        format!("{:?} {:?}", client_tls(config), peer_tls(config)),
        format!("{:?}", peer_port_tls(config, None)),
        // What goes into a layer together with keys that are loaded.
        format!("{:?} {}", config.tls.x509_super_user, config.tls.peer_enabled),
        format!("{} {}", config.tls.client.reload, config.tls.peer.reload),
        // What goes into a layer together with the users that are read from files.
        format!(
            "{:?} {:?} {:?} {}",
            config.sasl.jaas_section,
            config.sasl.super_password.as_ref().map(zoolet_tls::Password::text),
            config.sasl.super_users,
            config.sasl.failed_logins_served
        ),
        format!("{:?}", logins(config, &seams()).map(|logins| logins.is_some())),
        // A file that does not exist is named in the error.
        format!("{:?}", secret(config, &seams())),
        format!("{:?}", replica_options(config, Boot(1))),
        format!("{:?}", host_limits(config)),
        format!("{:?}", audit_options(config)),
        format!("{:?}", audit_options(&audited)),
        format!("{:?}", history_options(config)),
        format!("{:?}", leader_wanted_within(config)),
        format!("{:?}", slow_sync_us(config)),
    ]);
    port
}

struct NoEnsemble;

impl EnsembleSource for NoEnsemble {
    fn figures(&self) -> EnsembleFigures {
        EnsembleFigures::default()
    }

    fn reset(&self) {}
}

fn port_parts(config: &ServerConfig) -> Vec<String> {
    let server_info = server_info(config, Arc::new(MemoryDisk::new()), NoEnsemble);
    let PortOptions {
        address,
        spoken,
        secure_address,
        tls: _,
        x509_super_user,
        logins: _,
        backlog,
        frame_bytes_max,
        handshake_timeout_ms,
        handshakes_max,
        tls_handshakes_max,
        connections_per_address_max,
        connections_max,
        descriptors_max: _,
        large_request_bytes_max,
        outbox_bytes_max,
        outbox_bytes_per_address_max,
        outbox_bytes_total_max,
        drain_window_ms,
        server_info: _,
    } = port_options(config, server_info, (None, None));
    let numbers = [
        u64::from(backlog),
        frame_bytes_max as u64,
        handshake_timeout_ms,
        handshakes_max as u64,
        tls_handshakes_max as u64,
        connections_per_address_max as u64,
        connections_max as u64,
        large_request_bytes_max as u64,
        outbox_bytes_max as u64,
        outbox_bytes_per_address_max as u64,
        outbox_bytes_total_max as u64,
        drain_window_ms,
    ];
    vec![
        address,
        format!("{spoken:?} {secure_address:?} {x509_super_user:?}"),
        format!("{numbers:?}"),
    ]
}

#[test]
fn a_host_by_itself_has_the_limits_of_a_server() {
    assert_eq!(host_limits(&server()), host::FlowLimits::default());
}

#[test]
fn every_setting_of_cluster_toml_reaches_a_layer() {
    let before = received(&server());
    // HTTP is the program's.
    let is_here = |name: &str| !name.starts_with("http.") && !name.starts_with("tls.http_");
    let changes = config::each_changed(&server()).into_iter();
    for (name, changed) in changes.filter(|(name, _)| is_here(name)) {
        assert_ne!(received(&changed), before, "{name} is read, and no layer receives it");
    }
}

#[test]
fn logins_follow_the_files_and_the_settings() {
    let directory = tempfile::tempdir().unwrap();
    let file = |name: &str, text: &str| {
        let path = directory.path().join(name);
        std::fs::write(&path, text).unwrap();
        Some(path)
    };
    let module = "org.apache.zookeeper.server.auth.DigestLoginModule required";
    let jaas = format!("Zoo {{ {module} user_super=a user_bob=b; }};");
    let mut config = server();
    assert!(logins(&config, &seams()).unwrap().is_none());
    config.sasl.jaas_file = file("jaas.conf", &jaas);
    let why = logins(&config, &seams()).unwrap_err().to_string();
    assert!(why.contains("jaas.conf: section Server is missing"), "{why}");
    config.sasl.jaas_section = Some("Zoo".to_owned());
    config.sasl.users_file = file("users", "# people\neve:c\n");
    config.sasl.super_users = vec!["eve".to_owned()];
    let read = logins(&config, &seams()).unwrap().unwrap();
    assert_eq!((read.users.len(), &read.super_users), (3, &config.sasl.super_users));
    assert_eq!(read.on_failure, OnFailure::Close(ErrorCode::AuthFailed));
    let without = read.users;
    config.sasl.super_password = Some(zoolet_tls::Password::new("other"));
    config.sasl.failed_logins_served = true;
    let read = logins(&config, &seams()).unwrap().unwrap();
    assert_eq!(read.on_failure, OnFailure::Serve);
    assert_ne!(read.users, without, "the user super has another password");
    config.auth.required_schemes = vec!["sasl".to_owned()];
    let closes = OnFailure::Close(ErrorCode::SessionClosedRequireSaslAuth);
    assert_eq!(logins(&config, &seams()).unwrap().unwrap().on_failure, closes);
    config.sasl.jaas_file = None;
    let why = logins(&config, &seams()).unwrap_err().to_string();
    assert!(why.contains("users: user super is missing"), "{why}");
    config.sasl.users_file = file("users", "eve:c\neve");
    let why = logins(&config, &seams()).unwrap_err().to_string();
    assert!(why.contains("users:2: expected name:password"), "{why}");
}

type Change = fn(&mut ServerConfig);

#[test]
fn what_a_file_says_of_one_server_reaches_a_layer() {
    let before = received(&server());
    // Each new field needs a line here that shows how it can be seen.
    let ServerConfig {
        server_id: _,
        members: _,
        standalone: _,
        start_mode: _,
        data_dir: _,
        data_log_dir: _,
        client_bind: _,
        client_is_secure: _,
        secure_client_bind: _,
        peer_bind: _,
        // The program opens the HTTP ports.
        http_bind: _,
        metrics_bind: _,
        http: _,
        ensemble: _,
        session: _,
        limits: _,
        log: _,
        snapshot: _,
        znodes: _,
        auth: _,
        sasl: _,
        tls: _,
        four_letter: _,
        audit: _,
        history: _,
    } = server();
    let changes: BTreeMap<&str, Change> = BTreeMap::from([
        ("id", (|config| config.server_id = ServerId(2)) as Change),
        ("standalone", |config| config.standalone = true),
        ("data_dir", |config| config.data_dir = PathBuf::from("other")),
        ("data_log_dir", |config| config.data_log_dir = PathBuf::from("other")),
        ("client", |config| config.client_bind.port += 10),
        ("secure_client", |config| {
            config.secure_client_bind = Some(HostPort::new("0.0.0.0", 2281));
        }),
        ("no client", |config| config.client_is_secure = true),
        ("peer_bind", |config| config.peer_bind = Some(HostPort::new("0.0.0.0", 2888))),
        ("standaloneEnabled", |config| config.ensemble.standalone_enabled = false),
        ("peer", |config| each_member(config, |member| member.peer.port += 10)),
        ("election_port", |config| each_member(config, |member| member.election_port += 10)),
        ("client of a member", |config| each_member(config, |member| member.client = None)),
        ("role", |config| {
            let last = config.members.values_mut().next_back();
            last.unwrap().role = MemberRole::Observer;
        }),
    ]);
    for (name, change) in changes {
        let mut changed = server();
        change(&mut changed);
        assert_ne!(received(&changed), before, "{name} is read, and no layer receives it");
    }
}

fn each_member(config: &mut ServerConfig, change: impl Fn(&mut config::Member)) {
    config.members.values_mut().for_each(change);
}

#[test]
fn a_proposal_is_given_up_before_the_shortest_session_ends() {
    let patience_of = |tick_time_ms: u32, election_ms: (u32, u32)| {
        let mut config = server();
        config.session.timeout_ms_min = 2 * tick_time_ms;
        config.ensemble.election_timeout_ms_min = election_ms.0;
        config.ensemble.election_timeout_ms_max = election_ms.1;
        let tls = PeerTls::default();
        raft_options(&config, &seams(), (None, tls), &Arc::default()).timing.proposal_timeout
    };
    // The default elections with ticks of 2000 ms: twelve of them are 5.4 s, the session 4 s.
    assert_eq!(patience_of(2000, (200, 450)), Duration::from_secs(3));
    assert_eq!(patience_of(10_000, (200, 450)), Duration::from_millis(5400));
    // The loss of a leader must not lose what was proposed. With elections of 1000 ms its lease and
    // the longest election timeout are 2 s, and the election comes after that: with ticks of 1000 ms,
    // 1.5 s were not enough.
    for tick_time_ms in [200, 1000] {
        assert_eq!(patience_of(tick_time_ms, (500, 1000)), Duration::from_secs(3));
    }
    assert_eq!(patience_of(1000, (200, 450)), Duration::from_millis(1500));
}

/// A time to live of 10 ms that was looked for every millisecond took 124 ms.
#[test]
fn time_passes_as_often_as_znodes_are_to_be_reaped() {
    let mut config = ServerConfig::default();
    let mut period_of = |reap_ms| {
        config.znodes.reap_interval_ms = reap_ms;
        ticker_period(&config).as_millis()
    };
    assert_eq!([1, 20, 60_000].map(&mut period_of), [5, 20, 250]);
}
