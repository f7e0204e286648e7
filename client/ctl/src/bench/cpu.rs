//! The CPU time of servers on this machine, from /proc.

use std::collections::BTreeSet;
use std::fs;
use std::net::{SocketAddr, ToSocketAddrs, UdpSocket};
use std::time::Duration;

use zoolet_client::ConnectString;

/// A listening socket in /proc/net/tcp.
const LISTEN: &str = "0A";

/// The processes of the servers that run here.
#[derive(Debug)]
pub(crate) struct Cpu {
    pids: BTreeSet<u32>,
}

impl Cpu {
    /// Finds who listens on the ports of a connect string. Servers on other machines, and those of
    /// other users, are not found.
    pub(crate) fn of_servers(connect_string: &str) -> Self {
        let servers = connect_string.parse::<ConnectString>();
        let addresses = servers.iter().flat_map(ConnectString::addresses);
        let ports: BTreeSet<u16> = addresses.filter_map(|one| local_port(one)).collect();
        let inodes = listening(&ports);
        let processes = fs::read_dir("/proc").into_iter().flatten().flatten();
        let pids = processes
            .filter_map(|entry| entry.file_name().to_str()?.parse().ok())
            .filter(|pid| !inodes.is_empty() && has_socket(*pid, &inodes))
            .collect();
        Self { pids }
    }

    /// The time that they have used since their start; `None` when there are none.
    pub(crate) fn used(&self) -> Option<Duration> {
        let ticks: Option<u64> = self.pids.iter().map(|pid| ticks(*pid)).sum();
        let ticks = ticks.filter(|_| !self.pids.is_empty())?;
        let per_second = rustix::param::clock_ticks_per_second().max(1);
        Some(Duration::from_millis(ticks.saturating_mul(1000) / per_second))
    }
}

/// The port of a server on this machine: one whose address a socket can be bound to.
fn local_port(server: &str) -> Option<u16> {
    let is_local = |address: &SocketAddr| UdpSocket::bind((address.ip(), 0)).is_ok();
    server.to_socket_addrs().ok()?.find(is_local).map(|address| address.port())
}

/// The sockets that listen on these ports.
fn listening(ports: &BTreeSet<u16>) -> BTreeSet<String> {
    let tables = ["/proc/net/tcp", "/proc/net/tcp6"]
        .map(|table| fs::read_to_string(table).unwrap_or_default());
    let inode = |line: &str| {
        let mut columns = line.split_whitespace();
        let (address, state) = (columns.nth(1)?, columns.nth(1)?);
        let port = u16::from_str_radix(address.rsplit(':').next()?, 16).ok()?;
        let inode = columns.nth(5)?;
        (state == LISTEN && ports.contains(&port)).then(|| format!("socket:[{inode}]"))
    };
    tables.iter().flat_map(|table| table.lines()).filter_map(inode).collect()
}

fn has_socket(pid: u32, inodes: &BTreeSet<String>) -> bool {
    let descriptors = fs::read_dir(format!("/proc/{pid}/fd")).into_iter().flatten().flatten();
    descriptors
        .filter_map(|descriptor| fs::read_link(descriptor.path()).ok())
        .any(|target| target.to_str().is_some_and(|target| inodes.contains(target)))
}

/// The user and system time of a process, in clock ticks. Its name, in parentheses, may have blanks.
fn ticks(pid: u32) -> Option<u64> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let mut columns = stat.rsplit_once(')')?.1.split_whitespace();
    let user: u64 = columns.nth(11)?.parse().ok()?;
    let system: u64 = columns.next()?.parse().ok()?;
    Some(user + system)
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use super::*;

    #[test]
    fn the_process_behind_a_port_is_found() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let cpu = Cpu::of_servers(&listener.local_addr().unwrap().to_string());
        assert_eq!(cpu.pids, BTreeSet::from([std::process::id()]));
        assert!(cpu.used().is_some());
        drop(listener);
        assert_eq!(Cpu::of_servers("192.0.2.1:2181,nowhere.invalid").used(), None);
    }
}
