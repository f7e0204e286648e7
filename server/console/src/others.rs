//! The servers that an ensemble has and the connect string does not name.

use std::collections::BTreeSet;
use std::net::SocketAddr;

use tokio::net::lookup_host;

/// Returns the client addresses of a configuration's servers that are none of the known ones.
pub(crate) async fn others(config: &str, known: &[String]) -> Vec<String> {
    let mut seen = BTreeSet::new();
    for address in known {
        seen.extend(resolved(address).await);
    }
    let mut others = Vec::new();
    for address in config.lines().filter_map(client_address) {
        let addresses = resolved(&address).await;
        let is_known = known.contains(&address) || addresses.iter().any(|it| seen.contains(it));
        if !is_known {
            seen.extend(addresses);
            others.push(address);
        }
    }
    others
}

async fn resolved(address: &str) -> Vec<SocketAddr> {
    lookup_host(address).await.into_iter().flatten().collect()
}

/// Returns the client address of a line `server.N=host:port:port:role;host:port`. A server that
/// listens on all addresses of its machine is reached at the host of its peer port.
fn client_address(line: &str) -> Option<String> {
    let server = line.strip_prefix("server.")?.split_once('=')?.1;
    let (hosts, client) = server.split_once(';')?;
    let host_end = match hosts.find(']') {
        Some(bracket) => bracket + 1,
        None => hosts.find(':')?,
    };
    let host = hosts.get(..host_end)?;
    let Some((_, port)) = client.rsplit_once(':') else { return Some(format!("{host}:{client}")) };
    let is_everywhere = client.parse::<SocketAddr>().is_ok_and(|at| at.ip().is_unspecified());
    Some(if is_everywhere { format!("{host}:{port}") } else { client.to_owned() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn only_servers_that_are_not_named_are_added() {
        let config = "server.1=127.0.0.1:1:2:participant;0.0.0.0:2181\n\
                      server.2=127.0.0.1:1:2:participant;127.0.0.1:2182\n\
                      server.3=[::1]:1:2:observer;2183\nserver.4=c:1:2\nversion=1";
        let known = ["localhost:2181".to_owned()];
        assert_eq!(others(config, &known).await, ["127.0.0.1:2182", "[::1]:2183"]);
    }
}
