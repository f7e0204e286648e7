//! kazoo's own test suite, run against servers of any command that serves a `zoo.cfg`.
//!
//! kazoo's package holds its tests; `interop/kazoo/zoolet_kazoo.py` puts our servers in the place
//! of those that kazoo would start. What passes on Apache ZooKeeper is written down in
//! `interop/kazoo/passes-on-apache.txt`, and that list is what zoolet is held to.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::{env, fs, io};

use thiserror::Error;

use crate::ports::{PortError, PortLease};
use crate::tools::{self, ToolError};

/// How many tests run at a time, each with an ensemble of its own.
const WORKERS: usize = 2;
/// Three servers with a client, a quorum and an election port.
const PORTS_PER_WORKER: usize = 9;
/// How long one test may take, in seconds. The longest takes 20 on Apache ZooKeeper.
const TEST_MAX_S: &str = "--timeout=120";

/// Why the suite gave no outcomes.
#[derive(Debug, Error)]
pub enum KazooError {
    #[error(transparent)]
    Tool(#[from] ToolError),
    #[error(transparent)]
    Ports(#[from] PortError),
    #[error("kazoo's suite: {0}")]
    Io(#[from] io::Error),
    #[error("a command that is not UTF-8: {0:?}")]
    Command(OsString),
    #[error("kazoo's suite wrote no outcomes; it said:\n{0}")]
    NoOutcomes(String),
}

/// What became of every test: its name and `passed`, `failed` or `skipped`.
#[derive(Debug)]
pub struct Outcomes {
    pub by_name: BTreeMap<String, String>,
    /// What pytest printed, with the reasons of failures.
    pub said: String,
}

impl Outcomes {
    pub fn passed(&self, name: &str) -> bool {
        self.by_name.get(name).is_some_and(|outcome| outcome == "passed")
    }
}

/// Runs the whole suite; `command` starts one server and gets the path of its `zoo.cfg` last.
/// `name` tells the outcome files of several runs apart.
pub fn run_suite(name: &str, command: &[OsString]) -> Result<Outcomes, KazooError> {
    let python = python()?;
    let lease = PortLease::take(WORKERS * PORTS_PER_WORKER)?;
    let ports: Vec<String> = lease.ports().iter().map(u16::to_string).collect();
    let directory = tools::cache_dir().join("kazoo-runs");
    fs::create_dir_all(&directory)?;
    let results = directory.join(format!("{name}.tsv"));
    match fs::remove_file(&results) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error.into()),
        _ => {}
    }
    let output = Command::new(python)
        .args(["-m", "pytest", "--pyargs", "kazoo.tests", "-p", "zoolet_kazoo"])
        .args(["-p", "no:cacheprovider", "-q", "-rf", "--tb=short", "--show-capture=no"])
        .args(["-n", &WORKERS.to_string(), "--dist", "loadscope", TEST_MAX_S])
        .current_dir(&directory)
        .env("PYTHONPATH", tools::interop_dir("kazoo"))
        .env("PYTHONDONTWRITEBYTECODE", "1")
        // In CI kazoo's tests take the version from the environment instead of asking the server.
        .env_remove("CI")
        .env("ZOOKEEPER_VERSION", "3.9")
        .env("ZOOLET_KAZOO_COMMAND", json_list(command)?)
        .env("ZOOLET_KAZOO_PORTS", ports.join(","))
        .env("ZOOLET_KAZOO_RESULTS", &results)
        .stdin(Stdio::null())
        .output()?;
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    let by_name = read_outcomes(&results);
    if by_name.is_empty() {
        let errors = String::from_utf8_lossy(&output.stderr);
        return Err(KazooError::NoOutcomes(format!("{said}{errors}")));
    }
    Ok(Outcomes { by_name, said })
}

/// The outcomes of a run, empty when there was none.
fn read_outcomes(file: &Path) -> BTreeMap<String, String> {
    let text = fs::read_to_string(file).unwrap_or_default();
    let row = |line: &str| {
        let mut columns = line.split('\t');
        let (outcome, _seconds, name) = (columns.next()?, columns.next()?, columns.next()?);
        Some((name.to_owned(), outcome.to_owned()))
    };
    text.lines().filter_map(row).collect()
}

/// The tests that pass on Apache ZooKeeper.
pub fn passes_on_apache() -> io::Result<Vec<String>> {
    let text = fs::read_to_string(reference_file())?;
    Ok(text.lines().map(str::to_owned).collect())
}

pub fn reference_file() -> PathBuf {
    tools::interop_dir("kazoo").join("passes-on-apache.txt")
}

/// The command as the plugin reads it.
fn json_list(command: &[OsString]) -> Result<String, KazooError> {
    let mut words = Vec::new();
    for word in command {
        let text = word.to_str().ok_or_else(|| KazooError::Command(word.clone()))?;
        words.push(format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\"")));
    }
    words.push("\"{config}\"".to_owned());
    Ok(format!("[{}]", words.join(",")))
}

/// The Python that has kazoo and pytest, in an environment of its own.
pub fn python() -> Result<PathBuf, ToolError> {
    python_with("kazoo", "kazoo")
}

/// The Python whose kazoo can log in by SASL. Its suite would ask for servers with logins.
pub fn python_with_sasl() -> Result<PathBuf, ToolError> {
    python_with("kazoo-sasl", "sasl")
}

/// The Python that has the packages which a directory of `interop` names.
fn python_with(name: &str, interop: &str) -> Result<PathBuf, ToolError> {
    let requirements = tools::interop_dir(interop).join("requirements.txt");
    let directory = tools::prepare_once(name, &[requirements], |directory| {
        let system = env::var("PYTHON").unwrap_or_else(|_| "python3".to_owned());
        tools::run(Command::new(system).args(["-m", "venv", "venv"]).current_dir(directory))?;
        tools::run(
            Command::new("venv/bin/python")
                .args(["-m", "pip", "install", "-q", "-r", "requirements.txt"])
                .current_dir(directory),
        )
    })?;
    Ok(directory.join("venv/bin/python"))
}
