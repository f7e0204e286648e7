//! go-zookeeper, the client of Go programs, on an ensemble of three: `interop/go`.

use std::process::Command;

use zoolet_tests::programs;
use zoolet_tests::tools::ToolError;

use crate::ensembles::{on_apache, on_zoolet};

#[test]
fn go_zookeeper_on_apache() {
    on_apache("go_client", &["go"], program);
}

#[test]
fn go_zookeeper_on_zoolet() {
    on_zoolet("go_client", &["go"], program);
}

/// Builds the program once.
fn program() -> Result<Command, ToolError> {
    programs::go().map(Command::new)
}
