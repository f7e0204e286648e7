//! What is to be started, and where its files are.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs::{self, File};
use std::io;
use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};

use serde_json::json;
use tempfile::TempDir;
use tracing::warn;
use zoolet_storage::{Identity, RealDisk};

use super::UpError;
use super::child::Child;
use super::files::{absolute, file_error, lock, resolved, write_durably};
use super::http::set_ports;
use super::tls::{self, ClientFiles};
use crate::cli::UpArgs;
use zoolet_server::embed::ReservedPort;
use zoolet_server::embed::config::{
    self, HostPort, LoopbackPorts, Member, MemberRole, ServerConfig,
};

/// How many servers there are by default.
const SERVERS_DEFAULT: u8 = 3;

/// The file with the secret of the servers, in the directory of the ensemble.
const SECRET_FILE: &str = "peer.secret";

/// Secrets, and files with passwords, are for the owner's eyes only; other files are for all.
const SECRET_MODE: u32 = 0o600;
const FILE_MODE: u32 = 0o666;

/// The first client port by default.
const CLIENT_PORT_DEFAULT: u16 = 2181;

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
    _lock: File,
    /// Keeps other programs off the servers' ports, also while one of them is down.
    ports: Vec<ReservedPort>,
    /// Removed when the plan is dropped.
    _temporary: Option<TempDir>,
}

/// One server of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct PlannedServer {
    pub(super) id: u8,
    /// Where clients on this machine reach it.
    pub(super) client: HostPort,
    pub(super) is_voter: bool,
    data_dir: PathBuf,
    client_bind: HostPort,
    peer_bind: Option<HostPort>,
    http_bind: Option<HostPort>,
}

impl Plan {
    pub(super) fn make(args: &UpArgs, log: Option<String>) -> Result<Self, UpError> {
        let mut plan = match &args.config {
            Some(config) => Self::from_config(config, args)?,
            None => Self::on_loopback(args)?,
        };
        plan.log = log;
        plan.reserve_ports()?;
        Ok(plan)
    }

    /// The servers of a file that the user has written; other options go before it.
    fn from_config(path: &Path, args: &UpArgs) -> Result<Self, UpError> {
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
        let mut config = path.to_owned();
        let ports_given = args.client_port.is_some() || args.http_port.is_some();
        if args.servers.is_some() || ports_given || args.data_dir.is_some() {
            if let Some(servers) = args.servers {
                take_first(&mut configs, servers, path)?;
            }
            if let Some(first) = args.client_port {
                let ports = ports_in_a_row(first, configs.len())?;
                for (config, port) in configs.iter_mut().zip(ports) {
                    config.client_bind.port = port;
                }
            }
            if let Some(first) = args.http_port {
                set_ports(&mut configs, first)?;
            }
            if args.data_dir.is_some() {
                for config in &mut configs {
                    config.data_dir = directory.join(config.server_id.to_string());
                    config.data_log_dir.clone_from(&config.data_dir);
                }
            }
            config = directory.join("up.toml");
            (configs, warnings) = write_config(&config, &configs)?;
        }
        log_warnings(warnings);
        Ok(Self::of(config, &configs, directory, lock))
    }

    /// Servers with consecutive client ports; a directory that has served before is used as it is,
    /// its peer ports too.
    fn on_loopback(args: &UpArgs) -> Result<Self, UpError> {
        let mut temporary = None;
        let directory = if let Some(directory) = &args.data_dir {
            absolute(directory)?
        } else {
            let made = TempDir::with_prefix("zoolet-")
                .map_err(|source| file_error(&std::env::temp_dir(), source))?;
            temporary.insert(made).path().to_owned()
        };
        let servers = usize::from(args.servers.unwrap_or(SERVERS_DEFAULT));
        let ports = ports_in_a_row(args.client_port.unwrap_or(CLIENT_PORT_DEFAULT), servers)?;
        let lock = lock(&directory)?;
        let config = directory.join("cluster.toml");
        let earlier = earlier(&config)?;
        for known in earlier.iter().flatten() {
            check_inside(&directory, known, &config)?;
        }
        if let Some(known) = earlier.as_ref().filter(|known| known.len() != servers) {
            let (servers, asked) = (known.len(), servers);
            return Err(UpError::OtherEnsemble { directory, servers, asked });
        }
        let mut configs = match earlier {
            Some(earlier) if can_serve_again(&earlier, &ports) && !args.tls => earlier,
            earlier => found(&config, &directory, (&ports, args.tls), earlier.as_deref())?,
        };
        if let Some(first) = args.http_port {
            set_ports(&mut configs, first)?;
            configs = write_config(&config, &configs)?.0;
        }
        let plan = Self::of(config, &configs, directory, lock);
        Ok(Self { _temporary: temporary, ..plan })
    }

    fn of(config: PathBuf, configs: &[ServerConfig], directory: PathBuf, lock: File) -> Self {
        let servers = configs.iter().map(PlannedServer::of).collect();
        let (ports, temporary) = (Vec::new(), None);
        Self { config, servers, log: None, directory, _lock: lock, ports, _temporary: temporary }
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
                    "client_port": child.server.client.port,
                    "peer_port": child.server.peer_bind.as_ref().map(|bind| bind.port),
                    "http_port": child.server.http_bind.as_ref().map(|bind| bind.port),
                })
            })
            .collect();
        let state = json!({ "connect_string": self.connect_string(), "servers": servers });
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
        let bind = &config.client_bind;
        let host = match bind.host.as_str() {
            "0.0.0.0" => "127.0.0.1",
            "::" => "::1",
            host => host,
        };
        Self {
            id: config.server_id.0,
            client: HostPort::new(host, bind.port),
            is_voter: config.role() == MemberRole::Participant,
            data_dir: config.data_dir.clone(),
            client_bind: bind.clone(),
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

/// Ports in a row, one for each server.
pub(super) fn ports_in_a_row(first: u16, servers: usize) -> Result<Vec<u16>, UpError> {
    let ports: Vec<u16> = (first..=u16::MAX).take(servers).collect();
    if ports.len() < servers {
        return Err(UpError::TooManyPorts { servers, client_port: first });
    }
    Ok(ports)
}

/// The configuration of an earlier start.
fn earlier(path: &Path) -> Result<Option<Vec<ServerConfig>>, UpError> {
    if !path.try_exists().map_err(|source| file_error(path, source))? {
        return Ok(None);
    }
    Ok(Some(config::load_ensemble(path)?.0))
}

/// Whether an earlier start had the same servers, and its peer ports are free.
fn can_serve_again(earlier: &[ServerConfig], client_ports: &[u16]) -> bool {
    let ports = earlier.iter().map(|config| config.client_bind.port);
    let mut peers = earlier.iter().filter_map(|config| config.peer_bind.as_ref());
    ports.eq(client_ports.iter().copied())
        && peers.all(|bind| ReservedPort::take(&bind.host, bind.port).is_ok())
}

/// A new ensemble on the loopback, or an earlier one on other ports.
fn found(
    path: &Path,
    directory: &Path,
    (client_ports, with_tls): (&[u16], bool),
    earlier: Option<&[ServerConfig]>,
) -> Result<Vec<ServerConfig>, UpError> {
    let peers = free_ports(client_ports).map_err(UpError::NoPorts)?;
    let pair = |(&client, peer): (&u16, &ReservedPort)| LoopbackPorts { client, peer: peer.port() };
    let ports: Vec<LoopbackPorts> = client_ports.iter().zip(&peers).map(pair).collect();
    let mut configs = ServerConfig::loopback_ensemble(&ports, directory)?;
    if let Some(earlier) = earlier {
        configs = on_ports_of(earlier, &configs);
    }
    if configs.len() > 1 {
        let own = directory.join(SECRET_FILE);
        make_secret(&own)?;
        for config in &mut configs {
            let secret = &mut config.ensemble.peer_secret_file;
            if secret.as_ref().is_none_or(|file| *file == own) {
                // Relative to the file that names it, so that the directory can be moved.
                *secret = Some(PathBuf::from(SECRET_FILE));
            }
        }
    }
    if with_tls {
        tls::set_up(directory, &mut configs, write_durably)
            .map_err(|(path, source)| file_error(&path, source))?;
    }
    let (configs, warnings) = write_config(path, &configs)?;
    log_warnings(warnings);
    Ok(configs)
}

/// The servers of an earlier start, with their directories and settings, on the ports of `fresh`.
fn on_ports_of(earlier: &[ServerConfig], fresh: &[ServerConfig]) -> Vec<ServerConfig> {
    let fresh_members = fresh.first().map(|config| config.members.values()).into_iter().flatten();
    let pairs = earlier.iter().zip(fresh_members);
    let members: BTreeMap<_, _> = pairs
        .map(|(known, member)| (known.server_id, Member { role: known.role(), ..member.clone() }))
        .collect();
    let moved = |(known, fresh): (&ServerConfig, &ServerConfig)| {
        let mut config = ServerConfig {
            members: members.clone(),
            client_bind: fresh.client_bind.clone(),
            peer_bind: fresh.peer_bind.clone(),
            ..known.clone()
        };
        // The servers' directories know the ensemble by this number.
        config.ensemble.cluster_id = Some(known.cluster_id());
        config
    };
    earlier.iter().zip(fresh).map(moved).collect()
}

/// Refuses a server whose files are outside of the directory. A copy of a directory must not
/// change the files of the original, and the files of a moved one must be found.
fn check_inside(directory: &Path, config: &ServerConfig, file: &Path) -> Result<(), UpError> {
    for files in [&config.data_dir, &config.data_log_dir] {
        let real = resolved(files).map_err(|source| file_error(files, source))?;
        if !real.starts_with(directory) {
            return Err(UpError::Outside {
                file: file.to_owned(),
                server: config.server_id.0,
                files: files.clone(),
                directory: directory.to_owned(),
            });
        }
    }
    Ok(())
}

/// Makes the secret of the servers, unless an earlier start has made it.
fn make_secret(path: &Path) -> Result<(), UpError> {
    if path.try_exists().map_err(|source| file_error(path, source))? {
        return Ok(());
    }
    let written = secret().and_then(|text| write_durably(path, &text, SECRET_MODE));
    written.map_err(|source| file_error(path, source))
}

/// Returns 32 random bytes as a line of text.
fn secret() -> io::Result<String> {
    let mut text = String::new();
    for _ in 0..4 {
        write!(text, "{:016x}", getrandom::u64()?).expect("a String takes everything");
    }
    text.push('\n');
    Ok(text)
}

/// As many ports as `taken` has, which are free and not among them.
fn free_ports(taken: &[u16]) -> io::Result<Vec<ReservedPort>> {
    // All are held until the last is found, so that none comes twice.
    let (mut found, mut unfit) = (Vec::new(), Vec::new());
    while found.len() < taken.len() {
        let port = ReservedPort::take(&Ipv4Addr::LOCALHOST.to_string(), 0)?;
        if taken.contains(&port.port()) {
            unfit.push(port);
        } else {
            found.push(port);
        }
    }
    Ok(found)
}

/// Writes what the children will read, and reads it as they will, its warnings included. The
/// servers' directories are written relative to the file, so that the whole can be copied or moved.
fn write_config(
    path: &Path,
    configs: &[ServerConfig],
) -> Result<(Vec<ServerConfig>, Vec<config::Warning>), UpError> {
    let directory = path.parent().unwrap_or(Path::new(""));
    let mut written = configs.to_vec();
    for config in &mut written {
        let tls = [&mut config.tls.client, &mut config.tls.peer].into_iter();
        let stores = tls.flat_map(|side| [&mut side.key_store.file, &mut side.trust_store.file]);
        let data = [&mut config.data_dir, &mut config.data_log_dir];
        for files in stores.flatten().chain(data) {
            if let Ok(inside) = files.strip_prefix(directory) {
                *files = inside.to_owned();
            }
        }
    }
    let has_secrets = written.iter().any(|config| *config != config.without_secrets());
    let mode = if has_secrets { SECRET_MODE } else { FILE_MODE };
    write_durably(path, &config::to_cluster_toml(&written), mode)
        .map_err(|source| file_error(path, source))?;
    Ok(config::load_ensemble(path)?)
}

fn log_warnings(warnings: Vec<config::Warning>) {
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
