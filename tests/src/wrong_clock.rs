//! A library that makes the wall clock of a program wrong while it runs, see
//! `interop/wrong_clock`. The monotonic clock stays as it is.

use std::path::PathBuf;
use std::process::Command;

use crate::tools::{self, ToolError};

/// Compiles the library once; `LD_PRELOAD` takes it, and `WRONG_CLOCK_FILE` names the file with the
/// difference from the true time in milliseconds.
pub fn library() -> Result<PathBuf, ToolError> {
    if tools::find_program("gcc").is_none() {
        return Err(ToolError::Missing { what: "gcc".to_owned() });
    }
    let source = tools::interop_dir("wrong_clock").join("wrong_clock.c");
    let directory = tools::prepare_once("wrong_clock", &[source], |directory| {
        tools::run(
            Command::new("gcc")
                .args(["-std=c11", "-Wall", "-Wextra", "-Werror", "-shared", "-fPIC", "-O1"])
                .args(["-o", "wrong_clock.so", "wrong_clock.c"])
                .current_dir(directory),
        )
    })?;
    Ok(directory.join("wrong_clock.so"))
}
