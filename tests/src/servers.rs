//! Server processes on one machine that are configured by `zoo.cfg`: one server or an ensemble.
//!
//! Apache ZooKeeper and zoolet read the same file and differ in the command alone, see
//! [`ServersBuilder`](crate::builder::ServersBuilder). Servers are counted from 0; `myid` is one more. Their data lies
//! in a temporary directory; all of it goes when the [`Servers`] are dropped, or with the next start
//! of servers if the test was killed.

use std::ffi::OsString;
use std::fmt::Write as _;
use std::fs::{self, File};
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};
use std::{env, process};

use thiserror::Error;

use crate::builder::Kind;
use crate::four_letter;
use crate::ports::{PortError, PortLease};
use crate::process::{ServerProcess, is_alive};
use crate::tools::ToolError;
use crate::wait;

/// How long a server may take until it serves. A JVM starts within a second or two; an election
/// among three of them on two busy cores may take several more.
const START_MAX: Duration = Duration::from_secs(90);

/// How long a line of the log may be on its way.
const LOG_MAX: Duration = Duration::from_secs(20);
/// How long an ensemble may take to have a leader that says so, on a busy machine.
pub const LEADER_MAX: Duration = Duration::from_mins(1);
/// How often the process of a starting server is looked at.
const LOOK_AGAIN: Duration = Duration::from_millis(200);
/// Ports of one server: clients, quorum, election.
const PORTS_PER_SERVER: usize = 3;

/// For the superuser's password `test`.
pub const SUPER_DIGEST: &str = "super:D/InIHSb7yEEbrWz8b9l71RjZJU=";

/// Why servers do not run.
#[derive(Debug, Error)]
pub enum ServersError {
    #[error(transparent)]
    Tool(#[from] ToolError),
    #[error(transparent)]
    Ports(#[from] PortError),
    #[error("servers: {0}")]
    Io(#[from] io::Error),
    #[error("server {0} is not running")]
    NoServer(usize),
    #[error("no server says that it leads, after {0:?}")]
    NoLeader(Duration),
    #[error("server {server} does not serve; it wrote:\n{output}")]
    NotServing { server: usize, output: String },
}

/// What the servers of an ensemble have in common.
#[derive(Debug, Clone)]
pub(crate) struct Layout {
    /// Whose servers they are.
    pub(crate) kind: Kind,
    /// The command of one server, up to the path of its `zoo.cfg`, which comes last.
    pub(crate) command: Vec<OsString>,
    /// How many servers vote; one server alone is standalone.
    pub(crate) voters: usize,
    /// How many observers stand beside them.
    pub(crate) observers: usize,
    /// Lines of `zoo.cfg` after the harness' own; the last line of a key wins.
    pub(crate) lines: Vec<String>,
}

/// Running servers.
#[derive(Debug)]
pub struct Servers {
    processes: Vec<Option<ServerProcess>>,
    directory: PathBuf,
    lease: PortLease,
    layout: Layout,
}

impl Servers {
    /// Starts the servers and waits until each of them serves.
    pub(crate) fn start(layout: Layout) -> Result<Self, ServersError> {
        let count = (layout.voters + layout.observers).max(1);
        let lease = PortLease::take(count * PORTS_PER_SERVER)?;
        let directory = fresh_directory(&env::temp_dir(), layout.kind.name())?;
        let processes = (0..count).map(|_| None).collect();
        let mut servers = Self { processes, directory, lease, layout };
        servers.write_configs()?;
        for index in 0..count {
            servers.spawn(index)?;
        }
        for index in 0..count {
            servers.wait_until_serving(index)?;
        }
        Ok(servers)
    }

    /// Whose servers they are.
    pub fn kind(&self) -> Kind {
        self.layout.kind
    }

    /// `127.0.0.1:PORT,…` of all servers, running or not.
    pub fn connect_string(&self) -> String {
        let servers: Vec<String> =
            self.client_ports().iter().map(|port| format!("127.0.0.1:{port}")).collect();
        servers.join(",")
    }

    pub fn client_ports(&self) -> Vec<u16> {
        self.lease.ports().iter().step_by(PORTS_PER_SERVER).copied().collect()
    }

    pub fn client_address(&self, index: usize) -> Result<SocketAddr, ServersError> {
        let port = self.client_ports().get(index).copied().ok_or(ServersError::NoServer(index))?;
        Ok(SocketAddr::from((Ipv4Addr::LOCALHOST, port)))
    }

    /// The process of a running server.
    pub fn pid(&self, index: usize) -> Option<u32> {
        self.processes.get(index).and_then(Option::as_ref).map(ServerProcess::pid)
    }

    /// The running server that `srvr` calls the leader.
    pub fn leader(&self) -> Option<usize> {
        (0..self.processes.len()).find(|index| {
            let mode = self.client_address(*index).ok().and_then(four_letter::mode);
            mode.as_deref() == Some("leader")
        })
    }

    /// The running server that leads, as soon as one says so: in an election none does.
    pub fn wait_for_leader(&self, limit: Duration) -> Result<usize, ServersError> {
        wait::until(limit, || self.leader()).ok_or(ServersError::NoLeader(limit))
    }

    /// `kill -9` of one server. Its data and its ports stay for [`Servers::restart`].
    pub fn kill(&mut self, index: usize) -> Result<(), ServersError> {
        let process = self.processes.get_mut(index).ok_or(ServersError::NoServer(index))?;
        if let Some(mut process) = process.take() {
            process.kill()?;
        }
        Ok(())
    }

    /// Starts a killed server again on its data and waits until it serves. A server that runs is
    /// killed first.
    pub fn restart(&mut self, index: usize) -> Result<(), ServersError> {
        self.kill(index)?;
        self.spawn(index)?;
        self.wait_until_serving(index)
    }

    /// Starts a killed server again and does not wait: for ensembles that have lost their majority.
    pub fn spawn(&mut self, index: usize) -> Result<(), ServersError> {
        let directory = self.server_dir(index);
        let output = File::options().create(true).append(true).open(directory.join("output"))?;
        let errors = output.try_clone()?;
        let mut words = self.layout.command.iter();
        let mut command = Command::new(words.next().ok_or(ServersError::NoServer(index))?);
        command
            .args(words)
            .arg(directory.join("zoo.cfg"))
            .current_dir(&directory)
            .stdout(output)
            .stderr(errors);
        let process = ServerProcess::spawn(&mut command)?;
        let slot = self.processes.get_mut(index).ok_or(ServersError::NoServer(index))?;
        *slot = Some(process);
        Ok(())
    }

    /// Waits until a server answers `srvr` with its mode. A server that ends first is an error.
    #[allow(clippy::disallowed_methods, reason = "the harness waits for a real process")]
    pub fn wait_until_serving(&mut self, index: usize) -> Result<(), ServersError> {
        let address = self.client_address(index)?;
        let start = Instant::now();
        while start.elapsed() < START_MAX {
            if four_letter::wait_until_serving(address, LOOK_AGAIN) {
                return Ok(());
            }
            let process = self.processes.get_mut(index).and_then(Option::as_mut);
            if process.ok_or(ServersError::NoServer(index))?.exited()?.is_some() {
                break;
            }
        }
        Err(ServersError::NotServing { server: index, output: self.output(index)? })
    }

    /// Sends a signal to one server, `STOP` and `CONT` for a pause.
    pub fn signal(&self, index: usize, name: &str) -> Result<(), ServersError> {
        let process = self.processes.get(index).and_then(Option::as_ref);
        Ok(process.ok_or(ServersError::NoServer(index))?.signal(name)?)
    }

    /// Where a server has its configuration, its data and its `output` file.
    pub fn server_dir(&self, index: usize) -> PathBuf {
        self.directory.join(format!("server-{}", index + 1))
    }

    /// What a server wrote to its stdout and stderr since its first start.
    pub fn output(&self, index: usize) -> io::Result<String> {
        fs::read_to_string(self.server_dir(index).join("output"))
    }

    /// Waits until all of `texts` are in the `output` of a server: another thread writes the log, so a
    /// line may be late. An error has the output.
    pub fn until_logged(&self, index: usize, texts: &[&str]) -> Result<(), String> {
        let is_there = || {
            let output = self.output(index).ok()?;
            texts.iter().all(|text| output.contains(text)).then_some(())
        };
        let missing = || format!("{texts:?} is not all in {:?}", self.output(index));
        wait::until(LOG_MAX, is_there).ok_or_else(missing)
    }

    fn write_configs(&self) -> io::Result<()> {
        let count = self.processes.len();
        let mut members = String::new();
        for (index, ports) in self.lease.ports().chunks_exact(PORTS_PER_SERVER).enumerate() {
            if let [client, quorum, election] = ports {
                let role = if self.observes(index) { "observer" } else { "participant" };
                let id = index + 1;
                let _ = writeln!(
                    members,
                    "server.{id}=127.0.0.1:{quorum}:{election}:{role};127.0.0.1:{client}"
                );
            }
        }
        for (index, port) in self.client_ports().into_iter().enumerate() {
            let directory = self.server_dir(index);
            let data = directory.join("data");
            fs::create_dir_all(&data)?;
            fs::write(data.join("myid"), format!("{}\n", index + 1))?;
            let mut config = base_config(&data);
            if count == 1 {
                let _ = writeln!(config, "clientPort={port}\nclientPortAddress=127.0.0.1");
            } else {
                config.push_str(&members);
            }
            if self.observes(index) {
                config.push_str("peerType=observer\n");
            }
            for line in &self.layout.lines {
                let _ = writeln!(config, "{line}");
            }
            fs::write(directory.join("zoo.cfg"), config)?;
        }
        Ok(())
    }

    fn observes(&self, index: usize) -> bool {
        index >= self.layout.voters.max(1)
    }
}

impl Drop for Servers {
    fn drop(&mut self) {
        self.processes.clear();
        // A directory that cannot be removed is left to the system's own cleaning.
        let _ = fs::remove_dir_all(&self.directory);
    }
}

/// The configuration of every server. The log files are preallocated in steps of 1 MiB rather than 64.
fn base_config(data: &Path) -> String {
    format!(
        "tickTime=500\ninitLimit=40\nsyncLimit=20\ndataDir={}\n4lw.commands.whitelist=*\n\
         admin.enableServer=false\nmaxClientCnxns=0\nextendedTypesEnabled=true\n\
         preAllocSize=1024\n",
        data.display()
    )
}

/// A new directory for one ensemble: `zoolet-NAME-PID-NUMBER`, with the process of the test.
fn fresh_directory(root: &Path, name: &str) -> io::Result<PathBuf> {
    sweep(root)?;
    for number in 0..u32::MAX {
        let directory = root.join(format!("zoolet-{name}-{}-{number}", process::id()));
        match fs::create_dir(&directory) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            other => return other.map(|()| directory),
        }
    }
    Err(io::Error::from(io::ErrorKind::AlreadyExists))
}

/// Removes the directories of tests that were killed: they could not do it themselves.
fn sweep(root: &Path) -> io::Result<()> {
    for entry in fs::read_dir(root)? {
        // What goes meanwhile need not be removed.
        let Ok(entry) = entry else { continue };
        let owner = entry.file_name().to_str().and_then(owner_of);
        if owner.is_some_and(|owner| !is_alive(owner)) {
            // Another test may be removing it.
            let _ = fs::remove_dir_all(entry.path());
        }
    }
    Ok(())
}

/// The process in the name of a directory of [`fresh_directory`].
fn owner_of(name: &str) -> Option<u32> {
    let mut parts = name.strip_prefix("zoolet-")?.split('-');
    let (Some("apache" | "zoolet"), Some(owner), Some(number), None) =
        (parts.next(), parts.next(), parts.next(), parts.next())
    else {
        return None;
    };
    number.parse::<u32>().ok().and(owner.parse().ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A suite that ran too long was killed, and left the data of its servers.
    #[test]
    fn the_directories_of_a_killed_test_are_removed_by_the_next_one() {
        let root = tempfile::tempdir().unwrap();
        let mut ended = Command::new("true").spawn().unwrap();
        ended.wait().unwrap();
        let directory = |name: &str| {
            let directory = root.path().join(name);
            fs::create_dir_all(directory.join("server-1/data")).unwrap();
            directory
        };
        let left = directory(&format!("zoolet-apache-{}-3", ended.id()));
        let kept = [
            directory(&format!("zoolet-zoolet-{}-0", process::id())),
            directory("zoolet-ports"),
            directory(&format!("other-apache-{}-3", ended.id())),
            directory(&format!("zoolet-backup-{}-3", ended.id())),
            directory(&format!("zoolet-backup-zoolet-{}-3", ended.id())),
        ];
        let fresh = fresh_directory(root.path(), "zoolet").unwrap();
        assert!(!left.exists());
        assert!(fresh.exists());
        assert!(kept.iter().all(|directory| directory.exists()), "{kept:?}");
    }
}
