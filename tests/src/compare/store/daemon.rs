//! One server process of a store, with its directory, its port and its output.

use std::ffi::OsString;
use std::fs::{self, File};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use super::super::error::CompareError;
use crate::process::ServerProcess;
use crate::tools;
use crate::wait;

/// How long a server may take to start, on a busy machine.
const START_MAX: Duration = Duration::from_mins(1);
const CONNECT_MAX: Duration = Duration::from_secs(1);
/// How long a server may take to stop by itself, on a busy machine.
const STOP_MAX: Duration = Duration::from_secs(10);
/// The clock of a server, in its directory.
const CLOCK: &str = "clock";

#[derive(Debug)]
pub(super) struct Daemon {
    pub(super) store: &'static str,
    pub(super) directory: PathBuf,
    pub(super) port: u16,
    pub(super) command: Vec<OsString>,
    pub(super) clock: Option<PathBuf>,
    process: Option<ServerProcess>,
    /// The length of its output before its latest start.
    output_before: usize,
}

impl Daemon {
    /// A server that does not run yet; its directory is there.
    pub(super) fn new(
        store: &'static str,
        directory: PathBuf,
        port: u16,
        command: Vec<OsString>,
    ) -> Self {
        Self { store, directory, port, command, clock: None, process: None, output_before: 0 }
    }

    pub(super) fn address(&self) -> SocketAddr {
        SocketAddr::from((Ipv4Addr::LOCALHOST, self.port))
    }

    pub(super) fn pid(&self) -> Option<u32> {
        self.process.as_ref().map(ServerProcess::pid)
    }

    pub(super) fn spawn(&mut self) -> Result<(), CompareError> {
        let path = self.directory.join("output");
        self.output_before = fs::read(&path).map_or(0, |output| output.len());
        let output = File::options().create(true).append(true).open(&path);
        let output = output.map_err(CompareError::file(&path))?;
        let mut words = self.command.iter();
        let program = words.next().ok_or_else(|| self.error("no command"))?;
        let mut command = Command::new(program);
        command.args(words).current_dir(&self.directory);
        command.stdout(output.try_clone()?).stderr(output);
        if let Some(library) = &self.clock {
            command.env("LD_PRELOAD", library).env("WRONG_CLOCK_FILE", self.directory.join(CLOCK));
        }
        self.process = Some(ServerProcess::spawn(&mut command)?);
        Ok(())
    }

    /// Waits until the server serves, by a look of the store's own.
    pub(super) fn wait_until(
        &mut self,
        serves: impl Fn(&Self) -> bool,
    ) -> Result<(), CompareError> {
        let mut ended = false;
        let serving = wait::until(START_MAX, || {
            if self.process.as_mut().is_none_or(|it| !matches!(it.exited(), Ok(None))) {
                ended = true;
                return Some(());
            }
            (TcpStream::connect_timeout(&self.address(), CONNECT_MAX).is_ok() && serves(self))
                .then_some(())
        });
        if serving.is_some() && !ended {
            return Ok(());
        }
        let output = fs::read(self.directory.join("output")).unwrap_or_default();
        let output = output.get(self.output_before..).unwrap_or_default();
        let output = String::from_utf8_lossy(output);
        let last: Vec<&str> = output.lines().rev().take(10).collect();
        let last: Vec<&str> = last.into_iter().rev().collect();
        Err(self.error(format!("the server does not serve; it wrote:\n{}", last.join("\n"))))
    }

    pub(super) fn kill(&mut self) -> Result<(), CompareError> {
        if let Some(mut process) = self.process.take() {
            process.kill()?;
        }
        Ok(())
    }

    /// Ends the server by a signal on which it removes what it keeps outside of its directory. One
    /// that has not ended in time is killed.
    pub(super) fn stop(&mut self, signal: &str) {
        let Some(mut process) = self.process.take() else { return };
        if process.signal(signal).is_ok() {
            // The server is killed by the end of `process`, if it still runs.
            let _ = wait::until(STOP_MAX, || process.exited().ok().flatten());
        }
    }

    pub(super) fn jump(&self, ahead_ms: u64) -> Result<(), CompareError> {
        let path = self.directory.join(CLOCK);
        fs::write(&path, ahead_ms.to_string()).map_err(CompareError::file(&path))
    }

    pub(super) fn error(&self, what: impl std::fmt::Display) -> CompareError {
        CompareError::store(self.store, what)
    }
}

/// Finds a server's program: Debian keeps some out of the `PATH`.
pub(in super::super) fn find(program: &str) -> Option<PathBuf> {
    tools::find_program(program).or_else(|| {
        let versions = fs::read_dir("/usr/lib/postgresql").ok()?;
        let mut found: Vec<PathBuf> = versions
            .flatten()
            .map(|version| version.path().join("bin").join(program))
            .chain([Path::new("/usr/sbin").join(program)])
            .filter(|path| path.is_file())
            .collect();
        found.sort();
        found.pop()
    })
}

/// Runs a store's own client to its end, and returns what it prints.
pub(super) fn output(store: &'static str, command: &mut Command) -> Result<String, CompareError> {
    let output = command.stdin(Stdio::null()).output();
    let output =
        output.map_err(|error| CompareError::store(store, format!("{command:?}: {error}")))?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    let why = String::from_utf8_lossy(&output.stderr).into_owned();
    Err(CompareError::store(store, format!("{command:?}: {why}")))
}
