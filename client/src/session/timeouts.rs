//! When to ping, and when to give a connection or the session up (protocol §7.3).

use std::time::Duration;

/// The deadlines that follow from the session timeout.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Timeouts {
    session: Duration,
}

impl Timeouts {
    pub(crate) fn new(session: Duration) -> Self {
        Self { session }
    }

    /// A connection that has sent nothing for this long sends a ping: a third of the timeout, so
    /// that a lost one leaves time for another server.
    pub(crate) fn ping(self) -> Duration {
        self.session / 3
    }

    /// A connection that has received nothing for this long is given up: two thirds, which leaves
    /// a third to find another server in.
    pub(crate) fn read(self) -> Duration {
        self.session * 2 / 3
    }

    /// How long a session surely lives, from the moment at which the last request that was answered
    /// was sent: four fifths of the timeout. See [`Lease`](super::lease::Lease).
    pub(crate) fn lease(self) -> Duration {
        self.session * 4 / 5
    }

    /// How long to wait for one of `hosts` servers to accept a connection.
    pub(crate) fn connect(self, hosts: usize) -> Duration {
        let share = self.session / u32::try_from(hosts.max(1)).unwrap_or(u32::MAX);
        share.max(Duration::from_millis(100))
    }

    /// The wait before another round over all hosts, after `rounds` fruitless ones.
    pub(crate) fn backoff(self, rounds: u32) -> Duration {
        let step = Duration::from_millis(20) * 2u32.saturating_pow(rounds.min(6));
        step.min(self.session / 6).max(Duration::from_millis(10))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lost_ping_leaves_time_for_another_server() {
        let timeouts = Timeouts::new(Duration::from_secs(6));
        assert!(timeouts.ping() < timeouts.read());
        assert!(timeouts.read() + timeouts.connect(3) <= Duration::from_secs(6));
        assert!(timeouts.read() < timeouts.lease(), "a connection is given up before the session");
        assert!((0..100).all(|rounds| timeouts.backoff(rounds) <= Duration::from_secs(1)));
    }
}
