//! Our bytes for openraft's types. They are on disks and between servers, so they are ours and
//! not those of openraft's serde: a later openraft can be taken without a migration.
//!
//! What goes to the disk begins with a version byte; between servers the handshake has one.

use std::collections::{BTreeMap, BTreeSet};
use std::io;

use bytes::{BufMut, Bytes, BytesMut};
use openraft::EntryPayload;
use openraft::impls::leader_id_std;
use openraft::raft::{
    AppendEntriesRequest, AppendEntriesResponse, TransferLeaderRequest, VoteRequest, VoteResponse,
};
use zoolet_storage::{LogPosition, SnapshotReader};

use super::types::{
    Body, LogEntry, LogId, RaftMembership, SnapshotMeta, StoredMembership, TypeConfig, Vote,
    log_id, log_id_of, position_of, raft_membership, term_of,
};
use crate::consensus::{Echo, LeaderVote, MemberNode, Membership};
use crate::node_id::NodeId;
use crate::wire::{Reader, malformed, put_bytes, put_length};

/// The version of what is written to the disk.
const VERSION: u8 = 1;

/// The version of what is written at the head of a snapshot; older ones have the version above, and
/// do not name their founding.
const SNAPSHOT_VERSION: u8 = 2;

/// Between the answers to an append: it was not taken.
const APPEND_REFUSED: u8 = 4;

/// A leader's append, and what it says besides.
#[derive(Debug)]
pub(super) struct AppendMessage {
    /// Whether the leader suspects that it has lost its quorum.
    pub suspects_quorum: bool,
    /// Whether the follower has said to this leader that it has the entry before those of the append.
    pub is_prev_taken: bool,
    /// The stamp of the last answer of the follower that the leader has received.
    pub echo: Echo,
    pub request: AppendEntriesRequest<TypeConfig>,
}

/// The kinds of log entries.
pub(super) mod kind {
    pub(crate) const BLANK: u8 = 0;
    pub(crate) const BATCH: u8 = 1;
    pub(crate) const MEMBERSHIP: u8 = 2;
}

impl Reader {
    fn version(&mut self) -> io::Result<()> {
        if self.u8()? == VERSION { Ok(()) } else { Err(malformed("unknown version")) }
    }

    pub(super) fn vote(&mut self) -> io::Result<Vote> {
        LeaderVote::read(self).map(vote_of)
    }

    pub(super) fn log_id(&mut self) -> io::Result<Option<LogId>> {
        match self.u8()? {
            0 => Ok(None),
            _ => Ok(Some(log_id(self.u64()?, self.u64()?))),
        }
    }

    fn membership(&mut self) -> io::Result<RaftMembership> {
        let mut configs = Vec::new();
        for _ in 0..self.u8()? {
            let mut voters = BTreeSet::new();
            for _ in 0..self.u32()? {
                voters.insert(NodeId(self.u64()?));
            }
            configs.push(voters);
        }
        let mut members = BTreeMap::new();
        for _ in 0..self.u32()? {
            let (node, address) = (NodeId(self.u64()?), self.string()?);
            members.insert(node, member(&address));
        }
        raft_membership(configs, members)
    }

    fn entry(&mut self) -> io::Result<LogEntry> {
        let (term, index, kind) = (self.u64()?, self.u64()?, self.u8()?);
        decode_entry(log_id(term, index), kind, self.kept_bytes()?)
    }

    pub(super) fn append_message(&mut self) -> io::Result<AppendMessage> {
        let suspects_quorum = self.u8()? != 0;
        let (vote, prev_log_id, leader_commit) = (self.vote()?, self.log_id()?, self.log_id()?);
        let mut entries = Vec::new();
        for _ in 0..self.u32()? {
            entries.push(self.entry()?);
        }
        // Earlier releases send neither this nor the stamp.
        let is_prev_taken = !self.0.is_empty() && self.u8()? != 0;
        let echo = if self.0.is_empty() {
            Echo::Unsupported
        } else if self.u8()? == 0 {
            Echo::NoneYet
        } else {
            Echo::Stamp(self.u64()?)
        };
        let request = AppendEntriesRequest { vote, prev_log_id, entries, leader_commit };
        Ok(AppendMessage { suspects_quorum, is_prev_taken, echo, request })
    }

    /// Reads the stamp that follows the answer to an append; `None` from an earlier release.
    pub(super) fn stamp(&mut self) -> Option<u64> {
        self.u64().ok()
    }

    pub(super) fn append_response(&mut self) -> io::Result<AppendEntriesResponse<TypeConfig>> {
        Ok(match self.u8()? {
            0 => AppendEntriesResponse::Success,
            1 => AppendEntriesResponse::PartialSuccess(self.log_id()?),
            2 => AppendEntriesResponse::Conflict,
            3 => AppendEntriesResponse::HigherVote(self.vote()?),
            _ => return Err(malformed("unknown answer")),
        })
    }

    pub(super) fn vote_request(&mut self) -> io::Result<VoteRequest<TypeConfig>> {
        let (vote, last_log_id, transfer) = (self.vote()?, self.log_id()?, self.u8()? != 0);
        Ok(VoteRequest { vote, last_log_id, leadership_transfer: transfer })
    }

    pub(super) fn vote_response(&mut self) -> io::Result<VoteResponse<TypeConfig>> {
        let (vote, last_log_id, vote_granted) = (self.vote()?, self.log_id()?, self.u8()? != 0);
        Ok(VoteResponse { vote, vote_granted, last_log_id })
    }

    pub(super) fn transfer_request(&mut self) -> io::Result<TransferLeaderRequest<TypeConfig>> {
        let (from, to, last) = (self.vote()?, NodeId(self.u64()?), self.log_id()?);
        Ok(TransferLeaderRequest::new(from, to, last))
    }

    /// The founding of the snapshot's ensemble, zero if it does not name it, and openraft's part.
    pub(super) fn snapshot_meta(&mut self) -> io::Result<(u64, SnapshotMeta)> {
        let founding = match self.u8()? {
            VERSION => 0,
            SNAPSHOT_VERSION => self.u64()?,
            _ => return Err(malformed("unknown version")),
        };
        let (last_log_id, membership_at) = (self.log_id()?, self.log_id()?);
        let last_membership = StoredMembership::new(membership_at, self.membership()?);
        Ok((founding, SnapshotMeta { last_log_id, last_membership }))
    }
}

pub(super) fn vote_of(vote: LeaderVote) -> Vote {
    let LeaderVote { term, leader, is_committed } = vote;
    Vote {
        leader_id: leader_id_std::LeaderId { term: term.0, voted_for: leader },
        committed: is_committed,
    }
}

/// The address, and on a second line what a change of the ensemble has added.
fn member(text: &str) -> MemberNode {
    let (address, line) = text.split_once('\n').unwrap_or((text, ""));
    MemberNode { address: address.to_owned(), line: line.to_owned() }
}

fn member_text(member: &MemberNode) -> String {
    let MemberNode { address, line } = member;
    if line.is_empty() { address.clone() } else { format!("{address}\n{line}") }
}

pub(super) fn decode_entry(log_id: LogId, kind: u8, body: Bytes) -> io::Result<LogEntry> {
    let payload = match kind {
        kind::BLANK => EntryPayload::Blank,
        kind::BATCH => EntryPayload::Normal(Body(body)),
        kind::MEMBERSHIP => {
            let mut reader = Reader(body);
            reader.version()?;
            EntryPayload::Membership(reader.membership()?)
        }
        _ => return Err(malformed("an entry of an unknown kind")),
    };
    Ok(LogEntry { log_id, payload })
}

/// The kind and the body of an entry.
pub(super) fn encode_payload(payload: &EntryPayload<Body, NodeId, MemberNode>) -> (u8, Bytes) {
    match payload {
        EntryPayload::Blank => (kind::BLANK, Bytes::new()),
        EntryPayload::Normal(body) => (kind::BATCH, body.0.clone()),
        EntryPayload::Membership(membership) => {
            let mut out = BytesMut::new();
            out.put_u8(VERSION);
            put_membership(&mut out, membership);
            (kind::MEMBERSHIP, out.freeze())
        }
    }
}

pub(super) fn put_vote(out: &mut BytesMut, vote: &Vote) {
    out.put_u64(vote.leader_id.term);
    out.put_u64(vote.leader_id.voted_for.0);
    out.put_u8(u8::from(vote.committed));
}

pub(super) fn put_log_id(out: &mut BytesMut, log_id: Option<&LogId>) {
    out.put_u8(u8::from(log_id.is_some()));
    if let Some(log_id) = log_id {
        out.put_u64(term_of(log_id));
        out.put_u64(log_id.index);
    }
}

fn put_membership(out: &mut BytesMut, membership: &RaftMembership) {
    let configs = membership.get_joint_config();
    out.put_u8(u8::try_from(configs.len()).expect("at most two configurations are joint"));
    for voters in configs {
        put_length(out, voters.len());
        for voter in voters {
            out.put_u64(voter.0);
        }
    }
    put_length(out, membership.nodes().count());
    for (node, member) in membership.nodes() {
        out.put_u64(node.0);
        put_bytes(out, member_text(member).as_bytes());
    }
}

pub(super) fn encode_vote(vote: &Vote) -> Bytes {
    let mut out = BytesMut::new();
    out.put_u8(VERSION);
    put_vote(&mut out, vote);
    out.freeze()
}

pub(super) fn decode_vote(bytes: Bytes) -> io::Result<Vote> {
    let mut reader = Reader(bytes);
    reader.version()?;
    reader.vote()
}

pub(super) fn encode_snapshot_meta(founding: u64, meta: &SnapshotMeta) -> Bytes {
    let mut out = BytesMut::new();
    out.put_u8(SNAPSHOT_VERSION);
    out.put_u64(founding);
    put_log_id(&mut out, meta.last_log_id.as_ref());
    put_log_id(&mut out, meta.last_membership.log_id().as_ref());
    put_membership(&mut out, meta.last_membership.membership());
    out.freeze()
}

/// Writes what [`AppendMessage`] holds.
pub(super) fn encode_append_message(
    suspects_quorum: bool,
    is_prev_taken: bool,
    echo: Option<u64>,
    request: &AppendEntriesRequest<TypeConfig>,
) -> Bytes {
    let mut out = BytesMut::new();
    out.put_u8(u8::from(suspects_quorum));
    put_vote(&mut out, &request.vote);
    put_log_id(&mut out, request.prev_log_id.as_ref());
    put_log_id(&mut out, request.leader_commit.as_ref());
    put_length(&mut out, request.entries.len());
    for entry in &request.entries {
        out.put_u64(term_of(&entry.log_id));
        out.put_u64(entry.log_id.index);
        let (kind, body) = encode_payload(&entry.payload);
        out.put_u8(kind);
        put_bytes(&mut out, &body);
    }
    out.put_u8(u8::from(is_prev_taken));
    out.put_u8(u8::from(echo.is_some()));
    if let Some(stamp) = echo {
        out.put_u64(stamp);
    }
    out.freeze()
}

pub(super) fn encode_append_response(
    response: &AppendEntriesResponse<TypeConfig>,
    stamp: u64,
) -> Bytes {
    let mut out = BytesMut::new();
    match response {
        AppendEntriesResponse::Success => out.put_u8(0),
        AppendEntriesResponse::PartialSuccess(log_id) => {
            out.put_u8(1);
            put_log_id(&mut out, log_id.as_ref());
        }
        AppendEntriesResponse::Conflict => out.put_u8(2),
        AppendEntriesResponse::HigherVote(vote) => {
            out.put_u8(3);
            put_vote(&mut out, vote);
        }
    }
    out.put_u64(stamp);
    out.freeze()
}

/// Returns the answer of a follower that does not take what it was sent. The leader reads it as
/// malformed, and tries again after a pause.
pub(crate) fn append_refusal() -> Bytes {
    Bytes::from_static(&[APPEND_REFUSED])
}

pub(super) fn encode_vote_request(request: &VoteRequest<TypeConfig>) -> Bytes {
    let mut out = BytesMut::new();
    put_vote(&mut out, &request.vote);
    put_log_id(&mut out, request.last_log_id.as_ref());
    out.put_u8(u8::from(request.leadership_transfer));
    out.freeze()
}

pub(super) fn encode_vote_response(response: &VoteResponse<TypeConfig>) -> Bytes {
    let mut out = BytesMut::new();
    put_vote(&mut out, &response.vote);
    put_log_id(&mut out, response.last_log_id.as_ref());
    out.put_u8(u8::from(response.vote_granted));
    out.freeze()
}

pub(super) fn encode_transfer_request(request: &TransferLeaderRequest<TypeConfig>) -> Bytes {
    let mut out = BytesMut::new();
    put_vote(&mut out, request.from_leader());
    out.put_u64(request.to_node_id().0);
    put_log_id(&mut out, request.last_log_id());
    out.freeze()
}

pub(super) fn meta_of(reader: &SnapshotReader) -> io::Result<SnapshotMeta> {
    Reader(reader.meta().clone()).snapshot_meta().map(|(_, meta)| meta)
}

/// Returns the last entry that is in a snapshot.
pub(crate) fn last_of(reader: &SnapshotReader) -> io::Result<Option<LogPosition>> {
    Ok(meta_of(reader)?.last_log_id.as_ref().map(position_of))
}

/// Returns the founding that the head of a snapshot names; zero if it names none.
pub(crate) fn founding_of(meta: &Bytes) -> io::Result<u64> {
    Reader(meta.clone()).snapshot_meta().map(|(founding, _)| founding)
}

/// Returns the head of a snapshot with another founding.
pub(crate) fn with_founding(founding: u64, meta: &Bytes) -> io::Result<Bytes> {
    let (_, meta) = Reader(meta.clone()).snapshot_meta()?;
    Ok(encode_snapshot_meta(founding, &meta))
}

/// Returns the kind and the body of a log entry that makes this the membership.
pub(crate) fn membership_entry(membership: Membership) -> io::Result<(u8, Bytes)> {
    let Membership { configs, nodes, .. } = membership;
    Ok(encode_payload(&EntryPayload::Membership(raft_membership(configs, nodes)?)))
}

/// Returns the head of a snapshot up to `last`, with the membership that counts there.
pub(crate) fn snapshot_meta(
    founding: u64,
    last: LogPosition,
    membership: Membership,
) -> io::Result<Bytes> {
    let Membership { position, configs, nodes } = membership;
    let membership = raft_membership(configs, nodes)?;
    let last_membership = StoredMembership::new(position.map(log_id_of), membership);
    let meta = SnapshotMeta { last_log_id: Some(log_id_of(last)), last_membership };
    Ok(encode_snapshot_meta(founding, &meta))
}

/// Returns a vote, as the log keeps it.
pub(crate) fn vote_bytes(vote: LeaderVote) -> Bytes {
    encode_vote(&vote_of(vote))
}

/// Returns the term of a vote that is in the log; `None` if it cannot be read.
pub(crate) fn vote_term(vote: Bytes) -> Option<u64> {
    decode_vote(vote).ok().map(|vote| vote.leader_id.term)
}

/// Returns the batch in a log entry; `None` if the entry has another purpose.
pub(crate) fn batch_of(kind: u8, body: Bytes) -> io::Result<Option<Bytes>> {
    match kind {
        kind::BATCH => Ok(Some(body)),
        kind::BLANK | kind::MEMBERSHIP => Ok(None),
        _ => Err(malformed("an entry of an unknown kind")),
    }
}
