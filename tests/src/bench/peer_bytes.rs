//! The bytes that a server has sent to its peers, by the kernel's count for each connection.

use std::process::Command;

/// Returns what a process has sent on its established connections that are not with clients;
/// `None` where `ss` is not installed or shows nothing of the kind.
pub(super) fn sent(pid: u32, client_ports: &[u16]) -> Option<u64> {
    let output = Command::new("ss").args(["-tinpHO", "state", "established"]).output().ok()?;
    sum(&String::from_utf8_lossy(&output.stdout), pid, client_ports)
}

/// Adds up the lines of `ss`, one for each connection.
fn sum(lines: &str, pid: u32, client_ports: &[u16]) -> Option<u64> {
    let owner = format!("pid={pid},");
    let of_peers = lines.lines().filter_map(|line| {
        let mut columns = line.split_whitespace().skip(2);
        let ports = [port(columns.next()?)?, port(columns.next()?)?];
        let is_client = ports.iter().any(|port| client_ports.contains(port));
        if is_client || !line.contains(&owner) {
            return None;
        }
        let sent = line.split_whitespace().find_map(|word| word.strip_prefix("bytes_sent:"));
        // A connection that has sent nothing does not have the word.
        Some(sent.and_then(|bytes| bytes.parse::<u64>().ok()).unwrap_or(0))
    });
    let of_peers: Vec<u64> = of_peers.collect();
    if of_peers.is_empty() { None } else { Some(of_peers.iter().sum()) }
}

fn port(address: &str) -> Option<u16> {
    address.rsplit_once(':')?.1.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    const LINES: &str = "0 0 127.0.0.1:7001 127.0.0.1:50000 users:((\"zoolet\",pid=12,fd=9)) cubic \
                         rto:204 bytes_sent:500 bytes_acked:500 segs_out:3\n\
                         0 0 127.0.0.1:7001 127.0.0.1:50002 users:((\"zoolet\",pid=12,fd=8)) cubic \
                         bytes_received:4\n\
                         0 0 127.0.0.1:2181 127.0.0.1:50001 users:((\"zoolet\",pid=12,fd=7)) cubic \
                         bytes_sent:90000\n\
                         0 0 127.0.0.1:50000 127.0.0.1:7001 users:((\"zoolet\",pid=123,fd=9)) cubic \
                         bytes_sent:77\n";

    #[test]
    fn connections_of_clients_and_of_other_servers_do_not_count() {
        assert_eq!(sum(LINES, 12, &[2181]), Some(500));
        assert_eq!(sum(LINES, 123, &[2181]), Some(77));
        assert_eq!(sum(LINES, 1, &[2181]), None);
        assert_eq!(sum("", 12, &[]), None);
    }
}
