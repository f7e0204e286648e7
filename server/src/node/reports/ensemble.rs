//! What a server knows of its ensemble.

use zoolet_replica::Role;

use super::Reports;
use crate::config::{MemberRole, parse_members};

/// The leader of an ensemble.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Leader {
    /// Whether it is this server.
    pub is_self: bool,
    /// Its number, and the host of its peer port; none while no leader is known.
    pub known: Option<(u64, String)>,
}

/// A member of the ensemble.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Member {
    /// Its number.
    pub server: u64,
    /// Where other servers reach it, `host:port`.
    pub peer: String,
    /// The address that is shown as `ZooKeeper`'s election port.
    pub election: String,
    /// Where clients reach it, if that is known.
    pub client: Option<String>,
    /// Whether it votes.
    pub is_voter: bool,
}

/// The ensemble, and this server in it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Membership {
    /// All members.
    pub members: Vec<Member>,
    /// This server's number.
    pub own: u64,
    /// Whether observers among the members have the whole log, if this server leads.
    pub synced_observers: usize,
}

impl Reports {
    /// Returns the leader as this server knows it; `None` for a server without an ensemble.
    pub fn leader(&self) -> Option<Leader> {
        let membership = self.membership()?;
        let leader = self.status.status().leader;
        let known = leader.and_then(|leader| {
            let member = membership.members.iter().find(|member| member.server == leader)?;
            let host = member.peer.rsplit_once(':').map_or("", |(host, _)| host);
            Some((leader, host.to_owned()))
        });
        Some(Leader { is_self: self.role() == Role::Leader, known })
    }

    /// Returns the members of the ensemble; `None` for a server without one.
    pub fn membership(&self) -> Option<Membership> {
        let info = self.port.server_info();
        let ensemble = info.ensemble.as_ref()?;
        let written = self.port.host().config_text();
        // Until a leader has written it, it is the file's.
        let text = if written.is_empty() { &info.members_text } else { &written };
        let members =
            parse_members(text).unwrap_or_default().into_iter().map(|(server, member)| {
                let election = format!("{}:{}", member.peer.host, member.election_port);
                Member {
                    server,
                    peer: member.peer.to_string(),
                    election,
                    client: member.client.as_ref().map(ToString::to_string),
                    is_voter: member.role == MemberRole::Participant,
                }
            });
        Some(Membership {
            members: members.collect(),
            own: u64::from(info.server_id),
            synced_observers: ensemble.figures().synced_observers,
        })
    }
}
