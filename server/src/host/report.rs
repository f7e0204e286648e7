//! What the host tells about itself: copies, so that the lock is not held while they are printed.

use zoolet_jute::{SessionId, Zxid};

use super::{Figures, Host};
use crate::replica::{Role, SessionReport, WatchSummary};

/// The server in numbers.
#[derive(Clone, Copy, Debug)]
pub struct ServerReport {
    /// Its part in the ensemble.
    pub role: Role,
    /// The last transaction applied here.
    pub zxid: Zxid,
    /// The digest of the state.
    pub digest: u64,
    /// Znodes, the root counted twice as in Apache `ZooKeeper` (protocol §6.2).
    pub znodes: usize,
    /// Ephemeral znodes.
    pub ephemerals: usize,
    /// The bytes of data of all znodes.
    pub data_bytes: u64,
    /// Sessions of the ensemble.
    pub sessions: usize,
    /// Entries of both watch tables.
    pub watches: usize,
    /// Requests without a reply.
    pub outstanding: usize,
    /// What it did since the last `srst`.
    pub figures: Figures,
}

/// The sessions of the ensemble.
#[derive(Clone, Debug)]
pub struct SessionsReport {
    /// The server's part: only the leader knows when sessions expire.
    pub role: Role,
    /// All sessions.
    pub sessions: Vec<SessionReport>,
    /// The ephemeral znodes of those that have any.
    pub ephemerals: Vec<(SessionId, Vec<String>)>,
}

impl Host {
    /// The server in numbers.
    pub fn report(&self) -> ServerReport {
        self.locked(|inner, _| {
            let state = inner.replica.state();
            ServerReport {
                role: inner.replica.role(),
                zxid: state.last_zxid(),
                digest: state.digest(),
                znodes: state.node_count() + 1,
                ephemerals: state.ephemeral_owners().map(|(_, count)| count).sum(),
                data_bytes: state.data_bytes(),
                sessions: state.session_count(),
                watches: inner.replica.watch_count(),
                outstanding: inner.requests_in_flight,
                figures: inner.figures,
            }
        })
    }

    /// The last transaction and the digest of the state at it.
    pub fn digest(&self) -> (Zxid, u64) {
        self.locked(|inner, _| {
            let state = inner.replica.state();
            (state.last_zxid(), state.digest())
        })
    }

    /// The sessions of the ensemble.
    pub fn sessions(&self) -> SessionsReport {
        self.locked(|inner, _| SessionsReport {
            role: inner.replica.role(),
            sessions: inner.replica.sessions(),
            ephemerals: inner.replica.ephemerals(),
        })
    }

    /// The data of `/zookeeper/config`.
    pub fn config_text(&self) -> String {
        self.locked(|inner, _| inner.replica.config_data())
    }

    /// The watches of the data table in numbers.
    pub fn watch_summary(&self) -> WatchSummary {
        self.locked(|inner, _| inner.replica.watch_summary())
    }

    /// The paths that each session watches.
    pub fn watches_by_session(&self) -> Vec<(SessionId, Vec<String>)> {
        self.locked(|inner, _| inner.replica.watches_by_session())
    }

    /// The sessions that watch each path.
    pub fn watches_by_path(&self) -> Vec<(String, Vec<SessionId>)> {
        self.locked(|inner, _| inner.replica.watches_by_path())
    }

    /// Starts the server's figures from zero (`srst`).
    pub fn reset_figures(&self) {
        self.locked(|inner, _| inner.figures = Figures::default());
    }
}
