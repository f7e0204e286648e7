//! What is to be started, and where its files are.

use std::fs::{self, File};
use std::path::{Path, PathBuf};

use serde_json::json;
use tempfile::TempDir;
use tracing::warn;
use zoolet_storage::{Identity, RealDisk};

use super::UpError;
use super::child::Child;
use super::files::{FILE_MODE, SECRET_MODE, absolute, file_error, lock, write_durably};
use super::loopback::Place;
use super::ports::{Ports, from_here};
use super::tls::ClientFiles;
use super::{http, temporary};
use crate::cli::UpArgs;
use crate::logging::Log;
use zoolet_server::embed::ReservedPort;
use zoolet_server::embed::config::{self, HostPort, MemberRole, ServerConfig};

/// What an ensemble on the loopback is written to, and what one of a user's file is written to when
/// options go before it.
const CLUSTER_FILE: &str = "cluster.toml";
const CHANGED_FILE: &str = "up.toml";

/// The ensemble of one `zoolet up`.
#[derive(Debug)]
pub(super) struct Plan {
    /// What each child reads.
    pub(super) config: PathBuf,
    pub(super) servers: Vec<PlannedServer>,
    pub(super) log: ServersLog,
    /// Where `up.json` is written.
    directory: PathBuf,
    /// Keeps every other `up` out of the directory until the plan is dropped.
    _lock: File,
    /// Keeps other programs off the servers' ports, also while one of them is down.
    ports: Vec<ReservedPort>,
    /// Where `zoolet ctl` reaches this.
    control: Option<PathBuf>,
    /// Removed when the plan is dropped.
    temporary: Option<TempDir>,
}

/// The log of all children.
#[derive(Clone, Debug)]
pub(super) struct ServersLog {
    /// Their filter; their own default without it.
    pub(super) filter: Option<String>,
    /// Where their lines go.
    pub(super) to: Log,
}

/// One server of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct PlannedServer {
    pub(super) id: u8,
    /// Where clients on this machine reach it.
    pub(super) client: HostPort,
    /// What a browser on this machine opens, if it has an HTTP port.
    pub(super) web_url: Option<String>,
    pub(super) is_voter: bool,
    data_dir: PathBuf,
    client_bind: HostPort,
    peer_bind: Option<HostPort>,
    http_bind: Option<HostPort>,
}

impl Plan {
    pub(super) fn make(args: &UpArgs, log: ServersLog) -> Result<Self, UpError> {
        let mut plan = match args.config.clone().or_else(|| earlier_file(args)) {
            Some(config) => Self::from_config(&config, args, log)?,
            None => Self::on_loopback(args, log)?,
        };
        plan.reserve_ports()?;
        Ok(plan)
    }

    /// The servers of a file that the user has written; other options go before it.
    fn from_config(path: &Path, args: &UpArgs, log: ServersLog) -> Result<Self, UpError> {
        let (mut configs, mut warnings) = config::load_ensemble(path)?;
        if let Some(config) = configs.iter().find(|config| config.client_is_secure) {
            return Err(UpError::OnlyTls { server: config.server_id.0 });
        }
        let parent = path.parent().filter(|parent| *parent != Path::new(""));
        let directory = match &args.data_dir {
            Some(directory) => absolute(directory)?,
            None => parent.unwrap_or(Path::new(".")).to_owned(),
        };
        let lock = lock(&directory)?;
        if args.config.is_none() {
            // An earlier start has written it.
            Place { file: path, directory: &directory, is_temporary: false }
                .check_same(args, &configs)?;
        }
        let (mut config, mut held) = (path.to_owned(), Vec::new());
        let ports_given = args.client_port.is_some() || args.http_port.is_some();
        if args.servers.is_some() || ports_given || args.data_dir.is_some() {
            if let Some(servers) = args.servers {
                take_first(&mut configs, servers, path)?;
            }
            if let Some(first) = args.client_port {
                let ports = Ports::choose(first, configs.len(), &mut held)?;
                for (config, port) in configs.iter_mut().zip(ports.0) {
                    config.client_bind.port = port;
                }
            }
            if let Some(first) = args.http_port {
                let ports = Ports::choose(first, configs.len(), &mut held)?;
                http::set_ports(&mut configs, &ports);
            }
            if args.data_dir.is_some() {
                for config in &mut configs {
                    config.data_dir = directory.join(config.server_id.to_string());
                    config.data_log_dir.clone_from(&config.data_dir);
                }
            }
            config = directory.join(CHANGED_FILE);
            (configs, warnings) = write_config(&config, &configs)?;
        }
        log_warnings(warnings);
        let plan = Self::of(config, &configs, log, (directory, lock));
        Ok(Self { ports: held, ..plan })
    }

    /// Servers on the loopback: new ones, or those that an earlier start has left in the directory.
    fn on_loopback(args: &UpArgs, log: ServersLog) -> Result<Self, UpError> {
        let (directory, lock, temporary) = if let Some(directory) = &args.data_dir {
            let directory = absolute(directory)?;
            let lock = lock(&directory)?;
            temporary::keep(&directory)?;
            (directory, lock, None)
        } else {
            let (made, lock) = temporary::make()?;
            (made.path().to_owned(), lock, Some(made))
        };
        let (file, mut held) = (directory.join(CLUSTER_FILE), Vec::new());
        let is_temporary = temporary.is_some();
        let place = Place { file: &file, directory: &directory, is_temporary };
        let configs = place.servers(args, &mut held)?;
        let plan = Self::of(file, &configs, log, (directory, lock));
        Ok(Self { temporary, ports: held, ..plan })
    }

    fn of(
        config: PathBuf,
        configs: &[ServerConfig],
        log: ServersLog,
        (directory, lock): (PathBuf, File),
    ) -> Self {
        let servers = configs.iter().map(PlannedServer::of).collect();
        let (ports, control, temporary) = (Vec::new(), None, None);
        Self { config, servers, log, directory, _lock: lock, ports, control, temporary }
    }

    /// Returns whether a server's directory is empty while another server is part of an ensemble:
    /// then it must not found another one.
    pub(super) fn must_join(&self, server: &PlannedServer) -> bool {
        let mut others = self.servers.iter().filter(|other| other.id != server.id);
        !server.is_part_of_an_ensemble() && others.any(PlannedServer::is_part_of_an_ensemble)
    }

    /// Says which port is taken before any server is started.
    fn reserve_ports(&mut self) -> Result<(), UpError> {
        for server in &self.servers {
            let others = [&server.peer_bind, &server.http_bind].into_iter().flatten();
            for bind in [&server.client_bind].into_iter().chain(others) {
                let reserved = ReservedPort::take(&bind.host, bind.port).map_err(|source| {
                    UpError::Port { server: server.id, address: bind.to_string(), source }
                })?;
                self.ports.push(reserved);
            }
        }
        Ok(())
    }

    pub(super) fn connect_string(&self) -> String {
        let addresses: Vec<String> =
            self.servers.iter().map(|server| server.client.to_string()).collect();
        addresses.join(",")
    }

    /// What clients need for TLS, if `--tls` has set it up.
    pub(super) fn client_files(&self) -> Option<ClientFiles> {
        ClientFiles::of(&self.directory)
    }

    /// The directory of the ensemble.
    pub(super) fn directory(&self) -> &Path {
        &self.directory
    }

    /// Whether that directory is removed at the end.
    pub(super) fn is_temporary(&self) -> bool {
        self.temporary.is_some()
    }

    /// Takes note of the socket of `zoolet ctl`.
    pub(super) fn is_controlled_by(&mut self, socket: &Path) {
        self.control = Some(socket.to_owned());
    }

    fn state_path(&self) -> PathBuf {
        self.directory.join("up.json")
    }

    /// Returns all that a program may want to know of the ensemble.
    pub(super) fn state(&self, children: &[Child]) -> serde_json::Value {
        let servers: Vec<serde_json::Value> = children
            .iter()
            .map(|child| {
                json!({
                    "id": child.server.id,
                    "pid": child.pid(),
                    "state": child.state(),
                    "mode": child.mode(),
                    "cut": child.is_cut(),
                    "client_address": child.server.client.to_string(),
                    "client_port": child.server.client.port,
                    "peer_port": child.server.peer_bind.as_ref().map(|bind| bind.port),
                    "http_port": child.server.http_bind.as_ref().map(|bind| bind.port),
                    "directory": child.server.data_dir,
                })
            })
            .collect();
        json!({
            "connect_string": self.connect_string(),
            "directory": self.directory,
            "temporary": self.is_temporary(),
            "control": self.control,
            "trust_store": self.client_files().map(|files| files.trust_store),
            "key_store": self.client_files().map(|files| files.key_store),
            "servers": servers,
        })
    }

    /// Writes that to a file, for scripts.
    pub(super) fn write_state(&self, children: &[Child]) -> Result<(), UpError> {
        let state = self.state(children);
        let path = self.state_path();
        write_durably(&path, &format!("{state:#}\n"), FILE_MODE)
            .map_err(|source| file_error(&path, source))
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
        Self {
            id: config.server_id.0,
            client: from_here(&config.client_bind),
            web_url: http::web_url(config),
            is_voter: config.role() == MemberRole::Participant,
            data_dir: config.data_dir.clone(),
            client_bind: config.client_bind.clone(),
            peer_bind: config.peer_bind.clone(),
            http_bind: config.http_bind.clone(),
        }
    }

    /// A directory that cannot be read is the server's to complain about.
    fn is_part_of_an_ensemble(&self) -> bool {
        let known = Identity::peek(&RealDisk, &self.data_dir).ok().flatten();
        known.is_some_and(|known| known.founding != 0)
    }
}

/// The file that an earlier `up` has written for a user's file, if the directory was made by one.
fn earlier_file(args: &UpArgs) -> Option<PathBuf> {
    let directory = args.data_dir.as_ref()?;
    let file = directory.join(CHANGED_FILE);
    (file.is_file() && !directory.join(CLUSTER_FILE).is_file()).then_some(file)
}

/// Leaves the first servers of a file, as an ensemble of their own.
fn take_first(configs: &mut Vec<ServerConfig>, servers: u8, path: &Path) -> Result<(), UpError> {
    let (listed, asked) = (configs.len(), usize::from(servers));
    if asked > listed {
        return Err(UpError::TooFewServers { path: path.to_owned(), listed, asked });
    }
    configs.truncate(asked);
    let left: Vec<_> = configs.iter().map(|config| config.server_id).collect();
    for config in configs {
        config.members.retain(|id, _| left.contains(id));
        if asked == 1 {
            config.standalone = true;
            config.peer_bind = None;
        }
    }
    Ok(())
}

/// Writes what the children will read, and reads it as they will, its warnings included. The
/// servers' directories are written relative to the file, so that the whole can be copied or moved.
pub(super) fn write_config(
    path: &Path,
    configs: &[ServerConfig],
) -> Result<(Vec<ServerConfig>, Vec<config::Warning>), UpError> {
    let directory = path.parent().unwrap_or(Path::new(""));
    let mut written = configs.to_vec();
    for config in &mut written {
        let relative = |files: &mut PathBuf| {
            if let Ok(inside) = files.strip_prefix(directory) {
                *files = inside.to_owned();
            }
        };
        config.files_mut().for_each(relative);
        [&mut config.data_dir, &mut config.data_log_dir].into_iter().for_each(relative);
    }
    let has_secrets = written.iter().any(|config| *config != config.without_secrets());
    let mode = if has_secrets { SECRET_MODE } else { FILE_MODE };
    write_durably(path, &config::to_cluster_toml(&written), mode)
        .map_err(|source| file_error(path, source))?;
    Ok(config::load_ensemble(path)?)
}

pub(super) fn log_warnings(warnings: Vec<config::Warning>) {
    for warning in warnings {
        warn!("{warning}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clients_on_this_machine_get_an_address_that_they_can_use() {
        for (bind, expected) in [
            ("0.0.0.0", "127.0.0.1:2181"),
            ("::", "[::1]:2181"),
            ("::1", "[::1]:2181"),
            ("fe80::7", "[fe80::7]:2181"),
            ("localhost", "localhost:2181"),
        ] {
            let client_bind = HostPort::new(bind, 2181);
            let config = ServerConfig { client_bind, ..ServerConfig::default() };
            assert_eq!(PlannedServer::of(&config).client.to_string(), expected);
        }
    }
}
