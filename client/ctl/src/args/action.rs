//! Commands that do more than one request: transactions, edits, reactions to changes.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Parser};
use zoolet_client::Version;

use super::values::duration;
use super::znode::expected_version;
use super::znode::{Create, Delete, Set};

#[derive(Debug, Args)]
pub(crate) struct Edit {
    pub(crate) path: String,
}

#[derive(Debug, Args)]
pub(crate) struct Txn {
    /// Take the parts from a file, one a line; - is stdin, which is the default outside of the shell.
    #[arg(long, value_name = "FILE", conflicts_with = "parts")]
    pub(crate) file: Option<PathBuf>,
    /// The parts, each one argument: 'create /a x', 'set -v 3 /b y', 'delete /c', 'check /d -v 1'.
    #[arg(value_name = "PART")]
    pub(crate) parts: Vec<String>,
}

/// One part of a transaction.
#[derive(Debug, Parser)]
#[command(
    no_binary_name = true,
    disable_help_subcommand = true,
    disable_help_flag = true,
    disable_version_flag = true,
    bin_name = ""
)]
pub(crate) enum TxnPart {
    Create(Create),
    Set(Set),
    Delete(Delete),
    Check(Check),
}

/// The znode exists.
#[derive(Debug, Args)]
pub(crate) struct Check {
    /// And its data has this version.
    #[arg(short, value_name = "VERSION", default_value = "-1", allow_negative_numbers = true,
          value_parser = expected_version)]
    pub(crate) version: Version,
    pub(crate) path: String,
}

#[derive(Debug, Args)]
pub(crate) struct WatchRun {
    pub(crate) path: String,
    /// Everything below it too.
    #[arg(short = 'R', long)]
    pub(crate) recursive: bool,
    /// Run it once at the beginning, before anything has changed.
    #[arg(long)]
    pub(crate) initial: bool,
    /// End with the exit code of the command when it is not 0.
    #[arg(long)]
    pub(crate) fail: bool,
    /// What to run each time; it finds `ZOOLET_WATCH_PATH`, `ZOOLET_WATCH_EVENT` and
    /// `ZOOLET_WATCH_ZXID`.
    #[arg(last = true, required = true, value_name = "CMD")]
    pub(crate) command: Vec<OsString>,
}

#[derive(Debug, Args)]
pub(crate) struct Revoke {
    /// The path of the lock, or of its holder's znode.
    pub(crate) path: String,
    /// Wait so long for the holders to release it. The exit code is 124 when that was not enough.
    #[arg(long, value_name = "DURATION", value_parser = duration)]
    pub(crate) wait: Option<Duration>,
}
