//! The `zoolet` binary: a shell around the library.

use std::process::ExitCode;

use clap::Parser;
use zoolet_server::cli::Cli;

fn main() -> ExitCode {
    zoolet_server::run(Cli::parse())
}
