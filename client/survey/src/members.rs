//! The servers in the text of `/zookeeper/config`.

use std::collections::BTreeSet;
use std::net::SocketAddr;

use tokio::net::lookup_host;

/// The servers of a configuration that are not named.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Others {
    /// Their client addresses, as others reach them.
    pub addresses: Vec<String>,
    /// Whether the configuration has one of those that are named.
    pub has_named: bool,
}

/// Returns the host and the client address of each server of a configuration. A server may be
/// written without a client address.
pub fn client_addresses(config: &str) -> Vec<(&str, String)> {
    config.lines().filter_map(client_address).collect()
}

/// Reads a line `server.N=host:port:port:role;host:port`, the last host of which may be left out.
fn client_address(line: &str) -> Option<(&str, String)> {
    let server = line.strip_prefix("server.")?.split_once('=')?.1;
    let (hosts, client) = server.split_once(';')?;
    let host_end = match hosts.find(']') {
        Some(bracket) => bracket + 1,
        None => hosts.find(':')?,
    };
    let host = hosts.get(..host_end)?;
    let client = if client.contains(':') { client.to_owned() } else { format!("{host}:{client}") };
    Some((host, client))
}

/// Returns the servers of a configuration that are neither named nor at a known address.
pub async fn others(config: &str, named: &[String], mut known: BTreeSet<SocketAddr>) -> Others {
    let mut others = Others::default();
    for (host, client) in client_addresses(config) {
        let address = reachable(host, client);
        let resolved = resolved(&address).await;
        if named.contains(&address) || resolved.iter().any(|address| known.contains(address)) {
            others.has_named = true;
        } else {
            known.extend(resolved);
            others.addresses.push(address);
        }
    }
    others
}

/// Returns where an address is; nothing if its host is unknown.
pub async fn resolved(address: &str) -> Vec<SocketAddr> {
    lookup_host(address).await.into_iter().flatten().collect()
}

/// Returns a client address as others reach it: one that listens on all addresses of its machine
/// is reached at the machine's name.
fn reachable(host: &str, client: String) -> String {
    match client.parse::<SocketAddr>() {
        Ok(address) if address.ip().is_unspecified() => format!("{host}:{}", address.port()),
        Ok(_) | Err(_) => client,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn only_servers_that_are_not_named_are_added() {
        let config = "server.1=127.0.0.1:1:2:participant;0.0.0.0:2181\n\
                      server.2=127.0.0.1:1:2:participant;127.0.0.1:2182\n\
                      server.3=[::1]:1:2:observer;2183\nserver.4=c:1:2\nversion=1";
        let addresses = |all: &[&str]| all.iter().map(|it| (*it).to_owned()).collect::<Vec<_>>();
        let known = resolved("127.0.0.1:2181").await.into_iter().collect();
        let found = others(config, &[], known).await;
        assert_eq!(found.addresses, addresses(&["127.0.0.1:2182", "[::1]:2183"]));
        assert!(found.has_named);
        let found = others(config, &addresses(&["[::1]:2183"]), BTreeSet::new()).await;
        assert_eq!(found.addresses, addresses(&["127.0.0.1:2181", "127.0.0.1:2182"]));
        assert!(found.has_named);
        let found = others(config, &addresses(&["10.0.0.1:2181"]), BTreeSet::new()).await;
        assert_eq!((found.addresses.len(), found.has_named), (3, false));
    }

    #[test]
    fn a_server_that_listens_everywhere_is_reached_by_its_name() {
        assert_eq!(reachable("a", "0.0.0.0:2181".into()), "a:2181");
        assert_eq!(reachable("[::1]", "[::]:2181".into()), "[::1]:2181");
        assert_eq!(reachable("a", "b:2181".into()), "b:2181");
        assert_eq!(reachable("a", "10.0.0.1:2181".into()), "10.0.0.1:2181");
    }
}
