//! Structured logs, on standard error or in a file.

use std::fs::File;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use thiserror::Error;
use tracing_subscriber::EnvFilter;
use tracing_subscriber::filter::{LevelFilter, ParseError};
use tracing_subscriber::fmt::writer::BoxMakeWriter;

use crate::cli::LogFormat;

/// What is logged by default.
const FILTER_DEFAULT: &str = "info";

/// What `zoolet up` and its servers log by default: what a person should do something about.
const FILTER_QUIET: &str = "warn";

/// Goes in front of every filter that does not name the library. A heartbeat that does not get
/// through is a warning there, for each peer and ten times a second; `peer` reports it once.
const LIBRARY: &str = "openraft";

/// Where the log goes, and in which form.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct LogOutput {
    pub(crate) format: LogFormat,
    /// Standard error without it.
    pub(crate) file: Option<PathBuf>,
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
}

/// Returns the filter that was chosen, or else a quiet one; none if `RUST_LOG` has one, which servers
/// that are started read too.
pub(crate) fn chosen_or_quiet(filter: Option<String>) -> Option<String> {
    filter.or_else(|| variable().is_none().then(|| FILTER_QUIET.to_owned()))
}

fn variable() -> Option<String> {
    std::env::var("RUST_LOG").ok().filter(|filter| !filter.is_empty())
}

/// Starts the log; `filter` goes before `RUST_LOG`. Returns the file that it goes to, if it does.
pub(crate) fn start(
    filter: Option<&str>,
    output: &LogOutput,
) -> Result<Option<Arc<LogFile>>, LogError> {
    let variable = variable();
    let (wanted, by) = match (filter, variable.as_deref()) {
        (Some(filter), _) => (filter, "--log"),
        (None, Some(filter)) => (filter, "RUST_LOG"),
        (None, None) => (FILTER_DEFAULT, "the default filter"),
    };
    let filter = parse(wanted, by)?;
    let file = output.file.as_deref().map(LogFile::open).transpose()?;
    let writer = match &file {
        Some(file) => BoxMakeWriter::new(Arc::clone(file)),
        None => BoxMakeWriter::new(io::stderr),
    };
    let subscriber = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(writer)
        .with_ansi(false)
        .with_target(false);
    // Only a program that embeds this one can have set a subscriber before; it then rules.
    let _ = match output.format {
        LogFormat::Text => tracing::subscriber::set_global_default(subscriber.finish()),
        LogFormat::Json => {
            let subscriber = subscriber.json().flatten_event(true).with_target(true);
            tracing::subscriber::set_global_default(subscriber.finish())
        }
    };
    Ok(file)
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
    format!("{LIBRARY}=error,{filter}")
}

/// A log file that can be opened again after it was renamed.
#[derive(Debug)]
pub(crate) struct LogFile {
    path: PathBuf,
    file: Mutex<File>,
}

impl LogFile {
    fn open(path: &Path) -> Result<Arc<Self>, LogError> {
        let file =
            append_to(path).map_err(|source| LogError::Open { path: path.to_owned(), source })?;
        Ok(Arc::new(Self { path: path.to_owned(), file: Mutex::new(file) }))
    }

    /// Opens the file of the same name. If that fails, the log goes on in the old file.
    pub(crate) fn reopen(&self) -> io::Result<()> {
        let file = append_to(&self.path)?;
        *self.lock() = file;
        Ok(())
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    fn lock(&self) -> MutexGuard<'_, File> {
        self.file.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn append_to(path: &Path) -> io::Result<File> {
    File::options().create(true).append(true).open(path)
}

/// Each line is one write, so lines of several threads do not mix.
impl Write for &LogFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.lock().write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.lock().flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `--log info` took the place of the default filter, and two peers that did not run gave 240
    /// warnings a second.
    #[test]
    fn a_filter_that_does_not_name_the_library_logs_only_its_errors() {
        for (filter, whole) in [
            ("info", "openraft=error,info"),
            ("debug,zoolet_server::peer=trace", "openraft=error,debug,zoolet_server::peer=trace"),
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

    #[test]
    fn a_log_that_cannot_be_opened_again_goes_on_in_the_old_file() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("logs/zoolet.log");
        let parent = path.parent().unwrap();
        std::fs::create_dir(parent).unwrap();
        let log = LogFile::open(&path).unwrap();
        let away = directory.path().join("away");
        std::fs::rename(parent, &away).unwrap();
        assert!(log.reopen().is_err());
        (&*log).write_all(b"one\n").unwrap();
        std::fs::create_dir(parent).unwrap();
        log.reopen().unwrap();
        (&*log).write_all(b"two\n").unwrap();
        assert_eq!(std::fs::read_to_string(away.join("zoolet.log")).unwrap(), "one\n");
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "two\n");
    }
}
