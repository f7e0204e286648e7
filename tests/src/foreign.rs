//! The protocol between a foreign test program and the harness, the same for every language.
//!
//! The program finds the servers in the environment variable `ZK_CONNECT`, does its checks, and
//! talks with the harness in lines on stdout and stdin:
//!
//! ```text
//! program                        harness
//! LOSE SERVER [host:port]   →                    kill -9 the server I am connected to
//!                           ←   LOST host:port   it is dead
//! BRING BACK                →                    start it again
//!                           ←   BACK             it serves
//! OK <n> checks             →                    the last line; the exit code is 0
//! ```
//!
//! `LOSE SERVER` without an address kills the leader. Every other line is the program's own talk
//! and is kept for the error message.

use std::error::Error;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, ToSocketAddrs};
use std::os::unix::process::CommandExt;
use std::process::{Child, ChildStdin, Command, ExitStatus, Stdio};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use thiserror::Error;

use crate::four_letter;
use crate::servers::Servers;

/// How long one program may run unless its suite says otherwise.
const PROGRAM_MAX: Duration = Duration::from_mins(4);
/// How long the exit may take after the program closed its stdout.
const EXIT_MAX: Duration = Duration::from_secs(30);

/// Any error inside of an ensemble.
pub type EnsembleError = Box<dyn Error + Send + Sync>;

/// Servers that a foreign program is run against.
pub trait Ensemble {
    /// `host:port,…` of all servers.
    fn connect_string(&self) -> String;
    /// `kill -9` of the server whose client port is that of `address`.
    fn kill_server(&mut self, address: &str) -> Result<(), EnsembleError>;
    /// Starts it again and waits until it serves.
    fn restart_server(&mut self, address: &str) -> Result<(), EnsembleError>;
}

impl Ensemble for Servers {
    fn connect_string(&self) -> String {
        Servers::connect_string(self)
    }

    fn kill_server(&mut self, address: &str) -> Result<(), EnsembleError> {
        let index = index_of(&self.client_ports(), address)?;
        Ok(self.kill(index)?)
    }

    fn restart_server(&mut self, address: &str) -> Result<(), EnsembleError> {
        let index = index_of(&self.client_ports(), address)?;
        Ok(self.restart(index)?)
    }
}

/// Finds a server by the port of an address: programs spell the host in their own ways.
pub fn index_of(client_ports: &[u16], address: &str) -> Result<usize, EnsembleError> {
    let port = address.rsplit_once(':').and_then(|(_, port)| port.trim().parse::<u16>().ok());
    let index = port.and_then(|port| client_ports.iter().position(|known| *known == port));
    index.ok_or_else(|| format!("no server has the address {address}").into())
}

/// What a program that ended well did.
#[derive(Debug)]
pub struct Report {
    /// The number in `OK <n> checks`.
    pub checks: u64,
    /// How often the program asked for the loss of a server.
    pub losses: u32,
}

/// Why a program did not end well. Every variant carries what the program had said.
#[derive(Debug, Error)]
pub enum ForeignError {
    #[error("{program} does not start: {source}")]
    Start { program: String, source: io::Error },
    #[error("{program}: the harness could not do \"{request}\": {source}\n{said}")]
    Ensemble { program: String, request: String, source: EnsembleError, said: String },
    #[error("{program} still runs after {limit:?}\n{said}")]
    TooLong { program: String, limit: Duration, said: String },
    #[error("{program} ended with {status}\n{said}")]
    Exit { program: String, status: ExitStatus, said: String },
    #[error("{program} did not end with the line \"OK <n> checks\"\n{said}")]
    NoVerdict { program: String, said: String },
    #[error("{program}: {source}\n{said}")]
    Io { program: String, source: io::Error, said: String },
}

/// Runs a foreign program against an ensemble, within four minutes.
pub fn run_program(
    command: &mut Command,
    ensemble: &mut dyn Ensemble,
) -> Result<Report, ForeignError> {
    run_program_within(command, ensemble, PROGRAM_MAX)
}

/// Runs a foreign program against an ensemble, within `limit`.
pub fn run_program_within(
    command: &mut Command,
    ensemble: &mut dyn Ensemble,
    limit: Duration,
) -> Result<Report, ForeignError> {
    let mut program = Program::start(command, &ensemble.connect_string(), limit)?;
    let mut lost: Option<String> = None;
    let mut losses = 0;
    let mut last = String::new();
    while let Some(line) = program.next_line()? {
        if let Some(named) = line.strip_prefix("LOSE SERVER") {
            let address = address_to_lose(named, &ensemble.connect_string())
                .and_then(|address| ensemble.kill_server(&address).map(|()| address))
                .map_err(|source| program.ensemble_error(&line, source))?;
            losses += 1;
            program.send(&format!("LOST {address}"))?;
            lost = Some(address);
        } else if line == "BRING BACK" {
            let address = lost.take().ok_or_else(|| EnsembleError::from("no server is lost"));
            address
                .and_then(|address| ensemble.restart_server(&address))
                .map_err(|source| program.ensemble_error(&line, source))?;
            program.send("BACK")?;
        }
        last = line;
    }
    let checks = program.verdict(&last)?;
    Ok(Report { checks, losses })
}

/// The address that the program named, or else the leader's.
fn address_to_lose(named: &str, connect_string: &str) -> Result<String, EnsembleError> {
    let named = named.trim();
    if !named.is_empty() {
        return Ok(named.to_owned());
    }
    let leads = |address: &&str| {
        let resolved: Option<SocketAddr> =
            address.to_socket_addrs().ok().and_then(|mut all| all.next());
        resolved.and_then(four_letter::mode).as_deref() == Some("leader")
    };
    let leader = connect_string.split(',').find(leads);
    leader.map(str::to_owned).ok_or_else(|| "no server says that it leads".into())
}

/// A running program, its lines and what it said so far.
struct Program {
    name: String,
    child: Child,
    stdin: Option<ChildStdin>,
    lines: Receiver<String>,
    errors: Option<JoinHandle<String>>,
    said: String,
    deadline: Instant,
    limit: Duration,
}

impl Program {
    #[allow(clippy::disallowed_methods, reason = "a deadline for a real process")]
    fn start(command: &mut Command, connect: &str, limit: Duration) -> Result<Self, ForeignError> {
        let name = format!("{command:?}");
        let spawned = command
            .env("ZK_CONNECT", connect)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            // A group of its own, so that a program started through a shell or a build tool can be
            // ended with everything it started.
            .process_group(0)
            .spawn();
        let mut child =
            spawned.map_err(|source| ForeignError::Start { program: name.clone(), source })?;
        let stdin = child.stdin.take();
        let (sender, lines) = mpsc::channel();
        if let Some(stdout) = child.stdout.take() {
            thread::spawn(move || {
                for line in BufReader::new(stdout).lines().map_while(Result::ok) {
                    if sender.send(line.trim_end().to_owned()).is_err() {
                        break;
                    }
                }
            });
        }
        let errors = child.stderr.take().map(|mut stderr| {
            thread::spawn(move || {
                let mut bytes = Vec::new();
                // What was read before an error is still worth showing.
                let _ = stderr.read_to_end(&mut bytes);
                String::from_utf8_lossy(&bytes).into_owned()
            })
        });
        let deadline = Instant::now() + limit;
        Ok(Self { name, child, stdin, lines, errors, said: String::new(), deadline, limit })
    }

    /// The next line of stdout; `None` when the program closed it.
    #[allow(clippy::disallowed_methods, reason = "a deadline for a real process")]
    fn next_line(&mut self) -> Result<Option<String>, ForeignError> {
        let left = self.deadline.saturating_duration_since(Instant::now());
        match self.lines.recv_timeout(left) {
            Ok(line) => {
                self.said.push_str(&line);
                self.said.push('\n');
                Ok(Some(line))
            }
            Err(RecvTimeoutError::Disconnected) => Ok(None),
            Err(RecvTimeoutError::Timeout) => Err(ForeignError::TooLong {
                program: self.name.clone(),
                limit: self.limit,
                said: self.everything_said(),
            }),
        }
    }

    fn send(&mut self, line: &str) -> Result<(), ForeignError> {
        let Some(stdin) = self.stdin.as_mut() else { return Ok(()) };
        let written = stdin.write_all(format!("{line}\n").as_bytes()).and_then(|()| stdin.flush());
        written.map_err(|source| ForeignError::Io {
            program: self.name.clone(),
            source,
            said: self.everything_said(),
        })
    }

    /// Waits for the exit and judges it and the last line.
    fn verdict(&mut self, last: &str) -> Result<u64, ForeignError> {
        let status = self.exit_status().map_err(|source| ForeignError::Io {
            program: self.name.clone(),
            source,
            said: self.everything_said(),
        })?;
        let (program, said) = (self.name.clone(), self.everything_said());
        if !status.success() {
            return Err(ForeignError::Exit { program, status, said });
        }
        let checks = last.strip_prefix("OK ").and_then(|rest| rest.strip_suffix(" checks"));
        match checks.and_then(|number| number.parse().ok()) {
            Some(checks) if checks > 0 => Ok(checks),
            _ => Err(ForeignError::NoVerdict { program, said }),
        }
    }

    #[allow(clippy::disallowed_methods, reason = "a deadline for a real process")]
    fn exit_status(&mut self) -> io::Result<ExitStatus> {
        let start = Instant::now();
        while start.elapsed() < EXIT_MAX {
            if let Some(status) = self.child.try_wait()? {
                return Ok(status);
            }
            thread::sleep(Duration::from_millis(10));
        }
        Err(io::Error::new(io::ErrorKind::TimedOut, "closed its stdout and did not exit"))
    }

    fn ensemble_error(&mut self, request: &str, source: EnsembleError) -> ForeignError {
        ForeignError::Ensemble {
            program: self.name.clone(),
            request: request.to_owned(),
            source,
            said: self.everything_said(),
        }
    }

    /// Ends the program, so that its stderr ends, and gives all of its output.
    fn everything_said(&mut self) -> String {
        self.kill_group();
        let errors = self.errors.take().and_then(|thread| thread.join().ok()).unwrap_or_default();
        format!("--- stdout\n{}--- stderr\n{errors}---", self.said)
    }

    /// Kills the program and everything in its process group.
    fn kill_group(&mut self) {
        if !matches!(self.child.try_wait(), Ok(Some(_))) || self.errors.is_some() {
            let script = format!("kill -9 -{}", self.child.id());
            // The group may be gone by itself, and the shell says so on a stderr that is dropped.
            let _ = Command::new("sh").args(["-c", &script]).stderr(Stdio::null()).status();
        }
        let _ = self.child.wait();
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        self.kill_group();
    }
}
