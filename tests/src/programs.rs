//! The foreign programs in `interop/` that more than one suite runs, each built once.

use std::path::PathBuf;
use std::process::Command;

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

const GO_FILES: [&str; 11] = [
    "go.mod",
    "go.sum",
    "access.go",
    "failover.go",
    "harness.go",
    "locks.go",
    "main.go",
    "transactions.go",
    "watches.go",
    "words.go",
    "znodes.go",
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

/// The program over go-zookeeper.
pub fn go() -> Result<PathBuf, ToolError> {
    let source = tools::interop_dir("go");
    let inputs = GO_FILES.map(|file| source.join(file));
    let directory = tools::prepare_once("go-client", &inputs, |directory| {
        tools::run(Command::new("go").args(["build", "-o", "interop", "."]).current_dir(directory))
    })?;
    Ok(directory.join("interop"))
}
