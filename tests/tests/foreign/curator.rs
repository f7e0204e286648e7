//! Apache Curator on an ensemble of three: `interop/curator`.

use std::path::{Path, PathBuf};
use std::process::Command;

use zoolet_tests::apache;
use zoolet_tests::tools::{self, ToolError};

use crate::ensembles::{on_apache, on_zoolet};

#[test]
fn curator_on_apache() {
    on_apache("curator", &["java", "mvn"], program);
}

#[test]
fn curator_on_zoolet() {
    on_zoolet("curator", &["java", "mvn"], program);
}

/// Compiles the program once, with the jars it needs beside it.
fn program() -> Result<Command, ToolError> {
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
    let directory = directory?;
    let mut classpath = directory.join("classes").into_os_string();
    classpath.push(":");
    classpath.push(directory.join(Path::new("jars").join("*")));
    let mut command = apache::java(&classpath);
    command.arg("interop.Main");
    Ok(command)
}
