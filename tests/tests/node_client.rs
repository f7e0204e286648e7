//! node-zookeeper-client, in plain JavaScript, on an ensemble of three: `interop/node`.
//!
//! npm's other client, `zookeeper`, wraps the C client and downloads ZooKeeper's sources when it
//! is installed; what it speaks on the wire is shown by the suite of the C client.

#![allow(clippy::unwrap_used, reason = "a test ends at the first thing that goes wrong")]

use std::path::PathBuf;
use std::process::Command;

use zoolet_tests::apache::Apache;
use zoolet_tests::foreign::{self, Ensemble};
use zoolet_tests::tools;
use zoolet_tests::zoolet::Zoolet;

#[test]
fn node_zookeeper_client_on_apache() {
    if !tools::require_foreign("node_client", &["node", "npm", "java", "mvn"]).unwrap() {
        return;
    }
    let mut servers = Apache::builder().servers(3).start().unwrap();
    run(&mut servers, "apache");
}

#[test]
fn node_zookeeper_client_on_zoolet() {
    if !tools::require_foreign("node_client", &["node", "npm"]).unwrap() {
        return;
    }
    let mut servers = Zoolet::builder().servers(3).start().unwrap();
    run(&mut servers, "zoolet");
}

/// Runs the program, which is told whose servers it meets.
fn run(servers: &mut dyn Ensemble, kind: &str) {
    let mut command = program();
    let report = foreign::run_program(command.env("ZK_KIND", kind), servers).unwrap();
    assert_eq!(report.losses, 2, "the server in use, then the leader");
}

/// Installs the locked packages once, beside a copy of the program.
fn program() -> Command {
    let source = tools::interop_dir("node");
    let files = [
        "package.json",
        "package-lock.json",
        "access.js",
        "failover.js",
        "harness.js",
        "locks.js",
        "main.js",
        "transactions.js",
        "watches.js",
        "znodes.js",
    ];
    let inputs: Vec<PathBuf> = files.iter().map(|file| source.join(file)).collect();
    let directory = tools::prepare_once("node-client", &inputs, |directory| {
        let install = ["ci", "--no-audit", "--no-fund", "--ignore-scripts"];
        tools::run(Command::new("npm").args(install).current_dir(directory))
    });
    let mut command = Command::new("node");
    command.arg(directory.unwrap().join("main.js"));
    command
}
