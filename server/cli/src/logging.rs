//! Structured logs, on standard error or in a file.

use std::backtrace::{Backtrace, BacktraceStatus};
use std::io;
use std::panic::{self, PanicHookInfo};
use std::path::{Path, PathBuf};
use std::thread;

use thiserror::Error;
use tracing::error;
use tracing_subscriber::EnvFilter;
use tracing_subscriber::filter::{LevelFilter, ParseError};

use crate::cli::LogFormat;
use crate::output::{Output, WhenFull};

/// What is logged by default.
const FILTER_DEFAULT: &str = "info";

/// What `zoolet up` and its servers log by default: what a person should do something about.
const FILTER_QUIET: &str = "warn";

/// Goes in front of every filter that does not name the library. A heartbeat that does not get
/// through is a warning there, for each peer and ten times a second; `peer` reports it once.
const LIBRARY: &str = "openraft";

/// The library logs here, as an error, each change of the membership that it refuses. The server tries a
/// change again until it is possible, and logs equal refusals once.
const LIBRARY_REPEATS: &str = "openraft::raft::api::management";

/// Where the log goes, and in which form.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct LogOptions {
    pub(crate) format: LogFormat,
    /// Standard error without it.
    pub(crate) file: Option<PathBuf>,
    pub(crate) when_full: WhenFull,
}

/// The log of this program.
#[derive(Clone, Debug)]
pub(crate) struct Log {
    lines: Output,
    /// The same output unless the log goes to a file.
    stderr: Output,
    options: LogOptions,
}

impl Log {
    /// Queues a line, with its end, that another program has logged.
    pub(crate) fn pass_on(&self, line: &[u8]) {
        self.lines.put(line);
    }

    /// Has the log file opened again; the log reports the result. Returns the file, if the log goes to
    /// one.
    pub(crate) fn reopen(&self) -> Option<&Path> {
        self.lines.reopen()
    }

    /// Reports why the program ends.
    pub(crate) fn report_end(&self, why: &str) {
        let is_plain = self.options.format == LogFormat::Text && self.options.file.is_none();
        if !is_plain {
            error!("{why}");
        }
        // A reader of JSON would stop at another kind of line.
        if is_plain || self.options.file.is_some() {
            self.stderr.put(format!("zoolet: {why}\n").as_bytes());
        }
    }

    /// Waits until all lines are written, within limits.
    pub(crate) fn close(&self) {
        self.lines.close();
        self.stderr.close();
    }

    /// Reports panics here instead of on standard error, which may block: a server that must stop
    /// would not.
    fn take_panics(&self) {
        let log = self.clone();
        panic::set_hook(Box::new(move |panic| {
            log.report_panic(panic);
            // Where panics unwind, the program may continue, and waits for its lines at its end.
            if cfg!(panic = "abort") {
                log.close();
            }
        }));
    }

    fn report_panic(&self, panic: &PanicHookInfo<'_>) {
        let thread = thread::current();
        let name = thread.name().unwrap_or("<unnamed>");
        let backtrace = Backtrace::capture();
        let has_backtrace = backtrace.status() == BacktraceStatus::Captured;
        let backtrace = if has_backtrace { format!("\n{backtrace}") } else { String::new() };
        let text = format!("thread '{name}' {panic}{backtrace}");
        if self.options.format == LogFormat::Json || self.options.file.is_some() {
            error!("{text}");
        }
        if self.options.format == LogFormat::Text || self.options.file.is_some() {
            self.stderr.put(format!("\n{text}\n").as_bytes());
        }
    }
}

/// Why nothing can be logged.
#[derive(Debug, Error)]
pub(crate) enum LogError {
    #[error("{by}: {source}")]
    Filter { by: &'static str, source: ParseError },
    #[error(
        "{by}: invalid log level `{word}`: expected off, error, warn, info, debug or trace; a \
         filter for a part of the program is TARGET=LEVEL"
    )]
    Level { by: &'static str, word: String },
    #[error("{}: {source}", path.display())]
    Open { path: PathBuf, source: io::Error },
    #[error("standard error cannot be used: {0}")]
    Start(io::Error),
}

/// Returns the filter that was chosen, or else a quiet one; none if `RUST_LOG` has one, which servers
/// that are started read too.
pub(crate) fn chosen_or_quiet(filter: Option<String>) -> Option<String> {
    filter.or_else(|| variable().is_none().then(|| FILTER_QUIET.to_owned()))
}

fn variable() -> Option<String> {
    std::env::var("RUST_LOG").ok().filter(|filter| !filter.is_empty())
}

/// Starts the log; `filter` goes before `RUST_LOG`.
pub(crate) fn start(filter: Option<&str>, options: LogOptions) -> Result<Log, LogError> {
    let variable = variable();
    let (wanted, by) = match (filter, variable.as_deref()) {
        (Some(filter), _) => (filter, "--log"),
        (None, Some(filter)) => (filter, "RUST_LOG"),
        (None, None) => (FILTER_DEFAULT, "the default filter"),
    };
    let filter = parse(wanted, by)?;
    let log = open(options)?;
    let lines = log.lines.clone();
    let subscriber = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(move || lines.clone())
        .with_ansi(false)
        .with_target(false)
        // The library would use `eprintln!`, which panics without a reader.
        .log_internal_errors(false);
    // Only a program that embeds this one can have set a subscriber before; it then rules.
    let _ = match log.options.format {
        LogFormat::Text => tracing::subscriber::set_global_default(subscriber.finish()),
        LogFormat::Json => {
            let subscriber = subscriber.json().flatten_event(true).with_target(true);
            tracing::subscriber::set_global_default(subscriber.finish())
        }
    };
    log.take_panics();
    Ok(log)
}

fn open(options: LogOptions) -> Result<Log, LogError> {
    let when_full = options.when_full;
    let stderr = Output::log_on_stderr(when_full).map_err(LogError::Start)?;
    let lines = match &options.file {
        None => stderr.clone(),
        Some(path) => Output::log_in_file(path, when_full)
            .map_err(|source| LogError::Open { path: path.clone(), source })?,
    };
    Ok(Log { lines, stderr, options })
}

/// Reads a filter, which `by` has given. A word alone must be a level: the library would take it for
/// the name of a part of the program, and log nothing of the others.
fn parse(filter: &str, by: &'static str) -> Result<EnvFilter, LogError> {
    let words = filter.split(',').map(str::trim).filter(|word| !word.is_empty());
    let words: Vec<&str> = words.collect();
    let is_wrong = |word: &&str| {
        !word.contains(['=', '[', ']', '{', '}']) && word.parse::<LevelFilter>().is_err()
    };
    if let Some(word) = words.iter().find(|word| is_wrong(word)) {
        return Err(LogError::Level { by, word: (*word).to_owned() });
    }
    EnvFilter::try_new(with_library(&words.join(",")))
        .map_err(|source| LogError::Filter { by, source })
}

/// Returns the filter with what is logged of the library, unless it says so itself.
fn with_library(filter: &str) -> String {
    if filter.contains(LIBRARY) {
        return filter.to_owned();
    }
    format!("{LIBRARY}=error,{LIBRARY_REPEATS}=off,{filter}")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `--log info` took the place of the default filter, and two peers that did not run gave 240
    /// warnings a second.
    #[test]
    fn a_filter_that_does_not_name_the_library_logs_only_its_errors() {
        for (filter, whole) in [
            ("info", "openraft=error,openraft::raft::api::management=off,info"),
            (
                "debug,zoolet_server::peer=trace",
                "openraft=error,openraft::raft::api::management=off,debug,zoolet_server::peer=trace",
            ),
            ("info,openraft=debug", "info,openraft=debug"),
        ] {
            assert_eq!(with_library(filter), whole);
            EnvFilter::try_new(whole).unwrap();
        }
    }

    /// `--log inof` logged nothing at all: it was the name of a part of the program.
    #[test]
    fn a_word_that_names_no_level_is_refused() {
        for filter in
            ["off", "WARN", "info, zoolet_server=debug", "zoolet_server[span{a=1}]=trace,warn", ""]
        {
            parse(filter, "--log").unwrap();
        }
        for filter in ["inof", "info,zoolet_server", "debug ,trce,zoolet=info"] {
            let why = parse(filter, "RUST_LOG").unwrap_err().to_string();
            assert!(why.starts_with("RUST_LOG: invalid log level `"), "{why}");
        }
        let why = parse("zoolet=inof", "--log").unwrap_err().to_string();
        assert!(why.starts_with("--log: "), "{why}");
    }
}
