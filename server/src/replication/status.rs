//! The state of a server, for those who ask.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use zoolet_replica::Role;
use zoolet_storage::{LogIndex, LogPosition};

use super::divergence::{Divergence, Findings};
use super::handle::{ConsensusHandle, EntrySizes};
use super::members::is_outsider;
use super::proposer::Proposer;
use super::state_age::StateAge;
use crate::consensus::Follower;
use crate::histogram::Distribution;
use crate::node_id::NodeId;
use crate::raft::PeerSignals;
use crate::snapshots::Snapshots;

/// The status of a server in its ensemble.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Status {
    /// Raft's election number.
    pub term: u64,
    /// The leader's number, if one is known.
    pub leader: Option<u64>,
    /// This server's part.
    pub role: Role,
    /// Whether it has a vote.
    pub is_voter: bool,
    /// Whether it knows a membership: false until the ensemble is founded, or has taken this server
    /// in.
    pub has_membership: bool,
    /// The last entry, the last committed one, the last applied one.
    pub last_log: Option<LogIndex>,
    pub committed: Option<LogIndex>,
    pub applied: Option<LogIndex>,
    /// Up to where the newest snapshot goes, and up to where the log was purged.
    pub snapshot: Option<LogIndex>,
    pub purged: Option<LogIndex>,
    /// Whether this server has stopped serving because its state differs from the majority's; the
    /// voters whose state differs from this server's; and the last entry after which a majority
    /// was seen to agree with it.
    pub diverged: bool,
    pub differing: Vec<u64>,
    pub agreed: Option<LogIndex>,
    /// The time since the moment up to which this server's state is known to be complete; `None` if
    /// that was never known.
    pub state_age: Option<Duration>,
    /// How often it has stopped serving because that was too long ago, and how often it has stepped down
    /// as leader because a majority took none of its entries.
    pub age_stops: u64,
    pub step_downs: u64,
    /// All other servers of the ensemble.
    pub peers: Vec<PeerStatus>,
    /// As leader: since when, and what it has proposed since then or since a reset.
    pub led_for: Option<Duration>,
    pub proposed: Option<EntrySizes>,
    /// The number of commands in each of its batches, and the milliseconds that its snapshots took.
    pub batches: Distribution,
    pub snapshot_ms: Distribution,
    /// The snapshots that other servers have taken from it.
    pub snapshots_sent: u64,
    /// The zxid of the newest snapshot, and its file.
    pub newest_snapshot: Option<(u64, PathBuf)>,
}

/// The state of a peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PeerStatus {
    /// Its number.
    pub server: u64,
    /// False for an observer.
    pub is_voter: bool,
    /// Seen from the leader: up to where its log is known to match.
    pub matching: Option<LogIndex>,
    /// Seen from the leader: whether it has all that is committed, and has answered lately.
    pub is_synced: bool,
}

/// Reads the server's status at any time.
#[derive(Clone, Debug)]
pub(crate) struct StatusSource {
    pub(super) handle: ConsensusHandle,
    pub(super) applied: watch::Receiver<Option<LogPosition>>,
    pub(super) snapshots: Snapshots,
    pub(super) divergence: Arc<Divergence>,
    pub(super) state_age: Arc<StateAge>,
    pub(super) signals: Arc<PeerSignals>,
    pub(super) role: watch::Receiver<Role>,
    pub(super) proposer: Arc<Proposer>,
    /// After this time without an answer a peer does not count as synced.
    pub(super) silence_max: Duration,
}

impl StatusSource {
    /// The state now.
    pub(crate) fn status(&self) -> Status {
        Status::of(self, *self.role.borrow())
    }

    /// Returns what the members' list says behind `server.N=` of this server; `None` if the list was
    /// never changed at run time, or if this server is not a member.
    pub(crate) fn own_line(&self) -> Option<String> {
        let membership = self.handle.view().membership;
        let own = membership.node(self.handle.node()).filter(|own| !is_outsider(own))?;
        (!own.line.is_empty()).then(|| own.line.clone())
    }

    /// Forgets what was proposed.
    pub(crate) fn reset_proposed(&self) {
        self.handle.reset_proposed();
    }
}

impl Status {
    fn of(source: &StatusSource, role: Role) -> Self {
        let StatusSource { handle, applied, snapshots, silence_max, divergence, .. } = source;
        let silence_max = *silence_max;
        let view = handle.view();
        let membership = &view.membership;
        let voters: Vec<NodeId> = membership.voters().into_iter().collect();
        let peer = |node: &NodeId| {
            let Follower { matching, silent_for, .. } = view.follower(*node);
            let (server, is_voter) = (node.server(), voters.contains(node));
            let has_answered_lately = silent_for.is_some_and(|silent_for| silent_for < silence_max);
            PeerStatus {
                server,
                is_voter,
                matching,
                is_synced: matching >= view.committed && has_answered_lately,
            }
        };
        let Findings { diverged, differing, agreed, .. } =
            divergence.findings(handle.node(), &voters);
        let members = membership.nodes.iter().filter(|(_, member)| !is_outsider(member));
        let others = members.map(|(node, _)| node);
        Self {
            term: view.term.0,
            leader: view.leader.map(NodeId::server),
            role,
            is_voter: voters.contains(&handle.node()),
            has_membership: !voters.is_empty(),
            last_log: view.last_log,
            committed: view.committed,
            applied: applied.borrow().map(|last| last.index),
            snapshot: snapshots.current().map(|current| current.name().index),
            purged: view.purged,
            diverged,
            differing: differing.into_iter().map(NodeId::server).collect(),
            agreed,
            state_age: source.state_age.age(applied.borrow().map(|last| last.index)),
            age_stops: source.state_age.stops(),
            step_downs: source.signals.step_downs(),
            peers: others.filter(|node| **node != handle.node()).map(peer).collect(),
            led_for: handle.led_for(),
            proposed: handle.proposed(),
            batches: source.proposer.batches(),
            snapshot_ms: snapshots.write_ms(),
            snapshots_sent: snapshots.sent(),
            newest_snapshot: snapshots.current().map(|current| {
                let name = current.name();
                (name.zxid, snapshots.store().path(name))
            }),
        }
    }
}
