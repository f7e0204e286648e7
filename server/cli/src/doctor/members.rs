//! The other servers: whether their names are known, and whether they can be reached.

use std::net::{IpAddr, SocketAddr, TcpListener};
use std::time::Duration;

use futures_util::future::join_all;
use tokio::net::{TcpStream, lookup_host};
use tokio::time::timeout;
use zoolet_server::embed::config::{HostPort, Member, ServerConfig, ServerId};

use super::addresses::{self, Listens, Located, SERVERS};
use super::finding::{Findings, Level};
use super::ports::version_at;

/// How long another server may take to be found and to accept a connection.
const REACH_LIMIT: Duration = Duration::from_secs(2);

/// Checks the members of the ensemble.
pub(super) async fn check(config: &ServerConfig, findings: &mut Findings) {
    if config.standalone || config.members.len() < 2 {
        return;
    }
    let located = join_all(config.members.iter().map(|(id, member)| locate(*id, member))).await;
    let (own, others): (Vec<_>, Vec<_>) =
        located.into_iter().partition(|server| server.id == config.server_id);
    let looked = others.iter().filter_map(|other| Some((other, config.members.get(&other.id)?)));
    for (level, text) in join_all(looked.map(|(other, member)| look(other, member))).await {
        findings.add(level, SERVERS, text);
    }
    if let Some(own) = own.first() {
        let listens = listens(config.peer_bind.as_ref().unwrap_or(&own.peer)).await;
        addresses::check(own, listens, &others, is_own, findings);
    }
}

async fn locate(id: ServerId, member: &Member) -> Located {
    let found = resolve(&member.peer).await;
    let addresses = found.map(|found| found.iter().map(plain).collect());
    Located { id, peer: member.peer.clone(), addresses }
}

async fn resolve(host: &HostPort) -> Result<Vec<SocketAddr>, String> {
    let found = timeout(REACH_LIMIT, lookup_host(host.to_string())).await;
    let found = found.map_err(|_| "its name was not resolved in time".to_owned())?;
    Ok(found.map_err(|error| format!("unknown host: {error}"))?.collect())
}

/// Returns where a server with this setting listens: on the first address of a name.
async fn listens(bind: &HostPort) -> Listens {
    if bind.is_wildcard() {
        return Listens::Everywhere;
    }
    let first = resolve(bind).await.ok().and_then(|addresses| addresses.first().map(plain));
    first.map_or(Listens::Unknown, Listens::On)
}

/// Returns an IPv4 address that is written as one of IPv6 as itself.
fn plain(address: &SocketAddr) -> IpAddr {
    address.ip().to_canonical()
}

/// Whether it is an address of this machine.
fn is_own(address: IpAddr) -> bool {
    TcpListener::bind(SocketAddr::new(address, 0)).is_ok()
}

async fn look(other: &Located, member: &Member) -> (Level, String) {
    let (id, peer) = (other.id, &other.peer);
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
    let addresses = resolve(peer).await?;
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
