//! The minimum pace at which a client must read its backlog.
//!
//! A client that takes a byte now and then is never silent, and could keep its backlog forever.
//! So a backlog that is never empty must shrink by a minimum in each window. The minimum is small
//! enough for a slow link: 256 KiB, or a tenth of the memory of the backlog.

use std::time::Duration;

use tokio::time::Instant;

/// The bytes that a client with a backlog takes in each window at least.
const BYTES_MIN: usize = 256 << 10;

/// The part of the memory of a backlog that it takes in each window at least.
const PART_MIN: usize = 10;

/// Measures how fast a client reads while something waits for it.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Drain {
    /// The current window; none while nothing waits.
    window: Option<Window>,
}

#[derive(Clone, Copy, Debug)]
struct Window {
    since: Instant,
    /// The bytes that the client has to take, and has taken.
    wanted: usize,
    taken: usize,
}

impl Drain {
    /// The socket is full: `held` bytes of unread data are in memory.
    pub(super) fn blocked(&mut self, held: usize) {
        if self.window.is_none() {
            self.window = Some(Window::new(Instant::now(), held));
        }
    }

    /// The client has taken bytes.
    pub(super) fn took(&mut self, bytes: usize) {
        if let Some(window) = &mut self.window {
            window.taken += bytes;
        }
    }

    /// Nothing waits any more.
    pub(super) fn emptied(&mut self) {
        self.window = None;
    }

    /// Returns whether the client has taken too little in the window that has ended; begins the
    /// next one.
    pub(super) fn is_too_slow(&mut self, now: Instant, length: Duration, held: usize) -> bool {
        let Some(window) = self.window.filter(|window| now >= window.since + length) else {
            return false;
        };
        self.window = Some(Window::new(now, held));
        window.taken < window.wanted
    }
}

impl Window {
    fn new(since: Instant, held: usize) -> Self {
        Self { since, wanted: BYTES_MIN.max(held / PART_MIN), taken: 0 }
    }
}

#[cfg(test)]
mod tests {
    use tokio::time::advance;

    use super::*;

    const LENGTH: Duration = Duration::from_mins(1);
    const MIB: usize = 1 << 20;

    /// Takes `bytes` in every second for ten minutes; returns the seconds for which it was served.
    async fn served_s(bytes: usize, held: usize) -> u64 {
        let mut drain = Drain::default();
        drain.blocked(held);
        for second in 1..=600 {
            advance(Duration::from_secs(1)).await;
            drain.took(bytes);
            if drain.is_too_slow(Instant::now(), LENGTH, held) {
                return second;
            }
        }
        600
    }

    #[tokio::test(start_paused = true)]
    async fn a_trickle_ends_a_connection_and_a_slow_link_does_not() {
        assert_eq!(served_s(1, MIB).await, 60);
        assert_eq!(served_s(5 << 10, MIB).await, 600, "5 KiB a second for a megabyte");
        assert_eq!(served_s(5 << 10, 64 * MIB).await, 60, "and for 64");
        assert_eq!(served_s(110 << 10, 64 * MIB).await, 600);
    }

    #[tokio::test(start_paused = true)]
    async fn a_client_that_takes_everything_in_between_is_not_slow() {
        let mut drain = Drain::default();
        for _ in 0..100 {
            drain.blocked(MIB);
            advance(Duration::from_secs(59)).await;
            drain.took(100);
            drain.emptied();
            advance(LENGTH).await;
            assert!(!drain.is_too_slow(Instant::now(), LENGTH, 0));
        }
    }
}
