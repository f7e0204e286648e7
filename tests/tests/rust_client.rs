//! The `zookeeper-client` crate on an ensemble of three: `interop/rust`.

#![allow(clippy::unwrap_used, reason = "a test ends at the first thing that goes wrong")]

use std::env;
use std::path::PathBuf;
use std::process::Command;

use zoolet_tests::apache::Apache;
use zoolet_tests::foreign::{self, Ensemble};
use zoolet_tests::tools;
use zoolet_tests::zoolet::Zoolet;

#[test]
fn zookeeper_client_on_apache() {
    if !tools::require_foreign("rust_client", &["java", "mvn"]).unwrap() {
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
fn zookeeper_client_on_zoolet() {
    let mut servers = Zoolet::builder()
        .servers(3)
        .property("znode.container.checkIntervalMs", "1000")
        .start()
        .unwrap();
    run(&mut servers, "zoolet");
}

/// Runs the program, which is told whose servers it meets.
fn run(servers: &mut dyn Ensemble, kind: &str) {
    let mut command = Command::new(program());
    let report = foreign::run_program(command.env("ZK_KIND", kind), servers).unwrap();
    assert_eq!(report.losses, 2, "the server in use, then the leader");
}

/// Builds the program once. It is a workspace of its own: what it depends on is its user's choice
/// and not zoolet's.
fn program() -> PathBuf {
    let source = tools::interop_dir("rust");
    let files = [
        "Cargo.toml",
        "Cargo.lock",
        "access.rs",
        "failover.rs",
        "harness.rs",
        "locks.rs",
        "main.rs",
        "sessions.rs",
        "transactions.rs",
        "watches.rs",
        "znodes.rs",
    ];
    let inputs = files.map(|file| source.join(file));
    let directory = tools::prepare_once("rust-client", &inputs, |directory| {
        let cargo = env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
        tools::run(
            Command::new(cargo)
                .args(["build", "--locked", "--target-dir", "target"])
                .current_dir(directory),
        )
    });
    directory.unwrap().join("target/debug/zookeeper-client-interop")
}
