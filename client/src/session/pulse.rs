//! What a connection proves by what comes in: that it lives, and that the session does.
//!
//! Any byte proves that the connection lives. Only the answer to a ping proves that the session
//! does (see [`Lease`](super::lease::Lease)): a server that is cut off from its leader goes on to
//! answer reads. So a connection is given up
//!
//! - when nothing has come for two thirds of the session timeout;
//! - when no ping was answered that was sent in the last two thirds of it, and either the server
//!   has answered requests that came behind an unanswered ping, or it is silent now. A third is left
//!   to find another server in, and the lease has not ended yet;
//! - when only watch events have come for a whole timeout, although a ping is unanswered.
//!
//! It is not given up while replies stream in that were asked for before the ping: then the ping
//! waits behind them, and another server would have to send them again.

use std::collections::VecDeque;

use tokio::time::Instant;

use super::timeouts::Timeouts;

/// The pings of a connection, and what has come in on it.
#[derive(Debug)]
pub(crate) struct Pulse {
    /// When the pings went out that are not answered yet.
    unanswered: VecDeque<Instant>,
    /// How many pings were answered.
    answered: u64,
    /// The most pings that were sent before a request that is answered already.
    overtaken: u64,
    /// When the last ping was sent, or the session asked for.
    pinged_at: Instant,
    /// When the last ping was sent that is answered, or the session asked for.
    counted_at: Instant,
    /// When the last byte came in.
    received_at: Instant,
    /// When the last byte came in that was not one of a watch event.
    replied_at: Instant,
}

impl Pulse {
    /// The pulse of a connection whose session was asked for at `asked_at`, and granted now.
    pub(crate) fn new(asked_at: Instant, now: Instant) -> Self {
        Self {
            unanswered: VecDeque::new(),
            answered: 0,
            overtaken: 0,
            pinged_at: asked_at,
            counted_at: asked_at,
            received_at: now,
            replied_at: now,
        }
    }

    /// Returns how many pings were sent.
    pub(crate) fn sent(&self) -> u64 {
        self.answered + u64::try_from(self.unanswered.len()).unwrap_or(u64::MAX)
    }

    /// Notes that a ping is sent.
    pub(crate) fn ping(&mut self, now: Instant) {
        self.unanswered.push_back(now);
        self.pinged_at = now;
    }

    /// Notes that a ping was answered. Returns when it was sent, `None` if none was.
    pub(crate) fn pong(&mut self) -> Option<Instant> {
        let sent_at = self.unanswered.pop_front()?;
        self.answered += 1;
        self.counted_at = sent_at;
        Some(sent_at)
    }

    /// Notes the reply to a request that was sent behind a number of pings.
    pub(crate) fn reply(&mut self, behind_pings: u64) {
        self.overtaken = self.overtaken.max(behind_pings);
    }

    /// Notes that bytes came in, and whether any of them belong to a reply.
    pub(crate) fn receive(&mut self, of_reply: bool, now: Instant) {
        self.received_at = now;
        if of_reply {
            self.replied_at = now;
        }
    }

    /// Returns when to send the next ping. A busy connection pings as well.
    pub(crate) fn ping_at(&self, timeouts: Timeouts) -> Instant {
        self.pinged_at + timeouts.ping()
    }

    /// Returns when to give the connection up if nothing else comes in.
    pub(crate) fn give_up_at(&self, timeouts: Timeouts) -> Instant {
        if planted!("silence-is-tolerated") {
            return self.received_at + timeouts.session() * 2;
        }
        let silent_at = self.received_at + timeouts.read();
        let Some(&pinged_at) = self.unanswered.front() else { return silent_at };
        let uncounted_at = (self.counted_at + timeouts.read()).max(pinged_at + timeouts.ping());
        if self.overtaken > self.answered {
            return uncounted_at.min(silent_at);
        }
        let events_alone_at = self.replied_at.max(pinged_at) + timeouts.session();
        uncounted_at.max(self.received_at + timeouts.pause()).min(silent_at).min(events_alone_at)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    const SESSION: Duration = Duration::from_secs(12);

    fn timeouts() -> Timeouts {
        Timeouts::new(SESSION)
    }

    #[test]
    fn only_what_was_asked_behind_a_ping_overtakes_it() {
        let began_at = Instant::now();
        let mut pulse = Pulse::new(began_at, began_at);
        let before = pulse.sent();
        pulse.ping(began_at + SESSION / 3);
        let behind = pulse.sent();
        let late = began_at + SESSION * 13 / 20;
        pulse.receive(true, late);
        pulse.reply(before);
        assert_eq!(pulse.give_up_at(timeouts()), late + SESSION / 6, "replies still stream");
        pulse.reply(behind);
        assert_eq!(pulse.give_up_at(timeouts()), began_at + SESSION * 2 / 3);
        assert_eq!(pulse.pong(), Some(began_at + SESSION / 3));
        assert_eq!(pulse.give_up_at(timeouts()), late + SESSION * 2 / 3);
        assert_eq!(pulse.pong(), None);
    }

    #[test]
    fn a_ping_that_went_out_late_is_waited_for() {
        let began_at = Instant::now();
        let mut pulse = Pulse::new(began_at, began_at);
        // The machine stood still.
        let late = began_at + SESSION * 3;
        pulse.ping(late);
        pulse.receive(true, late);
        pulse.reply(pulse.sent());
        assert_eq!(pulse.give_up_at(timeouts()), late + SESSION / 3);
    }

    #[test]
    fn events_keep_a_connection_for_no_longer_than_a_timeout() {
        let began_at = Instant::now();
        let mut pulse = Pulse::new(began_at, began_at);
        pulse.ping(began_at);
        pulse.receive(false, began_at + SESSION);
        assert_eq!(pulse.give_up_at(timeouts()), began_at + SESSION);
    }
}
