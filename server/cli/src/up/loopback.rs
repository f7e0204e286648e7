//! Ensembles on the loopback: a new one, or the one that an earlier start has left in its directory.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io;
use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};

use super::UpError;
use super::files::{SECRET_MODE, file_error, resolved, write_durably};
use super::plan::{log_warnings, write_config};
use super::ports::{self, Ports};
use super::tls::{self, ClientFiles};
use super::{http, temporary};
use crate::cli::UpArgs;
use zoolet_server::embed::ReservedPort;
use zoolet_server::embed::config::{self, LoopbackPorts, Member, ServerConfig};

/// How many servers there are by default.
const SERVERS_DEFAULT: u8 = 3;

/// The first client port by default.
const CLIENT_PORT_DEFAULT: u16 = 2181;

/// The file with the secret of the servers, in the directory of the ensemble.
const SECRET_FILE: &str = "peer.secret";

/// What is in an ensemble's directory.
#[derive(Debug)]
pub(super) struct Place<'a> {
    /// The `cluster.toml`.
    pub(super) file: &'a Path,
    pub(super) directory: &'a Path,
    pub(super) is_temporary: bool,
}

impl Place<'_> {
    /// Returns the servers of the directory, as they were started before unless the arguments change
    /// that, or new ones.
    pub(super) fn servers(
        &self,
        args: &UpArgs,
        held: &mut Vec<ReservedPort>,
    ) -> Result<Vec<ServerConfig>, UpError> {
        let mut configs = if let Some(earlier) = self.earlier()? {
            self.again(args, earlier, held)?
        } else {
            let servers = usize::from(args.servers.unwrap_or(SERVERS_DEFAULT));
            let first = args.client_port.unwrap_or(CLIENT_PORT_DEFAULT);
            let ports = Ports::choose(first, servers, held)?;
            self.found((&ports.0, args.tls), None, held)?
        };
        if let Some(first) = args.http_port
            && !(first == 0 && configs.iter().all(|config| config.http_bind.is_some()))
        {
            let ports = Ports::choose(first, configs.len(), held)?;
            http::set_ports(&mut configs, &ports);
            configs = write_config(self.file, &configs)?.0;
        }
        Ok(configs)
    }

    /// Reads the configuration of an earlier start.
    fn earlier(&self) -> Result<Option<Vec<ServerConfig>>, UpError> {
        if !self.file.try_exists().map_err(|source| file_error(self.file, source))? {
            return Ok(None);
        }
        let earlier = config::load_ensemble(self.file)?.0;
        for known in &earlier {
            self.check_inside(known)?;
        }
        Ok(Some(earlier))
    }

    /// Goes on with the servers of an earlier start.
    fn again(
        &self,
        args: &UpArgs,
        earlier: Vec<ServerConfig>,
        held: &mut Vec<ReservedPort>,
    ) -> Result<Vec<ServerConfig>, UpError> {
        self.check_same(args, &earlier)?;
        let had_tls = ClientFiles::of(self.directory).is_some();
        let clients = earlier.iter().map(|config| &config.client_bind);
        let same = Ports(clients.clone().map(|bind| bind.port).collect());
        let ports = match args.client_port {
            None => same.clone(),
            Some(0) if clients.clone().all(ports::is_free) => same.clone(),
            Some(first) => Ports::choose(first, earlier.len(), held)?,
        };
        let peers = earlier.iter().filter_map(|config| config.peer_bind.as_ref());
        let gets_tls = args.tls && !had_tls;
        if ports == same && peers.clone().all(ports::is_free) && !gets_tls {
            return Ok(earlier);
        }
        self.found((&ports.0, args.tls), Some(&earlier), held)
    }

    /// Refuses options that differ from what the directory was started with, unless they are to change
    /// it; the number of servers is changed by a reconfiguration.
    pub(super) fn check_same(
        &self,
        args: &UpArgs,
        earlier: &[ServerConfig],
    ) -> Result<(), UpError> {
        let (servers, asked) = (earlier.len(), args.servers.map_or(earlier.len(), usize::from));
        if servers != asked {
            let directory = self.directory.to_owned();
            return Err(UpError::OtherEnsemble { directory, servers, asked });
        }
        if args.change {
            return Ok(());
        }
        let differs = |option: &'static str, was: String, asked: String| {
            if was == asked {
                return Ok(());
            }
            let file = self.file.to_owned();
            Err(UpError::Contradicts { file, option, was, asked })
        };
        if let Some(first) = args.client_port.filter(|first| *first != 0) {
            let was = Ports(earlier.iter().map(|config| config.client_bind.port).collect());
            let asked = ports::in_a_row(first, earlier.len())?;
            differs(
                "--client-port",
                format!("client ports {was}"),
                format!("client ports {asked}"),
            )?;
        }
        if let Some(first) = args.http_port.filter(|first| *first != 0) {
            let binds = earlier.iter().filter_map(|config| config.http_bind.as_ref());
            let was = Ports(binds.map(|bind| bind.port).collect());
            let asked = ports::in_a_row(first, earlier.len())?;
            differs("--http-port", format!("HTTP ports {was}"), format!("HTTP ports {asked}"))?;
        }
        if args.tls && ClientFiles::of(self.directory).is_none() {
            differs("--tls", "servers without TLS".to_owned(), "servers with TLS".to_owned())?;
        }
        Ok(())
    }

    /// Writes a new ensemble on the loopback, or an earlier one on other ports.
    fn found(
        &self,
        (client_ports, with_tls): (&[u16], bool),
        earlier: Option<&[ServerConfig]>,
        held: &mut Vec<ReservedPort>,
    ) -> Result<Vec<ServerConfig>, UpError> {
        let peers = free_ports(client_ports, held).map_err(UpError::NoPorts)?;
        let pair = |(&client, peer): (&u16, u16)| LoopbackPorts { client, peer };
        let ports: Vec<LoopbackPorts> = client_ports.iter().zip(peers).map(pair).collect();
        let mut configs = ServerConfig::loopback_ensemble(&ports, self.directory)?;
        if let Some(earlier) = earlier {
            configs = on_ports_of(earlier, &configs);
        }
        if self.is_temporary {
            for config in &mut configs {
                config.log.segment_bytes = temporary::SEGMENT_BYTES;
            }
        }
        if configs.len() > 1 {
            self.share_secret(&mut configs)?;
        }
        if with_tls {
            tls::set_up(self.directory, &mut configs, write_durably)
                .map_err(|(path, source)| file_error(&path, source))?;
        }
        let (configs, warnings) = write_config(self.file, &configs)?;
        log_warnings(warnings);
        Ok(configs)
    }

    fn share_secret(&self, configs: &mut [ServerConfig]) -> Result<(), UpError> {
        let own = self.directory.join(SECRET_FILE);
        make_secret(&own)?;
        for config in configs {
            let secret = &mut config.ensemble.peer_secret_file;
            if secret.as_ref().is_none_or(|file| *file == own) {
                // Relative to the file that names it, so that the directory can be moved.
                *secret = Some(PathBuf::from(SECRET_FILE));
            }
        }
        Ok(())
    }

    /// Refuses a server whose files are outside of the directory. A copy of a directory must not
    /// change the files of the original, and the files of a moved one must be found.
    fn check_inside(&self, config: &ServerConfig) -> Result<(), UpError> {
        for files in [&config.data_dir, &config.data_log_dir] {
            let real = resolved(files).map_err(|source| file_error(files, source))?;
            if !real.starts_with(self.directory) {
                return Err(UpError::Outside {
                    file: self.file.to_owned(),
                    server: config.server_id.0,
                    files: files.clone(),
                    directory: self.directory.to_owned(),
                });
            }
        }
        Ok(())
    }
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

/// As many ports as `taken` has, which are free and not among them. They are held from now on, so
/// that no other program gets one.
fn free_ports(taken: &[u16], held: &mut Vec<ReservedPort>) -> io::Result<Vec<u16>> {
    // Those that do not fit are held until the last is found, so that none comes twice.
    let (mut found, mut unfit) = (Vec::new(), Vec::new());
    while found.len() < taken.len() {
        let port = ReservedPort::take(&Ipv4Addr::LOCALHOST.to_string(), 0)?;
        if taken.contains(&port.port()) {
            unfit.push(port);
        } else {
            found.push(port.port());
            held.push(port);
        }
    }
    Ok(found)
}
