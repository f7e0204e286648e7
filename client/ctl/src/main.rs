//! `zooletctl`: what an ensemble holds, from a shell. `docs/zooletctl.md` is its manual.

mod args;
mod bench;
mod commands;
mod connection;
mod context;
mod digest;
mod documents;
mod error;
mod format;
mod history;
mod hold;
mod http;
mod interrupt;
mod locks;
mod options;
mod output;
mod path;
mod progress;
mod shell;
mod signals;
mod snapshot;
mod status;
mod stream;
mod tls;
mod torture;
mod watch_run;
mod words;

use std::process::ExitCode;

use args::{Arguments, Command, Options, ZnodeCommand};
use clap::Parser;
use clap::error::ErrorKind;
use commands::{Watch, Watches, event_json, event_text};
use connection::Connection;
use context::Context;
use error::{CtlError, Exit};
use interrupt::Interrupt;
use output::Output;
use tokio::runtime::Runtime;

fn main() -> ExitCode {
    let arguments = match Arguments::try_parse_from(args::as_zkcli_users_write(std::env::args_os()))
    {
        Ok(arguments) => arguments,
        Err(error) => return usage(&error, args::is_json_wanted(std::env::args_os())),
    };
    let json = arguments.flags.json;
    let runtime = match Runtime::new() {
        Ok(runtime) => runtime,
        Err(error) => return ended(Err(error.into()), json),
    };
    let result = runtime.block_on(run(arguments));
    // Signals still end the program, also while the reader of stderr stalls.
    let code = ended(result, json);
    runtime.shutdown_background();
    code
}

/// Reports a failure, and returns how the program ends.
fn ended(result: Result<(), CtlError>, json: bool) -> ExitCode {
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => output::report_at_end(&error, json).into(),
    }
}

/// Prints what clap has to say: help and the version on stdout, what is wrong on stderr.
fn usage(error: &clap::Error, json: bool) -> ExitCode {
    if json {
        let output = Output { json };
        let text = error.render().to_string();
        let printed = if error.use_stderr() {
            Err(error::usage(&text))
        } else if error.kind() == ErrorKind::DisplayVersion {
            output::version(output)
        } else {
            output::help(&text, output)
        };
        return ended(printed, json);
    }
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

async fn run(arguments: Arguments) -> Result<(), CtlError> {
    let Arguments { flags, command } = arguments;
    let output = Output { json: flags.json };
    // What needs no server needs no configuration.
    match &command {
        Some(Command::Completions { shell }) => return documents::completions(*shell, output),
        Some(Command::Digest(arguments)) => return digest::run(arguments, output),
        Some(Command::ManPages { directory }) => return documents::man_pages(directory, output),
        Some(Command::Version) => return output::version(output),
        Some(Command::Znode(ZnodeCommand::AddAuth(args::AddAuth { id: Some(_), .. }))) => {
            let message = "addauth is refused here, it shows a password: it is for the shell";
            let error = CtlError::new(Exit::Usage, message);
            return Err(error.hint("--auth-file FILE and ZOOLETCTL_AUTH have identities"));
        }
        // Before a server is looked for.
        Some(Command::Znode(ZnodeCommand::Get(arguments))) => {
            commands::check_form(arguments, output)?;
        }
        Some(_) | None => {}
    }
    let options = Options::of(flags)?;
    let Some(command) = command else { return shell::run(options).await };
    match command {
        Command::Bench(arguments) => bench::run(&arguments, &options).await,
        Command::Elect(arguments) => hold::elect(&arguments, &options).await,
        Command::History(arguments) => history::run(&arguments, &options).await,
        Command::Lock(arguments) => hold::lock(&arguments, &options).await,
        Command::Locks(arguments) if arguments.watch => locks::watch(&arguments, &options).await,
        Command::Locks(arguments) => {
            one_shot(&options, async |context| locks::run(&arguments, &options, context).await)
                .await
        }
        Command::Snapshot(command) => snapshot::run(&command, &options).await,
        Command::Status(arguments) => status::run(&arguments, &options).await,
        Command::Torture(arguments) => torture::run(&arguments, &options).await,
        Command::Watch(arguments) => {
            let context = context(&options).await?;
            let ended = watch_run::run(&arguments, &context).await;
            context.connection.close().await;
            ended
        }
        Command::Znode(command) => {
            one_shot(&options, async |context| run_one(&command, context).await).await
        }
        // They were carried out above.
        Command::Completions { .. }
        | Command::Digest(_)
        | Command::ManPages { .. }
        | Command::Version => Ok(()),
    }
}

/// Opens a session for one piece of work, which ends soon after SIGINT and SIGTERM.
async fn one_shot(
    options: &Options,
    work: impl AsyncFnOnce(&Context) -> Result<(), CtlError>,
) -> Result<(), CtlError> {
    let mut context = context(options).await?;
    context.connection.interrupt = Interrupt::receive(options.json)?;
    let result = work(&context).await;
    context.connection.close().await;
    result
}

async fn context(options: &Options) -> Result<Context, CtlError> {
    let output = Output { json: options.json };
    let connection = Connection::open(options).await?;
    Ok(Context { connection, output, options: options.clone(), is_shell: false })
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
    loop {
        let event = tokio::select! {
            event = watches.next() => event,
            error = context.connection.interrupt.comes() => {
                return Err(CtlError { message: String::new(), ..error });
            }
        };
        let Some(event) = event else { break };
        context.output.result(|| event_text(&event), || event_json(&event))?;
        if !is_persistent {
            return Ok(());
        }
    }
    let error = CtlError::new(Exit::Connection, "the watch has ended: events may have been missed");
    Err(error.hint("look again, and watch again"))
}
