//! `torture` as a command: what it writes, how it ends, and what is left when it is interrupted.

use std::fs;
use std::process::Stdio;
use std::time::Duration;

use serde_json::Value;
use zoolet_tests::ports::PortLease;
use zoolet_tests::scenes::{Scene, connect, soon};
use zoolet_tests::up::{self, Up};
use zoolet_torture::{Fault, Frame, Plan, ServerFault};

use crate::harness::{CtlScene, begin, code_of, ended, signal, state};
use crate::json;

pub(crate) async fn a_torture_reports_what_it_has_found(scene: &Scene) {
    let directory = tempfile::tempdir().unwrap();
    let (report, svg) =
        (directory.path().join("report.json"), directory.path().join("holders.svg"));
    // Two are never stopped for longer than their session, so that no stale write need be refused.
    let words = ["torture", "--recipe", "mutex", "--clients", "2", "--secs", "4s", "--seed", "7"];
    let files = ["--report", report.to_str().unwrap(), "--svg", svg.to_str().unwrap()];
    let said = scene.ctl(&[&words[..], &files].concat());
    assert!(said.code == Some(0) && said.err.starts_with("seed 7"), "{said:?}");
    assert!(!said.out.is_empty());
    let report: Value = serde_json::from_str(&fs::read_to_string(report).unwrap()).unwrap();
    assert_eq!((&report["seed"], &report["passed"]), (&Value::from(7), &Value::from(true)));
    assert!(report["grants"]["mutex"].as_u64().unwrap() > 0, "{report}");
    assert_eq!(report["violations"], Value::Array(Vec::new()));
    json::check(&report);
    let picture = fs::read_to_string(svg).unwrap();
    assert!(picture.starts_with("<svg") && picture.trim_end().ends_with("</svg>"), "{picture}");
    assert_eq!(roots(&scene.servers).await, [""; 0]);
    scene.ctl(&["torture", "--recipe", "frob"]).badly(128, "frob");
    scene.ctl(&["torture", "--clients", "1"]).badly(128, "two contenders");
    scene.ctl(&["torture", "--up-dir", "/nowhere"]).badly(6, "up.json");
}

pub(crate) async fn an_interrupted_torture_leaves_nothing(scene: &Scene) {
    let words = ["torture", "--recipe", "mutex,counter", "--clients", "2", "--secs", "10m"];
    let client = scene.client().await;
    for name in ["INT", "TERM", "HUP"] {
        let run = scene.begin(&words);
        soon("a lock in use", async || {
            let Some(root) = roots(&scene.servers).await.pop() else { return false };
            client.children(&format!("/{root}/mutex/0")).await.is_ok()
        })
        .await;
        signal(&run, name);
        assert_eq!(ended(run).code, code_of(name), "{name}");
        assert_eq!(roots(&scene.servers).await, [""; 0], "{name}");
    }
}

/// Servers stand still one after the other; none of them does when the run is ended at that moment.
#[tokio::test(flavor = "multi_thread")]
async fn an_interrupted_torture_resumes_every_server() {
    let directory = tempfile::tempdir().unwrap();
    let (_lease, port) = PortLease::take_in_a_row(3).unwrap();
    let mut command = up::on_ports(3, port).unwrap();
    command.arg("--data-dir").arg(directory.path()).stderr(Stdio::null());
    let up = Up::spawn(&mut command, 3).unwrap();
    let ports = (port..port + 3).map(|port| format!("127.0.0.1:{port}"));
    let servers = ports.collect::<Vec<_>>().join(",");
    let stopped = || {
        let members = up::members(directory.path()).unwrap();
        members.iter().any(|member| state(member.pid) == Some('T'))
    };
    let seed = a_seed_that_stops_a_server_soon().to_string();
    let words = ["torture", "--recipe", "mutex", "--clients", "3", "--secs", "1m"];
    let rest = ["--seed", &seed, "--up-dir", directory.path().to_str().unwrap()];
    for name in ["INT", "TERM"] {
        let run = begin(&servers, &[&words[..], &rest].concat());
        soon("a server that stands still", async || stopped()).await;
        signal(&run, name);
        assert_eq!(ended(run).code, code_of(name), "{name}");
        assert!(!stopped(), "{name}");
        assert_eq!(roots(&servers).await, [""; 0], "{name}");
    }
    assert!(up.stop().unwrap().success());
}

/// Of a run of three contenders for a minute.
fn a_seed_that_stops_a_server_soon() -> u64 {
    let frame = Frame {
        duration: Duration::from_mins(1),
        contenders: 3,
        // The least that the servers grant.
        session_timeout: Duration::from_secs(4),
        servers: 3,
        server_faults: vec![ServerFault::Kill, ServerFault::Pause],
        client_faults: true,
    };
    let soon = Duration::from_secs(3);
    let stops = |(at, fault): &(Duration, Fault)| {
        *at < soon && matches!(fault, Fault::Server(_, ServerFault::Pause, _))
    };
    (0..1000).find(|seed| Plan::new(*seed, &frame).steps.iter().any(stops)).unwrap()
}

/// The znodes of runs.
async fn roots(servers: &str) -> Vec<String> {
    let client = connect(servers).await;
    client.sync("/").await.unwrap();
    let (mut names, _) = client.children("/").await.unwrap();
    names.retain(|name| name.starts_with("torture-"));
    names
}
