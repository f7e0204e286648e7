//! A real Apache ZooKeeper, one server or an ensemble: the oracle that zoolet is compared with.
//!
//! The jars are resolved once with Maven, at the version that `interop/apache/pom.xml` pins. The
//! servers are processes on loopback ports with data in a temporary directory; all of it goes when
//! the [`Apache`] is dropped.

use std::ffi::OsString;
use std::fmt::Write as _;
use std::fs::{self, File};
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;
use std::{env, process};

use thiserror::Error;

use crate::four_letter;
use crate::ports::{PortError, PortLease};
use crate::process::ServerProcess;
use crate::tools::{self, ToolError};

/// How long an ensemble may take until every server serves. A JVM starts within a second or two;
/// an election among three of them on two busy cores may take several more.
const START_MAX: Duration = Duration::from_secs(90);
/// Ports of one server: clients, quorum, election.
const PORTS_PER_SERVER: usize = 3;

/// Why an Apache ZooKeeper does not run.
#[derive(Debug, Error)]
pub enum ApacheError {
    #[error(transparent)]
    Tool(#[from] ToolError),
    #[error(transparent)]
    Ports(#[from] PortError),
    #[error("apache zookeeper: {0}")]
    Io(#[from] io::Error),
    #[error("apache zookeeper has no server {0}")]
    NoServer(usize),
    #[error("apache zookeeper server {server} does not serve; it wrote:\n{output}")]
    NotServing { server: usize, output: String },
}

/// What to start; see [`Apache::builder`].
#[derive(Debug, Clone)]
pub struct ApacheBuilder {
    servers: usize,
    observers: usize,
    lines: Vec<String>,
    jvm_options: Vec<String>,
}

impl ApacheBuilder {
    /// The number of voting servers; one is a standalone server. Default 1.
    pub fn servers(mut self, servers: usize) -> Self {
        self.servers = servers;
        self
    }

    /// How many observers stand beside the voters. Default 0.
    pub fn observers(mut self, observers: usize) -> Self {
        self.observers = observers;
        self
    }

    /// A line of `zoo.cfg`. It stands after the harness' own lines, and the last line of a key
    /// wins. Keys that ZooKeeper does not know become system properties `zookeeper.KEY`.
    pub fn property(mut self, key: &str, value: &str) -> Self {
        self.lines.push(format!("{key}={value}"));
        self
    }

    /// The digest of the superuser, such as `super:` and the base64 of the SHA-1 of
    /// `super:password`.
    pub fn super_digest(self, digest: &str) -> Self {
        self.jvm_option(&format!("-Dzookeeper.DigestAuthenticationProvider.superDigest={digest}"))
    }

    /// An argument for `java`, before the class name.
    pub fn jvm_option(mut self, option: &str) -> Self {
        self.jvm_options.push(option.to_owned());
        self
    }

    /// Starts the servers and waits until each of them serves.
    pub fn start(self) -> Result<Apache, ApacheError> {
        let classpath = classpath()?;
        let count = (self.servers + self.observers).max(1);
        let lease = PortLease::take(count * PORTS_PER_SERVER)?;
        let directory = fresh_directory()?;
        let mut apache = Apache { servers: Vec::new(), classpath, directory, lease, builder: self };
        apache.write_configs(count)?;
        for index in 0..count {
            apache.spawn(index)?;
        }
        for index in 0..count {
            apache.wait_until_serving(index)?;
        }
        Ok(apache)
    }
}

/// Running servers of Apache ZooKeeper. Servers are counted from 0; `myid` is one more.
#[derive(Debug)]
pub struct Apache {
    servers: Vec<Option<ServerProcess>>,
    classpath: OsString,
    directory: PathBuf,
    lease: PortLease,
    builder: ApacheBuilder,
}

impl Apache {
    /// A standalone server with a tick of 500 ms, every four-letter word, and TTL nodes.
    pub fn builder() -> ApacheBuilder {
        ApacheBuilder { servers: 1, observers: 0, lines: Vec::new(), jvm_options: Vec::new() }
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

    pub fn client_address(&self, index: usize) -> Result<SocketAddr, ApacheError> {
        let port = self.client_ports().get(index).copied().ok_or(ApacheError::NoServer(index))?;
        Ok(SocketAddr::from((Ipv4Addr::LOCALHOST, port)))
    }

    /// The process of a running server.
    pub fn pid(&self, index: usize) -> Option<u32> {
        self.servers.get(index).and_then(Option::as_ref).map(ServerProcess::pid)
    }

    /// The running server that `srvr` calls the leader.
    pub fn leader(&self) -> Option<usize> {
        (0..self.servers.len()).find(|index| {
            let mode = self.client_address(*index).ok().and_then(four_letter::mode);
            mode.as_deref() == Some("leader")
        })
    }

    /// `kill -9` of one server. Its data and its ports stay for [`Apache::restart`].
    pub fn kill(&mut self, index: usize) -> Result<(), ApacheError> {
        let server = self.servers.get_mut(index).ok_or(ApacheError::NoServer(index))?;
        if let Some(mut server) = server.take() {
            server.kill()?;
        }
        Ok(())
    }

    /// Starts a killed server again on its data and waits until it serves. A server that runs is
    /// killed first.
    pub fn restart(&mut self, index: usize) -> Result<(), ApacheError> {
        self.kill(index)?;
        self.spawn(index)?;
        self.wait_until_serving(index)
    }

    /// Sends a signal to one server, `STOP` and `CONT` for a pause.
    pub fn signal(&self, index: usize, name: &str) -> Result<(), ApacheError> {
        let server = self.servers.get(index).and_then(Option::as_ref);
        Ok(server.ok_or(ApacheError::NoServer(index))?.signal(name)?)
    }

    /// The jars with which `org.apache.zookeeper.ZooKeeperMain` runs.
    pub fn zk_cli_classpath(&self) -> &OsString {
        &self.classpath
    }

    /// Where a server has its configuration, its data and its `output` file.
    pub fn server_dir(&self, index: usize) -> PathBuf {
        self.directory.join(format!("server-{}", index + 1))
    }

    fn write_configs(&self, count: usize) -> io::Result<()> {
        let mut ensemble = String::new();
        for (index, ports) in self.lease.ports().chunks_exact(PORTS_PER_SERVER).enumerate() {
            if let [_, quorum, election] = ports
                && count > 1
            {
                let role = if index < self.builder.servers { "" } else { ":observer" };
                let id = index + 1;
                let _ = writeln!(ensemble, "server.{id}=127.0.0.1:{quorum}:{election}{role}");
            }
        }
        for (index, port) in self.client_ports().into_iter().enumerate() {
            let directory = self.server_dir(index);
            let data = directory.join("data");
            fs::create_dir_all(&data)?;
            fs::write(data.join("myid"), format!("{}\n", index + 1))?;
            let mut config = base_config(&data, port);
            if index >= self.builder.servers && count > 1 {
                config.push_str("peerType=observer\n");
            }
            config.push_str(&ensemble);
            for line in &self.builder.lines {
                let _ = writeln!(config, "{line}");
            }
            fs::write(directory.join("zoo.cfg"), config)?;
        }
        Ok(())
    }

    fn spawn(&mut self, index: usize) -> Result<(), ApacheError> {
        let directory = self.server_dir(index);
        let output = File::options().create(true).append(true).open(directory.join("output"))?;
        let errors = output.try_clone()?;
        let mut command = java(&self.classpath);
        command
            .args(&self.builder.jvm_options)
            .arg("org.apache.zookeeper.server.quorum.QuorumPeerMain")
            .arg(directory.join("zoo.cfg"))
            .current_dir(&directory)
            .stdout(output)
            .stderr(errors);
        let server = ServerProcess::spawn(&mut command)?;
        if self.servers.len() <= index {
            self.servers.resize_with(index + 1, || None);
        }
        if let Some(slot) = self.servers.get_mut(index) {
            *slot = Some(server);
        }
        Ok(())
    }

    fn wait_until_serving(&self, index: usize) -> Result<(), ApacheError> {
        if four_letter::wait_until_serving(self.client_address(index)?, START_MAX) {
            return Ok(());
        }
        let output = fs::read_to_string(self.server_dir(index).join("output"))?;
        Err(ApacheError::NotServing { server: index, output })
    }
}

impl Drop for Apache {
    fn drop(&mut self) {
        self.servers.clear();
        // A directory that cannot be removed is left to the system's own cleaning.
        let _ = fs::remove_dir_all(&self.directory);
    }
}

/// What every server is told. The log files are preallocated in 1 MiB steps rather than 64.
fn base_config(data: &Path, port: u16) -> String {
    format!(
        "tickTime=500\ninitLimit=40\nsyncLimit=20\ndataDir={}\nclientPort={port}\n\
         clientPortAddress=127.0.0.1\n4lw.commands.whitelist=*\nadmin.enableServer=false\n\
         maxClientCnxns=0\nextendedTypesEnabled=true\npreAllocSize=1024\n",
        data.display()
    )
}

/// `java` with a small heap and a quick start, for servers and command lines alike.
pub fn java(classpath: &OsString) -> Command {
    let mut command = Command::new("java");
    command
        .args(["-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xshare:auto"])
        .args(["-Djava.net.preferIPv4Stack=true", "-Dfile.encoding=UTF-8"])
        .arg("-Dorg.slf4j.simpleLogger.defaultLogLevel=warn")
        .arg("-cp")
        .arg(classpath);
    command
}

/// The jars of Apache ZooKeeper and of its command line, resolved on the first call.
pub fn classpath() -> Result<OsString, ToolError> {
    for program in ["java", "mvn"] {
        if tools::find_program(program).is_none() {
            return Err(ToolError::Missing { what: program.to_owned() });
        }
    }
    let pom = tools::interop_dir("apache").join("pom.xml");
    let directory = tools::prepare_once("apache", &[pom], |directory| {
        tools::run(
            Command::new("mvn")
                .args(["-q", "-B", "dependency:copy-dependencies", "-DoutputDirectory=jars"])
                .current_dir(directory),
        )
    })?;
    Ok(directory.join("jars").join("*").into_os_string())
}

/// A new directory for one ensemble.
fn fresh_directory() -> io::Result<PathBuf> {
    let root = env::temp_dir();
    for number in 0..u32::MAX {
        let directory = root.join(format!("zoolet-apache-{}-{number}", process::id()));
        match fs::create_dir(&directory) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            other => return other.map(|()| directory),
        }
    }
    Err(io::Error::from(io::ErrorKind::AlreadyExists))
}
