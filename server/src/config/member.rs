//! The members of an ensemble, and the text in which the world knows them
//! (protocol, section 15.3).

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

use zoolet_replica::ServerId;

use super::address::{HostPort, parse_port, split_host};

/// The highest number of a server in an ensemble with times to live. A server's number is the top
/// byte of the ids of the sessions that it opens, and 255 there marks znodes with a time to live
/// (protocol, section 11.2).
pub(super) const SERVER_ID_MAX: u8 = 254;

/// The number of a server that has no other: one without an ensemble.
pub(super) const STANDALONE_ID: ServerId = ServerId(1);

/// Reads a server number. ZooKeeper documents 1 to 255, and takes 0 as well.
pub(super) fn parse_server_id(text: &str) -> Result<ServerId, String> {
    let id = text.parse().map(ServerId);
    id.map_err(|_| format!("invalid server id `{text}`: expected 0 to 255"))
}

/// Whether a member votes. There is nothing between the two, so the enum is closed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MemberRole {
    /// Votes, and can lead.
    Participant,
    /// Follows without a vote (protocol, section 15.5).
    Observer,
}

impl MemberRole {
    /// The word for it in `server.N=` lines and in `cluster.toml`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Participant => "participant",
            Self::Observer => "observer",
        }
    }
}

impl FromStr for MemberRole {
    type Err = String;

    /// Letter case does not count, as in Apache ZooKeeper.
    fn from_str(text: &str) -> Result<Self, String> {
        [Self::Participant, Self::Observer]
            .into_iter()
            .find(|role| role.name().eq_ignore_ascii_case(text))
            .ok_or_else(|| format!("invalid role `{text}`: expected participant or observer"))
    }
}

/// One server of the ensemble.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Member {
    /// Where the other servers reach it: Apache ZooKeeper's quorum port.
    pub peer: HostPort,
    /// Apache ZooKeeper's election port. Nothing listens on it here; it is kept because clients
    /// that parse `/zookeeper/config` expect it.
    pub election_port: u16,
    /// Where clients reach it, when its `server.N=` line says so.
    pub client: Option<HostPort>,
    /// Whether it votes.
    pub role: MemberRole,
}

impl Member {
    /// A server that has no peers and so no address for them.
    pub(super) fn alone(client: HostPort) -> Self {
        Self {
            peer: HostPort::new("127.0.0.1", 0),
            election_port: 0,
            client: Some(client),
            role: MemberRole::Participant,
        }
    }

    /// Reads the value of `server.N=`. The second value is what of it was left out of
    /// account, for a warning.
    pub(super) fn parse(text: &str, several: bool) -> Result<(Self, Option<String>), String> {
        let mut parts = text.split(';').map(str::trim);
        let addresses = parts.next().unwrap_or_default();
        let client = parts.next().filter(|part| !part.is_empty());
        let secure = parts.next().filter(|part| !part.is_empty());
        if secure.is_some() {
            return Err("a secure client port: it is set by secureClientPort alone".to_owned());
        }
        if parts.next().is_some() {
            return Err("expected host:port:port[:role][;[host:]port]".to_owned());
        }
        let mut addresses = addresses.split('|').map(str::trim);
        let (peer, election_port, role) = parse_address(addresses.next().unwrap_or_default())?;
        let mut left_out = 0_usize;
        for address in addresses {
            parse_address(address)?;
            left_out += 1;
        }
        if left_out > 0 && !several {
            return Err("several addresses need multiAddress.enabled=true".to_owned());
        }
        let client = client.map(parse_client).transpose()?;
        let note = (left_out > 0).then(|| {
            format!("only the first address, {peer}, is used: one address per server is supported")
        });
        Ok((Self { peer, election_port, client, role }, note))
    }
}

/// Writes the value of `server.N=`, with the role always there (protocol, section 15.3).
impl fmt::Display for Member {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let role = self.role.name();
        write!(f, "{}:{}:{role}", self.peer, self.election_port)?;
        match &self.client {
            Some(client) => write!(f, ";{client}"),
            None => Ok(()),
        }
    }
}

/// `host:quorumPort:electionPort[:role]`.
fn parse_address(text: &str) -> Result<(HostPort, u16, MemberRole), String> {
    const EXPECTED: &str = "expected host:quorumPort:electionPort[:role]";
    let (host, rest) = split_host(text)?;
    let mut parts = rest.ok_or(EXPECTED)?.split(':');
    let peer_port = parse_port(parts.next().ok_or(EXPECTED)?)?;
    let election_port = parse_port(parts.next().ok_or(EXPECTED)?)?;
    let role = parts.next().map_or(Ok(MemberRole::Participant), str::parse)?;
    if parts.next().is_some() {
        return Err(EXPECTED.to_owned());
    }
    if peer_port == election_port {
        return Err(format!("quorum port and election port are both {peer_port}"));
    }
    Ok((HostPort::new(host, peer_port), election_port, role))
}

/// `[host:]port`; without a host, every interface.
fn parse_client(text: &str) -> Result<HostPort, String> {
    if text.starts_with('[') || text.contains(':') {
        return text.parse();
    }
    Ok(HostPort::new("0.0.0.0", parse_port(text)?))
}

/// The members as the data of `/zookeeper/config` lists them: one line each in the order of
/// their ids. The line with the version is the state's business, because a reconfiguration
/// changes it.
pub(super) fn members_text(members: &BTreeMap<ServerId, Member>) -> String {
    let lines: Vec<String> =
        members.iter().map(|(id, member)| format!("server.{id}={member}\n")).collect();
    lines.concat()
}

/// A cluster id for an ensemble that was not given one.
///
/// Every server must come to the same id from its own file. Files commonly differ in how a
/// server spells its own host (`0.0.0.0` for itself is usual), and they differ while an
/// ensemble grows, so only the number and the ports of the first member count.
/// FNV-1a keeps the answer the same on every machine and in every release.
pub(super) fn derive_cluster_id(members: &BTreeMap<ServerId, Member>) -> u64 {
    let mut bytes = Vec::new();
    if let Some((id, member)) = members.first_key_value() {
        bytes.push(id.0);
        bytes.extend(member.peer.port.to_be_bytes());
        bytes.extend(member.election_port.to_be_bytes());
    }
    cluster_id_of(&bytes)
}

/// A cluster id that stays the same for the same bytes, within what a configuration file can say.
pub(super) fn cluster_id_of(bytes: &[u8]) -> u64 {
    let hash = bytes.iter().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3)
    });
    // 0 stands for "no cluster id" on disk and on the wire.
    (hash >> 1).max(1)
}
