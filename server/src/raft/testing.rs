//! Bytes of the consensus that tests of others need.

use bytes::Bytes;
use openraft::EntryPayload;
use openraft::raft::{AppendEntriesRequest, VoteResponse};
use zoolet_storage::LogPosition;

use super::codec;
use super::types::{LogEntry, SnapshotMeta, StoredMembership, Vote, log_id_of, raft_membership};
use crate::consensus::Membership;
use crate::node_id::NodeId;

/// Returns the message of a leader that sends one blank entry, or none, behind `previous`.
pub(crate) fn append(
    (term, leader): (u64, NodeId),
    previous: LogPosition,
    blank: Option<LogPosition>,
    committed: LogPosition,
) -> Bytes {
    let entry = |at| LogEntry { log_id: log_id_of(at), payload: EntryPayload::Blank };
    let request = AppendEntriesRequest {
        vote: Vote::new_committed(term, leader),
        prev_log_id: Some(log_id_of(previous)),
        entries: blank.into_iter().map(entry).collect(),
        leader_commit: Some(log_id_of(committed)),
    };
    codec::encode_append_message(false, false, None, &request)
}

/// Returns the answer of a server that refuses its vote because it follows a leader.
pub(crate) fn vote_refusal(term: u64, leader: NodeId) -> Bytes {
    let refusal = VoteResponse::new(Vote::new_committed(term, leader), None, false);
    codec::encode_vote_response(&refusal)
}

/// Returns a vote as it is in the log.
pub(crate) fn saved_vote(term: u64, leader: NodeId) -> Bytes {
    codec::encode_vote(&Vote::new_committed(term, leader))
}

/// Returns the kind and the body of an entry without content.
pub(crate) fn blank_entry() -> (u8, Bytes) {
    codec::encode_payload(&EntryPayload::Blank)
}

/// Returns the head of a snapshot up to `last` that names no founding.
pub(crate) fn snapshot_head(last: Option<LogPosition>, membership: Membership) -> Bytes {
    let Membership { position, configs, nodes } = membership;
    let stored = raft_membership(configs, nodes).expect("it is a possible one");
    let meta = SnapshotMeta {
        last_log_id: last.map(log_id_of),
        last_membership: StoredMembership::new(position.map(log_id_of), stored),
    };
    codec::encode_snapshot_meta(0, &meta)
}
