//! Pings. The answer to one promises that the session was alive at a leader after the ping was
//! sent, and lives for its whole timeout from then on.
//!
//! The leader counts its own clients' pings as they come. Another server does not know whether the
//! leader that it knows still leads, or whether its report will get there: it holds the answer
//! until a leader has counted the ping. So a client of a server that is cut off soon gets no answers,
//! instead of pings whose replies would promise what does not hold.

use zoolet_jute::{Reply, SessionId, Xid};

use super::client::Ping;
use super::reply_to::ReplyTo;
use crate::{ConnectionId, Output, Replica};

impl Replica {
    /// A ping's turn has come.
    pub(super) fn ping(&mut self, reply_to: ReplyTo, out: &mut Vec<Output>) {
        let session = self.session_of(reply_to.connection);
        if self.read_only || self.counts(session) || planted!("pings-are-answered-uncounted") {
            return self.reply(ReplyTo { xid: Xid::PING, ..reply_to }, Ok(Reply::Empty), out);
        }
        let touch = self.report_touched(vec![session], out);
        if let Some(asking) = self.connections.get_mut(&reply_to.connection) {
            let reply_to = ReplyTo { xid: Xid::PING, ..reply_to };
            asking.hold_ping(Ping { touch, reply_to });
            self.pinging.insert(reply_to.connection);
        }
    }

    pub(crate) fn on_counted(
        &mut self,
        through: u64,
        sessions: &[SessionId],
        out: &mut Vec<Output>,
    ) {
        for session in sessions {
            if let Some(connection) = self.sessions.get(session).copied() {
                self.answer_pings(connection, through, out);
            }
        }
    }

    /// Looks after the held pings: a server that leads now answers them, the others report them to
    /// their leader again.
    pub(super) fn retry_held_pings(&mut self, out: &mut Vec<Output>) {
        let mut silent = Vec::new();
        for connection in self.pinging.iter().copied().collect::<Vec<_>>() {
            let session = self.session_of(connection);
            self.grant_early(session);
            if self.counts(session) {
                self.expiry.touch(session, self.now.mono_ms);
                self.answer_pings(connection, u64::MAX, out);
            } else {
                silent.push((connection, session));
            }
        }
        if silent.is_empty() {
            return;
        }
        let touch = self.report_touched(silent.iter().map(|(_, session)| *session).collect(), out);
        for (connection, _) in silent {
            if let Some(asking) = self.connections.get_mut(&connection) {
                asking.report_pings(touch);
            }
        }
    }

    fn answer_pings(&mut self, connection: ConnectionId, through: u64, out: &mut Vec<Output>) {
        while let Some(asking) = self.connections.get_mut(&connection)
            && let Some(Ping { reply_to, .. }) = asking.pop_ping(through)
        {
            if !asking.holds_pings() {
                let was_known = self.pinging.remove(&connection);
                invariant!(was_known, "connection {} has held pings unnoticed", connection.0);
            }
            self.reply(reply_to, Ok(Reply::Empty), out);
        }
    }
}
