//! `zooletctl`: what an ensemble holds, from a shell. `docs/zooletctl.md` is its manual.

mod args;
mod commands;
mod connection;
mod error;
mod format;
mod output;
mod path;
mod shell;

use std::process::ExitCode;

use args::{Arguments, Command};
use clap::Parser;
use commands::Context;
use connection::Connection;
use error::{CtlError, Exit};
use output::Output;

fn main() -> ExitCode {
    let arguments = match Arguments::try_parse_from(args::as_zkcli_users_write(std::env::args_os()))
    {
        Ok(arguments) => arguments,
        Err(error) => return usage(&error),
    };
    let json = arguments.options.json;
    match run(arguments) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            output::report(&error, json);
            error.exit.into()
        }
    }
}

/// Prints what clap has to say: help on stdout, what is wrong on stderr.
fn usage(error: &clap::Error) -> ExitCode {
    // Nothing can be done about a stream that is closed.
    let _ = error.print();
    if error.use_stderr() { Exit::Usage.into() } else { ExitCode::SUCCESS }
}

#[tokio::main]
async fn run(arguments: Arguments) -> Result<(), CtlError> {
    let Arguments { options, command } = arguments;
    let Some(command) = command else { return shell::run(options).await };
    match command {
        Command::Znode(command) => {
            let output = Output { json: options.json };
            let context = Context { connection: Connection::open(&options).await?, output };
            let result = commands::run(&command, &context).await;
            context.connection.close().await;
            result
        }
    }
}
