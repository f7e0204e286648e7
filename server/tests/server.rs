//! One server in a program.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::BTreeSet;
use std::path::Path;
use std::time::Duration;

use tokio::time::{sleep, timeout};
use zoolet_client::{Client, CreateMode};
use zoolet_server::embed::config::{LoopbackPorts, ServerConfig};
use zoolet_server::embed::{Metric, ReservedPort, Role, Server, StartErrorKind};

/// Longer than anything here may take on a busy machine.
const PATIENCE: Duration = Duration::from_secs(30);

/// A standalone server, and the ports that are reserved for it.
fn standalone(directory: &Path) -> (ServerConfig, [ReservedPort; 2]) {
    let ports = [0, 1].map(|_| ReservedPort::take("127.0.0.1", 0).unwrap());
    let [client, peer] = ports.each_ref().map(ReservedPort::port);
    let pair = LoopbackPorts { client, peer };
    let config = ServerConfig::loopback_ensemble(&[pair], directory).unwrap().remove(0);
    (config, ports)
}

async fn connect(server: &Server) -> Client {
    timeout(PATIENCE, server.wait_ready()).await.unwrap().unwrap();
    Client::connect(&server.client_addr().to_string()).await.unwrap()
}

#[tokio::test]
async fn a_server_serves_is_shut_down_and_has_its_data_at_the_next_start() {
    let directory = tempfile::tempdir().unwrap();
    let (config, ports) = standalone(directory.path());
    let server = Server::start(config.clone()).await.unwrap();
    let client = connect(&server).await;
    assert_eq!((server.role(), server.client_addr().port()), (Role::Leader, ports[0].port()));
    client.create("/kept", b"data", CreateMode::Persistent).await.unwrap();
    server.shutdown().await;

    let server = Server::start(config).await.unwrap();
    let (data, _) = connect(&server).await.get("/kept").await.unwrap();
    assert_eq!(data.as_ref(), b"data");
    server.shutdown().await;
}

#[tokio::test]
async fn the_metrics_of_a_server_are_all_but_those_of_its_process() {
    let directory = tempfile::tempdir().unwrap();
    let (config, _ports) = standalone(directory.path());
    let server = Server::start(config).await.unwrap();
    timeout(PATIENCE, server.wait_ready()).await.unwrap().unwrap();
    let names = |metrics: Vec<Metric>| -> BTreeSet<&'static str> {
        metrics.iter().map(|metric| metric.name).collect()
    };
    let reports = server.reports();
    let (all, own) = (names(reports.metrics()), names(reports.server_metrics()));
    let of_process: Vec<&str> = all.difference(&own).copied().collect();
    let expected = [
        "max_file_descriptor_count",
        "open_file_descriptor_count",
        "process_cpu_seconds_total",
        "process_max_fds",
        "process_open_fds",
        "process_resident_memory_bytes",
        "zoolet_log_lines_lost",
    ];
    assert_eq!(of_process, expected);
    assert!(own.is_subset(&all) && own.contains("znode_count"), "{own:?}");
    server.shutdown().await;
}

#[tokio::test]
async fn a_server_that_is_dropped_ends_and_can_be_started_again() {
    let directory = tempfile::tempdir().unwrap();
    let (config, _ports) = standalone(directory.path());
    let server = Server::start(config.clone()).await.unwrap();
    let failed = server.failed();
    let client = connect(&server).await;
    client.create("/kept", b"data", CreateMode::Persistent).await.unwrap();
    drop(server);
    let started = async {
        loop {
            match Server::start(config.clone()).await {
                Ok(server) => return server,
                // The old one has the directory until it has ended.
                Err(_) => sleep(Duration::from_millis(10)).await,
            }
        }
    };
    let server = timeout(PATIENCE, started).await.unwrap();
    assert!(connect(&server).await.exists("/kept").await.unwrap().is_some());
    // What waited for the failure of the old one is not left waiting.
    timeout(PATIENCE, failed).await.unwrap();
    server.shutdown().await;
}

#[tokio::test]
async fn a_start_error_says_what_is_to_be_changed() {
    let directory = tempfile::tempdir().unwrap();
    let (config, _ports) = standalone(directory.path());
    let server = Server::start(config.clone()).await.unwrap();

    let in_use = Server::start(config.clone()).await.unwrap_err();
    assert_eq!(in_use.kind(), StartErrorKind::Data, "{in_use}");

    let (mut other, _ports) = standalone(&directory.path().join("other"));
    other.client_bind = config.client_bind.clone();
    let taken = Server::start(other.clone()).await.unwrap_err();
    assert_eq!(taken.kind(), StartErrorKind::Listen, "{taken}");

    other.standalone = false;
    other.ensemble.peer_secret_file = Some(directory.path().join("absent"));
    let no_secret = Server::start(other).await.unwrap_err();
    assert_eq!(no_secret.kind(), StartErrorKind::Config, "{no_secret}");
    assert!(no_secret.to_string().contains("absent"), "{no_secret}");
    server.shutdown().await;
}
