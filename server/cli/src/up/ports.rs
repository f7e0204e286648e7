//! The ports of one kind, one for each server.

use std::fmt;
use std::net::Ipv4Addr;

use zoolet_server::embed::ReservedPort;
use zoolet_server::embed::config::HostPort;

use super::UpError;

/// One port for each server, in the order of the servers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Ports(pub(super) Vec<u16>);

impl Ports {
    /// Returns the ports from `first` upwards. With 0 the system chooses them, and `held` keeps them
    /// from other programs.
    pub(super) fn choose(
        first: u16,
        servers: usize,
        held: &mut Vec<ReservedPort>,
    ) -> Result<Self, UpError> {
        if first != 0 {
            return in_a_row(first, servers);
        }
        let begin = held.len();
        for _ in 0..servers {
            let reserved = ReservedPort::take(&Ipv4Addr::LOCALHOST.to_string(), 0);
            held.push(reserved.map_err(UpError::NoPorts)?);
        }
        Ok(Self(held.iter().skip(begin).map(ReservedPort::port).collect()))
    }
}

impl fmt::Display for Ports {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0.is_empty() {
            return f.write_str("(none)");
        }
        let ports: Vec<String> = self.0.iter().map(u16::to_string).collect();
        f.write_str(&ports.join(", "))
    }
}

pub(super) fn in_a_row(first: u16, servers: usize) -> Result<Ports, UpError> {
    let ports: Vec<u16> = (first..=u16::MAX).take(servers).collect();
    if ports.len() < servers {
        return Err(UpError::TooManyPorts { servers, client_port: first });
    }
    Ok(Ports(ports))
}

/// Whether a server can listen there.
pub(super) fn is_free(bind: &HostPort) -> bool {
    ReservedPort::take(&bind.host, bind.port).is_ok()
}

/// Returns where a program on this machine reaches a port.
pub(super) fn from_here(bind: &HostPort) -> HostPort {
    let host = match bind.host.as_str() {
        "0.0.0.0" => "127.0.0.1",
        "::" => "::1",
        host => host,
    };
    HostPort::new(host, bind.port)
}
