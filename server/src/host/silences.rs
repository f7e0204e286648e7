//! Silent sessions, for reports to other servers.

use zoolet_replica::{ConnectionId, Silences};

use super::Host;

impl Host {
    /// Returns sessions whose connections have ended; without `all`, only those that were connected to
    /// this server.
    pub fn ended_connections(&self, after: u64, all: bool) -> Silences<u64> {
        self.locked(|inner, _| inner.replica.ended_connections(after, all))
    }

    /// Returns connected clients that have been silent for long.
    pub fn silent_connections(&self, after: ConnectionId) -> Silences<ConnectionId> {
        self.locked(|inner, _| inner.replica.silent_connections(after))
    }
}
