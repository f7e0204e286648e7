//! The `zoolet` program: an ensemble on this machine, or one server of an ensemble; moving data in
//! and out, and emergencies.

mod cli;
mod console;
mod ctl;
mod doctor;
mod documents;
mod emergency;
mod logging;
mod migrate;
mod output;
mod own_console;
mod serve;
mod service;
mod supervised;
mod up;

use std::io::{self, Write};
use std::process::ExitCode;

use clap::Parser;

use cli::{Cli, Command, LogFormat};
use logging::{Log, LogOptions};
use output::WhenFull;
use tikv_jemallocator::Jemalloc;

/// The C library's allocator spends half of a create on the memory that requests leave in pieces,
/// and much on what one thread allocates and another frees (decision 0026).
#[global_allocator]
static ALLOCATOR: Jemalloc = Jemalloc;

/// Does what the command line says. A server that cannot start, or cannot go on, ends with exit
/// code 1 and one line that says why.
fn main() -> ExitCode {
    let mut cli = Cli::parse();
    if matches!(cli.command, Command::Up(_)) {
        cli.log = logging::chosen_or_quiet(cli.log);
    }
    let log = match logging::start(cli.log.as_deref(), log_options(&cli.command)) {
        Ok(log) => log,
        Err(error) => {
            // If standard error is gone as well the error is lost.
            let _ = writeln!(io::stderr(), "zoolet: cannot log: {error}");
            return ExitCode::FAILURE;
        }
    };
    let code = execute(cli, &log).unwrap_or_else(|why| {
        log.report_end(&why);
        ExitCode::FAILURE
    });
    log.close();
    code
}

/// Returns where the log of a command goes. Commands that serve others never wait for its reader.
fn log_options(command: &Command) -> LogOptions {
    let on_stderr = |when_full| LogOptions { format: LogFormat::Text, file: None, when_full };
    match command {
        Command::Serve(args) => LogOptions {
            format: args.log_format,
            file: args.log_file.clone(),
            when_full: WhenFull::Drop,
        },
        Command::Up(_) | Command::Console(_) => on_stderr(WhenFull::Drop),
        Command::Ctl(_)
        | Command::Doctor(_)
        | Command::Import(_)
        | Command::Export(_)
        | Command::Restore(_)
        | Command::Recover(_)
        | Command::Completions { .. }
        | Command::ManPages { .. } => on_stderr(WhenFull::Wait),
    }
}

fn execute(cli: Cli, log: &Log) -> Result<ExitCode, String> {
    // It waits for signals and for processes; a server has a thread of its own.
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| format!("cannot start threads: {error}"))?;
    let done = match cli.command {
        Command::Doctor(args) => {
            let found = runtime.block_on(doctor::doctor(&args));
            return found.map(ExitCode::from).map_err(|error| error.to_string());
        }
        Command::Up(args) => {
            runtime.block_on(up::up(args, cli.log, log)).map_err(|error| error.to_string())
        }
        Command::Serve(args) => {
            runtime.block_on(serve::serve(args, log.clone())).map_err(|error| error.to_string())
        }
        Command::Console(args) => {
            runtime.block_on(console::console(args)).map_err(|error| error.to_string())
        }
        Command::Ctl(args) => ctl::ctl(&args).map_err(|error| error.to_string()),
        Command::Import(args) => migrate::import(&args).map_err(|error| error.to_string()),
        Command::Export(args) => migrate::export(&args).map_err(|error| error.to_string()),
        Command::Restore(args) => emergency::restore(&args).map_err(|error| error.to_string()),
        Command::Recover(args) => emergency::recover(&args).map_err(|error| error.to_string()),
        Command::Completions { shell } => documents::completions(shell),
        Command::ManPages { directory } => documents::man_pages(&directory),
    };
    // What still blocks is a read of standard input, or a start that no caller waits for any more.
    runtime.shutdown_background();
    done.map(|()| ExitCode::SUCCESS)
}
