//! Metrics, the document that describes them, dashboards, health and readiness.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use serde_json::Value;
use zoolet_client::{Client, ClientOptions};
use zoolet_tests::servers::Servers;
use zoolet_tests::up::members;
use zoolet_tests::{http, process, wait};

use crate::published_dashboard::{NOT_HERE, PANELS};
use crate::support::*;

const TYPES: [&str; 4] = ["gauge", "counter", "summary", "histogram"];

/// What a server exports: the type and the help of each metric, and the names of its series.
#[derive(Default)]
struct Exported {
    metrics: BTreeMap<String, (String, String)>,
    series: BTreeSet<String>,
}

impl Exported {
    /// Reads Prometheus' text format, strictly.
    fn parse(text: &str) -> Self {
        let mut found = Self::default();
        for line in text.lines() {
            if let Some(rest) = line.strip_prefix("# HELP ") {
                let (name, help) = rest.split_once(' ').unwrap();
                let known = found.metrics.insert(name.to_owned(), (String::new(), help.to_owned()));
                assert!(known.is_none(), "{name} is there twice");
            } else if let Some(rest) = line.strip_prefix("# TYPE ") {
                let (name, kind) = rest.split_once(' ').unwrap();
                assert!(TYPES.contains(&kind), "{line}");
                kind.clone_into(&mut found.metrics.get_mut(name).unwrap().0);
            } else {
                let (series, value) = line.rsplit_once(' ').unwrap();
                assert!(value.parse::<f64>().is_ok(), "{line}");
                found.series.insert(series.split('{').next().unwrap().to_owned());
            }
        }
        assert!(found.metrics.len() > 40, "{text}");
        found
    }

    fn of(address: std::net::SocketAddr) -> Self {
        let answer = http::get(address, "/metrics").unwrap();
        assert_eq!(answer.status, 200);
        assert!(answer.head.contains("text/plain; version=0.0.4"), "{}", answer.head);
        Self::parse(&answer.body)
    }
}

fn docs() -> std::path::PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap().join("docs")
}

fn monitoring_md() -> String {
    fs::read_to_string(docs().join("monitoring.md")).unwrap()
}

/// The rows of the tables of metrics: name, type, unit, meaning.
fn documented() -> BTreeMap<String, (String, String)> {
    let text = monitoring_md();
    let row = |line: &str| {
        let cells: Vec<&str> = line.strip_prefix('|')?.split('|').map(str::trim).collect();
        let name = cells.first()?.strip_prefix('`')?.strip_suffix('`')?;
        let (kind, unit, meaning) = (cells.get(1)?, cells.get(2)?, cells.get(3)?);
        let is_metric = TYPES.contains(kind);
        assert!(!is_metric || !unit.is_empty(), "{name} has no unit");
        is_metric.then(|| (name.to_owned(), ((*kind).to_owned(), (*meaning).to_owned())))
    };
    text.lines().filter_map(row).collect()
}

/// The metrics that an expression of `PromQL` names.
fn names(expression: &str) -> Vec<String> {
    const FUNCTIONS: [&str; 9] =
        ["rate", "irate", "max", "min", "sum", "by", "le", "increase", "histogram_quantile"];
    let mut outside = String::new();
    let mut depth = 0;
    for c in expression.chars() {
        depth += i32::from("{[".contains(c)) - i32::from("}]".contains(c));
        outside.push(if depth > 0 { ' ' } else { c });
    }
    let words = outside.split(|c: char| !(c.is_ascii_alphanumeric() || c == '_'));
    let is_name = |word: &&str| word.starts_with(|c: char| c.is_ascii_lowercase());
    let names =
        words.filter(is_name).filter(|word| !FUNCTIONS.contains(word) && *word != "instance");
    names.map(str::to_owned).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn metrics_are_documented_and_fill_the_dashboards() {
    let servers = Three::start();
    Witness::connect(&servers.connect_string).await.write().await;
    let leader = servers.http[servers.leader()];
    let exported = Exported::of(leader);
    assert_eq!(documented(), exported.metrics, "docs/monitoring.md is not up to date");

    let dashboard = fs::read_to_string(docs().join("grafana-dashboard.json")).unwrap();
    let dashboard: Value = serde_json::from_str(&dashboard).unwrap();
    let panels = dashboard["panels"].as_array().unwrap();
    assert!(panels.len() > 10);
    let mut shown = String::new();
    for panel in panels {
        for target in panel["targets"].as_array().unwrap() {
            let expression = target["expr"].as_str().unwrap();
            shown.push_str(expression);
            let asked = names(expression);
            assert!(!asked.is_empty(), "{expression}");
            for name in asked {
                assert!(exported.series.contains(&name), "{}: {name}", panel["title"]);
            }
        }
    }
    let locks = exported.metrics.keys().filter(|name| name.starts_with("zoolet_locks_"));
    for name in locks {
        assert!(shown.contains(name.as_str()), "the dashboard does not show {name}");
    }
    // The quantiles of a summary are series of its own name.
    let is_there = |name: &&&str| exported.series.contains(**name);
    let is_missing = |name: &&&str| {
        NOT_HERE.iter().any(|(_, parts)| parts.iter().any(|part| name.starts_with(part)))
    };
    let mut filled = 0;
    for (panel, asked) in PANELS {
        for name in *asked {
            assert!(is_there(&name) != is_missing(&name), "{panel}: {name}");
        }
        filled += usize::from(asked.iter().any(|name| is_there(&name)));
    }
    let said = format!("shows {filled} of its {} panels", PANELS.len());
    assert!(monitoring_md().contains(&said), "docs/monitoring.md does not say that it {said}");
    assert!(servers.up.stop().unwrap().success());
}

/// What counts a write.
const COUNTED: [&str; 4] =
    ["updatelatency_count", "fsynctime_count", "commit_count", "propagation_latency_count"];

#[tokio::test(flavor = "multi_thread")]
async fn metrics_count_what_happens() {
    let server = WithHttp::start(Servers::zoolet());
    let value = |name: &str| {
        let text = http::get(server.http, "/metrics").unwrap().body;
        let line = text.lines().find(|line| line.split(' ').next() == Some(name));
        line.and_then(|line| line.rsplit_once(' ')).unwrap().1.parse::<f64>().unwrap()
    };
    let before: Vec<f64> = COUNTED.map(&value).to_vec();
    let client = Witness::connect(&server.servers.connect_string()).await;
    let counts = ["znode_count", "ephemerals_count", "watch_count", "global_sessions"];
    let found = counts.map(&value);
    assert!(found[0] >= 5.0 && found[1..] == [1.0, 1.0, 1.0], "{found:?}");
    client.write().await;
    assert!(value("node_changed_watch_count_sum") >= 1.0);
    for (name, before) in COUNTED.iter().zip(before) {
        assert!(value(name) > before, "{name}");
    }
    assert!(value("bytes_received_count") > 0.0 && value("max_client_response_size") > 0.0);
    assert!((value("zoolet_ready") - 1.0).abs() < f64::EPSILON);
    assert_eq!(value("revalidate_count").to_string(), "0");
    let session = Client::connect(&server.servers.connect_string()).await.unwrap().detach().await;
    let resuming = ClientOptions::new().resume(session);
    let _resumed = resuming.connect(&server.servers.connect_string()).await.unwrap();
    assert_eq!(value("revalidate_count").to_string(), "1");
    assert!(value("process_resident_memory_bytes") > 1e6);
}

/// A metrics port has nothing but metrics.
#[test]
fn the_provider_for_prometheus_has_a_port_of_its_own() {
    let lease = zoolet_tests::ports::PortLease::take(1).unwrap();
    let port = lease.ports()[0];
    let class = "org.apache.zookeeper.metrics.prometheus.PrometheusMetricsProvider";
    let _servers = Servers::zoolet()
        .property("metricsProvider.className", class)
        .property("metricsProvider.httpHost", "127.0.0.1")
        .property("metricsProvider.httpPort", &port.to_string())
        .start()
        .unwrap();
    Exported::of(here(port));
    for path in ["/commands", "/commands/ruok", "/health"] {
        assert_eq!(http::get(here(port), path).unwrap().status, 404, "{path}");
    }
}

/// Of three servers two are frozen: the third still works, and serves no longer.
#[tokio::test(flavor = "multi_thread")]
async fn a_server_without_a_majority_is_healthy_and_not_ready() {
    let servers = Three::start();
    let leader = servers.leader();
    for address in &servers.http {
        let (health, ready) = (http::get(*address, "/health"), http::get(*address, "/ready"));
        assert_eq!(health.unwrap().json()["status"], "ok");
        let ready = ready.unwrap();
        assert!(ready.status == 200 && ready.json()["status"] == "ready", "{ready:?}");
    }
    let all = members(servers.directory.path()).unwrap();
    let frozen: Vec<u32> = (0..3).filter(|at| *at != leader).map(|at| all[at].pid).collect();
    for pid in &frozen {
        process::signal(*pid, "STOP").unwrap();
    }
    let not_ready = || {
        let answer = http::get(servers.http[leader], "/ready").ok()?;
        (answer.status == 503).then(|| answer.json())
    };
    let found = wait::until(SOON, not_ready);
    let health = http::get(servers.http[leader], "/health").unwrap();
    let command = command(servers.http[leader], "server_stats");
    for pid in &frozen {
        process::signal(*pid, "CONT").unwrap();
    }
    let found = found.expect("it notices that its majority is gone");
    assert_eq!(found["status"], "not ready");
    assert!(found["reason"].as_str().unwrap().contains("leader"), "{found}");
    assert_eq!(health.status, 200);
    assert_eq!(command["error"], "This ZooKeeper instance is not currently serving requests");
    let ready = || http::get(servers.http[leader], "/ready").ok().filter(|it| it.status == 200);
    assert!(wait::until(SOON, ready).is_some(), "it serves again");
    assert!(servers.up.stop().unwrap().success());
}
