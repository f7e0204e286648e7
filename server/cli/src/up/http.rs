//! The HTTP ports of the servers.

use std::net::Ipv4Addr;

use zoolet_server::embed::config::{HostPort, ServerConfig};

use super::ports::{Ports, from_here};

/// Gives the servers HTTP ports on the loopback.
pub(super) fn set_ports(configs: &mut [ServerConfig], ports: &Ports) {
    for (config, port) in configs.iter_mut().zip(&ports.0) {
        config.http_bind = Some(HostPort::new(Ipv4Addr::LOCALHOST.to_string(), *port));
    }
}

/// Returns what a browser on this machine opens to look at a server, if it has an HTTP port: the console,
/// or the list of its commands where the console is off.
pub(super) fn web_url(config: &ServerConfig) -> Option<String> {
    let bind = config.http_bind.as_ref()?;
    let path = if config.http.console { "/console/" } else { &config.http.command_url };
    let scheme = if config.tls.http_enabled { "https" } else { "http" };
    Some(format!("{scheme}://{}{path}", from_here(bind)))
}
