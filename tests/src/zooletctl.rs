//! `zooletctl`, as a process of the built binary.

use std::io;
use std::path::PathBuf;

use thiserror::Error;

use crate::tools;

/// Why `zooletctl` cannot be run.
#[derive(Debug, Error)]
pub enum ZooletctlError {
    #[error("the path of the test program: {0}")]
    Io(#[from] io::Error),
    #[error("{} is not built: cargo build -p zooletctl", .0.display())]
    NotBuilt(PathBuf),
}

/// The `zooletctl` of this build, or the one that `ZOOLETCTL_BINARY` names.
pub fn binary() -> Result<PathBuf, ZooletctlError> {
    let binary = tools::built_program("zooletctl", "ZOOLETCTL_BINARY")?;
    if binary.is_file() { Ok(binary) } else { Err(ZooletctlError::NotBuilt(binary)) }
}
