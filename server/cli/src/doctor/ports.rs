//! The ports that the server opens: free, or in use by what.

use std::fs;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener};
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpStream, lookup_host};
use tokio::time::timeout;
use zoolet_server::embed::config::{HostPort, ServerConfig};

use super::directories;
use super::finding::Findings;

const PORTS: &str = "ports";
const LIMITS: &str = "limits";

/// How long a program on a port may take to say what it is.
const ASK_LIMIT: Duration = Duration::from_secs(1);

/// The most that is read of its answer, in bytes.
const ANSWER_BYTES_MAX: u64 = 4096;

/// The state of a socket in `/proc/net/tcp` that listens.
const LISTENING: &str = "0A";

/// What was found at a port.
enum Probe {
    Free,
    /// The program, if known, and the limits that it has reached.
    InUse {
        user: String,
        limits: Vec<String>,
    },
    Failed(String),
}

/// Checks the ports. A server that is running has them.
pub(super) async fn check(config: &ServerConfig, findings: &mut Findings) {
    let mut ports = vec![("clients", &config.client_bind)];
    ports.extend(config.secure_client_bind.iter().map(|bind| ("clients with TLS", bind)));
    ports.extend(config.peer_bind.iter().map(|bind| ("servers", bind)));
    ports.extend(config.http_bind.iter().map(|bind| ("HTTP", bind)));
    ports.extend(config.metrics_bind.iter().map(|bind| ("metrics", bind)));
    let mut probes = Vec::new();
    for (whom, bind) in ports {
        probes.push((format!("{bind} for {whom}"), probe(bind).await));
    }
    // A server that starts just now has its directory before it opens a port.
    let is_served = !probes.iter().all(|(_, probe)| matches!(probe, Probe::Free));
    let is_running = directories::note_running(config, is_served, findings);
    for (port, probe) in probes {
        match probe {
            Probe::Free if is_running => {
                findings.warn(PORTS, format!("{port}: the server does not listen there"));
            }
            Probe::Free => findings.ok(PORTS, format!("{port}: free")),
            Probe::InUse { user, limits } if is_running => {
                findings.ok(PORTS, format!("{port}: in use{user}"));
                for limit in limits {
                    findings.warn(LIMITS, limit);
                }
            }
            Probe::InUse { user, .. } => findings.error(PORTS, format!("{port}: in use{user}")),
            Probe::Failed(why) => findings.error(PORTS, format!("{port}: {why}")),
        }
    }
}

async fn probe(bind: &HostPort) -> Probe {
    let address = match lookup_host(bind.to_string()).await.map(|mut found| found.next()) {
        Ok(Some(address)) => address,
        Ok(None) => return Probe::Failed("the name has no address".to_owned()),
        Err(error) => return Probe::Failed(format!("unknown host: {error}")),
    };
    match TcpListener::bind(address) {
        Ok(_) => Probe::Free,
        Err(error) if error.kind() == io::ErrorKind::AddrInUse => user_of(address).await,
        Err(error) => Probe::Failed(error.to_string()),
    }
}

/// What uses a port, as far as it can be found out: its process, and what it says itself.
async fn user_of(address: SocketAddr) -> Probe {
    let process = process_on(address.port()).map(|process| format!(" by {process}"));
    let asked = timeout(ASK_LIMIT, srvr_at(reachable(address))).await;
    let answer = asked.ok().and_then(Result::ok).unwrap_or_default();
    let server = version_of(&answer).map(|version| format!(", a ZooKeeper server: {version}"));
    let user = [process, server].into_iter().flatten().collect();
    let reached = answer.lines().filter(|line| line.starts_with("Limit reached"));
    Probe::InUse { user, limits: reached.map(str::to_owned).collect() }
}

/// The address at which a listener of all addresses is reached.
fn reachable(address: SocketAddr) -> SocketAddr {
    if !address.ip().is_unspecified() {
        return address;
    }
    let here = if address.is_ipv4() {
        IpAddr::from(Ipv4Addr::LOCALHOST)
    } else {
        IpAddr::from(Ipv6Addr::LOCALHOST)
    };
    SocketAddr::new(here, address.port())
}

/// What a client port says about its version; `None` if it is something else.
pub(super) async fn version_at(address: SocketAddr) -> io::Result<Option<String>> {
    Ok(version_of(&srvr_at(address).await?))
}

/// Returns the answer of a port to `srvr`.
async fn srvr_at(address: SocketAddr) -> io::Result<String> {
    let mut stream = TcpStream::connect(address).await?;
    stream.write_all(b"srvr").await?;
    let mut answer = Vec::new();
    stream.take(ANSWER_BYTES_MAX).read_to_end(&mut answer).await?;
    Ok(String::from_utf8_lossy(&answer).into_owned())
}

fn version_of(answer: &str) -> Option<String> {
    let version = answer.lines().find_map(|line| line.strip_prefix("Zookeeper version: "));
    version.map(|version| version.split([',', ' ']).next().unwrap_or(version).to_owned())
}

/// The name and the number of the process that listens at a port. Only root sees those of others.
fn process_on(port: u16) -> Option<String> {
    let tables = ["/proc/net/tcp", "/proc/net/tcp6"].map(|path| fs::read_to_string(path).ok());
    let inode = tables.iter().flatten().find_map(|table| listener_of(table, port))?;
    let wanted = format!("socket:[{inode}]");
    for process in fs::read_dir("/proc").ok()?.flatten() {
        let (path, name) = (process.path(), process.file_name());
        let number = name.to_string_lossy();
        // Not `self` and its like, which are this process once more.
        if !number.bytes().all(|byte| byte.is_ascii_digit()) {
            continue;
        }
        let Ok(files) = fs::read_dir(path.join("fd")) else { continue };
        let is_it = |file: &fs::DirEntry| {
            fs::read_link(file.path()).is_ok_and(|target| target.as_os_str() == wanted.as_str())
        };
        if files.flatten().any(|file| is_it(&file)) {
            let name = fs::read_to_string(path.join("comm")).unwrap_or_default();
            return Some(format!("{} (process {number})", name.trim()));
        }
    }
    None
}

/// The inode of the socket that listens at a port, in a table of `/proc/net`.
fn listener_of(table: &str, port: u16) -> Option<&str> {
    let port = format!(":{port:04X}");
    table.lines().find_map(|line| {
        let mut fields = line.split_whitespace();
        let (local, state) = (fields.nth(1)?, fields.nth(1)?);
        if !local.ends_with(&port) || state != LISTENING {
            return None;
        }
        fields.nth(5)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_process_that_listens_is_found() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let found = process_on(port).unwrap();
        assert!(found.ends_with(&format!("(process {})", std::process::id())), "{found}");
        drop(listener);
        assert_eq!(process_on(port), None);
    }
}
