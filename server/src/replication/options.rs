//! The options of the replication, and its times.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use zoolet_replica::ServerId;
use zoolet_storage::{Disk, WalOptions};

use super::snapshot_pace::SnapshotPace;
use crate::config::{Autocreate, StartMode};
use crate::entropy::Entropy;
use crate::peer::{FrameLimits, PeerTls, Secret};
use crate::raft::RaftConfig;

/// One server of the configured ensemble.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ConfiguredMember {
    /// Its number.
    pub server: ServerId,
    /// The `host:port` of its peer port.
    pub address: String,
    /// False for an observer.
    pub is_voter: bool,
    /// The value of its `server.N=` (protocol §15.3).
    pub line: String,
}

impl ConfiguredMember {
    pub(super) fn id(&self) -> u64 {
        u64::from(self.server.0)
    }
}

/// How often a leader says that it is alive, and when its silence means that it is not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Timing {
    /// Between two heartbeats.
    pub heartbeat: Duration,
    /// The range from which each server draws its election timeout. It begins to count when a leader has
    /// been silent for `election_max`, which is how long a leader may rely on a majority's answer.
    pub election_min: Duration,
    pub election_max: Duration,
    /// How long a proposal or a sync may take before its outcome counts as unknown. Less than the
    /// shortest session, so that clients learn of it from their server, but longer than it takes to
    /// replace a leader.
    pub proposal_timeout: Duration,
    /// How long a follower may serve without what was committed, and a leader lead on without a
    /// majority's acknowledgment of an entry (`syncLimit`).
    pub sync_limit: Duration,
}

/// The shortest time that a peer has to answer, which may have much to write, over a slow link.
const PEER_TIMEOUT_MIN: Duration = Duration::from_secs(4);

/// The fewest election timeouts in which a leader commits nothing before it steps down: twice as long
/// as a write to its own log may take.
const STEP_DOWN_ELECTIONS_MIN: u32 = 8;

impl Timing {
    /// How long a peer may take to answer, while it is not known to be gone.
    pub(crate) fn peer_timeout(&self) -> Duration {
        (self.election_max * 4).max(PEER_TIMEOUT_MIN)
    }

    /// How long a leader leads on while it commits nothing: `sync_limit`, unless that is shorter than
    /// the elections and stalls of disks which an ensemble must survive.
    pub(crate) fn step_down_limit(&self) -> Duration {
        self.sync_limit.max(self.election_max * STEP_DOWN_ELECTIONS_MIN)
    }

    /// How old the state may be that a server serves: `sync_limit`, and the time that it takes to learn
    /// that the leader was replaced.
    pub(crate) fn state_age_max(&self) -> Duration {
        self.silence_max() + self.sync_limit
    }

    /// A leader that was silent for longer may have been replaced: the shortest time that this
    /// takes. The longest is twice `election_max`, and the election.
    pub(crate) fn silence_max(&self) -> Duration {
        if planted!("servers-serve-alone") {
            return Duration::from_mins(1);
        }
        self.election_max + self.election_min
    }
}

/// The options of the replication.
#[derive(Clone, Debug)]
pub(crate) struct ReplicationOptions {
    /// This server.
    pub server: ServerId,
    /// The ensemble's number, which all its servers share.
    pub cluster_id: u64,
    /// Whether `cluster_id` was given, and not made up from the members. One that was made up says
    /// nothing after the ensemble has been changed: the directory's own counts, and with
    /// `reconfig` peers with another one are let in.
    pub cluster_named: bool,
    /// Whether the ensemble may be changed at run time.
    pub reconfig: bool,
    /// One server that never has peers.
    pub standalone: bool,
    /// The fewest voters that a change may leave.
    pub voters_min: usize,
    /// All servers, this one included. The first start founds the ensemble with them. Later the
    /// log's membership rules, and only the addresses are taken from here, until the ensemble is
    /// changed for the first time: from then on the membership has them too.
    pub members: Vec<ConfiguredMember>,
    /// Where to listen for peers, if not on this server's own address.
    pub listen: Option<String>,
    /// The disk.
    pub disk: Arc<dyn Disk>,
    /// This server's directory.
    pub directory: PathBuf,
    /// Where the log is, if not in `directory`; the same otherwise.
    pub log_directory: PathBuf,
    /// What the servers prove to each other that they know.
    pub secret: Option<Secret>,
    /// Whether TLS is below that.
    pub tls: PeerTls,
    /// The longest entry that other servers may send, in bytes.
    pub entry_bytes_max: usize,
    /// How the log is kept.
    pub wal: WalOptions,
    /// What one log entry holds.
    pub batches: BatchLimits,
    /// How much is written between two snapshots.
    pub snapshot_pace: SnapshotPace,
    /// The snapshots that are kept, and the log back to the oldest of them.
    pub snapshots_retained: usize,
    /// Where the ids of directories and foundings come from.
    pub entropy: Arc<dyn Entropy>,
    /// What a start may do about the ensemble's founding.
    pub start_mode: StartMode,
    /// The missing things that a start may create.
    pub autocreate: Autocreate,
    /// How long connecting to another server may take, handshake included.
    pub connect_timeout: Duration,
    /// How long to wait for what.
    pub timing: Timing,
}

/// What waits together goes into one log entry, up to this.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct BatchLimits {
    /// Commands.
    pub commands_max: usize,
    /// Bytes of commands, about; one command alone may have more.
    pub bytes_max: usize,
}

impl Default for BatchLimits {
    fn default() -> Self {
        Self { commands_max: 512, bytes_max: 1 << 20 }
    }
}

/// The longest frames that are sent, in bytes. What one server has put into the log within its own
/// limits is sent to all; whether they take it depends on theirs.
pub(super) const FRAMES_SENT: FrameLimits =
    FrameLimits { small: SMALL_FRAME_BYTES_MAX, large: (1 << 30) + (1 << 20) };

/// The longest frame on a lane without entries or snapshots, in bytes.
const SMALL_FRAME_BYTES_MAX: usize = 256 << 10;

/// What a frame holds besides one entry or one znode of a snapshot, at most, in bytes: other
/// entries, or the rest of the piece.
const FRAME_SLACK_BYTES: usize = 4 << 20;

impl ReplicationOptions {
    /// The longest frames that are taken.
    pub(super) fn frames(&self) -> FrameLimits {
        let large = self.entry_bytes_max.saturating_add(FRAME_SLACK_BYTES).min(FRAMES_SENT.large);
        FrameLimits { large, ..FRAMES_SENT }
    }

    /// Returns what the consensus has to know.
    pub(super) fn raft(&self) -> RaftConfig {
        let Timing { heartbeat, election_min, election_max, .. } = self.timing;
        let (cluster_id, append_timeout) = (self.cluster_id, self.timing.peer_timeout());
        RaftConfig { cluster_id, heartbeat, election_min, election_max, append_timeout }
    }
}
