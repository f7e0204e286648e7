//! openraft's messages on the peer links: the calling side. The called side is in `rpc_server`.

use std::collections::BTreeMap;
use std::future::Future;
use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
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
use zoolet_storage::{SnapshotReader, StorageError};

use super::codec;
use super::node_ids::{directory_of, server_of};
use super::rpc_kind::{RpcKind, SNAPSHOT_DAMAGED, SNAPSHOT_LATER};
use super::state_machine::{FileSnapshot, Snapshots};
use super::types::{Member, Membership, TypeConfig, Vote};
use crate::peer::{CallError, Lane, Link, LinkOptions, Reach, Target};

/// How long one piece of a snapshot may take.
const CHUNK_TIMEOUT: Duration = Duration::from_secs(10);

/// How long installing a snapshot may take.
const INSTALL_TIMEOUT: Duration = Duration::from_mins(5);

/// The most addresses that are known of one peer.
const ADDRESSES_MAX: usize = 4;

/// The links to all peers, each opened when it is first used.
#[derive(Debug)]
pub(super) struct Links {
    /// What is the same for all of them.
    template: LinkOptions,
    append_timeout: Duration,
    /// Whether this server leads and has had no reply of a majority for too long. Appends carry it,
    /// so that followers which still get this leader's appends do not go on serving what a majority
    /// somewhere else may have left behind.
    suspects_quorum: AtomicBool,
    /// The index of the last membership without this server that others have reported; zero for
    /// none.
    removal: Arc<AtomicU64>,
    known: Mutex<Known>,
}

#[derive(Debug)]
struct Known {
    /// By the numbers of the servers: where each is, and before that where it was. A server that a
    /// change has moved listens at the old place as well, until it is restarted.
    addresses: BTreeMap<u64, Vec<String>>,
    /// By node.
    links: BTreeMap<(u64, Lane), Arc<Link>>,
    /// To whichever directory a server has, by the numbers of the servers.
    questions: BTreeMap<u64, Arc<Link>>,
    reaches: BTreeMap<u64, Arc<Reach>>,
}

impl Links {
    pub(super) fn new(
        template: LinkOptions,
        append_timeout: Duration,
        addresses: BTreeMap<u64, String>,
    ) -> Self {
        let addresses = addresses.into_iter().map(|(server, address)| (server, vec![address]));
        let known = Mutex::new(Known {
            addresses: addresses.collect(),
            links: BTreeMap::new(),
            questions: BTreeMap::new(),
            reaches: BTreeMap::new(),
        });
        let (suspects_quorum, removal) = (AtomicBool::new(false), Arc::default());
        Self { template, append_timeout, suspects_quorum, removal, known }
    }

    /// The index of the last membership without this server that others have reported.
    pub(super) fn removal(&self) -> Arc<AtomicU64> {
        Arc::clone(&self.removal)
    }

    /// Reads the end of the answer to a vote request.
    fn hear_of_removal(&self, answer: &mut codec::Reader) {
        self.removal.fetch_max(answer.u64().unwrap_or(0), Ordering::Relaxed);
    }

    /// Tells all followers from now on whether this leader has a majority.
    pub(super) fn suspect_quorum(&self, suspects_quorum: bool) {
        self.suspects_quorum.store(suspects_quorum, Ordering::Relaxed);
    }

    /// Returns the link to a node; `None` if the address of its server is not known. It carries
    /// nothing to another directory of that server.
    pub(super) fn to(&self, node: u64, lane: Lane) -> Option<Arc<Link>> {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(link) = known.links.get(&(node, lane)) {
            return Some(Arc::clone(link));
        }
        let target = Target { server: server_of(node), directory: Some(directory_of(node)) };
        let link = self.open(&mut known, target, lane)?;
        known.links.insert((node, lane), Arc::clone(&link));
        Some(link)
    }

    /// Returns the link for questions to a server, whichever directory it has.
    pub(super) fn ask(&self, server: u64) -> Option<Arc<Link>> {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(link) = known.questions.get(&server) {
            return Some(Arc::clone(link));
        }
        let target = Target { server, directory: None };
        let link = self.open(&mut known, target, Lane::Question)?;
        known.questions.insert(server, Arc::clone(&link));
        Some(link)
    }

    fn open(&self, known: &mut Known, target: Target, lane: Lane) -> Option<Arc<Link>> {
        let addresses = known.addresses.get(&target.server)?.clone();
        let stall_timeout = match lane {
            Lane::Control | Lane::Append | Lane::Request | Lane::Question | Lane::Query => {
                self.template.stall_timeout
            }
            Lane::Snapshot => INSTALL_TIMEOUT,
        };
        let template = self.template.clone();
        let reach = Arc::clone(known.reaches.entry(target.server).or_default());
        let options = LinkOptions { target, addresses, lane, stall_timeout, reach, ..template };
        Some(Arc::new(Link::open(options)))
    }

    /// Returns the directory that a server had when it was last called.
    pub(super) fn directory(&self, server: u64) -> Option<u64> {
        let known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        known.reaches.get(&server)?.directory()
    }

    /// Uses the address from the log's membership if the configuration has none, or if the
    /// ensemble was changed since the configuration was written.
    fn learn(&self, node: u64, member: &Member) {
        let server = server_of(node);
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let addresses = known.addresses.entry(server).or_default();
        let is_known = addresses.first() == Some(&member.address);
        if is_known || member.line.is_empty() && !addresses.is_empty() {
            return;
        }
        addresses.retain(|address| *address != member.address);
        addresses.insert(0, member.address.clone());
        addresses.truncate(ADDRESSES_MAX);
        // A caller that has a link still ends its calls on it.
        known.links.retain(|(node, _), _| server_of(*node) != server);
        known.questions.remove(&server);
    }

    /// Learns all addresses of a membership.
    pub(super) fn follow(&self, membership: &Membership) {
        for (node, member) in membership.nodes() {
            self.learn(*node, member);
        }
    }

    /// Drops a link that does not answer: the next call opens another one. That of snapshots
    /// may be silent for minutes, and a dead one would stay as long.
    fn give_up(&self, node: u64, lane: Lane) {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        known.links.remove(&(node, lane));
    }

    /// A link to a server that is not a peer yet, which is not kept.
    pub(super) fn try_out(&self, server: u64, address: String) -> Link {
        let target = Target { server, directory: None };
        let stall_timeout = self.template.stall_timeout;
        let (lane, reach, template) = (Lane::Question, Arc::default(), self.template.clone());
        let addresses = vec![address];
        Link::open(LinkOptions { target, addresses, lane, stall_timeout, reach, ..template })
    }
}

/// Makes openraft's clients.
#[derive(Clone, Debug)]
pub(super) struct Network {
    pub node: u64,
    pub snapshots: Snapshots,
    pub links: Arc<Links>,
}

impl Network {
    fn client(&self, target: u64, member: &Member, lane: Lane) -> PeerClient {
        self.links.learn(target, member);
        let (snapshots, links) = (self.snapshots.clone(), Arc::clone(&self.links));
        PeerClient { node: self.node, target, lane, links, snapshots }
    }
}

impl RaftNetworkFactory<TypeConfig> for Network {
    type Network = PeerClient;

    async fn new_client(&mut self, target: u64, member: &Member) -> PeerClient {
        self.client(target, member, Lane::Append)
    }

    async fn new_heartbeat_client(&mut self, target: u64, member: &Member) -> PeerClient {
        self.client(target, member, Lane::Control)
    }

    async fn new_snapshot_client(&mut self, target: u64, member: &Member) -> PeerClient {
        self.client(target, member, Lane::Snapshot)
    }
}

/// One peer, as openraft calls it.
#[derive(Clone, Debug)]
pub(super) struct PeerClient {
    node: u64,
    target: u64,
    /// The lane of appends; votes always take the control lane.
    lane: Lane,
    links: Arc<Links>,
    snapshots: Snapshots,
}

type Failure = RPCError<TypeConfig>;

impl PeerClient {
    async fn call(
        &self,
        (lane, kind, action): (Lane, RpcKind, RPCTypes),
        body: Bytes,
        timeout: Duration,
    ) -> Result<codec::Reader, Failure> {
        let called = match self.links.to(self.target, lane) {
            Some(link) => link.call_within(kind.code(), body, timeout).await,
            None => Err(CallError::Unreachable),
        };
        called.map(codec::Reader).map_err(|error| match error {
            CallError::Unreachable | CallError::Full => {
                RPCError::Unreachable(Unreachable::new(&error))
            }
            CallError::Broken => RPCError::Network(NetworkError::new(&error)),
            CallError::Timeout => {
                RPCError::Timeout(Timeout { action, id: self.node, target: self.target, timeout })
            }
        })
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
        begin.put_u64(name.index);
        begin.put_u64(name.zxid);
        codec::put_bytes(&mut begin, reader.meta());
        self.call(call(RpcKind::SnapshotBegin), begin.freeze(), CHUNK_TIMEOUT).await?;
        loop {
            let (back, chunk) = next_chunk(reader).await?;
            reader = back;
            let chunk = chunk.map_err(|error| {
                // No network can help: this server needs another snapshot.
                self.snapshots.is_damaged(name, &error);
                Unreachable::new(&error)
            })?;
            let Some(chunk) = chunk else { break };
            self.call(call(RpcKind::SnapshotChunk), chunk, CHUNK_TIMEOUT).await?;
        }
        let mut end = BytesMut::new();
        end.put_u64(reader.summary().map_or(0, |summary| summary.digest));
        let mut answer =
            self.call(call(RpcKind::SnapshotEnd), end.freeze(), INSTALL_TIMEOUT).await?;
        let server = server_of(self.target);
        if answer.0 == SNAPSHOT_DAMAGED {
            let error = io::Error::other(format!("server {server} cannot read it"));
            self.snapshots.is_damaged(name, &error);
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
                self.links.append_timeout
            }
        };
        let call = (self.lane, RpcKind::Append, RPCTypes::AppendEntries);
        let suspects_quorum = self.links.suspects_quorum.load(Ordering::Relaxed);
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
        self.links.hear_of_removal(&mut answer);
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
        self.links.hear_of_removal(&mut answer);
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
                    self.links.give_up(self.target, Lane::Snapshot);
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
    use super::*;
    use crate::fatal::Fatal;
    use crate::peer::{FrameLimits, Identity};
    use crate::transport::RealNet;

    #[tokio::test]
    async fn a_link_that_was_given_up_is_opened_anew() {
        let template = LinkOptions {
            net: Arc::new(RealNet),
            ours: Identity { cluster: 7, founding: 0, server: 1, directory: 5 },
            founding: Arc::default(),
            secret: None,
            target: Target { server: 0, directory: None },
            addresses: Vec::new(),
            lane: Lane::Control,
            frames: FrameLimits { small: 1000, large: 1000 },
            calls_max: 8,
            connect_timeout: CHUNK_TIMEOUT,
            backoff_max: CHUNK_TIMEOUT,
            stall_timeout: CHUNK_TIMEOUT,
            reach: Arc::default(),
            fatal: Fatal::default(),
        };
        let addresses = BTreeMap::from([(2, "127.0.0.1:1".to_owned())]);
        let links = Links::new(template, CHUNK_TIMEOUT, addresses);
        let to = |lane| links.to(2, lane).unwrap();
        let (first, other) = (to(Lane::Snapshot), to(Lane::Append));
        assert!(Arc::ptr_eq(&first, &to(Lane::Snapshot)));
        links.give_up(2, Lane::Snapshot);
        assert!(!Arc::ptr_eq(&first, &to(Lane::Snapshot)));
        assert!(Arc::ptr_eq(&other, &to(Lane::Append)));
    }
}
