//! What four-letter words and metrics tell about a replica (protocol §14.2).

use std::collections::BTreeMap;

use zoolet_jute::SessionId;

use super::session::Connection;
use super::{ConnectionId, Replica, Role};

/// One client connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ConnectionReport {
    /// The connection.
    pub connection: ConnectionId,
    /// Its session; none until its handshake is answered.
    pub session: Option<SessionId>,
    /// The negotiated timeout in milliseconds.
    pub timeout_ms: i32,
    /// The requests that are not answered yet.
    pub queued: usize,
}

/// One session of the ensemble.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SessionReport {
    /// The session.
    pub session: SessionId,
    /// Its timeout in milliseconds.
    pub timeout_ms: i32,
    /// When it expires unless it is heard of, on the monotonic clock. Only the leader knows.
    pub expires_ms: Option<u64>,
}

/// The watches of this server in numbers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WatchSummary {
    /// Connections in the data table.
    pub connections: usize,
    /// Paths in the data table.
    pub paths: usize,
    /// Entries of the data table.
    pub watches: usize,
}

impl Replica {
    /// The server's part in the ensemble.
    pub fn role(&self) -> Role {
        self.role
    }

    /// Whether clients may connect now.
    pub fn serving(&self) -> bool {
        self.serving || self.read_only
    }

    /// Whether only reads are served, for want of a leader.
    pub fn read_only(&self) -> bool {
        self.read_only
    }

    /// The proposals of this server without an outcome.
    pub fn in_flight(&self) -> usize {
        self.proposals.len()
    }

    /// The unanswered requests of a connection; none if it is not known.
    pub fn queued(&self, connection: ConnectionId) -> usize {
        self.connections.get(&connection).map_or(0, Connection::queued)
    }

    /// How many connections there are.
    pub fn connection_count(&self) -> usize {
        self.connections.len()
    }

    /// Every connection.
    pub fn connections(&self) -> Vec<ConnectionReport> {
        let report = |(&connection, known): (&ConnectionId, &Connection)| {
            let accepted = self.sessions.get(&known.session) == Some(&connection);
            ConnectionReport {
                connection,
                session: accepted.then_some(known.session),
                timeout_ms: known.timeout_ms,
                queued: known.queued(),
            }
        };
        self.connections.iter().map(report).collect()
    }

    /// Every session of the ensemble.
    pub fn sessions(&self) -> Vec<SessionReport> {
        let report = |(session, known): (SessionId, &super::state::Session)| SessionReport {
            session,
            timeout_ms: known.timeout_ms,
            expires_ms: self.expiry.due_ms(session),
        };
        self.state.sessions().map(report).collect()
    }

    /// The ephemeral znodes of every session that has any.
    pub fn ephemerals(&self) -> Vec<(SessionId, Vec<String>)> {
        let owners = self.state.ephemeral_owners();
        owners.map(|(session, _)| (session, self.state.ephemerals(session))).collect()
    }

    /// The watches of both tables.
    pub fn watch_count(&self) -> usize {
        self.watches.entries()
    }

    /// The watches of the data table in numbers.
    pub fn watch_summary(&self) -> WatchSummary {
        let connections = self.watches.connections().filter(|connection| {
            self.watches.of_connection(*connection).any(|(_, modes)| modes.in_data_table())
        });
        WatchSummary {
            connections: connections.count(),
            paths: self.watches.data_table().count(),
            watches: self.watches.data_entries(),
        }
    }

    /// The paths that each session watches, in the data table.
    pub fn watches_by_session(&self) -> Vec<(SessionId, Vec<String>)> {
        let mut by_session: BTreeMap<SessionId, Vec<String>> = BTreeMap::new();
        for (path, sessions) in self.watches_by_path() {
            for session in sessions {
                by_session.entry(session).or_default().push(path.clone());
            }
        }
        by_session.into_iter().collect()
    }

    /// The sessions that watch each path, in the data table.
    pub fn watches_by_path(&self) -> Vec<(String, Vec<SessionId>)> {
        let sessions = |connections: Vec<ConnectionId>| {
            connections.into_iter().map(|connection| self.session_of(connection)).collect()
        };
        self.watches
            .data_table()
            .map(|(path, connections)| (path.to_string(), sessions(connections)))
            .collect()
    }
}
