//! The HTTP ports of the servers.

use std::net::Ipv4Addr;

use zoolet_server::embed::config::{HostPort, ServerConfig};

use super::UpError;
use super::plan::ports_in_a_row;

/// Gives the servers HTTP ports on the loopback, from `first` upwards.
pub(super) fn set_ports(configs: &mut [ServerConfig], first: u16) -> Result<(), UpError> {
    let ports = ports_in_a_row(first, configs.len())?;
    for (config, port) in configs.iter_mut().zip(ports) {
        config.http_bind = Some(HostPort::new(Ipv4Addr::LOCALHOST.to_string(), port));
    }
    Ok(())
}
