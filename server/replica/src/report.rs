//! What four-letter words and metrics report about a replica (protocol §14.2).

use bytes::Bytes;
use zoolet_jute::SessionId;

use super::state::{LockEvent, PathList};
use super::watch::{Share, WatchPlace};
use super::{ConnectionId, Limit, Replica, Role};

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
    /// When it expires without another sign of life, on the monotonic clock. Only the leader knows.
    pub expires_ms: Option<u64>,
}

/// Some of the paths that are watched, in their order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WatchedPaths {
    /// The paths, each with sessions that watch it. More of them may follow for the last path.
    pub paths: Vec<(String, Vec<SessionId>)>,
    /// Where to go on; `None` at the end.
    pub last: Option<WatchPlace>,
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
        self.connections.get(&connection).map_or(0, |known| known.queued())
    }

    /// Every connection.
    pub fn connections(&self) -> Vec<ConnectionReport> {
        let all = self.connections.iter().map(|(&connection, known)| {
            let accepted = self.sessions.get(&known.session) == Some(&connection);
            ConnectionReport {
                connection,
                session: accepted.then_some(known.session),
                timeout_ms: known.timeout_ms,
                queued: known.queued(),
            }
        });
        all.collect()
    }

    /// The sessions of one of 256 parts; `None` behind the last part. The first is 0.
    pub fn sessions(&self, part: usize) -> Option<Vec<SessionReport>> {
        let report = |(session, known): (SessionId, &super::state::Session)| SessionReport {
            session,
            timeout_ms: known.timeout_ms,
            expires_ms: self.expiry.due_ms(session),
        };
        Some(self.state.sessions_of_part(part)?.map(report).collect())
    }

    /// The ephemeral znodes of the next `max` sessions behind `after` that have any.
    pub fn ephemerals(&self, after: Option<SessionId>, max: usize) -> Vec<(SessionId, PathList)> {
        let owners = self.state.ephemeral_owners(after).take(max);
        owners.map(|session| (session, self.state.ephemeral_list(session))).collect()
    }

    /// What has happened to locks since this was called last.
    pub fn take_lock_events(&mut self) -> Vec<LockEvent> {
        self.state.take_lock_events()
    }

    /// Returns the long data that was replaced or deleted since the last call while something else,
    /// a reply or a snapshot, referred to it.
    pub fn take_replaced_data(&mut self) -> Vec<Bytes> {
        self.state.take_replaced()
    }

    /// The watches of both tables.
    pub fn watch_count(&self) -> usize {
        self.watches.entries()
    }

    /// Returns how much of the replica's limits is in use; of a limit for each address, by that
    /// which has most.
    pub fn limits_used(&self) -> [(Limit, usize); 7] {
        let (of_address, of_identity) = self.holders.most();
        let of_busiest = |measure: fn(Share) -> usize| {
            self.watches.busiest(measure).map_or(0, |(_, share)| measure(share))
        };
        let all = self.watches.total();
        [
            (Limit::Sessions, self.state.session_count()),
            (Limit::SessionsPerAddress, of_address),
            (Limit::SessionsPerIdentity, of_identity),
            (Limit::WatchesPerAddress, of_busiest(|share| share.len)),
            (Limit::WatchBytesPerAddress, of_busiest(|share| share.bytes)),
            (Limit::Watches, all.len),
            (Limit::WatchBytes, all.bytes),
        ]
    }

    /// The next paths of the data table behind `after`, with the sessions that watch them, found by
    /// `max` looks at paths and watchers.
    pub fn watched_paths(&self, after: Option<&WatchPlace>, max: usize) -> WatchedPaths {
        let (found, last) = self.watches.data_table(after, max);
        let sessions = |connections: Vec<ConnectionId>| {
            connections.into_iter().map(|connection| self.session_of(connection)).collect()
        };
        let paths = found.into_iter().map(|(path, all)| (path.to_string(), sessions(all)));
        WatchedPaths { paths: paths.collect(), last }
    }
}
