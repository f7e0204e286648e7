//! `zooletctl`, as a process of the built binary.

use std::path::PathBuf;

use crate::tools::{self, ToolError};

/// The `zooletctl` of this build, or the one that `ZOOLETCTL_BINARY` names.
pub fn binary() -> Result<PathBuf, ToolError> {
    tools::built_program("zooletctl", "zooletctl", "ZOOLETCTL_BINARY")
}
