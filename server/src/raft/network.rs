//! openraft's messages on the peer links: the calling side. The called side is in `rpc_server`.

use std::future::Future;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use bytes::{BufMut, Bytes, BytesMut};
use openraft::errors::{
    NetworkError, RPCError, ReplicationClosed, StreamingError, Timeout, Unreachable,
};
use openraft::network::RPCOption;
use openraft::raft::{
    AppendEntriesRequest, AppendEntriesResponse, SnapshotResponse, TransferLeaderRequest,
    TransferLeaderResponse, VoteRequest, VoteResponse,
};
use openraft::{OptionalSend, RPCTypes, RaftNetworkFactory, RaftNetworkV2};
use tokio::task::spawn_blocking;
use zoolet_storage::{LogIndex, SnapshotReader, StorageError};

use super::codec;
use super::state_machine::FileSnapshot;
use super::types::{TypeConfig, Vote};
use crate::consensus::MemberNode;
use crate::node_id::NodeId;
use crate::peer::{
    CallError, Lane, Links, RpcKind, SNAPSHOT_DAMAGED, SNAPSHOT_LATER, SNAPSHOT_STALL_TIMEOUT,
};
use crate::snapshots::Snapshots;
use crate::wire::{Reader, put_bytes};

/// How long one piece of a snapshot may take.
const CHUNK_TIMEOUT: Duration = Duration::from_secs(10);

/// What the messages of consensus say besides.
#[derive(Debug, Default)]
pub(crate) struct PeerSignals {
    /// Whether this server leads and has had no reply of a majority for too long. Appends carry it,
    /// so that followers which still get this leader's appends do not go on serving what a majority
    /// somewhere else may have left behind.
    suspects_quorum: AtomicBool,
    /// The index of the last membership without this server that others have reported; zero for
    /// none. Answers to vote requests carry it.
    removed_at: AtomicU64,
}

impl PeerSignals {
    /// Says from now on, in every append, whether this leader has a majority.
    pub(crate) fn suspect_quorum(&self, suspects_quorum: bool) {
        self.suspects_quorum.store(suspects_quorum, Ordering::Relaxed);
    }

    /// Notes that the membership at this index is without this server.
    pub(crate) fn note_removal(&self, index: LogIndex) {
        self.removed_at.fetch_max(index.0, Ordering::Relaxed);
    }

    /// Returns the index of the last membership without this server that others have reported.
    pub(crate) fn removed_at(&self) -> Option<LogIndex> {
        let index = self.removed_at.load(Ordering::Relaxed);
        (index > 0).then_some(LogIndex(index))
    }
}

/// Makes openraft's clients.
#[derive(Clone, Debug)]
pub(super) struct Network {
    pub node: NodeId,
    pub snapshots: Snapshots,
    pub links: Arc<Links>,
    pub signals: Arc<PeerSignals>,
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

impl PeerClient {
    async fn call(
        &self,
        (lane, kind, action): (Lane, RpcKind, RPCTypes),
        body: Bytes,
        timeout: Duration,
    ) -> Result<Reader, Failure> {
        let called = match self.network.links.to(self.target, lane) {
            Some(link) => link.call_within(kind.code(), body, timeout).await,
            None => Err(CallError::Unreachable),
        };
        called.map(Reader).map_err(|error| match error {
            CallError::Unreachable | CallError::Full => {
                RPCError::Unreachable(Unreachable::new(&error))
            }
            CallError::Broken => RPCError::Network(NetworkError::new(&error)),
            CallError::Timeout => RPCError::Timeout(Timeout {
                action,
                id: self.network.node,
                target: self.target,
                timeout,
            }),
        })
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
        self.call(call(RpcKind::SnapshotBegin), begin.freeze(), CHUNK_TIMEOUT).await?;
        loop {
            let (back, chunk) = next_chunk(reader).await?;
            reader = back;
            let chunk = chunk.map_err(|error| {
                // No network can help: this server needs another snapshot.
                self.network.snapshots.is_damaged(name, &error);
                Unreachable::new(&error)
            })?;
            let Some(chunk) = chunk else { break };
            self.call(call(RpcKind::SnapshotChunk), chunk, CHUNK_TIMEOUT).await?;
        }
        let mut end = BytesMut::new();
        end.put_u64(reader.summary().map_or(0, |summary| summary.digest));
        let mut answer =
            self.call(call(RpcKind::SnapshotEnd), end.freeze(), SNAPSHOT_STALL_TIMEOUT).await?;
        let server = self.target.server();
        if answer.0 == SNAPSHOT_DAMAGED {
            let error = io::Error::other(format!("server {server} cannot read it"));
            self.network.snapshots.is_damaged(name, &error);
            return Err(Unreachable::new(&error).into());
        }
        if answer.0 == SNAPSHOT_LATER {
            let error = io::Error::other(format!("server {server} cannot take a snapshot now"));
            return Err(Unreachable::new(&error).into());
        }
        Ok(SnapshotResponse::new(answer.vote().map_err(|error| network(&error))?))
    }
}

/// What was read: the next piece, or none at the end.
type Piece = Result<Option<Bytes>, StorageError>;

/// Reads on without blocking the runtime.
async fn next_chunk(
    mut reader: SnapshotReader,
) -> Result<(SnapshotReader, Piece), StreamingError<TypeConfig>> {
    let reading = spawn_blocking(move || {
        let chunk = reader.next().transpose();
        (reader, chunk)
    });
    reading.await.map_err(|error| NetworkError::new(&error).into())
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
        let timeout = match self.lane {
            Lane::Control => option.hard_ttl(),
            Lane::Append | Lane::Request | Lane::Snapshot | Lane::Question | Lane::Query => {
                self.network.append_timeout
            }
        };
        let call = (self.lane, RpcKind::Append, RPCTypes::AppendEntries);
        let suspects_quorum = self.network.signals.suspects_quorum.load(Ordering::Relaxed);
        let body = codec::encode_append_request(suspects_quorum, &request);
        let mut answer = self.call(call, body, timeout).await?;
        answer.append_response().map_err(|error| network(&error))
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
