//! `zooletctl`, as a process of the built binary.

use std::env;
use std::io;
use std::path::PathBuf;

use thiserror::Error;

/// Why `zooletctl` cannot be run.
#[derive(Debug, Error)]
pub enum ZooletctlError {
    #[error("the path of the test program: {0}")]
    Io(#[from] io::Error),
    #[error("{} is not built: cargo build -p zoolet-client --features cli", .0.display())]
    NotBuilt(PathBuf),
}

/// The `zooletctl` of this build: Cargo puts test programs into `deps` beside it.
/// `ZOOLETCTL_BINARY` names another one.
pub fn binary() -> Result<PathBuf, ZooletctlError> {
    if let Some(binary) = env::var_os("ZOOLETCTL_BINARY") {
        return Ok(binary.into());
    }
    let exe = env::current_exe()?;
    let profile = exe.ancestors().nth(2).ok_or(io::ErrorKind::NotFound);
    let binary = profile.map_err(io::Error::from)?.join("zooletctl");
    if binary.is_file() { Ok(binary) } else { Err(ZooletctlError::NotBuilt(binary)) }
}
