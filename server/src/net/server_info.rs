//! What four-letter words report that neither a connection nor the replica knows.

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

use crate::config::Words;

/// The configuration, as `conf`, `envi` and `dirs` show it (protocol §14.2).
#[derive(Clone)]
pub(crate) struct ServerInfo {
    /// Which words are answered.
    pub words: Words,
    /// A server without an ensemble says `Mode: standalone`.
    pub standalone: bool,
    /// The server's number.
    pub server_id: u8,
    /// Where snapshots are, and where the log is.
    pub data_dir: PathBuf,
    pub data_log_dir: PathBuf,
    /// How much is there.
    pub sizes: SizeSource,
    /// `tickTime` in milliseconds.
    pub tick_ms: u32,
    /// `maxClientCnxns`.
    pub connections_per_address_max: usize,
    /// The bounds of session timeouts in milliseconds.
    pub session_timeout_ms_min: u32,
    pub session_timeout_ms_max: u32,
    /// `clientPortListenBacklog`.
    pub backlog: u32,
    /// `initLimit` and `syncLimit` in ticks.
    pub init_limit_ticks: u32,
    pub sync_limit_ticks: u32,
    /// The port for peers and the one that is shown as Apache's election port.
    pub peer_port: u16,
    pub election_port: u16,
    /// Whether the server observes.
    pub is_observer: bool,
    /// The member lines of the configuration, for as long as `/zookeeper/config` is empty.
    pub members_text: String,
    /// The state of the ensemble now; `None` for a server without one.
    pub ensemble: Option<Arc<dyn EnsembleSource>>,
}

/// The bytes of the server's files.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Sizes {
    /// Of the directory with the snapshots, and of the log's; the same when there is only one.
    pub data: u64,
    pub log: u64,
}

/// Measures the files.
pub(super) type SizeSource = Arc<dyn Fn() -> Sizes + Send + Sync>;

/// Knows the members of the ensemble.
pub(crate) trait EnsembleSource: Send + Sync {
    /// Its state now.
    fn figures(&self) -> EnsembleFigures;

    /// Counts the sizes of proposals anew (`srst`).
    fn reset(&self);
}

/// The state of the ensemble, seen from this server.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct EnsembleFigures {
    /// The leader, if one is known.
    pub leader: Option<u64>,
    /// Servers with a vote.
    pub voters: usize,
    /// The other servers that this one leads, and those of them that have the whole log.
    pub learners: usize,
    pub synced_followers: usize,
    pub synced_observers: usize,
    /// For how long this server has led, in ms.
    pub leader_uptime_ms: u64,
    /// What it has proposed: the last, the smallest and the largest entry, in bytes; −1 for none.
    pub proposal_sizes: [i64; 3],
    /// Raft's election number.
    pub term: u64,
    /// Log indices: the last entry, the last applied one, the newest snapshot's.
    pub last_log: u64,
    pub applied: u64,
    pub snapshot: u64,
    /// The snapshots that other servers have taken from this one.
    pub snapshots_sent: u64,
    /// Whether this server has stopped serving because its state differs from the majority's.
    pub diverged: bool,
    /// The voters whose state differs from this server's.
    pub differing: usize,
    /// The last entry after which a majority was seen to hold this server's state.
    pub agreed: u64,
    /// The age of its state in ms; −1 if it is not known.
    pub state_age_ms: i64,
    /// How often it has stopped serving because of that, and stepped down because its entries did not
    /// arrive.
    pub age_stops: u64,
    pub step_downs: u64,
}

impl fmt::Debug for ServerInfo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ServerInfo").field("server_id", &self.server_id).finish_non_exhaustive()
    }
}
