//! The types that openraft is made concrete with.

use std::fmt;

use bytes::Bytes;
use openraft::impls::{InlineBatch, leader_id_std};
use openraft::raft::responder::Responder;
use openraft::type_config::alias;
use openraft::{AnyError, Entry, EntryPayload, RaftTypeConfig, TokioRuntime};

/// One server, as the log's membership knows it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Member {
    /// The `host:port` of its peer port when it was added. The configuration's address wins as
    /// long as the line is empty.
    pub address: String,
    /// What stands behind its `server.N=` (protocol §15.3); empty until the ensemble is changed
    /// for the first time.
    pub line: String,
}

/// The body of a log entry: a batch of commands, in which nothing here looks except at its head.
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
    type NodeId = u64;
    type Node = Member;
    type Term = u64;
    type LeaderId = leader_id_std::LeaderId<u64, u64>;
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
pub(super) type Membership = openraft::Membership<u64, Member>;
pub(super) type StoredMembership = alias::StoredMembershipOf<TypeConfig>;
pub(super) type SnapshotMeta = alias::SnapshotMetaOf<TypeConfig>;

/// The place of an entry.
pub(super) fn log_id(term: u64, index: u64) -> LogId {
    LogId::new_term_index(term, index)
}

/// The term of an entry's leader.
pub(super) fn term_of(log_id: &LogId) -> u64 {
    log_id.leader_id.term
}
