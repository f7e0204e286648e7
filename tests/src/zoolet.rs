//! The commands of zoolet's own servers.

use std::ffi::OsString;
use std::path::PathBuf;

use crate::tools::{self, ToolError};

/// The command of one server, up to the path of its `zoo.cfg`.
pub fn server_command() -> Result<Vec<OsString>, ToolError> {
    Ok(vec![binary()?.into_os_string(), "serve".into(), "--config".into()])
}

/// The `zoolet` of this build, or the one that `ZOOLET_BINARY` names, such as a release build to be
/// measured.
pub fn binary() -> Result<PathBuf, ToolError> {
    tools::built_program("zoolet", "zoolet", "ZOOLET_BINARY")
}
