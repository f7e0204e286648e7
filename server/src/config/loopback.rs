//! Ensembles on one machine, for `zoolet up` and for embedding.

use std::collections::BTreeMap;
use std::net::Ipv4Addr;
use std::path::Path;

use zoolet_replica::ServerId;

use super::address::HostPort;
use super::error::ConfigError;
use super::member::{Member, MemberRole, SERVER_ID_MAX, cluster_id_of};
use super::model::{EnsembleConfig, ServerConfig};
use super::toml_file::neighbor;

/// The ports of one server on 127.0.0.1. They must be real: servers learn each other's from
/// this configuration, so port 0 has to be resolved before it is made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LoopbackPorts {
    /// For clients.
    pub client: u16,
    /// For the other servers.
    pub peer: u16,
}

impl ServerConfig {
    /// An ensemble on 127.0.0.1: server N, counted from 1, has the N-th ports and its files in
    /// the directory `N` of `data_dir`. One server alone is standalone.
    pub fn loopback_ensemble(
        ports: &[LoopbackPorts],
        data_dir: &Path,
    ) -> Result<Vec<Self>, ConfigError> {
        let error = |why: String| ConfigError::new(Path::new("loopback ensemble"), 0, why);
        let mut members = BTreeMap::new();
        let mut taken = BTreeMap::new();
        for (at, ports) in ports.iter().enumerate() {
            let id = u8::try_from(at + 1)
                .ok()
                .filter(|id| *id <= SERVER_ID_MAX)
                .map(ServerId)
                .ok_or_else(|| error(format!("an ensemble has at most {SERVER_ID_MAX} servers")))?;
            for port in [ports.client, ports.peer] {
                if port == 0 {
                    return Err(error(format!("server {id} has no port: expected 1 to 65535")));
                }
                if let Some(other) = taken.insert(port, id) {
                    return Err(error(format!("servers {other} and {id} both have port {port}")));
                }
            }
            members.insert(id, member(*ports));
        }
        if members.is_empty() {
            return Err(error("an ensemble has at least one server".to_owned()));
        }
        let standalone = members.len() == 1;
        // The directory tells ensembles apart: their ports can be others at each start.
        let cluster_id = Some(cluster_id_of(data_dir.as_os_str().as_encoded_bytes()));
        let config = |(id, member): (&ServerId, &Member)| {
            let data_dir = data_dir.join(id.to_string());
            Self {
                server_id: *id,
                members: members.clone(),
                standalone,
                data_log_dir: data_dir.clone(),
                data_dir,
                client_bind: member.client.clone().unwrap_or_else(|| loopback(0)),
                peer_bind: (!standalone).then(|| member.peer.clone()),
                ensemble: EnsembleConfig { cluster_id, ..EnsembleConfig::default() },
                ..Self::default()
            }
        };
        Ok(members.iter().map(config).collect())
    }
}

fn member(ports: LoopbackPorts) -> Member {
    Member {
        peer: loopback(ports.peer),
        election_port: neighbor(ports.peer),
        client: Some(loopback(ports.client)),
        role: MemberRole::Participant,
    }
}

fn loopback(port: u16) -> HostPort {
    HostPort::new(Ipv4Addr::LOCALHOST.to_string(), port)
}
