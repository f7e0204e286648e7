//! A whole replica against itself, in as much time as it has znodes, connections and watches: for
//! tests. What can be checked in constant time is checked by `invariant!` where it changes.

use super::Replica;

impl Replica {
    /// Ends the program if the tables of sessions, connections, watches and proposals do not agree.
    pub fn check(&self) {
        if !self.is_applying() {
            self.state.check();
        }
        for (session, connection) in &self.sessions {
            let of_connection = self.connections.get(connection).map(|known| known.session);
            let is_same = of_connection == Some(*session);
            invariant!(is_same, "session {session} at {connection:?}, which has {of_connection:?}");
        }
        for (connection, known) in &self.connections {
            known.check();
            let (is_listed, holds_pings) = (self.pinging.contains(connection), known.holds_pings());
            invariant!(is_listed == holds_pings, "{connection:?} holds pings: {holds_pings}");
        }
        let gone = self.pinging.iter().find(|one| !self.connections.contains_key(*one));
        invariant!(gone.is_none(), "{gone:?} is gone and holds pings");
        let syncs = || self.syncs.iter().map(|(number, _)| *number);
        let is_rising = syncs().is_sorted() && syncs().all(|number| number <= self.sync_last);
        invariant!(
            is_rising,
            "{} syncs up to {} are out of order",
            self.syncs.len(),
            self.sync_last
        );
        self.holders.check();
        self.silent.check();
        self.watches.check();
        self.proposals.check();
    }
}
