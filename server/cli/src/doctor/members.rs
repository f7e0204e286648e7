//! The other servers: whether their names are known, and whether they can be reached.

use std::collections::BTreeSet;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use futures_util::future::join_all;
use tokio::net::{TcpStream, lookup_host};
use tokio::time::timeout;
use zoolet_server::embed::config::{HostPort, Member, ServerConfig, ServerId};

use super::file::is_loopback;
use super::finding::{Findings, Level};
use super::ports::version_at;

const SERVERS: &str = "servers";

/// How long another server may take to be found and to accept a connection.
const REACH_LIMIT: Duration = Duration::from_secs(2);

/// Checks the members of the ensemble.
pub(super) async fn check(config: &ServerConfig, findings: &mut Findings) {
    if config.standalone || config.members.len() < 2 {
        return;
    }
    check_hosts(config, findings);
    let others = config.members.iter().filter(|(id, _)| **id != config.server_id);
    for (level, text) in join_all(others.map(|(id, member)| look(*id, member))).await {
        findings.add(level, SERVERS, text);
    }
    check_own_name(config, findings).await;
}

/// Names of this machine mean another one elsewhere.
fn check_hosts(config: &ServerConfig, findings: &mut Findings) {
    let hosts: BTreeSet<&str> = config.members.values().map(|it| it.peer.host.as_str()).collect();
    let (local, remote): (Vec<&Member>, Vec<&Member>) =
        config.members.values().partition(|member| is_loopback(&member.peer));
    if let (Some(local), Some(remote)) = (local.first(), remote.first()) {
        let text = format!(
            "{} means another machine on each machine: {} does not find it there",
            local.peer, remote.peer
        );
        findings.error(SERVERS, text);
    } else if hosts.len() < config.members.len() {
        let text = "several servers are on one machine: its loss is the loss of all of them";
        findings.warn(SERVERS, text);
    }
}

async fn look(id: ServerId, member: &Member) -> (Level, String) {
    let peer = &member.peer;
    match reach(peer).await {
        Ok(address) => {
            let client = match &member.client {
                Some(client) => version_of(client, address.ip()).await,
                None => None,
            };
            let version = client.map(|version| format!("; {version}")).unwrap_or_default();
            (Level::Ok, format!("server {id} at {peer}: reached{version}"))
        }
        Err(why) => (Level::Warning, format!("server {id} at {peer}: {why}")),
    }
}

async fn reach(peer: &HostPort) -> Result<SocketAddr, String> {
    let found = timeout(REACH_LIMIT, lookup_host(peer.to_string())).await;
    let found = found.map_err(|_| "its name was not resolved in time".to_owned())?;
    let addresses: Vec<_> = found.map_err(|error| format!("unknown host: {error}"))?.collect();
    match timeout(REACH_LIMIT, TcpStream::connect(&*addresses)).await {
        Ok(Ok(stream)) => stream.peer_addr().map_err(|error| error.to_string()),
        Ok(Err(error)) => Err(format!("cannot be reached: {error}; is it running?")),
        Err(_) => Err(format!("no connection within {} ms", REACH_LIMIT.as_millis())),
    }
}

async fn version_of(client: &HostPort, host: IpAddr) -> Option<String> {
    let address = SocketAddr::new(host, client.port);
    timeout(REACH_LIMIT, version_at(address)).await.ok()?.ok()?
}

/// The others call this server by the name in the list.
async fn check_own_name(config: &ServerConfig, findings: &mut Findings) {
    let Some(member) = config.member() else { return };
    let peer = &member.peer;
    if peer.is_wildcard() {
        return;
    }
    let found = timeout(REACH_LIMIT, lookup_host(peer.to_string())).await;
    let addresses: Vec<SocketAddr> = match found {
        Ok(Ok(addresses)) => addresses.collect(),
        Ok(Err(error)) => {
            let text = format!("this server at {peer}: unknown host: {error}");
            findings.error(SERVERS, text);
            return;
        }
        Err(_) => {
            findings.warn(SERVERS, format!("this server at {peer}: not resolved in time"));
            return;
        }
    };
    let is_own = |address: &SocketAddr| {
        std::net::TcpListener::bind(SocketAddr::new(address.ip(), 0)).is_ok()
    };
    if addresses.iter().any(is_own) {
        findings.ok(SERVERS, format!("this server at {peer}: an address of this machine"));
    } else {
        let text = format!(
            "this server at {peer}: no address of this machine; right behind a translation of \
             addresses alone"
        );
        findings.warn(SERVERS, text);
    }
}
