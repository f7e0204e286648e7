//! go-zookeeper, the client of Go programs, on an ensemble of three: `interop/go`.

#![allow(clippy::unwrap_used, reason = "a test ends at the first thing that goes wrong")]

use std::process::Command;

use zoolet_tests::apache::Apache;
use zoolet_tests::foreign::{self, Ensemble};
use zoolet_tests::zoolet::Zoolet;
use zoolet_tests::{programs, tools};

#[test]
fn go_zookeeper_on_apache() {
    if !tools::require_foreign("go_client", &["go", "java", "mvn"]).unwrap() {
        return;
    }
    let mut servers = Apache::builder()
        .servers(3)
        .jvm_option("-Dznode.container.checkIntervalMs=1000")
        .start()
        .unwrap();
    run(&mut servers, "apache");
}

#[test]
fn go_zookeeper_on_zoolet() {
    if !tools::require_foreign("go_client", &["go"]).unwrap() {
        return;
    }
    let mut servers = Zoolet::builder()
        .servers(3)
        .property("znode.container.checkIntervalMs", "1000")
        .start()
        .unwrap();
    run(&mut servers, "zoolet");
}

/// Runs the program, which is told whose servers it meets.
fn run(servers: &mut dyn Ensemble, kind: &str) {
    let mut command = Command::new(programs::go().unwrap());
    let report = foreign::run_program(command.env("ZK_KIND", kind), servers).unwrap();
    assert_eq!(report.losses, 2, "the server in use, then the leader");
}
