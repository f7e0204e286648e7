//! What a command has when it runs.

use crate::args::Options;
use crate::connection::Connection;
use crate::output::Output;

/// Where a command runs.
#[derive(Debug)]
pub(crate) struct Context {
    pub(crate) connection: Connection,
    pub(crate) output: Output,
    pub(crate) options: Options,
    /// Whether it runs in the shell, whose lines may come from stdin.
    pub(crate) is_shell: bool,
}
