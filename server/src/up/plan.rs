//! What is to be started, and where its files are.

use std::collections::BTreeSet;
use std::fs::{self, File, TryLockError};
use std::io::{self, Write};
use std::net::{Ipv4Addr, TcpListener};
use std::path::{Path, PathBuf};

use serde_json::json;
use tempfile::TempDir;
use tracing::warn;

use super::UpError;
use super::child::Child;
use crate::cli::UpArgs;
use crate::config::{self, LoopbackPorts, ServerConfig};

/// The ensemble of one `zoolet up`.
#[derive(Debug)]
pub(super) struct Plan {
    /// What each child reads.
    pub(super) config: PathBuf,
    pub(super) servers: Vec<PlannedServer>,
    /// What the children log; their own default without it.
    pub(super) log: Option<String>,
    /// Where `up.json` is written.
    directory: PathBuf,
    /// Keeps every other `up` out of the directory until the plan is dropped.
    _lock: Option<File>,
    /// Removed when the plan is dropped.
    _temporary: Option<TempDir>,
}

/// One server of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct PlannedServer {
    pub(super) id: u8,
    pub(super) client_host: String,
    pub(super) client_port: u16,
    pub(super) peer_port: Option<u16>,
}

impl Plan {
    pub(super) fn make(args: &UpArgs, log: Option<String>) -> Result<Self, UpError> {
        let mut plan = match &args.config {
            Some(config) => Self::from_config(config)?,
            None => Self::on_loopback(args)?,
        };
        plan.log = log;
        plan.check_ports()?;
        Ok(plan)
    }

    /// The servers of a file that the user has written.
    fn from_config(path: &Path) -> Result<Self, UpError> {
        let (configs, warnings) = config::load_ensemble(path)?;
        for warning in warnings {
            warn!("{warning}");
        }
        let directory = path.parent().filter(|parent| *parent != Path::new(""));
        Ok(Self {
            config: path.to_owned(),
            servers: configs.iter().map(PlannedServer::of).collect(),
            log: None,
            directory: directory.unwrap_or(Path::new(".")).to_owned(),
            _lock: None,
            _temporary: None,
        })
    }

    /// Servers with consecutive client ports; a directory that has served before is used as it is,
    /// its peer ports too.
    fn on_loopback(args: &UpArgs) -> Result<Self, UpError> {
        let (directory, temporary) = if let Some(directory) = &args.data_dir {
            fs::create_dir_all(directory).map_err(|source| file_error(directory, source))?;
            (directory.clone(), None)
        } else {
            let temporary = TempDir::with_prefix("zoolet-")
                .map_err(|source| file_error(&std::env::temp_dir(), source))?;
            (temporary.path().to_owned(), Some(temporary))
        };
        let last = u32::from(args.client_port) + u32::from(args.servers) - 1;
        if last > u32::from(u16::MAX) {
            let (servers, client_port) = (args.servers, args.client_port);
            return Err(UpError::TooManyPorts { servers, client_port });
        }
        let lock = lock(&directory)?;
        let config = directory.join("cluster.toml");
        let client_ports: Vec<u16> =
            (0..u16::from(args.servers)).map(|offset| args.client_port + offset).collect();
        let earlier = Self::earlier(&config)?;
        if let Some(earlier) = earlier.as_ref().filter(|known| known.len() != client_ports.len()) {
            let (servers, asked) = (earlier.len(), client_ports.len());
            return Err(UpError::OtherEnsemble { directory, servers, asked });
        }
        let configs = match earlier {
            Some(earlier) if can_serve_again(&earlier, &client_ports) => earlier,
            earlier => Self::write_config(&config, &directory, &client_ports, earlier.as_deref())?,
        };
        Ok(Self {
            config,
            servers: configs.iter().map(PlannedServer::of).collect(),
            log: None,
            directory,
            _lock: Some(lock),
            _temporary: temporary,
        })
    }

    /// The configuration of an earlier start.
    fn earlier(path: &Path) -> Result<Option<Vec<ServerConfig>>, UpError> {
        if !path.try_exists().map_err(|source| file_error(path, source))? {
            return Ok(None);
        }
        Ok(Some(config::load_ensemble(path)?.0))
    }

    fn write_config(
        path: &Path,
        directory: &Path,
        client_ports: &[u16],
        earlier: Option<&[ServerConfig]>,
    ) -> Result<Vec<ServerConfig>, UpError> {
        let peer_ports = free_ports(client_ports).map_err(|source| UpError::Port {
            server: 1,
            port: 0,
            source,
        })?;
        let ports: Vec<LoopbackPorts> = client_ports
            .iter()
            .zip(&peer_ports)
            .map(|(&client, &peer)| LoopbackPorts { client, peer })
            .collect();
        let absolute =
            fs::canonicalize(directory).map_err(|source| file_error(directory, source))?;
        let mut configs = ServerConfig::loopback_ensemble(&ports, &absolute)?;
        // The servers' directories know the ensemble by this number.
        if let Some(earlier) = earlier.and_then(<[ServerConfig]>::first) {
            for config in &mut configs {
                config.ensemble.cluster_id = Some(earlier.cluster_id());
            }
        }
        write_durably(path, &config::to_cluster_toml(&configs))
            .map_err(|source| file_error(path, source))?;
        // What the children will read is what is checked here, its warnings included.
        let (configs, warnings) = config::load_ensemble(path)?;
        for warning in warnings {
            warn!("{warning}");
        }
        Ok(configs)
    }

    /// Says which port is taken before any server is started.
    fn check_ports(&self) -> Result<(), UpError> {
        for server in &self.servers {
            for port in [Some(server.client_port), server.peer_port].into_iter().flatten() {
                bind(port).map_err(|source| UpError::Port { server: server.id, port, source })?;
            }
        }
        Ok(())
    }

    pub(super) fn connect_string(&self) -> String {
        let addresses: Vec<String> =
            self.servers.iter().map(PlannedServer::client_address).collect();
        addresses.join(",")
    }

    fn state_path(&self) -> PathBuf {
        self.directory.join("up.json")
    }

    /// Writes the children's pids and ports, for scripts.
    pub(super) fn write_state(&self, children: &[Child]) -> Result<(), UpError> {
        let servers: Vec<serde_json::Value> = children
            .iter()
            .map(|child| {
                json!({
                    "id": child.server.id,
                    "pid": child.pid(),
                    "client_port": child.server.client_port,
                    "peer_port": child.server.peer_port,
                })
            })
            .collect();
        let state = json!({ "connect_string": self.connect_string(), "servers": servers });
        let path = self.state_path();
        write_durably(&path, &format!("{state:#}\n")).map_err(|source| file_error(&path, source))
    }

    /// Removes it: nothing runs any more.
    pub(super) fn forget_state(&self) {
        if let Err(error) = fs::remove_file(self.state_path()) {
            warn!(%error, "cannot remove up.json");
        }
    }
}

impl PlannedServer {
    fn of(config: &ServerConfig) -> Self {
        let bind = &config.client_bind;
        let host = match bind.host.as_str() {
            "0.0.0.0" | "::" => Ipv4Addr::LOCALHOST.to_string(),
            host => host.to_owned(),
        };
        Self {
            id: config.server_id.0,
            client_host: host,
            client_port: bind.port,
            peer_port: config.peer_bind.as_ref().map(|bind| bind.port),
        }
    }

    pub(super) fn client_address(&self) -> String {
        format!("{}:{}", self.client_host, self.client_port)
    }
}

/// Whether an earlier start had the same servers, and its peer ports are free.
fn can_serve_again(earlier: &[ServerConfig], client_ports: &[u16]) -> bool {
    let servers: Vec<PlannedServer> = earlier.iter().map(PlannedServer::of).collect();
    let ports = servers.iter().map(|server| server.client_port);
    ports.eq(client_ports.iter().copied())
        && servers.iter().filter_map(|server| server.peer_port).all(|port| bind(port).is_ok())
}

fn bind(port: u16) -> io::Result<TcpListener> {
    TcpListener::bind((Ipv4Addr::LOCALHOST, port))
}

/// As many ports as `taken` has, which are free and not among them.
pub(crate) fn free_ports(taken: &[u16]) -> io::Result<Vec<u16>> {
    let taken: BTreeSet<u16> = taken.iter().copied().collect();
    // All are held until the last is found, so that none comes twice.
    let mut held = Vec::new();
    while held.len() < taken.len() {
        let listener = bind(0)?;
        let port = listener.local_addr()?.port();
        if !taken.contains(&port) {
            held.push((port, listener));
        }
    }
    Ok(held.into_iter().map(|(port, _)| port).collect())
}

/// Replaces a file: a reader, and the next start after a power cut, finds the old text or the new.
fn write_durably(path: &Path, text: &str) -> io::Result<()> {
    let draft = path.with_extension("new");
    let mut file = File::create(&draft)?;
    file.write_all(text.as_bytes())?;
    file.sync_all()?;
    fs::rename(&draft, path)?;
    let directory = path.parent().filter(|parent| *parent != Path::new(""));
    File::open(directory.unwrap_or(Path::new(".")))?.sync_all()
}

fn file_error(path: &Path, source: io::Error) -> UpError {
    UpError::File { path: path.to_owned(), source }
}

/// Takes the directory for this `up` alone: another one's ports must not be written over.
fn lock(directory: &Path) -> Result<File, UpError> {
    let path = directory.join("up.lock");
    let file = File::create(&path).map_err(|source| file_error(&path, source))?;
    match file.try_lock() {
        Ok(()) => Ok(file),
        Err(TryLockError::WouldBlock) => Err(UpError::InUse(directory.to_owned())),
        Err(TryLockError::Error(source)) => Err(file_error(&path, source)),
    }
}
