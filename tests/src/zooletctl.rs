//! `zooletctl`, as a process of the built binary.

use std::path::PathBuf;
use std::process::Command;

use crate::tools::{self, ToolError};

/// The `zooletctl` of this build, or the one that `ZOOLETCTL_BINARY` names.
pub fn binary() -> Result<PathBuf, ToolError> {
    tools::built_program("zooletctl", "zooletctl", "ZOOLETCTL_BINARY")
}

/// A command of it that nothing of the user's configuration reaches.
pub fn command() -> Result<Command, ToolError> {
    let mut command = Command::new(binary()?);
    for variable in ["SERVERS", "ENSEMBLE", "AUTH", "TRUST_STORE", "KEY_STORE"] {
        command.env_remove(format!("ZOOLETCTL_{variable}"));
    }
    command.env("ZOOLETCTL_CONFIG", "").env("ZOOLETCTL_HISTORY", "");
    Ok(command)
}
