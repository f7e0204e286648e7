//! The HTTP ports of the servers.

use std::net::Ipv4Addr;

use zoolet_server::embed::config::{HostPort, ServerConfig};

use super::ports::Ports;

/// Gives the servers HTTP ports on the loopback.
pub(super) fn set_ports(configs: &mut [ServerConfig], ports: &Ports) {
    for (config, port) in configs.iter_mut().zip(&ports.0) {
        config.http_bind = Some(HostPort::new(Ipv4Addr::LOCALHOST.to_string(), *port));
    }
}
