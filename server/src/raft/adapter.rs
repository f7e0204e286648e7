//! [`Consensus`] by openraft.

use std::collections::BTreeMap;
use std::fmt::Display;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use openraft::async_runtime::watch::WatchReceiver;
use openraft::metrics::RaftMetrics;
use openraft::raft::{AppendEntriesResponse, TransferLeaderRequest, VoteResponse};
use openraft::{Config, ReadPolicy, Snapshot, SnapshotPolicy};
use tokio::sync::watch;
use tokio::time::{Instant, sleep};
use zoolet_storage::{LogIndex, SnapshotReader, Wal};

use super::acks::Acks;
use super::codec::{self, AppendMessage, meta_of};
use super::log_store::LogStore;
use super::network::Network;
use super::signals::PeerSignals;
use super::state_machine::{StateMachine, WrittenSnapshot};
use super::types::{
    Body, Callback, LogId, TypeConfig, log_id, plain_membership, position_of, term_of,
};
use crate::consensus::{
    Append, Applier, Consensus, ConsensusStatus, Follower, LaterAnswer, LeaderVote, Leadership,
    MemberNode, MembershipChange, ProposalOutcome, RaftView, Term,
};
use crate::fatal::Fatal;
use crate::loss_mark::LossMark;
use crate::node_id::NodeId;
use crate::peer::Links;
use crate::snapshots::Snapshots;
use crate::transport::BoxFuture;
use crate::wire::Reader;

/// The pause between two looks at whether a majority has answered since a read index was asked for,
/// and how many looks there are: openraft has had such an answer, or one that was under way.
const CONFIRMATION_PAUSE: Duration = Duration::from_millis(1);
const CONFIRMATIONS_MAX: usize = 200;

/// The times of Raft, and the name of the ensemble.
#[derive(Clone, Debug)]
pub(crate) struct RaftConfig {
    pub cluster_id: u64,
    /// Between two heartbeats.
    pub heartbeat: Duration,
    /// The range of the election timeout, which begins when a leader has been silent for
    /// `election_max`.
    pub election_min: Duration,
    pub election_max: Duration,
    /// How long entries may take to a follower's log.
    pub append_timeout: Duration,
}

impl RaftConfig {
    fn openraft(&self) -> Config {
        let millis = |duration: Duration| u64::try_from(duration.as_millis()).unwrap_or(u64::MAX);
        Config {
            cluster_name: format!("{:016x}", self.cluster_id),
            heartbeat_interval: millis(self.heartbeat),
            election_timeout_min: millis(self.election_min),
            election_timeout_max: millis(self.election_max),
            enable_pre_vote: Some(true),
            enable_leader_restore: Some(false),
            allow_log_reversion: Some(false),
            // `replication` takes the snapshots and purges the log.
            snapshot_policy: SnapshotPolicy::Never,
            max_in_snapshot_log_to_keep: u64::MAX,
            replication_lag_threshold: u64::MAX,
            backoff: "50ms 100ms 200ms ..500ms".to_owned(),
            ..Config::default()
        }
    }
}

/// What the consensus of a server is made of.
#[derive(Debug)]
pub(crate) struct RaftParts {
    /// This server's id in the membership.
    pub node: NodeId,
    pub wal: Arc<Wal>,
    pub snapshots: Snapshots,
    pub applier: Arc<dyn Applier>,
    pub links: Arc<Links>,
    pub signals: Arc<PeerSignals>,
    /// Receives the panic of a task that cannot be done without.
    pub fatal: Fatal,
    /// For a log that lacks what this server has acknowledged.
    pub loss_mark: LossMark,
}

/// Replays the log, up to where it is known to be committed. It takes part in the ensemble from
/// [`Consensus::run`] on.
pub(crate) async fn start(
    config: RaftConfig,
    parts: RaftParts,
) -> Result<Arc<dyn Consensus>, String> {
    let RaftParts { node, wal, snapshots, applier, links, signals, fatal, loss_mark } = parts;
    let written = WrittenSnapshot::default();
    let state_machine =
        StateMachine::new(applier, snapshots.clone(), written.clone(), fatal.clone())
            .map_err(text)?;
    let append_timeout = config.append_timeout;
    let config = Arc::new(config.openraft().validate().map_err(text)?);
    let acks = Arc::new(Acks::default());
    let network = Network {
        node,
        links,
        snapshots: snapshots.clone(),
        signals,
        acks: Arc::clone(&acks),
        append_timeout,
    };
    let raft =
        openraft::Raft::build(node, config, network, LogStore::new(wal), state_machine).await;
    let raft = raft.map_err(text)?;
    let (published, status) = watch::channel(ConsensusStatus::default());
    // It ends with openraft, whose end it reports.
    tokio::spawn(fatal.finite("metrics of the log", publish_status(raft.clone(), published)));
    Ok(Arc::new(OpenRaft { node, raft, snapshots, written, status, acks, loss_mark }))
}

/// Returns why a server must not go on that lacks an entry which it had: whatever else it has promised
/// may be gone as well.
fn missing_entry_text(entry: &LogId, leader: NodeId) -> String {
    format!(
        "the log is damaged: it lacks entry {} of term {}, which this server has acknowledged to \
         server {}: the disk has lost it, or an older copy of the directory was put back; move the \
         whole directory away and start the server again",
        entry.index,
        term_of(entry),
        leader.server()
    )
}

fn text(error: impl Display) -> String {
    error.to_string()
}

/// Publishes what others follow of openraft's metrics, until it stops.
async fn publish_status(
    raft: openraft::Raft<TypeConfig, StateMachine>,
    published: watch::Sender<ConsensusStatus>,
) {
    let mut metrics = raft.metrics();
    // The last handle keeps openraft running.
    drop(raft);
    loop {
        let is_over = {
            let metrics = metrics.borrow_watched();
            let term = Term(metrics.current_term);
            publish(
                &published,
                ConsensusStatus {
                    leadership: metrics.current_leader.map(|leader| Leadership { leader, term }),
                    membership: metrics.membership_config.log_id().as_ref().map(position_of),
                    failure: metrics.running_state.as_ref().err().map(text),
                },
            )
        };
        if is_over || metrics.changed().await.is_err() {
            // openraft ends without a word when its task panics.
            let unknown = || "the task that replicates the log has ended".to_owned();
            return published.send_modify(|known| {
                known.failure.get_or_insert_with(unknown);
            });
        }
    }
}

/// Publishes a status, and returns whether the consensus has ended.
fn publish(published: &watch::Sender<ConsensusStatus>, status: ConsensusStatus) -> bool {
    let has_failed = status.failure.is_some();
    published.send_if_modified(|known| {
        let is_new = *known != status;
        *known = status;
        is_new
    });
    has_failed
}

/// openraft, and what it is started with.
#[derive(Debug)]
struct OpenRaft {
    node: NodeId,
    raft: openraft::Raft<TypeConfig, StateMachine>,
    snapshots: Snapshots,
    written: WrittenSnapshot,
    status: watch::Receiver<ConsensusStatus>,
    acks: Arc<Acks>,
    loss_mark: LossMark,
}

impl Consensus for OpenRaft {
    fn run(&self) {
        self.raft.run();
    }

    fn node(&self) -> NodeId {
        self.node
    }

    fn view(&self) -> RaftView {
        self.view_of(&self.raft.metrics().borrow_watched())
    }

    fn status(&self) -> watch::Receiver<ConsensusStatus> {
        self.status.clone()
    }

    fn propose(
        &self,
        batch: Bytes,
        term: Option<Term>,
        outcome: ProposalOutcome,
    ) -> BoxFuture<'_, bool> {
        let outcome = Callback(Box::new(move |result: Result<_, _>| outcome(result.is_ok())));
        let write = self.raft.write(Body(batch)).responder(outcome);
        Box::pin(async move {
            match term {
                Some(term) => write.with_leader(log_id(term.0, 0).leader_id).await.is_ok(),
                None => write.await.is_ok(),
            }
        })
    }

    fn read_index(&self) -> BoxFuture<'_, Option<LogIndex>> {
        Box::pin(async move {
            let (term, asked_at) = (self.term(), Instant::now());
            let linearizer = self.raft.get_read_linearizer(ReadPolicy::ReadIndex).await.ok()?;
            // openraft may count the answer to an append that was sent before (`acks`).
            for _ in 0..CONFIRMATIONS_MAX {
                if self.has_quorum_since(asked_at, term) {
                    return Some(LogIndex(linearizer.read_log_id().index()));
                }
                sleep(CONFIRMATION_PAUSE).await;
            }
            None
        })
    }

    fn initialize(
        &self,
        members: BTreeMap<NodeId, MemberNode>,
    ) -> BoxFuture<'_, Result<(), String>> {
        Box::pin(async move { self.raft.initialize(members).await.map_err(text) })
    }

    fn change_membership(&self, change: MembershipChange) -> BoxFuture<'_, Result<(), String>> {
        Box::pin(async move {
            // openraft would log each of these as an error.
            if self.status.borrow().leadership.is_none_or(|known| known.leader != self.node) {
                return Err("this server does not lead".to_owned());
            }
            // Who loses the vote stays a node until it is removed.
            let changed = self.raft.change_membership(change, true).await;
            changed.map(drop).map_err(text)
        })
    }

    fn abandon(&self, gone: Leadership) -> BoxFuture<'_, bool> {
        let Leadership { leader, term } = gone;
        let vote = codec::vote_of(LeaderVote { term, leader, is_committed: true });
        // The message of a leader that hands over ends its lease for all who get it. Only the one
        // that it names, here the leader itself, begins an election without asking others first.
        let request = TransferLeaderRequest::new(vote, leader, None);
        Box::pin(async move { self.raft.handle_transfer_leader(request).await.is_ok() })
    }

    fn campaign(&self) -> BoxFuture<'_, bool> {
        Box::pin(async move { self.raft.trigger().elect(true).await.is_ok() })
    }

    fn transfer_to(&self, node: NodeId) -> BoxFuture<'_, bool> {
        Box::pin(async move { self.raft.trigger().transfer_leader(node).await.is_ok() })
    }

    /// openraft ends for good when a snapshot cannot be written, on a full disk for example, so it
    /// is written here, and openraft gets only what was written.
    fn take_snapshot(&self) -> BoxFuture<'_, io::Result<()>> {
        Box::pin(async move {
            let capturing = self.raft.with_state_machine(|machine: &mut StateMachine| {
                let captured = machine.capture();
                Box::pin(async move { captured })
            });
            let captured = capturing.await.map_err(io::Error::other)?;
            self.written.keep(captured.write(&self.snapshots).await?);
            self.raft.trigger().snapshot().await.map_err(io::Error::other)
        })
    }

    fn purge(&self, through: LogIndex) -> BoxFuture<'_, Result<(), String>> {
        Box::pin(async move { self.raft.trigger().purge_log(through.0).await.map_err(text) })
    }

    fn allow_elections(&self, allowed: bool) {
        self.raft.runtime_config().elect(allowed);
    }

    fn allow_heartbeats(&self, allowed: bool) {
        self.raft.runtime_config().heartbeat(allowed);
    }

    fn append(&self, mut message: Reader) -> io::Result<Append> {
        let AppendMessage { suspects_quorum, is_prev_taken, echo, request } =
            message.append_message()?;
        let (raft, loss_mark) = (self.raft.clone(), self.loss_mark.clone());
        let entries = request.entries.iter().map(|entry| &entry.log_id);
        let positions = request.prev_log_id.as_ref().into_iter().chain(entries).map(position_of);
        Ok(Append {
            term: Term(request.vote.leader_id.term),
            suspects_quorum,
            committed: request.leader_commit.as_ref().map(position_of),
            echo,
            positions: positions.collect(),
            take: Box::new(move |stamp| {
                Box::pin(async move {
                    let (leader, prev) = (request.vote.leader_id, request.prev_log_id);
                    let response = raft.append_entries(request).await.ok()?;
                    if response == AppendEntriesResponse::Conflict
                        && is_prev_taken
                        && !planted!("lost-entries-are-overlooked")
                        && let Some(prev) = prev
                    {
                        loss_mark.make(missing_entry_text(&prev, leader.voted_for)).await;
                        return None;
                    }
                    Some(codec::encode_append_response(&response, stamp))
                })
            }),
        })
    }

    fn vote(
        &self,
        mut request: Reader,
        is_pre_vote: bool,
        waits_for_leader: bool,
    ) -> io::Result<LaterAnswer> {
        let (request, raft) = (request.vote_request()?, self.raft.clone());
        Ok(Box::pin(async move {
            if waits_for_leader && !request.leadership_transfer {
                let vote = raft.metrics().borrow_watched().vote;
                let refused = VoteResponse::new(vote, None, false);
                return Some(codec::encode_vote_response(&refused));
            }
            let voted =
                if is_pre_vote { raft.pre_vote(request).await } else { raft.vote(request).await };
            Some(codec::encode_vote_response(&voted.ok()?))
        }))
    }

    fn take_over(&self, mut request: Reader) -> io::Result<(Term, LaterAnswer)> {
        let (request, raft) = (request.transfer_request()?, self.raft.clone());
        let term = Term(request.from_leader().leader_id.term);
        let answer = Box::pin(async move {
            raft.handle_transfer_leader(request).await.ok().map(|_| Bytes::new())
        });
        Ok((term, answer))
    }

    fn install(&self, from: LeaderVote, snapshot: SnapshotReader) -> io::Result<LaterAnswer> {
        let (meta, raft) = (meta_of(&snapshot)?, self.raft.clone());
        Ok(Box::pin(async move {
            let response = raft
                .install_full_snapshot(codec::vote_of(from), Snapshot { meta, snapshot })
                .await
                .ok()?;
            let mut out = BytesMut::new();
            codec::put_vote(&mut out, &response.vote);
            Some(out.freeze())
        }))
    }

    fn shutdown(&self) -> BoxFuture<'_, Result<(), String>> {
        Box::pin(async move { self.raft.shutdown().await.map_err(text) })
    }
}

impl OpenRaft {
    fn term(&self) -> Term {
        Term(self.raft.metrics().borrow_watched().current_term)
    }

    /// Returns whether this server leads in `term`, and a majority has answered a message of it that
    /// was sent at `asked_at` or later. In another term the read index may be too low.
    fn has_quorum_since(&self, asked_at: Instant, term: Term) -> bool {
        let metrics = self.raft.metrics();
        let metrics = metrics.borrow_watched();
        let leads = metrics.current_leader == Some(self.node) && Term(metrics.current_term) == term;
        let configs = metrics.membership_config.membership().get_joint_config();
        leads && self.acks.has_quorum_since(asked_at, self.node, term, configs)
    }

    fn view_of(&self, metrics: &RaftMetrics<TypeConfig>) -> RaftView {
        let (now, term) = (Instant::now(), Term(metrics.current_term));
        let membership = plain_membership(&metrics.membership_config);
        let followers = metrics.replication.as_ref().map(|replication| {
            let follower = |(node, matching): (&NodeId, &Option<_>)| {
                let matching = matching.as_ref().map(|matching: &LogId| LogIndex(matching.index));
                let silent_for = self.acks.silent_for(now, *node, term);
                let idle_for = self.acks.idle_for(now, *node, term);
                (*node, Follower { matching, silent_for, idle_for })
            };
            replication.iter().map(follower).collect()
        });
        let leads = metrics.current_leader == Some(self.node);
        RaftView {
            term,
            leader: metrics.current_leader,
            last_log: metrics.last_log_index.map(LogIndex),
            committed: metrics.cluster_committed.as_ref().map(|last| LogIndex(last.index)),
            purged: metrics.purged.as_ref().map(|last| LogIndex(last.index)),
            snapshot: metrics.snapshot.as_ref().map(position_of),
            quorum_silent_for: leads
                .then(|| self.acks.quorum_silent_for(now, self.node, term, &membership.configs))
                .flatten(),
            followers,
            membership,
        }
    }
}
