//! Apache Curator on an ensemble of three: `interop/curator`.

use std::process::Command;

use zoolet_tests::programs;
use zoolet_tests::tools::ToolError;

use crate::ensembles::{on_apache, on_zoolet};

#[test]
fn curator_on_apache() {
    on_apache("curator", &["java", "mvn"], program);
}

#[test]
fn curator_on_zoolet() {
    on_zoolet("curator", &["java", "mvn"], program);
}

/// Compiles the program once.
fn program() -> Result<Command, ToolError> {
    programs::curator("Main", &[])
}
