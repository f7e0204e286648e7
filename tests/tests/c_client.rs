//! The C client of ZooKeeper on an ensemble of three: `interop/c` over `libzookeeper-mt`.

#![allow(clippy::unwrap_used, reason = "a test ends at the first thing that goes wrong")]

use std::path::PathBuf;
use std::process::Command;

use zoolet_tests::apache::Apache;
use zoolet_tests::foreign::{self, Ensemble};
use zoolet_tests::zoolet::Zoolet;
use zoolet_tests::{programs, tools};

#[test]
fn c_client_on_apache() {
    if let Some(program) = program(&["gcc", "java", "mvn"]) {
        let mut servers = Apache::builder().servers(3).start().unwrap();
        run(&program, &mut servers);
    }
}

#[test]
fn c_client_on_zoolet() {
    if let Some(program) = program(&["gcc"]) {
        let mut servers = Zoolet::builder().servers(3).start().unwrap();
        run(&program, &mut servers);
    }
}

fn run(program: &PathBuf, servers: &mut dyn Ensemble) {
    let report = foreign::run_program(&mut Command::new(program), servers).unwrap();
    assert_eq!(report.losses, 2, "the server in use, then the leader");
}

/// Builds the program once; `None` where something is missing and may be.
fn program(needs: &[&str]) -> Option<PathBuf> {
    if !tools::require_foreign("c_client", needs).unwrap() {
        return None;
    }
    match programs::c() {
        Ok(program) => Some(program),
        Err(missing) => {
            tools::skip_unless_required("c_client", missing).unwrap();
            None
        }
    }
}
