//! The foreign programs in `interop/` that more than one suite runs, each built once.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::apache;
use crate::tools::{self, ToolError};

const C_SOURCES: [&str; 8] = [
    "access_rights.c",
    "failover.c",
    "harness.c",
    "locks.c",
    "main.c",
    "transactions.c",
    "watches.c",
    "znodes.c",
];
const C_HEADERS: [&str; 2] = ["harness.h", "parts.h"];

const GO_FILES: [&str; 12] = [
    "go.mod",
    "go.sum",
    "access.go",
    "failover.go",
    "harness.go",
    "locks.go",
    "main.go",
    "tls.go",
    "transactions.go",
    "watches.go",
    "words.go",
    "znodes.go",
];

const CURATOR_FILES: [&str; 15] = [
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
    "Move.java",
    "Mutexes.java",
    "Sessions.java",
    "Transactions.java",
    "Watchers.java",
];

/// [`ToolError::Missing`] where the headers of `libzookeeper-mt` are not installed.
pub(crate) fn require_c_library() -> Result<(), ToolError> {
    let header = ["-x", "c", "-E", "-include", "zookeeper/zookeeper.h", "/dev/null"];
    if tools::run(Command::new("gcc").args(header)).is_err() {
        return Err(ToolError::Missing { what: "libzookeeper-mt-dev".to_owned() });
    }
    Ok(())
}

/// The program over `libzookeeper-mt`; [`ToolError::Missing`] where its headers are not installed.
pub fn c() -> Result<PathBuf, ToolError> {
    require_c_library()?;
    let source = tools::interop_dir("c");
    let inputs: Vec<PathBuf> =
        C_SOURCES.iter().chain(&C_HEADERS).map(|file| source.join(file)).collect();
    let directory = tools::prepare_once("c-client", &inputs, |directory| {
        tools::run(
            Command::new("gcc")
                .args(["-std=c11", "-D_GNU_SOURCE", "-DTHREADED", "-O1", "-g"])
                .args(["-Wall", "-Wextra", "-Werror", "-o", "interop"])
                .args(C_SOURCES)
                .args(["-lzookeeper_mt", "-lpthread"])
                .current_dir(directory),
        )
    })?;
    Ok(directory.join("interop"))
}

/// npm's package with the sources of `ZooKeeper`'s C client, which Debian builds without TLS.
const C_TLS_PACKAGE: &str = "zookeeper@7.3.0";

/// The program over a C client with TLS: its files are in `TLS_FILES`, as the client wants them.
pub fn c_tls() -> Result<PathBuf, ToolError> {
    let header = ["-x", "c", "-E", "-include", "openssl/ssl.h", "/dev/null"];
    if tools::run(Command::new("gcc").args(header)).is_err() {
        return Err(ToolError::Missing { what: "libssl-dev".to_owned() });
    }
    let source = tools::interop_dir("c");
    let inputs: Vec<PathBuf> =
        C_SOURCES.iter().chain(&C_HEADERS).map(|file| source.join(file)).collect();
    let directory = tools::prepare_once("c-client-tls", &inputs, build_c_tls)?;
    Ok(directory.join("interop"))
}

fn build_c_tls(directory: &Path) -> Result<(), ToolError> {
    let run = |program: &str, args: &[&str]| {
        tools::run(Command::new(program).args(args).current_dir(directory))
    };
    run("npm", &["pack", "--silent", C_TLS_PACKAGE])?;
    let package = format!("{}.tgz", C_TLS_PACKAGE.replace('@', "-"));
    run("tar", &["-xzf", &package])?;
    run(
        "tar",
        &["--warning=no-unknown-keyword", "-xzf", "package/deps/zookeeper-client-c.tar.gz"],
    )?;
    run(
        "cmake",
        &[
            "-S",
            "zookeeper-client-c",
            "-B",
            "client",
            "-DWANT_CPPUNIT=OFF",
            "-DWITH_CYRUS_SASL=OFF",
            "-DWITH_OPENSSL=ON",
            "-DCMAKE_C_FLAGS=-w",
        ],
    )?;
    run("cmake", &["--build", "client", "--target", "zookeeper"])?;
    // The sources name the header by its directory.
    let headers = directory.join("include");
    std::fs::create_dir(&headers).map_err(ToolError::io("create", &headers))?;
    run("cp", &["-r", "zookeeper-client-c/include", "include/zookeeper"])?;
    run("sh", &["-c", "cp zookeeper-client-c/generated/*.h include/zookeeper"])?;
    let flags = ["-std=c11", "-D_GNU_SOURCE", "-DTHREADED", "-DHAVE_OPENSSL_H", "-O1", "-g"];
    let includes = ["-Iinclude", "-Iinclude/zookeeper", "-o", "interop"];
    let libraries = ["client/libzookeeper.a", "client/libhashtable.a", "-lssl", "-lcrypto"];
    let args = [&flags[..], &includes, &C_SOURCES, &libraries, &["-lpthread", "-lm"]].concat();
    run("gcc", &args)
}

/// The program over go-zookeeper.
pub fn go() -> Result<PathBuf, ToolError> {
    let source = tools::interop_dir("go");
    let inputs = GO_FILES.map(|file| source.join(file));
    let directory = tools::prepare_once("go-client", &inputs, |directory| {
        tools::run(Command::new("go").args(["build", "-o", "interop", "."]).current_dir(directory))
    })?;
    Ok(directory.join("interop"))
}

/// A program over Apache Curator, by its class, with these options of the JVM. It is compiled once, with the jars
/// that it needs beside it.
pub fn curator(class: &str, jvm_options: &[String]) -> Result<Command, ToolError> {
    let source = tools::interop_dir("curator");
    let inputs = CURATOR_FILES.map(|file| source.join(file));
    let directory = tools::prepare_once("curator", &inputs, |directory| {
        tools::run(Command::new("mvn").args(["-q", "-B", "compile"]).current_dir(directory))
    });
    let directory = directory?;
    let mut classpath = directory.join("classes").into_os_string();
    classpath.push(":");
    classpath.push(directory.join(Path::new("jars").join("*")));
    let mut command = apache::java(&classpath);
    command.args(jvm_options).arg(format!("interop.{class}"));
    Ok(command)
}
