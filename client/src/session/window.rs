//! How much may be under way at once, so that a ping does not wait behind what was asked before it.
//!
//! Replies come in the order of the requests, so the answer to a ping comes behind all of them. A
//! client that asks for 300 large znodes at once over a slow link gets it too late to know that its
//! session lives, and a server that waits for room in the connection does not even read the ping.
//! So the time that a request takes is kept to an eighth of the session timeout, with the means of
//! TCP: the window doubles in each round trip as long as answers come in time, and is halved when
//! they don't.
//!
//! Nothing is known of a link before it is used, and little of one that has not been used for a
//! while: there both windows start small, and replies in time show how much more it
//! carries.

use std::time::Duration;

use tokio::time::Instant;
use zoolet_jute::OpCode;

use super::pending::Sent;

/// What a read counts whose reply can be long: how long is known when it comes.
const LONG_REPLY_BYTES: usize = 128 * 1024;

/// The first window for long replies: six of them.
const REPLY_BYTES_START: usize = 6 * LONG_REPLY_BYTES;

/// The smallest window for replies: one is on its way while the next goes out.
const REPLY_BYTES_MIN: usize = 2 * LONG_REPLY_BYTES;

/// The largest one for replies: the requests under way have a limit of their own.
const REPLY_BYTES_MAX: usize = 4096 * LONG_REPLY_BYTES;

/// What a link is taken to carry to the server in a second until it has shown more.
const REQUEST_BYTES_PER_SECOND: u128 = 512 * 1024;

/// The smallest window for requests, whose length is known. One request is sent even if it is longer.
const REQUEST_BYTES_MIN: usize = 128 * 1024;

/// The largest first window for requests: 256 KiB for a session of 4 s, this from 8 s on.
const REQUEST_BYTES_START: usize = 512 * 1024;

/// The largest one for requests.
const REQUEST_BYTES_MAX: usize = 10 * 1024 * 1024;

/// Returns what a request of this operation counts for its reply: nothing, if that is short.
pub(crate) const fn reply_bytes(op: OpCode) -> usize {
    let is_long = matches!(
        op,
        OpCode::GetData
            | OpCode::GetAcl
            | OpCode::GetChildren
            | OpCode::GetChildren2
            | OpCode::GetEphemerals
            | OpCode::MultiRead
    );
    if is_long { LONG_REPLY_BYTES } else { 0 }
}

/// What may be under way on a connection, in both directions.
#[derive(Debug)]
pub(crate) struct Windows {
    requests: Window,
    replies: Window,
}

impl Windows {
    /// The windows of a connection that was not used yet, on which a request should take so long.
    pub(crate) fn new(patience: Duration) -> Self {
        Self { requests: Window::of_requests(patience), replies: Window::of_replies() }
    }

    /// Returns whether another request may be sent.
    pub(crate) fn has_room(&self) -> bool {
        self.requests.has_room() && self.replies.has_room()
    }

    /// Notes that a request is sent.
    pub(crate) fn send(&mut self, sent: &Sent, patience: Duration) {
        self.requests.send(sent.request_bytes, sent.at, patience);
        self.replies.send(sent.reply_bytes, sent.at, patience);
    }

    /// Notes that a request is answered.
    pub(crate) fn answer(&mut self, sent: &Sent, now: Instant, patience: Duration) {
        self.requests.answer(sent.request_bytes, sent.at, now, patience);
        self.replies.answer(sent.reply_bytes, sent.at, now, patience);
    }
}

/// The bytes that may be under way in one direction.
///
/// Invariant: `bytes_min` <= `bytes` <= `bytes_max`.
#[derive(Debug)]
struct Window {
    start: usize,
    bytes_min: usize,
    bytes_max: usize,
    bytes: usize,
    under_way: usize,
    /// Whether the window was full and is not nearly empty since: one that is not used shows nothing
    /// about a larger one.
    is_used: bool,
    /// When the window was halved: answers to what was sent before say nothing new.
    halved_at: Option<Instant>,
    /// When the last answer came that nothing was under way behind.
    idle_since: Option<Instant>,
}

impl Window {
    /// The window for requests, which starts with what a slow link carries within the patience.
    fn of_requests(patience: Duration) -> Self {
        let carried = patience.as_millis().saturating_mul(REQUEST_BYTES_PER_SECOND) / 1000;
        let start = usize::try_from(carried).unwrap_or(usize::MAX);
        let start = start.clamp(REQUEST_BYTES_MIN, REQUEST_BYTES_START);
        Self::new(start, REQUEST_BYTES_MIN, REQUEST_BYTES_MAX)
    }

    /// The window for long replies.
    fn of_replies() -> Self {
        Self::new(REPLY_BYTES_START, REPLY_BYTES_MIN, REPLY_BYTES_MAX)
    }

    fn new(start: usize, bytes_min: usize, bytes_max: usize) -> Self {
        Self {
            start,
            bytes_min,
            bytes_max,
            bytes: start,
            under_way: 0,
            is_used: false,
            halved_at: None,
            idle_since: None,
        }
    }

    fn has_room(&self) -> bool {
        self.under_way < self.bytes
    }

    fn send(&mut self, bytes: usize, now: Instant, patience: Duration) {
        if bytes == 0 {
            return;
        }
        if self.idle_since.take().is_some_and(|since| now > since + patience) {
            self.bytes = self.bytes.min(self.start);
        }
        self.under_way += bytes;
        self.is_used |= !self.has_room();
    }

    fn answer(&mut self, bytes: usize, sent_at: Instant, now: Instant, patience: Duration) {
        if bytes == 0 {
            return;
        }
        self.is_used &= self.under_way >= self.bytes / 8;
        self.under_way = self.under_way.saturating_sub(bytes);
        if self.under_way == 0 {
            self.idle_since = Some(now);
        }
        if now <= sent_at + patience {
            if self.is_used {
                self.bytes = (self.bytes + bytes).min(self.bytes_max);
            }
        } else if self.halved_at.is_none_or(|halved_at| sent_at >= halved_at) {
            self.bytes = (self.bytes / 2).max(self.bytes_min);
            self.halved_at = Some(now);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PATIENCE: Duration = Duration::from_millis(500);

    /// Asks for a number of reads at once over a link that carries one in `each`, from one that has
    /// just been found; returns the longest time that one of them took.
    fn longest(reads: usize, each: Duration) -> Duration {
        let (mut window, mut now) = (Window::of_replies(), Instant::now());
        let (mut sent, mut longest) = (std::collections::VecDeque::new(), Duration::ZERO);
        let mut left = reads;
        while left > 0 || !sent.is_empty() {
            while left > 0 && window.has_room() {
                window.send(LONG_REPLY_BYTES, now, PATIENCE);
                sent.push_back(now);
                left -= 1;
            }
            now += each;
            let sent_at = sent.pop_front().unwrap();
            window.answer(LONG_REPLY_BYTES, sent_at, now, PATIENCE);
            longest = longest.max(now - sent_at);
        }
        longest
    }

    #[test]
    fn a_read_takes_no_longer_than_a_ping_may() {
        assert!(longest(300, Duration::from_millis(50)) < PATIENCE * 3);
        assert!(longest(300, Duration::from_millis(200)) < PATIENCE * 4);
        assert!(longest(5_000, Duration::from_millis(5)) < PATIENCE * 3);
    }

    #[test]
    fn a_fast_link_is_soon_filled() {
        let (mut window, now) = (Window::of_replies(), Instant::now());
        let mut rounds = 0;
        let mut sent = 0;
        while sent < 4096 {
            let mut round = 0;
            while window.has_room() {
                window.send(LONG_REPLY_BYTES, now, PATIENCE);
                round += 1;
            }
            for _ in 0..round {
                window.answer(LONG_REPLY_BYTES, now, now, PATIENCE);
            }
            sent = round;
            rounds += 1;
        }
        assert!(rounds <= 14, "{rounds} round trips");
    }

    #[test]
    fn small_requests_are_not_held_up() {
        // As many as may be under way at all, from the first round trip on.
        let (mut window, now) = (Window::of_requests(PATIENCE), Instant::now());
        for _ in 0..4096 {
            assert!(window.has_room());
            window.send(64, now, PATIENCE);
        }
    }

    /// Nothing was known of the link, and 10 MiB were under way before the first answer.
    #[test]
    fn the_first_requests_are_no_more_than_a_slow_link_carries_in_time() {
        for (session_secs, bytes) in [(1, 128), (4, 256), (8, 512), (60, 512)] {
            let patience = Duration::from_secs(session_secs) / 8;
            let (mut window, now) = (Window::of_requests(patience), Instant::now());
            let mut sent = 0;
            while window.has_room() {
                window.send(1024, now, patience);
                sent += 1;
            }
            assert_eq!(sent, bytes, "kibibytes in a session of {session_secs} s");
            // One that is longer than the window is sent once the others are answered.
            window.answer(sent * 1024, now, now + patience * 2, patience);
            assert!(window.has_room());
            window.send(REQUEST_BYTES_MAX, now, patience);
            assert!(!window.has_room());
        }
    }

    #[test]
    fn one_request_is_always_sent() {
        let (mut window, mut now) = (Window::of_replies(), Instant::now());
        for _ in 0..50 {
            assert!(window.has_room());
            window.send(REPLY_BYTES_MAX, now, PATIENCE);
            assert!(!window.has_room());
            let sent_at = now;
            now += PATIENCE * 9;
            window.answer(REPLY_BYTES_MAX, sent_at, now, PATIENCE);
        }
    }

    #[test]
    fn what_a_link_was_before_a_pause_does_not_count() {
        let (mut window, mut now) = (Window::of_replies(), Instant::now());
        for _ in 0..100 {
            window.send(REPLY_BYTES_START, now, PATIENCE);
            window.answer(REPLY_BYTES_START, now, now, PATIENCE);
        }
        assert!(window.bytes > REPLY_BYTES_START);
        now += PATIENCE * 2;
        window.send(1, now, PATIENCE);
        assert_eq!(window.bytes, REPLY_BYTES_START);
    }
}
