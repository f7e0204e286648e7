//! An ensemble whose servers run on the machines of a [`Network`].

use std::fmt::Write as _;
use std::fs::{self, File};
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tempfile::TempDir;
use tokio::time::{Instant, sleep};
use zoolet_client::{Client, ClientOptions, CreateMode};

use super::netns::Network;
use super::{Failure, promised};
use crate::four_letter;
use crate::process::ServerProcess;
use crate::{wait, zoolet};

const CLIENT_PORT: u16 = 2181;
/// A server without a leader stops serving after this time: `syncLimit` ticks of 500 ms.
const LEADER_LOSS_LIMIT_TICKS: u32 = 4;
/// How long one attempt to write may take where it should come through.
const WRITE_MAX: Duration = Duration::from_secs(4);

/// How long a server that was killed may take to serve again.
const RESTART_MAX: Duration = Duration::from_mins(1);

/// Servers on machines of their own.
#[derive(Debug)]
pub struct NetnsEnsemble {
    pub network: Network,
    servers: Vec<ServerProcess>,
    directory: TempDir,
    probes: AtomicU64,
}

impl NetnsEnsemble {
    /// Starts `count` voting servers; they need not serve yet.
    pub fn start(count: usize) -> Result<Self, Failure> {
        let (network, directory) = (Network::new(count)?, tempfile::tempdir()?);
        let mut members = String::new();
        for server in 0..count {
            let (id, address) = (server + 1, network.address(server));
            let _ = writeln!(
                members,
                "server.{id}={address}:2888:3888:participant;{address}:{CLIENT_PORT}"
            );
        }
        let mut servers = Vec::new();
        for server in 0..count {
            let home = directory.path().join(format!("server-{}", server + 1));
            let data = home.join("data");
            fs::create_dir_all(&data)?;
            fs::write(data.join("myid"), format!("{}\n", server + 1))?;
            let text = format!(
                "tickTime=500\ninitLimit=40\nsyncLimit={LEADER_LOSS_LIMIT_TICKS}\ndataDir={}\n\
                 4lw.commands.whitelist=*\nmaxClientCnxns=0\npreAllocSize=1024\n{members}",
                data.display()
            );
            fs::write(home.join("zoo.cfg"), text)?;
            servers.push(spawn(&network, &home, server)?);
        }
        Ok(Self { network, servers, directory, probes: AtomicU64::new(0) })
    }

    /// `kill -9` of one server. Its data stays for [`NetnsEnsemble::restart`].
    pub fn kill(&mut self, server: usize) -> io::Result<()> {
        self.process(server)?.kill()
    }

    /// Starts a killed server again on its data and waits until it serves.
    pub fn restart(&mut self, server: usize) -> Result<(), Failure> {
        let home = self.directory.path().join(format!("server-{}", server + 1));
        *self.process(server)? = spawn(&self.network, &home, server)?;
        let address = self.address(server);
        let serves = wait::until(RESTART_MAX, || four_letter::mode(address));
        promised(serves.is_some(), || format!("{server} does not serve again\n{}", self.said()))
    }

    /// Sends one server's process a signal, such as `STOP`.
    pub fn signal(&mut self, server: usize, name: &str) -> io::Result<()> {
        self.process(server)?.signal(name)
    }

    fn process(&mut self, server: usize) -> io::Result<&mut ServerProcess> {
        self.servers.get_mut(server).ok_or_else(|| io::ErrorKind::NotFound.into())
    }

    pub fn addresses(&self) -> Vec<SocketAddr> {
        (0..self.servers.len()).map(|server| self.address(server)).collect()
    }

    pub fn connect_string(&self) -> String {
        let addresses: Vec<String> = self.addresses().iter().map(SocketAddr::to_string).collect();
        addresses.join(",")
    }

    pub fn address(&self, server: usize) -> SocketAddr {
        SocketAddr::from((IpAddr::from(self.network.address(server)), CLIENT_PORT))
    }

    /// The mode that a server reports; `None` when it does not serve.
    pub async fn mode(&self, server: usize) -> Option<String> {
        let address = self.address(server);
        tokio::task::spawn_blocking(move || four_letter::mode(address)).await.ok().flatten()
    }

    /// Waits until one of some servers leads and all of them serve; returns the leader and how
    /// long it took.
    pub async fn until_serving(
        &self,
        servers: &[usize],
        limit: Duration,
    ) -> Result<(usize, Duration), Failure> {
        let start = Instant::now();
        loop {
            let mut modes = Vec::new();
            for server in servers {
                modes.push(self.mode(*server).await);
            }
            let leader = modes.iter().position(|mode| mode.as_deref() == Some("leader"));
            if let Some(leader) = leader.and_then(|place| servers.get(place))
                && modes.iter().all(Option::is_some)
            {
                return Ok((*leader, start.elapsed()));
            }
            promised(start.elapsed() < limit, || {
                format!("servers {servers:?} should serve and are {modes:?}\n{}", self.said())
            })?;
            sleep(Duration::from_millis(20)).await;
        }
    }

    /// Waits until none of some servers serves clients any more.
    pub async fn until_silent(&self, servers: &[usize], limit: Duration) -> Result<(), Failure> {
        let start = Instant::now();
        for server in servers {
            while let Some(mode) = self.mode(*server).await {
                promised(start.elapsed() < limit, || {
                    format!("server {server} has no majority and says that it is {mode}")
                })?;
                sleep(Duration::from_millis(20)).await;
            }
        }
        Ok(())
    }

    /// Whether a new client of this one server gets a write acknowledged.
    pub async fn writes(&self, server: usize) -> bool {
        self.writes_within(server, WRITE_MAX).await
    }

    /// Whether a new client of this one server gets a write acknowledged before the limit.
    pub async fn writes_within(&self, server: usize, limit: Duration) -> bool {
        self.writes_bytes_within(server, &[], limit).await
    }

    /// Whether a new client of this one server gets a write of this data acknowledged before the limit.
    pub async fn writes_bytes_within(&self, server: usize, data: &[u8], limit: Duration) -> bool {
        let probe = self.probes.fetch_add(1, Ordering::Relaxed);
        let (address, path) = (self.address(server).to_string(), format!("/probe-{probe}"));
        let attempt = async move {
            let options = ClientOptions::new().session_timeout(Duration::from_secs(10));
            let client: Client = options.connect_timeout(limit).connect(&address).await?;
            client.create(&path, data, CreateMode::Persistent).await?;
            client.close().await
        };
        matches!(tokio::time::timeout(limit, attempt).await, Ok(Ok(())))
    }

    /// What a server, counted from 1, has written.
    fn output(&self, server: usize) -> String {
        let output = self.directory.path().join(format!("server-{server}")).join("output");
        fs::read_to_string(output).unwrap_or_default()
    }

    /// What the servers have written, for the message of a failure.
    pub fn said(&self) -> String {
        let mut text = String::new();
        for server in 1..=self.servers.len() {
            let said = self.output(server);
            let lines: Vec<&str> = said.lines().rev().take(8).collect();
            for line in lines.iter().rev() {
                let _ = writeln!(text, "{server}: {line}");
            }
        }
        text
    }
}

/// Starts the server of a machine; its output goes on where it ended.
fn spawn(network: &Network, home: &Path, server: usize) -> Result<ServerProcess, Failure> {
    let output = File::options().create(true).append(true).open(home.join("output"))?;
    let mut command = network.on(server);
    command.args(zoolet::server_command()?).arg(home.join("zoo.cfg"));
    command.stdout(output.try_clone()?).stderr(output);
    Ok(ServerProcess::spawn(&mut command)?)
}
