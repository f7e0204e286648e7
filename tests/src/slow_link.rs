//! Links that delay: a program that takes packets from a queue of the kernel and passes them on later,
//! see `interop/slow_link`. Not every kernel has netem.

use std::path::PathBuf;
use std::process::Command;

use crate::tools::{self, ToolError};

/// Compiles the program once; its words are the number of an iptables queue, and the shortest and the
/// longest delay in microseconds. It prints a line once it works.
pub fn program() -> Result<PathBuf, ToolError> {
    if tools::find_program("gcc").is_none() {
        return Err(ToolError::Missing { what: "gcc".to_owned() });
    }
    let source = tools::interop_dir("slow_link").join("slow_link.c");
    let directory = tools::prepare_once("slow_link", &[source], |directory| {
        tools::run(
            Command::new("gcc")
                .args(["-std=c11", "-Wall", "-Wextra", "-Werror", "-O1"])
                .args(["-o", "slow_link", "slow_link.c"])
                .current_dir(directory),
        )
    })?;
    Ok(directory.join("slow_link"))
}
