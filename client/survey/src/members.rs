//! The servers in the text of `/zookeeper/config`.

/// Returns the host and the client address of each server of a configuration. A server may be
/// written without a client address.
pub fn client_addresses(config: &str) -> Vec<(&str, String)> {
    config.lines().filter_map(client_address).collect()
}

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
