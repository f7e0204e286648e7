//! The `zookeeper-client` crate on an ensemble of three: `interop/rust`.

use std::process::Command;

use zoolet_tests::tools::{self, ToolError};

use crate::ensembles::{on_apache, on_zoolet};

#[test]
fn zookeeper_client_on_apache() {
    on_apache("rust_client", &[], program);
}

#[test]
fn zookeeper_client_on_zoolet() {
    on_zoolet("rust_client", &[], program);
}

/// Builds the program once. It is a workspace of its own: what it depends on is its user's choice
/// and not zoolet's.
fn program() -> Result<Command, ToolError> {
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
        let mut cargo = tools::cargo_of_others();
        tools::run(
            cargo.args(["build", "--locked", "--target-dir", "target"]).current_dir(directory),
        )
    });
    Ok(Command::new(directory?.join("target/debug/zookeeper-client-interop")))
}
