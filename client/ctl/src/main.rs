//! `zooletctl`: what an ensemble holds, from a shell. `docs/zooletctl.md` is its manual.

mod args;
mod bench;
mod commands;
mod connection;
mod digest;
mod documents;
mod error;
mod format;
mod history;
mod hold;
mod http;
mod locks;
mod output;
mod path;
mod progress;
mod shell;
mod signals;
mod snapshot;
mod status;
mod tls;
mod torture;

use std::process::ExitCode;

use args::{Arguments, Command, Options, ZnodeCommand};
use clap::Parser;
use clap::error::ErrorKind;
use commands::{Context, Watch, Watches, event_json, event_text};
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
    if error.kind() == ErrorKind::InvalidUtf8 {
        // By its number, since it may be a password. Files may be among them, which are no mistake.
        let numbered = std::env::args_os().enumerate().skip(1);
        for (number, _) in numbered.filter(|(_, argument)| argument.to_str().is_none()) {
            output::note(&format!("argument {number} is not UTF-8"));
        }
    }
    if error.use_stderr() { Exit::Usage.into() } else { ExitCode::SUCCESS }
}

#[tokio::main]
async fn run(arguments: Arguments) -> Result<(), CtlError> {
    let Arguments { options, command } = arguments;
    match command {
        None => shell::run(options).await,
        Some(Command::Bench(arguments)) => bench::run(&arguments, &options).await,
        Some(Command::Completions { shell }) => documents::completions(shell),
        Some(Command::Digest(arguments)) => digest::run(&arguments, Output { json: options.json }),
        Some(Command::Elect(arguments)) => hold::elect(&arguments, &options).await,
        Some(Command::History(arguments)) => history::run(&arguments, &options).await,
        Some(Command::Lock(arguments)) => hold::lock(&arguments, &options).await,
        Some(Command::Locks(arguments)) if arguments.watch => {
            locks::watch(&arguments, &options).await
        }
        Some(Command::Locks(arguments)) => {
            one_shot(&options, async |context| locks::run(&arguments, &options, context).await)
                .await
        }
        Some(Command::ManPages { directory }) => documents::man_pages(&directory),
        Some(Command::Snapshot(command)) => snapshot::run(&command, &options).await,
        Some(Command::Status(arguments)) => status::run(&arguments, &options).await,
        Some(Command::Torture(arguments)) => torture::run(&arguments, &options).await,
        Some(Command::Version) => output::version(Output { json: options.json }),
        Some(Command::Znode(command)) => {
            one_shot(&options, async |context| run_one(&command, context).await).await
        }
    }
}

/// Opens a session for one piece of work, which Ctrl-C interrupts.
async fn one_shot(
    options: &Options,
    work: impl AsyncFnOnce(&Context) -> Result<(), CtlError>,
) -> Result<(), CtlError> {
    let output = Output { json: options.json };
    let context = Context { connection: Connection::open(options).await?, output };
    let result = tokio::select! {
        result = work(&context) => result,
        _ = tokio::signal::ctrl_c() => Err(CtlError::new(Exit::Interrupted, "")),
    };
    context.connection.close().await;
    result
}

/// Carries out one command, and prints what it watches: the next event, or every one if it watches
/// for good.
async fn run_one(command: &ZnodeCommand, context: &Context) -> Result<(), CtlError> {
    let left = commands::run(command, context).await?;
    if left.is_empty() {
        return Ok(());
    }
    let is_persistent = left.iter().any(Watch::is_persistent);
    let mut watches = Watches::default();
    watches.extend(left);
    while let Some(event) = watches.next().await {
        context.output.result(|| event_text(&event), || event_json(&event))?;
        if !is_persistent {
            return Ok(());
        }
    }
    let error = CtlError::new(Exit::Connection, "the watch has ended: events may have been missed");
    Err(error.hint("look again, and watch again"))
}
