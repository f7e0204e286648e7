//! What the host tells about itself: copies, so that the lock is not held while they are printed.

use zoolet_jute::{SessionId, Zxid};

use super::{Figures, Host};
use crate::replica::state::PathList;
use crate::replica::{Role, SessionReport};

/// So many watched paths are copied under one lock.
const PATHS_PER_HOLD: usize = 1000;

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
    pub ephemerals: Vec<(SessionId, PathList)>,
}

impl Host {
    /// The server in numbers.
    pub fn report(&self) -> ServerReport {
        self.locked(|inner, _| {
            let state = inner.replica.state();
            let (zxid, digest) = inner.replica.digest();
            ServerReport {
                role: inner.replica.role(),
                zxid,
                digest,
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
        self.locked(|inner, _| inner.replica.digest())
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

    /// Calls `visit` with each path of the data table and the sessions that watch it. The lock is
    /// given back in between, so it is not one moment that is seen.
    pub fn watched_paths(&self, mut visit: impl FnMut(String, Vec<SessionId>)) {
        let mut after = None;
        loop {
            let some = self
                .locked(|inner, _| inner.replica.watched_paths(after.as_deref(), PATHS_PER_HOLD));
            for (path, sessions) in some.paths {
                visit(path, sessions);
            }
            after = some.last;
            if after.is_none() {
                return;
            }
        }
    }

    /// Starts the server's figures from zero (`srst`).
    pub fn reset_figures(&self) {
        self.locked(|inner, _| inner.figures = Figures::default());
    }
}
