//! The C client of ZooKeeper on an ensemble of three: `interop/c` over `libzookeeper-mt`.

use std::process::Command;

use zoolet_tests::programs;
use zoolet_tests::tools::ToolError;

use crate::ensembles::{on_apache, on_zoolet};

#[test]
fn c_client_on_apache() {
    on_apache("c_client", &["gcc"], program);
}

#[test]
fn c_client_on_zoolet() {
    on_zoolet("c_client", &["gcc"], program);
}

/// Builds the program once.
fn program() -> Result<Command, ToolError> {
    programs::c().map(Command::new)
}
