//! What the log's membership says about the ensemble.
//!
//! A changed membership holds the `server.N=` line of every member. A server that is about to join,
//! or that has just left, is in the membership as well, because it has to get the log, and is no
//! member: it is an outsider, and its line says so.

use std::collections::{BTreeMap, BTreeSet};

use super::options::ConfiguredMember;
use crate::config::{self, MemberList, MemberRole, parse_members};
use crate::consensus::{MemberNode, Membership};
use crate::node_id::NodeId;

/// What the line of an outsider begins with. No line of a member does.
const OUTSIDE: char = '-';

/// A server that gets the log and is not a member.
pub(super) fn outsider(node: &MemberNode) -> MemberNode {
    MemberNode { address: node.address.clone(), line: format!("{OUTSIDE}{}", node.line) }
}

pub(super) fn is_outsider(node: &MemberNode) -> bool {
    node.line.starts_with(OUTSIDE)
}

/// Who is in the membership and no member.
pub(super) fn outsiders(membership: &Membership) -> BTreeSet<NodeId> {
    let outsiders = membership.nodes.iter().filter(|(_, node)| is_outsider(node));
    outsiders.map(|(node, _)| *node).collect()
}

/// The members as a changed membership has them; `None` before the first change.
pub(super) fn members_of(
    membership: &Membership,
    configured: &[ConfiguredMember],
) -> Option<MemberList> {
    let mut is_changed = false;
    let mut members = MemberList::new();
    for (&id, node) in membership.nodes.iter().filter(|(_, node)| !is_outsider(node)) {
        is_changed |= !node.line.is_empty();
        let (server, mut line) = (id.server(), node.line.as_str());
        if line.is_empty() {
            let configured = configured.iter().find(|one| one.id() == server)?;
            line = &configured.line;
        }
        let listed = parse_members(&format!("server.{server}={line}")).ok()?;
        for (server, mut member) in listed {
            let is_voter = membership.is_voter(id);
            member.role = if is_voter { MemberRole::Participant } else { MemberRole::Observer };
            members.insert(server, member);
        }
    }
    is_changed.then_some(members)
}

pub(super) fn voters_of(members: &MemberList) -> BTreeSet<u64> {
    let voters = members.iter().filter(|(_, member)| member.role == MemberRole::Participant);
    voters.map(|(server, _)| *server).collect()
}

/// Returns the nodes that members are: those that the membership has for their numbers, and for
/// servers that it does not have the directories that were found.
pub(super) fn nodes_of(
    members: &MemberList,
    membership: &Membership,
    found: &BTreeMap<u64, u64>,
) -> BTreeMap<NodeId, MemberNode> {
    let node = |member: &config::Member| MemberNode {
        address: member.peer.to_string(),
        line: member.to_string(),
    };
    let id = |server: u64| {
        let directory = found.get(&server).copied().unwrap_or(0);
        node_of(membership, server).unwrap_or(NodeId::new(server, directory))
    };
    members.iter().map(|(server, member)| (id(*server), node(member))).collect()
}

/// Returns the node that a server is in the membership, outsiders left aside.
pub(super) fn node_of(membership: &Membership, server: u64) -> Option<NodeId> {
    let mut nodes = membership.nodes.iter().filter(|(_, node)| !is_outsider(node));
    nodes.find(|(id, _)| id.server() == server).map(|(id, _)| *id)
}

pub(super) fn is_quorum(wanted: &MemberList, counts: impl Fn(u64) -> bool) -> bool {
    let voters = voters_of(wanted);
    voters.iter().filter(|voter| counts(**voter)).count() > voters.len() / 2
}

/// The text of `/zookeeper/config`, without the version.
pub(super) fn render(members: &MemberList) -> String {
    let lines: Vec<String> =
        members.iter().map(|(server, member)| format!("server.{server}={member}\n")).collect();
    lines.concat()
}

/// The version that the text of `/zookeeper/config` ends with.
pub(super) fn version_of(text: &str) -> Option<i64> {
    let (_, version) = text.rsplit_once("version=")?;
    i64::from_str_radix(version.trim_end(), 16).ok()
}
