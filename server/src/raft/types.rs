//! The types that openraft is made concrete with.

use std::collections::{BTreeMap, BTreeSet};
use std::{fmt, io};

use bytes::Bytes;
use openraft::impls::{InlineBatch, leader_id_std};
use openraft::raft::responder::Responder;
use openraft::type_config::alias;
use openraft::{AnyError, ChangeMembers, Entry, EntryPayload, RaftTypeConfig, TokioRuntime};
use zoolet_storage::{LogIndex, LogPosition};

use crate::consensus::{MemberNode, Membership, MembershipChange};
use crate::node_id::NodeId;
use crate::wire::malformed;

/// The body of a log entry: a batch of commands, in which nothing here looks.
#[derive(Clone, PartialEq, Eq)]
pub(super) struct Body(pub Bytes);

impl fmt::Debug for Body {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} bytes", self.0.len())
    }
}

impl fmt::Display for Body {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} bytes", self.0.len())
    }
}

/// openraft's parameters: standard Raft, one leader per term.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct TypeConfig;

impl RaftTypeConfig for TypeConfig {
    type D = Body;
    type R = ();
    type NodeId = NodeId;
    type Node = MemberNode;
    type Term = u64;
    type LeaderId = leader_id_std::LeaderId<u64, NodeId>;
    type Vote = openraft::Vote<Self::LeaderId>;
    type Payload = EntryPayload<Self::D, Self::NodeId, Self::Node>;
    type Entry = Entry<alias::CommittedLeaderIdOf<Self>, Self::Payload>;
    type AsyncRuntime = TokioRuntime;
    type Responder<T>
        = Callback<T>
    where
        T: Send + 'static;
    type Batch<T>
        = InlineBatch<T>
    where
        T: Send + 'static;
    type ErrorSource = AnyError;
}

/// Receives the outcome of a proposal.
pub(super) struct Callback<T>(pub Box<dyn FnOnce(T) + Send>);

impl<T: Send + 'static> Responder<TypeConfig, T> for Callback<T> {
    fn on_complete(self, result: T) {
        (self.0)(result);
    }
}

pub(super) type LogId = alias::LogIdOf<TypeConfig>;
pub(super) type Vote = alias::VoteOf<TypeConfig>;
pub(super) type LogEntry = alias::EntryOf<TypeConfig>;
pub(super) type RaftMembership = openraft::Membership<NodeId, MemberNode>;
pub(super) type StoredMembership = alias::StoredMembershipOf<TypeConfig>;
pub(super) type SnapshotMeta = alias::SnapshotMetaOf<TypeConfig>;

pub(super) fn log_id(term: u64, index: u64) -> LogId {
    LogId::new_term_index(term, index)
}

/// Returns the term of an entry's leader.
pub(super) fn term_of(log_id: &LogId) -> u64 {
    log_id.leader_id.term
}

/// With one leader per term, the term says which leader it was.
pub(super) fn position_of(log_id: &LogId) -> LogPosition {
    LogPosition { term: term_of(log_id), node: 0, index: LogIndex(log_id.index) }
}

pub(super) fn log_id_of(position: LogPosition) -> LogId {
    log_id(position.term, position.index.0)
}

/// Returns a membership without openraft's types.
pub(super) fn plain_membership(stored: &StoredMembership) -> Membership {
    let membership = stored.membership();
    let nodes = membership.nodes().map(|(node, member)| (*node, member.clone()));
    Membership {
        position: stored.log_id().as_ref().map(position_of),
        configs: membership.get_joint_config().clone(),
        nodes: nodes.collect(),
    }
}

pub(super) fn raft_membership(
    configs: Vec<BTreeSet<NodeId>>,
    nodes: BTreeMap<NodeId, MemberNode>,
) -> io::Result<RaftMembership> {
    if configs.is_empty() && nodes.is_empty() {
        return Ok(RaftMembership::default());
    }
    RaftMembership::new(configs, nodes).map_err(|_| malformed("an impossible membership"))
}

impl From<MembershipChange> for ChangeMembers<NodeId, MemberNode> {
    fn from(change: MembershipChange) -> Self {
        match change {
            MembershipChange::AddNodes(nodes) => Self::AddNodes(nodes),
            MembershipChange::SetNodes(nodes) => Self::SetNodes(nodes),
            MembershipChange::RemoveNodes(nodes) => Self::RemoveNodes(nodes),
            MembershipChange::ReplaceAllVoters(voters) => Self::ReplaceAllVoters(voters),
            MembershipChange::Batch(changes) => {
                Self::Batch(changes.into_iter().map(Self::from).collect())
            }
        }
    }
}
