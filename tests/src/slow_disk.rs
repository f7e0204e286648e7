//! Disks whose syncs take long: a library that is preloaded into a server and looks into a file of
//! its own each time.

use std::ffi::OsString;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use crate::tools::{self, ToolError};

/// The file, in a server's directory, in which it runs.
pub const FILE: &str = "slow-disk";

/// Compiles the library once; `LD_PRELOAD` takes it, and `SLOW_DISK_FILE` names the file.
pub fn library() -> Result<PathBuf, ToolError> {
    if tools::find_program("gcc").is_none() {
        return Err(ToolError::Missing { what: "gcc".to_owned() });
    }
    let source = tools::interop_dir("slow_disk").join("slow_disk.c");
    let directory = tools::prepare_once("slow_disk", &[source], |directory| {
        tools::run(
            Command::new("gcc")
                .args(["-std=c11", "-Wall", "-Wextra", "-Werror", "-shared", "-fPIC", "-O1"])
                .args(["-o", "slow_disk.so", "slow_disk.c", "-ldl"])
                .current_dir(directory),
        )
    })?;
    Ok(directory.join("slow_disk.so"))
}

/// The words that precede a server's command so that its disk can be made slow.
pub fn wrapper() -> Result<Vec<OsString>, ToolError> {
    let mut preload = OsString::from("LD_PRELOAD=");
    preload.push(library()?);
    Ok(vec!["env".into(), preload, format!("SLOW_DISK_FILE={FILE}").into()])
}

/// Makes every sync of a server take so long.
pub fn slow(server_dir: &Path, each: Duration) -> io::Result<()> {
    fs::write(server_dir.join(FILE), each.as_millis().to_string())
}

/// Makes its disk as fast as it is.
pub fn fast(server_dir: &Path) -> io::Result<()> {
    match fs::remove_file(server_dir.join(FILE)) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}
