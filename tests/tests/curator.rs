//! Apache Curator on an ensemble of three: `interop/curator`.

#![allow(clippy::unwrap_used, reason = "a test ends at the first thing that goes wrong")]

use std::path::{Path, PathBuf};
use std::process::Command;

use zoolet_tests::apache::{self, Apache};
use zoolet_tests::foreign::{self, Ensemble};
use zoolet_tests::tools;
use zoolet_tests::zoolet::Zoolet;

#[test]
fn curator_on_apache() {
    if !tools::require_foreign("curator", &["java", "mvn"]).unwrap() {
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
fn curator_on_zoolet() {
    if !tools::require_foreign("curator", &["java", "mvn"]).unwrap() {
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
    let mut command = program();
    let report = foreign::run_program(command.env("ZK_KIND", kind), servers).unwrap();
    assert_eq!(report.losses, 2, "the server in use, then the leader");
}

/// Compiles the program once, with the jars it needs beside it.
fn program() -> Command {
    let source = tools::interop_dir("curator");
    let files = [
        "pom.xml",
        "Caches.java",
        "Check.java",
        "Counters.java",
        "Failover.java",
        "Framework.java",
        "Harness.java",
        "Leaders.java",
        "Locks.java",
        "Main.java",
        "Mutexes.java",
        "Sessions.java",
        "Transactions.java",
        "Watchers.java",
    ];
    let inputs: Vec<PathBuf> = files.iter().map(|file| source.join(file)).collect();
    let directory = tools::prepare_once("curator", &inputs, |directory| {
        tools::run(Command::new("mvn").args(["-q", "-B", "compile"]).current_dir(directory))
    });
    let directory = directory.unwrap();
    let mut classpath = directory.join("classes").into_os_string();
    classpath.push(":");
    classpath.push(directory.join(Path::new("jars").join("*")));
    let mut command = apache::java(&classpath);
    command.arg("interop.Main");
    command
}
