//! The zoolet server: a small, embeddable, `ZooKeeper`-compatible coordination server.
//!
//! `ARCHITECTURE.md` is the map. Programs that embed it use [`embed`].

#[macro_use]
mod planted;

pub mod cli;
pub mod clock;
pub mod config;
mod consensus;
pub mod embed;
pub mod entropy;
pub mod fatal;
pub mod host;
mod logging;
pub mod metrics;
pub mod net;
pub mod node;
pub mod outbox;
pub mod peer;
mod process;
mod raft;
pub mod replication;
mod serve;
pub mod snapshots;
pub mod transport;
mod up;
mod wire;

use std::io::{self, Write};
use std::process::ExitCode;

use cli::{Cli, Command};

/// The program in the README compiles.
#[cfg(doctest)]
#[doc = include_str!("../../README.md")]
#[derive(Debug)]
pub struct Readme;

/// Does what the command line says. A server that cannot start, or cannot go on, ends with exit
/// code 1 and one line that says why.
pub fn run(cli: Cli) -> ExitCode {
    let done = match logging::start(cli.log.as_deref()) {
        Ok(()) => execute(cli),
        Err(error) => Err(format!("cannot log: {error}")),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            // If standard error is gone as well the error is lost.
            let _ = writeln!(io::stderr(), "zoolet: {why}");
            ExitCode::FAILURE
        }
    }
}

fn execute(cli: Cli) -> Result<(), String> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .map_err(|error| format!("cannot start threads: {error}"))?;
    let done = match cli.command {
        Command::Up(args) => {
            runtime.block_on(up::up(args, cli.log)).map_err(|error| error.to_string())
        }
        Command::Serve(args) => {
            runtime.block_on(serve::serve(args)).map_err(|error| error.to_string())
        }
    };
    // What still blocks is a read of standard input, or a start that no caller waits for any more.
    runtime.shutdown_background();
    done
}
