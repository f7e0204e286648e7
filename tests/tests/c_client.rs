//! The C client of ZooKeeper on an ensemble of three: `interop/c` over `libzookeeper-mt`.

#![allow(clippy::unwrap_used, reason = "a test ends at the first thing that goes wrong")]

use std::path::PathBuf;
use std::process::Command;

use zoolet_tests::apache::Apache;
use zoolet_tests::foreign::{self, Ensemble};
use zoolet_tests::tools::{self, ToolError};
use zoolet_tests::zoolet::Zoolet;

const SOURCES: [&str; 8] = [
    "access_rights.c",
    "failover.c",
    "harness.c",
    "locks.c",
    "main.c",
    "transactions.c",
    "watches.c",
    "znodes.c",
];

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
    let header = ["-x", "c", "-E", "-include", "zookeeper/zookeeper.h", "/dev/null"];
    if tools::run(Command::new("gcc").args(header)).is_err() {
        let missing = ToolError::Missing { what: "libzookeeper-mt-dev".to_owned() };
        tools::skip_unless_required("c_client", missing).unwrap();
        return None;
    }
    let directory = tools::interop_dir("c");
    let headers = ["harness.h", "parts.h"];
    let inputs: Vec<PathBuf> =
        SOURCES.iter().chain(&headers).map(|file| directory.join(file)).collect();
    let directory = tools::prepare_once("c-client", &inputs, |directory| {
        tools::run(
            Command::new("gcc")
                .args(["-std=c11", "-D_GNU_SOURCE", "-DTHREADED", "-O1", "-g"])
                .args(["-Wall", "-Wextra", "-Werror", "-o", "interop"])
                .args(SOURCES)
                .args(["-lzookeeper_mt", "-lpthread"])
                .current_dir(directory),
        )
    });
    Some(directory.unwrap().join("interop"))
}
