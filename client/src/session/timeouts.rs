//! When to ping, and when to give a connection or the session up (protocol §7.3).

use std::time::Duration;

/// The first wait after a round over all hosts.
const BACKOFF_MIN: Duration = Duration::from_millis(20);

/// How often it doubles.
const BACKOFF_DOUBLINGS_MAX: u32 = 6;

/// The first wait of a read-only connection for a server that writes.
const LOOK_MIN: Duration = Duration::from_millis(100);

/// The longest one.
const LOOK_MAX: Duration = Duration::from_mins(1);

/// The deadlines that follow from the session timeout.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Timeouts {
    session: Duration,
}

impl Timeouts {
    pub(crate) fn new(session: Duration) -> Self {
        Self { session }
    }

    /// A connection pings this long after its last ping: a third of the timeout, so that a lost one
    /// leaves time for another server.
    pub(crate) fn ping(self) -> Duration {
        self.session / 3
    }

    /// A connection that has received nothing for this long is given up: two thirds, which leaves
    /// a third to find another server in.
    pub(crate) fn read(self) -> Duration {
        self.session * 2 / 3
    }

    /// How long a server may say nothing while a ping is unanswered for longer than it should be: a
    /// sixth, so that a stream of replies with gaps in it goes on.
    pub(crate) fn pause(self) -> Duration {
        self.session / 6
    }

    /// How long a request may take before fewer are sent at once: an eighth. See
    /// [`Windows`](super::window::Windows).
    pub(crate) fn patience(self) -> Duration {
        self.session / 8
    }

    /// The session timeout itself.
    pub(crate) fn session(self) -> Duration {
        self.session
    }

    /// How long a session surely lives, from the moment at which the last ping that was answered was
    /// sent: four fifths of the timeout. See [`Lease`](super::lease::Lease).
    pub(crate) fn lease(self) -> Duration {
        self.session * 4 / 5
    }

    /// How long to wait for one of `hosts` servers to accept a connection.
    pub(crate) fn connect(self, hosts: usize) -> Duration {
        let share = self.session / u32::try_from(hosts.max(1)).unwrap_or(u32::MAX);
        share.max(Duration::from_millis(100))
    }

    /// How long the transport may take for a connection while no round over all servers was in vain: a
    /// twelfth of the timeout. A server that is off the network leaves time for the next one; on a
    /// slow network the next round has more patience.
    pub(crate) fn dial(self) -> Duration {
        (self.session / 12).max(Duration::from_millis(100))
    }

    /// How long the connection to one of several addresses of a server may take before the next one
    /// is tried beside it: a fortieth of the timeout, and less where there are more than ten, so that
    /// all are tried within a quarter of it.
    pub(crate) fn stagger(self, addresses: usize) -> Duration {
        self.session / 4 / u32::try_from(addresses).unwrap_or(u32::MAX).max(10)
    }

    /// The wait before another round over all hosts, after `rounds` fruitless ones: it doubles, and
    /// `chance` makes it up to half as long again, lest clients that were cut off together come
    /// back together.
    pub(crate) fn backoff(self, rounds: u32, chance: u64) -> Duration {
        let doubled = BACKOFF_MIN * 2u32.saturating_pow(rounds.min(BACKOFF_DOUBLINGS_MAX));
        let step = doubled.min(self.session / 8).max(BACKOFF_MIN);
        step + step * u32::try_from(chance % 512).unwrap_or(0) / 1024
    }

    /// The wait before another server is tried after a connection was lost: by chance up to a
    /// fortieth of the timeout, since all clients of a server lose it together.
    pub(crate) fn spread(self, chance: u64) -> Duration {
        self.session * u32::try_from(chance % 1024).unwrap_or(0) / 1024 / 40
    }

    /// The wait before a read-only connection looks for a server that writes, after `looks`
    /// fruitless looks: it doubles up to a minute, as in the Java client.
    pub(crate) fn look_for_writer(looks: u32) -> Duration {
        (LOOK_MIN * 2u32.saturating_pow(looks.min(16))).min(LOOK_MAX)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn a_lost_ping_leaves_time_for_another_server() {
        let timeouts = Timeouts::new(Duration::from_secs(6));
        assert!(timeouts.ping() < timeouts.read());
        assert!(timeouts.read() + timeouts.connect(3) <= Duration::from_secs(6));
        assert!(timeouts.read() < timeouts.lease(), "a connection is given up before the session");
        let waits = (0..100).map(|rounds| timeouts.backoff(rounds, u64::MAX));
        assert!(waits.max().unwrap() <= Duration::from_millis(1125));
        let spread: BTreeSet<_> = (0..100).map(|chance| timeouts.backoff(3, chance)).collect();
        assert_eq!(spread.len(), 100);
        assert_eq!(Timeouts::look_for_writer(0), Duration::from_millis(100));
        assert_eq!(Timeouts::look_for_writer(99), Duration::from_mins(1));
    }
}
