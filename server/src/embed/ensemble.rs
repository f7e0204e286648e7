//! An ensemble of servers, each on a thread of its own.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use std::{fmt, io};

use tokio::sync::oneshot::error::RecvError;
use tokio::time::{sleep, timeout};
use zoolet_jute::SessionId;
use zoolet_replica::Role;
use zoolet_storage::{Disk, MemoryDisk, RealDisk};

use super::error::EmbedError;
use super::thread::{Running, ServerThread, Standing};
use crate::config::{LoopbackPorts, ServerConfig};
use crate::node::{Seams, StartError};
use crate::transport::ReservedPort;

/// How long an ensemble may take to serve.
pub(super) const READY_LIMIT: Duration = Duration::from_secs(30);

/// The settings of an embedded ensemble, from [`Ensemble::builder`].
pub struct EnsembleBuilder {
    servers: usize,
    directory: Option<PathBuf>,
    configure: Box<dyn Fn(&mut ServerConfig) + Send>,
}

impl fmt::Debug for EnsembleBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EnsembleBuilder")
            .field("servers", &self.servers)
            .field("directory", &self.directory)
            .finish_non_exhaustive()
    }
}

impl EnsembleBuilder {
    /// Sets how many servers there are, 1 to 254; one by default. All of them vote; one alone is
    /// standalone. [`EnsembleBuilder::start`] fails for any other number.
    pub fn servers(mut self, servers: usize) -> Self {
        self.servers = servers;
        self
    }

    /// Keeps the files in a directory, in one directory below it for each server (`1`, `2`, …), which
    /// a later ensemble of as many servers goes on from. By default they are in memory, and gone
    /// with the ensemble.
    pub fn directory(mut self, directory: impl Into<PathBuf>) -> Self {
        self.directory = Some(directory.into());
        self
    }

    /// Changes the configuration of every server before it starts. The function is called once for
    /// each, with the servers' ports, directories and members filled in; see
    /// [`ServerConfig`] for the units.
    pub fn configure(mut self, change: impl Fn(&mut ServerConfig) + Send + 'static) -> Self {
        self.configure = Box::new(change);
        self
    }

    /// Starts the servers, and waits until all of them serve, for 30 s at most. An ensemble on new
    /// directories takes about a tenth of a second. Servers that have started are ended if another
    /// one fails.
    pub async fn start(self) -> Result<Ensemble, EmbedError> {
        let directory = self.directory.clone().unwrap_or_else(|| PathBuf::from("/zoolet"));
        let ports = reserve_ports(self.servers)?;
        let mut configs = ServerConfig::loopback_ensemble(&pairs(&ports), &directory)?;
        let mut servers = Vec::new();
        for config in &mut configs {
            (self.configure)(config);
            let disk: Arc<dyn Disk> = match self.directory {
                Some(_) => Arc::new(RealDisk),
                None => Arc::new(MemoryDisk::default()),
            };
            servers.push(ServerThread::new(config.clone(), Seams { disk, ..Seams::real() }));
        }
        let mut ensemble = Ensemble { servers, _ports: ports };
        ensemble.start_all().await?;
        ensemble.wait_ready().await?;
        Ok(ensemble)
    }
}

/// An ensemble in this process. Servers are counted from 0 in all calls; their ids begin at 1.
/// Dropping it kills its servers.
#[derive(Debug)]
pub struct Ensemble {
    servers: Vec<ServerThread>,
    /// Kept while a server is down, too: it is started again on the same ports.
    _ports: Vec<ReservedPort>,
}

impl Ensemble {
    /// The settings of a new ensemble.
    pub fn builder() -> EnsembleBuilder {
        EnsembleBuilder { servers: 1, directory: None, configure: Box::new(|_| {}) }
    }

    async fn start_all(&mut self) -> Result<(), EmbedError> {
        // All at once: the first one needs the others to have a leader.
        let starting: Vec<_> =
            self.servers.iter_mut().map(ServerThread::launch).collect::<Result<_, _>>()?;
        for (index, started) in starting.into_iter().enumerate() {
            let running = started_as(index, started.await)?;
            if let Some(server) = self.servers.get_mut(index) {
                server.launched(running);
            }
        }
        Ok(())
    }

    /// How many servers there are, running or not.
    pub fn len(&self) -> usize {
        self.servers.len()
    }

    /// Whether there are none; there always are some.
    pub fn is_empty(&self) -> bool {
        self.servers.is_empty()
    }

    /// Returns `host:port,…` of all servers, running or not, as every `ZooKeeper` client takes it.
    pub fn connect_string(&self) -> String {
        let addresses: Vec<String> =
            self.servers.iter().map(|server| server.client_addr().to_string()).collect();
        addresses.join(",")
    }

    /// Returns the address on which a server serves its clients. Fails if the ensemble has fewer
    /// servers.
    pub fn client_addr(&self, server: usize) -> Result<SocketAddr, EmbedError> {
        self.server(server).map(ServerThread::client_addr)
    }

    /// Returns a server's part in the ensemble; [`Role::Looking`] if it does not run. Fails if the
    /// ensemble has fewer servers.
    pub fn role(&self, server: usize) -> Result<Role, EmbedError> {
        self.server(server).map(ServerThread::role)
    }

    /// Returns the server that leads, if one runs and does. For a moment after the loss of a leader
    /// there is none.
    pub fn leader(&self) -> Option<usize> {
        self.servers.iter().position(|server| {
            server.standing() == Standing::Running && server.role() == Role::Leader
        })
    }

    /// Returns why a server has ended by itself, if it has: its disk has failed, or a task of it
    /// has panicked. It can be restarted. Fails if the ensemble has fewer servers.
    pub fn failure(&self, server: usize) -> Result<Option<String>, EmbedError> {
        self.server(server).map(ServerThread::failure)
    }

    /// Waits until every server that runs and is not paused serves, and one leads; fails with
    /// [`EmbedError::NotReady`] after 30 s.
    pub async fn wait_ready(&self) -> Result<(), EmbedError> {
        let ready = async {
            while !self.is_ready() {
                sleep(Duration::from_millis(5)).await;
            }
        };
        timeout(READY_LIMIT, ready).await.map_err(|_| EmbedError::NotReady)
    }

    fn is_ready(&self) -> bool {
        self.leader().is_some()
            && self
                .servers
                .iter()
                .filter(|server| server.standing() == Standing::Running)
                .all(|server| server.role() != Role::Looking)
    }

    /// Stops a running server in good order: it hands its lead over, and makes its log durable. Takes
    /// 10 s at most.
    pub async fn stop(&mut self, server: usize) -> Result<(), EmbedError> {
        self.expect(server, &[Standing::Running])?.stop().await;
        Ok(())
    }

    /// Ends a running or paused server at once, as if its process were killed: its files stay as they
    /// are. Blocks until its thread has ended.
    pub fn kill(&mut self, server: usize) -> Result<(), EmbedError> {
        self.expect(server, &[Standing::Running, Standing::Paused])?.kill();
        Ok(())
    }

    /// Starts a server that was stopped or killed, or that has failed, on the same port and with the
    /// same files. Returns when it has started; [`Ensemble::wait_ready`] waits until it serves.
    pub async fn restart(&mut self, index: usize) -> Result<(), EmbedError> {
        let server = self.expect(index, &[Standing::Stopped, Standing::Failed])?;
        let started = server.launch()?.await;
        server.launched(started_as(index, started)?);
        Ok(())
    }

    /// Freezes a server, as SIGSTOP freezes a process: its connections stay open, and nothing
    /// is read, written or timed until it is resumed. Blocks until it is paused.
    pub fn pause(&mut self, server: usize) -> Result<(), EmbedError> {
        self.expect(server, &[Standing::Running])?.pause();
        Ok(())
    }

    /// Resumes a paused server.
    pub fn resume(&mut self, server: usize) -> Result<(), EmbedError> {
        self.expect(server, &[Standing::Paused])?.resume();
        Ok(())
    }

    /// Stops all servers that run, paused ones too, in good order and at the same time.
    pub async fn shutdown(mut self) {
        for server in &mut self.servers {
            if server.standing() == Standing::Paused {
                server.resume();
            }
            server.ask_to_stop();
        }
        for server in &mut self.servers {
            server.stop().await;
        }
    }

    /// Has a server end a session, which it can only do as the leader.
    pub(super) fn expire_by(&self, server: usize, session: i64) -> bool {
        let controls = self.server(server).ok().and_then(ServerThread::controls);
        controls.is_some_and(|controls| controls.expire(SessionId(session)))
    }

    fn server(&self, server: usize) -> Result<&ServerThread, EmbedError> {
        let servers = self.servers.len();
        self.servers.get(server).ok_or(EmbedError::NoServer { server, servers })
    }

    pub(super) fn expect(
        &mut self,
        index: usize,
        standings: &[Standing],
    ) -> Result<&mut ServerThread, EmbedError> {
        let servers = self.servers.len();
        let server =
            self.servers.get_mut(index).ok_or(EmbedError::NoServer { server: index, servers })?;
        if standings.contains(&server.standing()) {
            Ok(server)
        } else {
            Err(EmbedError::WrongState { server: index, is: server.standing().name() })
        }
    }
}

/// Returns the server that has started, or why it has not; a thread that ended has sent nothing.
fn started_as(
    server: usize,
    started: Result<Result<Running, StartError>, RecvError>,
) -> Result<Running, EmbedError> {
    let ended = |_| Err(StartError::Failed("its thread has ended".to_owned()));
    let started = started.unwrap_or_else(ended);
    started.map_err(|error| EmbedError::Start { server, source: error.into() })
}

/// Ports of the loopback that no other program gets: first the clients', then the peers'.
fn reserve_ports(servers: usize) -> io::Result<Vec<ReservedPort>> {
    let host = Ipv4Addr::LOCALHOST.to_string();
    (0..servers * 2).map(|_| ReservedPort::take(&host, 0)).collect()
}

/// A pair for each server.
fn pairs(reserved: &[ReservedPort]) -> Vec<LoopbackPorts> {
    let (clients, peers) = reserved.split_at(reserved.len() / 2);
    let pair = |(client, peer): (&ReservedPort, &ReservedPort)| LoopbackPorts {
        client: client.port(),
        peer: peer.port(),
    };
    clients.iter().zip(peers).map(pair).collect()
}
