//! node-zookeeper-client, in plain JavaScript, on an ensemble of three: `interop/node`.
//!
//! npm's other client, `zookeeper`, wraps the C client and downloads ZooKeeper's sources when it
//! is installed; what it speaks on the wire is shown by the suite of the C client.

use std::path::PathBuf;
use std::process::Command;

use zoolet_tests::tools::{self, ToolError};

use crate::ensembles::{on_apache, on_zoolet};

#[test]
fn node_zookeeper_client_on_apache() {
    on_apache("node_client", &["node", "npm"], program);
}

#[test]
fn node_zookeeper_client_on_zoolet() {
    on_zoolet("node_client", &["node", "npm"], program);
}

/// Installs the locked packages once, beside a copy of the program.
fn program() -> Result<Command, ToolError> {
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
    command.arg(directory?.join("main.js"));
    Ok(command)
}
