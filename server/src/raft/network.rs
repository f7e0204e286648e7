//! openraft's messages on the peer links: the calling side. The called side is in `rpc_server`.

use std::future::{Future, ready};
use std::io;
use std::sync::Arc;
use std::time::Duration;

use bytes::{BufMut, Bytes, BytesMut};
use futures_util::{Stream, StreamExt};
use openraft::base::{BoxFuture, BoxStream};
use openraft::errors::{
    NetworkError, RPCError, ReplicationClosed, StreamingError, Timeout, Unreachable,
};
use openraft::network::RPCOption;
use openraft::raft::{
    AppendEntriesRequest, AppendEntriesResponse, SnapshotResponse, StreamAppendError,
    StreamAppendResult, TransferLeaderRequest, TransferLeaderResponse, VoteRequest, VoteResponse,
};
use openraft::{OptionalSend, RPCTypes, RaftNetworkFactory, RaftNetworkV2};
use tokio::time::{Instant, timeout};
use zoolet_storage::{LogIndex, SnapshotReader, StorageError};

use super::acks::Acks;
use super::codec;
use super::signals::PeerSignals;
use super::state_machine::FileSnapshot;
use super::types::{LogId, TypeConfig, Vote};
use crate::consensus::{MemberNode, Term};
use crate::node_id::NodeId;
use crate::peer::{
    CallError, Lane, Links, RpcKind, SNAPSHOT_DAMAGED, SNAPSHOT_INSTALL_MAX, SNAPSHOT_LATER,
    SNAPSHOT_SILENCE_MAX, Urgency,
};
use crate::process::blocking;
use crate::snapshots::Snapshots;
use crate::wire::{Reader, malformed, put_bytes};

/// How many appends a follower may owe the answer to. Each has up to 512 KiB of entries, or one that
/// is longer, and what waits meanwhile goes into one.
const APPENDS_IN_FLIGHT_MAX: usize = 4;

/// How long the answer to a heartbeat counts, in heartbeat intervals.
const LATE: u32 = 8;

/// Makes openraft's clients.
#[derive(Clone, Debug)]
pub(super) struct Network {
    pub node: NodeId,
    pub snapshots: Snapshots,
    pub links: Arc<Links>,
    pub signals: Arc<PeerSignals>,
    pub acks: Arc<Acks>,
    pub append_timeout: Duration,
}

impl Network {
    fn client(&self, target: NodeId, member: &MemberNode, lane: Lane) -> PeerClient {
        self.links.learn(target, &member.address, !member.line.is_empty());
        PeerClient { target, lane, network: self.clone() }
    }
}

impl RaftNetworkFactory<TypeConfig> for Network {
    type Network = PeerClient;

    async fn new_client(&mut self, target: NodeId, member: &MemberNode) -> PeerClient {
        self.client(target, member, Lane::Append)
    }

    async fn new_heartbeat_client(&mut self, target: NodeId, member: &MemberNode) -> PeerClient {
        self.client(target, member, Lane::Control)
    }

    async fn new_snapshot_client(&mut self, target: NodeId, member: &MemberNode) -> PeerClient {
        self.client(target, member, Lane::Snapshot)
    }
}

/// One peer, as openraft calls it.
#[derive(Clone, Debug)]
pub(super) struct PeerClient {
    target: NodeId,
    /// The lane of appends; votes always take the control lane.
    lane: Lane,
    network: Network,
}

type Failure = RPCError<TypeConfig>;

/// The answers to a stream of appends, in the order of the appends.
type AppendAnswers<'s> = BoxStream<'s, Result<StreamAppendResult<TypeConfig>, Failure>>;

/// The answer to one of the appends.
struct AppendAnswer {
    result: StreamAppendResult<TypeConfig>,
    /// The appends behind it do not fit to it.
    is_last: bool,
}

impl AppendAnswer {
    /// Returns the answer to an append with the entries behind `prev` up to `last`.
    fn of(
        response: Result<AppendEntriesResponse<TypeConfig>, Failure>,
        prev: Option<LogId>,
        last: Option<LogId>,
    ) -> Result<Self, Failure> {
        let result = match response? {
            AppendEntriesResponse::Success => Ok(last),
            AppendEntriesResponse::PartialSuccess(through) => Ok(through),
            _ if planted!("refused-append-counts-as-taken") => Ok(last),
            AppendEntriesResponse::HigherVote(vote) => Err(StreamAppendError::HigherVote(vote)),
            AppendEntriesResponse::Conflict => match prev {
                Some(prev) => Err(StreamAppendError::Conflict(prev)),
                None => return Err(network(&malformed("a conflict before the first entry"))),
            },
        };
        let is_last = result.as_ref().map_or(true, |through| *through != last);
        Ok(Self { result, is_last })
    }
}

impl PeerClient {
    /// Calls the peer. The place among the calls is fixed when this returns.
    fn call(
        &self,
        (lane, kind, action): (Lane, RpcKind, RPCTypes),
        body: Bytes,
        deadline: Duration,
    ) -> impl Future<Output = Result<Reader, Failure>> + Send + use<> {
        let is_held = lane == Lane::Append && self.network.signals.holds_entries();
        let link = self.network.links.to(self.target, lane).filter(|_| !is_held);
        let answer = link.map(|link| timeout(deadline, link.call(kind.code(), body)));
        let (id, target) = (self.network.node, self.target);
        async move {
            let called = match answer {
                Some(answer) => answer.await.unwrap_or(Err(CallError::Timeout)),
                None => Err(CallError::Unreachable),
            };
            called.map(Reader).map_err(|error| match error {
                CallError::Unreachable | CallError::Full => {
                    RPCError::Unreachable(Unreachable::new(&error))
                }
                CallError::Broken => RPCError::Network(NetworkError::new(&error)),
                CallError::Timeout => {
                    RPCError::Timeout(Timeout { action, id, target, timeout: deadline })
                }
            })
        }
    }

    /// Sends entries. They have their place behind what was sent before when this returns; awaiting
    /// the result gives the answer.
    fn append(
        &self,
        request: &AppendEntriesRequest<TypeConfig>,
        option: &RPCOption,
    ) -> impl Future<Output = Result<AppendEntriesResponse<TypeConfig>, Failure>> + Send + use<>
    {
        let is_heartbeat = self.lane == Lane::Control;
        let timeout =
            if is_heartbeat { option.hard_ttl() * LATE } else { self.network.append_timeout };
        let call = (self.lane, RpcKind::Append, RPCTypes::AppendEntries);
        let suspects_quorum = self.network.signals.suspects_quorum();
        let (acks, target, term) =
            (Arc::clone(&self.network.acks), self.target, Term(request.vote.leader_id.term));
        let prev = request.prev_log_id;
        let is_prev_taken =
            prev.is_some_and(|prev| acks.has_taken(target, term, LogIndex(prev.index)));
        let last = request.entries.last().map(|entry| entry.log_id).or(prev);
        let echo = acks.stamp(target, term);
        let body = codec::encode_append_message(suspects_quorum, is_prev_taken, echo, request);
        let (sent_at, answer) = (Instant::now(), self.call(call, body, timeout));
        let answering = async move {
            let mut answer = answer.await?;
            let response = answer.append_response().map_err(|error| network(&error))?;
            let taken = match &response {
                AppendEntriesResponse::Success => last,
                AppendEntriesResponse::PartialSuccess(through) => *through,
                AppendEntriesResponse::Conflict if is_prev_taken => {
                    return Err(lost_entries_error(&acks, target, prev));
                }
                AppendEntriesResponse::Conflict => None,
                AppendEntriesResponse::HigherVote(_) => return Ok(response),
            };
            acks.note(target, term, sent_at, taken.map(|taken| LogIndex(taken.index)));
            if let Some(stamp) = answer.stamp() {
                acks.note_stamp(target, term, sent_at, stamp);
            }
            Ok(response)
        };
        async move {
            if !is_heartbeat {
                return answering.await;
            }
            // openraft waits for one interval only. A later answer still shows that the follower
            // accepted this leader at `sent_at`.
            let answered = tokio::spawn(answering).await;
            answered.unwrap_or_else(|error| Err(RPCError::Network(NetworkError::new(&error))))
        }
    }

    /// Sends a commit without entries, which is not answered.
    fn announce(&self, request: &AppendEntriesRequest<TypeConfig>) {
        if let Some(link) = self.network.links.to(self.target, self.lane)
            && !self.network.signals.holds_entries()
        {
            let suspects_quorum = self.network.signals.suspects_quorum();
            let echo = self.network.acks.stamp(self.target, Term(request.vote.leader_id.term));
            let body = codec::encode_append_message(suspects_quorum, false, echo, request);
            // If it has proposed something its clients wait for the commit.
            let is_urgent = self.network.signals.has_proposed(self.target.server());
            let urgency = if is_urgent { Urgency::Now } else { Urgency::AfterOthers };
            link.notify(RpcKind::Append.code(), body, urgency);
        }
    }

    /// Reads the end of the answer to a vote request.
    fn note_removal(&self, answer: &mut Reader) {
        self.network.signals.note_removal(LogIndex(answer.u64().unwrap_or(0)));
    }

    async fn send_snapshot(
        &self,
        vote: Vote,
        snapshot: FileSnapshot,
    ) -> Result<SnapshotResponse<TypeConfig>, StreamingError<TypeConfig>> {
        let call = |kind| (Lane::Snapshot, kind, RPCTypes::InstallSnapshot);
        let mut reader = snapshot.snapshot;
        let name = reader.name();
        let mut begin = BytesMut::new();
        codec::put_vote(&mut begin, &vote);
        begin.put_u64(name.term);
        begin.put_u64(name.index.0);
        begin.put_u64(name.zxid);
        put_bytes(&mut begin, reader.meta());
        let answer = self.call(call(RpcKind::SnapshotBegin), begin.freeze(), SNAPSHOT_SILENCE_MAX);
        self.check_taken(&answer.await?)?;
        loop {
            let (back, chunk) = next_chunk(reader).await?;
            reader = back;
            let chunk = chunk.map_err(|error| {
                // No network can help: this server needs another snapshot.
                self.network.snapshots.is_damaged(name, &error);
                Unreachable::new(&error)
            })?;
            let Some(chunk) = chunk else { break };
            let answer = self.call(call(RpcKind::SnapshotChunk), chunk, SNAPSHOT_SILENCE_MAX);
            self.check_taken(&answer.await?)?;
            self.network.acks.note_chunk(self.target, Term(vote.leader_id.term));
        }
        let mut end = BytesMut::new();
        end.put_u64(reader.summary().map_or(0, |summary| summary.digest));
        let mut answer =
            self.call(call(RpcKind::SnapshotEnd), end.freeze(), SNAPSHOT_INSTALL_MAX).await?;
        let server = self.target.server();
        if answer.0 == SNAPSHOT_DAMAGED {
            let error = io::Error::other(format!("server {server} cannot read it"));
            self.network.snapshots.is_damaged(name, &error);
            return Err(Unreachable::new(&error).into());
        }
        self.check_taken(&answer)?;
        let answered = answer.vote().map_err(|error| network(&error))?;
        if answered == vote {
            let term = Term(vote.leader_id.term);
            self.network.acks.note_snapshot(self.target, term, name.index);
        }
        self.network.snapshots.note_sent();
        Ok(SnapshotResponse::new(answered))
    }

    /// Fails if the receiver takes no snapshot now: it is asked again behind a pause.
    fn check_taken(&self, answer: &Reader) -> Result<(), Failure> {
        if answer.0 != SNAPSHOT_LATER {
            return Ok(());
        }
        let server = self.target.server();
        let error = io::Error::other(format!("server {server} cannot take a snapshot now"));
        Err(Unreachable::new(&error).into())
    }
}

/// What was read: the next piece, or none at the end.
type Piece = Result<Option<Bytes>, StorageError>;

/// Reads on without blocking the runtime.
async fn next_chunk(
    mut reader: SnapshotReader,
) -> Result<(SnapshotReader, Piece), StreamingError<TypeConfig>> {
    let reading = blocking(move || {
        let chunk = reader.next().transpose();
        (reader, chunk)
    });
    reading.await.map_err(|error| NetworkError::new(&error).into())
}

/// Returns the failure of an append to a follower that has lost what it had: openraft would never send
/// it again what it lacks, and with its assertions it would end the leader. A follower that knows of
/// this failure does not answer, but ends.
fn lost_entries_error(acks: &Acks, node: NodeId, entry: Option<LogId>) -> Failure {
    let (server, index) = (node.server(), entry.map(|entry| entry.index));
    if acks.note_loss(node) {
        tracing::error!(server, index, "a server has lost an entry that it had acknowledged");
    }
    let error = io::Error::other(format!("server {server} has lost entries of its log"));
    RPCError::Unreachable(Unreachable::new(&error))
}

fn network(error: &io::Error) -> Failure {
    RPCError::Network(NetworkError::new(error))
}

impl RaftNetworkV2<TypeConfig> for PeerClient {
    type SnapshotData = SnapshotReader;

    async fn append_entries(
        &mut self,
        request: AppendEntriesRequest<TypeConfig>,
        option: RPCOption,
    ) -> Result<AppendEntriesResponse<TypeConfig>, Failure> {
        self.append(&request, &option).await
    }

    /// Sends several requests before the first is answered, so that neither a commit nor an entry
    /// waits until the one before it is durable on the follower. A link keeps their order.
    fn stream_append<'s, S>(
        &'s mut self,
        requests: S,
        option: RPCOption,
    ) -> BoxFuture<'s, Result<AppendAnswers<'s>, Failure>>
    where
        S: Stream<Item = AppendEntriesRequest<TypeConfig>> + OptionalSend + Unpin + 'static,
    {
        let client: &'s Self = self;
        let mut had_entries = false;
        let send = move |request: AppendEntriesRequest<TypeConfig>| {
            // No answer is needed: the one to the entries before it or behind it shows the same.
            let is_announcement = had_entries && request.entries.is_empty();
            had_entries = !request.entries.is_empty();
            if is_announcement {
                client.announce(&request);
                return ready(None);
            }
            let answer = client.append(&request, &option);
            let prev = request.prev_log_id;
            let last = request.entries.last().map(|entry| entry.log_id).or(prev);
            ready(Some(async move { AppendAnswer::of(answer.await, prev, last) }))
        };
        let answers = requests.filter_map(send).buffered(APPENDS_IN_FLIGHT_MAX);
        // What follows a failure would fail as well, or is sent again behind what failed.
        let until_failure = answers.scan(false, |is_over, answer| {
            if *is_over {
                return ready(None);
            }
            *is_over = answer.as_ref().map_or(true, |answer| answer.is_last);
            ready(Some(answer.map(|answer| answer.result)))
        });
        Box::pin(ready(Ok(until_failure.boxed() as AppendAnswers<'s>)))
    }

    async fn vote(
        &mut self,
        request: VoteRequest<TypeConfig>,
        option: RPCOption,
    ) -> Result<VoteResponse<TypeConfig>, Failure> {
        let body = codec::encode_vote_request(&request);
        let call = (Lane::Control, RpcKind::Vote, RPCTypes::Vote);
        let mut answer = self.call(call, body, option.hard_ttl()).await?;
        let response = answer.vote_response().map_err(|error| network(&error))?;
        self.note_removal(&mut answer);
        Ok(response)
    }

    async fn pre_vote(
        &mut self,
        request: VoteRequest<TypeConfig>,
        option: RPCOption,
    ) -> Result<VoteResponse<TypeConfig>, Failure> {
        let body = codec::encode_vote_request(&request);
        let call = (Lane::Control, RpcKind::PreVote, RPCTypes::Vote);
        let mut answer = self.call(call, body, option.hard_ttl()).await?;
        let response = answer.vote_response().map_err(|error| network(&error))?;
        self.note_removal(&mut answer);
        Ok(response)
    }

    async fn full_snapshot(
        &mut self,
        vote: Vote,
        snapshot: FileSnapshot,
        cancel: impl Future<Output = ReplicationClosed> + OptionalSend + 'static,
        _option: RPCOption,
    ) -> Result<SnapshotResponse<TypeConfig>, StreamingError<TypeConfig>> {
        tokio::select! {
            sent = self.send_snapshot(vote, snapshot) => {
                if sent.is_err() {
                    self.network.links.give_up(self.target, Lane::Snapshot);
                }
                sent
            }
            closed = cancel => Err(closed.into()),
        }
    }

    async fn transfer_leader(
        &mut self,
        request: TransferLeaderRequest<TypeConfig>,
        option: RPCOption,
    ) -> Result<TransferLeaderResponse<TypeConfig>, Failure> {
        let body = codec::encode_transfer_request(&request);
        let call = (Lane::Control, RpcKind::TransferLeader, RPCTypes::TransferLeader);
        self.call(call, body, option.hard_ttl()).await?;
        // What the peer thinks of it does not matter: without its election all goes on as before.
        Ok(Ok(()))
    }
}

#[cfg(test)]
mod tests {
    use super::super::types::log_id;
    use super::*;

    #[test]
    fn an_answer_that_leaves_entries_out_is_the_last_one() {
        let (prev, last) = (Some(log_id(1, 3)), Some(log_id(1, 5)));
        let of = |response| AppendAnswer::of(Ok(response), prev, last).unwrap();
        let success = of(AppendEntriesResponse::Success);
        assert!(success.result == Ok(last) && !success.is_last);
        let partial = of(AppendEntriesResponse::PartialSuccess(Some(log_id(1, 4))));
        assert!(partial.result == Ok(Some(log_id(1, 4))) && partial.is_last);
        let conflict = of(AppendEntriesResponse::Conflict);
        assert!(conflict.is_last && conflict.result.is_err());
    }

    /// A peer that answered so ended the process: openraft unwraps the entry before.
    #[test]
    fn a_conflict_before_the_first_entry_is_a_failure_of_the_call() {
        let answer = AppendAnswer::of(Ok(AppendEntriesResponse::Conflict), None, None);
        assert!(answer.is_err());
    }
}
