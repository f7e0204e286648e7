//! `zoolet up`, as a process.

use std::fs;
use std::io::{self, BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};

use serde_json::Value;

use crate::process::signal;
use crate::tools::ToolError;
use crate::zoolet;

/// A running `zoolet up`; killed when it is dropped, and its servers end with it, because their
/// standard input does.
#[derive(Debug)]
pub struct Up {
    process: Child,
    /// What it printed when it was ready: a line for all, and one for each server.
    pub announced: Vec<String>,
}

/// What `up.json` says about a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Member {
    pub pid: u32,
    pub client_port: u16,
    pub peer_port: Option<u16>,
}

impl Up {
    /// Starts a [`command`] and waits until it is ready; fewer lines are announced when it ends
    /// before.
    pub fn spawn(command: &mut Command, servers: u16) -> io::Result<Self> {
        let mut process = command.stdout(Stdio::piped()).spawn()?;
        let output = process.stdout.take().ok_or(io::ErrorKind::BrokenPipe)?;
        let lines = BufReader::new(output).lines().take(1 + usize::from(servers));
        let announced = lines.collect::<io::Result<_>>()?;
        Ok(Self { process, announced })
    }

    pub fn pid(&self) -> u32 {
        self.process.id()
    }

    pub fn signal(&self, name: &str) -> io::Result<()> {
        signal(self.pid(), name)
    }

    /// Waits for its end.
    pub fn wait(mut self) -> io::Result<ExitStatus> {
        self.process.wait()
    }

    /// Stops it in good order.
    pub fn stop(self) -> io::Result<ExitStatus> {
        self.signal("TERM")?;
        self.wait()
    }
}

impl Drop for Up {
    fn drop(&mut self) {
        // It may have ended before.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// `zoolet up`, without options.
pub fn command() -> Result<Command, ToolError> {
    let mut command = Command::new(zoolet::binary()?);
    command.arg("up");
    Ok(command)
}

/// `zoolet up` with `servers` servers on client ports in a row.
pub fn on_ports(servers: u16, first_port: u16) -> Result<Command, ToolError> {
    let mut command = command()?;
    command.args(["--servers", &servers.to_string()]);
    command.args(["--client-port", &first_port.to_string()]);
    Ok(command)
}

/// The servers that a running `zoolet up` wrote down in its directory.
pub fn members(directory: &Path) -> io::Result<Vec<Member>> {
    let state: Value = serde_json::from_slice(&fs::read(directory.join("up.json"))?)?;
    let servers = state.get("servers").and_then(Value::as_array);
    let members = servers.into_iter().flatten().map(member).collect::<Option<_>>();
    members.ok_or_else(|| io::Error::other(format!("up.json: {state}")))
}

fn member(server: &Value) -> Option<Member> {
    let number = |key: &str| server.get(key).and_then(Value::as_u64);
    let port = |key: &str| number(key).and_then(|port| u16::try_from(port).ok());
    let pid = u32::try_from(number("pid")?).ok()?;
    Some(Member { pid, client_port: port("client_port")?, peer_port: port("peer_port") })
}
