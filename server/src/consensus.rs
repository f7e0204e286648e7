//! The Consensus seam: what the replication of a server sees of the consensus on its log.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::{self, Debug};
use std::io;
use std::time::Duration;

use bytes::Bytes;
use tokio::sync::watch;
use zoolet_storage::{LogIndex, LogPosition, SnapshotReader};

pub(crate) use zoolet_replica::Term;

use crate::node_id::NodeId;
use crate::snapshots::{Chunks, Staged, StateSnapshot};
use crate::transport::BoxFuture;
use crate::wire::Reader;

/// One server, as the log's membership knows it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct MemberNode {
    /// The `host:port` of its peer port when it was added. The configuration's address wins as
    /// long as the line is empty.
    pub address: String,
    /// The value of its `server.N=` (protocol §15.3); empty until the ensemble is changed
    /// for the first time.
    pub line: String,
}

/// The servers of the log's membership, by their nodes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Membership {
    /// The entry that it is written in; `None` before the first.
    pub position: Option<LogPosition>,
    /// The voters: one set, or two while one turns into the other.
    pub configs: Vec<BTreeSet<NodeId>>,
    pub nodes: BTreeMap<NodeId, MemberNode>,
}

impl Membership {
    /// Returns all that have a vote, in the old set or in the new one.
    pub(crate) fn voters(&self) -> BTreeSet<NodeId> {
        self.configs.iter().flatten().copied().collect()
    }

    pub(crate) fn is_voter(&self, node: NodeId) -> bool {
        self.configs.iter().any(|voters| voters.contains(&node))
    }

    pub(crate) fn node(&self, node: NodeId) -> Option<&MemberNode> {
        self.nodes.get(&node)
    }

    /// Returns the index of the entry that it is written in; `None` before the first.
    pub(crate) fn index(&self) -> Option<LogIndex> {
        self.position.map(|position| position.index)
    }
}

/// A change of the membership. It is one entry of the log, or two if the voters change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum MembershipChange {
    /// Adds nodes without a vote; those that are there stay as they are.
    AddNodes(BTreeMap<NodeId, MemberNode>),
    /// Adds nodes without a vote, or changes what the membership says about them.
    SetNodes(BTreeMap<NodeId, MemberNode>),
    RemoveNodes(BTreeSet<NodeId>),
    /// Makes these the voters. Those that were stay nodes.
    ReplaceAllVoters(BTreeSet<NodeId>),
    /// Several changes at once.
    Batch(Vec<Self>),
}

/// Who leads, and since which election.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Leadership {
    /// The leader's node.
    pub leader: NodeId,
    pub term: Term,
}

/// Another server, as the leader sees it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Follower {
    /// The index up to which its log is known to match.
    pub matching: Option<LogIndex>,
    /// The time since the last message that it has answered was sent.
    pub silent_for: Option<Duration>,
    /// The time since it last took more of the log or of a snapshot.
    pub idle_for: Option<Duration>,
}

/// The state of the consensus at one moment.
#[derive(Clone, Debug, Default)]
pub(crate) struct RaftView {
    pub term: Term,
    /// The leader's node.
    pub leader: Option<NodeId>,
    pub membership: Membership,
    /// The last entry, the last that is committed, and up to where it was purged.
    pub last_log: Option<LogIndex>,
    pub committed: Option<LogIndex>,
    pub purged: Option<LogIndex>,
    /// Up to where the newest snapshot goes.
    pub snapshot: Option<LogPosition>,
    /// As leader: the time since the last message that a majority has answered was sent.
    pub quorum_silent_for: Option<Duration>,
    /// As leader: the other servers by their nodes; `None` if this server does not lead.
    pub followers: Option<BTreeMap<NodeId, Follower>>,
}

impl RaftView {
    /// Returns what this server, as leader, knows of a node.
    pub(crate) fn follower(&self, node: NodeId) -> Follower {
        let followers = self.followers.as_ref();
        followers.and_then(|all| all.get(&node)).copied().unwrap_or_default()
    }
}

/// What of the state of the consensus others wait for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct ConsensusStatus {
    /// Who leads, as far as this server knows.
    pub leadership: Option<Leadership>,
    /// The place of the membership in the log.
    pub membership: Option<LogPosition>,
    /// Why the consensus has ended, once it has.
    pub failure: Option<String>,
}

/// Receives whether a proposal was committed under the leader that it was made to.
pub(crate) type ProposalOutcome = Box<dyn FnOnce(bool) + Send>;

/// An answer to a peer that comes later; `None` if there will be none.
pub(crate) type LaterAnswer = BoxFuture<'static, Option<Bytes>>;

/// A message of a leader with entries, or without any: a heartbeat.
pub(crate) struct Append {
    /// The leader's term.
    pub term: Term,
    /// Whether the leader suspects that it has lost its quorum.
    pub suspects_quorum: bool,
    /// The last entry that the leader knows to be committed.
    pub committed: Option<LogPosition>,
    /// The stamp of the last answer that the leader has received from this server.
    pub echo: Echo,
    /// The entries that the leader says it has: the one before those that it sends, and these.
    pub positions: Vec<LogPosition>,
    /// Takes the entries, and answers with a stamp.
    pub take: Box<dyn FnOnce(u64) -> LaterAnswer + Send>,
}

/// A stamp that a follower has sent with an answer and that the leader returns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Echo {
    /// The leader's release knows no stamps.
    Unsupported,
    /// The leader has received none in its term.
    NoneYet,
    /// The stamp of the last answer.
    Stamp(u64),
}

impl Debug for Append {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = f.debug_struct("Append");
        shown.field("term", &self.term).field("positions", &self.positions).finish_non_exhaustive()
    }
}

/// The vote of a leader, with which it sends a snapshot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LeaderVote {
    pub term: Term,
    /// The leader's node.
    pub leader: NodeId,
    /// Whether a majority has voted for it.
    pub is_committed: bool,
}

impl LeaderVote {
    pub(crate) fn read(body: &mut Reader) -> io::Result<Self> {
        Ok(Self {
            term: Term(body.u64()?),
            leader: NodeId(body.u64()?),
            is_committed: body.u8()? != 0,
        })
    }
}

/// The consensus on the log. The reason why it has ended is in its
/// [`Consensus::status`].
pub(crate) trait Consensus: Debug + Send + Sync + 'static {
    /// Begins to take part: until then no message is sent, and no election begun.
    fn run(&self);

    /// Returns this server's id in the membership.
    fn node(&self) -> NodeId;

    fn view(&self) -> RaftView;

    /// Follows what seldom changes. Closed when the consensus has ended.
    fn status(&self) -> watch::Receiver<ConsensusStatus>;

    /// Puts a batch behind all that were proposed before, if this server leads, and in `term` if one
    /// is given. The batch has its place when this returns; false if it has none, because the
    /// consensus has ended.
    fn propose(
        &self,
        batch: Bytes,
        term: Option<Term>,
        outcome: ProposalOutcome,
    ) -> BoxFuture<'_, bool>;

    /// As leader: an index up to which everything is that was committed before the call. `None`
    /// when this server does not lead, or cannot show that it does.
    fn read_index(&self) -> BoxFuture<'_, Option<LogIndex>>;

    /// Writes the first entry of the log: the membership of a new ensemble.
    fn initialize(
        &self,
        members: BTreeMap<NodeId, MemberNode>,
    ) -> BoxFuture<'_, Result<(), String>>;

    /// As leader, changes the membership. Returns when the change is committed.
    fn change_membership(&self, change: MembershipChange) -> BoxFuture<'_, Result<(), String>>;

    /// As follower of a leader that is gone: votes for another server from now on, and does not wait
    /// until the leader's lease is over. Does nothing if this server follows another leader by now.
    /// False if the consensus has ended.
    fn abandon(&self, gone: Leadership) -> BoxFuture<'_, bool>;

    /// Begins an election, if a majority says that it would vote for this server. False if the
    /// consensus has ended.
    fn campaign(&self) -> BoxFuture<'_, bool>;

    /// As leader, asks a voter to begin an election at once. False if the consensus has ended.
    fn transfer_to(&self, node: NodeId) -> BoxFuture<'_, bool>;

    /// Takes a snapshot and keeps it.
    fn take_snapshot(&self) -> BoxFuture<'_, io::Result<()>>;

    /// Removes the entries up to an index that a snapshot has.
    fn purge(&self, through: LogIndex) -> BoxFuture<'_, Result<(), String>>;

    /// Whether this server begins elections.
    fn allow_elections(&self, allowed: bool);

    /// Whether this server, as leader, sends heartbeats.
    fn allow_heartbeats(&self, allowed: bool);

    /// Reads a message of a leader.
    fn append(&self, message: Reader) -> io::Result<Append>;

    /// Answers a candidate that asks for this server's vote, or whether it would get it. While this
    /// server waits for the leader, the vote is refused, unless the leader hands over.
    fn vote(
        &self,
        request: Reader,
        is_pre_vote: bool,
        waits_for_leader: bool,
    ) -> io::Result<LaterAnswer>;

    /// Begins an election because the leader of the returned term asks for it.
    fn take_over(&self, request: Reader) -> io::Result<(Term, LaterAnswer)>;

    /// Installs a snapshot that was received. One that is older than what is here is not installed,
    /// nor is one of a leader of the past.
    fn install(&self, from: LeaderVote, snapshot: SnapshotReader) -> io::Result<LaterAnswer>;

    /// Ends it.
    fn shutdown(&self) -> BoxFuture<'_, Result<(), String>>;
}

/// What the committed entries are applied to.
pub(crate) trait Applier: Debug + Send + Sync + 'static {
    /// Applies the next batches of the log, each with its place, and yields to other tasks in between
    /// if that takes long. `last` is the last entry, which may follow them and be of another kind.
    fn apply(&self, batches: Vec<(LogPosition, Bytes)>, last: LogPosition) -> BoxFuture<'_, ()>;

    /// Whether all servers stop applying behind this entry for a moment, to compare their states.
    fn is_checkpoint(&self, index: LogIndex) -> bool;

    /// Returns the state, to be written while entries go on being applied.
    fn capture(&self) -> StateSnapshot;

    /// Reads a state of a snapshot and checks it, without installing it.
    fn stage(&self, chunks: Chunks) -> io::Result<Staged>;

    /// Takes note that a snapshot up to `last` has replaced the state.
    fn replaced(&self, last: Option<LogPosition>);
}
