//! A connection whose idleness is noticed: one that neither sends nor takes anything for too long is
//! closed, whatever it is in the middle of. So is one that is old, unless it is taking a snapshot at
//! a pace at which that comes to an end.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use tokio::time::{Instant, sleep};
use zoolet_tls::{NotedStream, Notes};

/// A connection is closed after this time, even if it goes on taking an answer byte by byte.
const LIFE_MAX: Duration = Duration::from_mins(10);

/// How often the age and the pace of a connection are looked at.
const LOOK_PAUSE: Duration = Duration::from_mins(1);

/// A client that takes a snapshot takes this much from one look to the next. The state of the
/// snapshot is kept as long as it lasts.
const STREAM_BYTES_MIN: u64 = 4 << 20;

/// What a connection has done so far.
#[derive(Debug, Default)]
pub struct Activity {
    /// Counts what the connections of a port do.
    turns: Arc<AtomicU64>,
    /// The count when this one has done something last.
    last_turn: AtomicU64,
    /// Rises with each byte that is sent or taken.
    steps: AtomicU64,
    /// Requests that are being answered.
    busy: AtomicUsize,
    /// Bytes that were sent.
    sent_bytes: AtomicU64,
    /// How many snapshots were begun, and ended: at most one is under way.
    streams: AtomicU64,
    streams_ended: AtomicU64,
}

impl Activity {
    /// The activity of a connection that begins now.
    pub(crate) fn new(turns: Arc<AtomicU64>) -> Self {
        let activity = Self { turns, ..Self::default() };
        activity.step();
        activity
    }

    /// Returns whether a request is being answered or a snapshot sent.
    pub(crate) fn is_busy(&self) -> bool {
        let ended = self.streams_ended.load(Ordering::Relaxed);
        self.busy.load(Ordering::Relaxed) > 0 || self.streams.load(Ordering::Relaxed) > ended
    }

    /// Returns a number that is larger for connections that have done something later.
    pub(crate) fn last_turn(&self) -> u64 {
        self.last_turn.load(Ordering::Relaxed)
    }

    /// Notes that a request is being answered until the guard is dropped.
    pub fn answering(self: &Arc<Self>) -> Answering {
        self.busy.fetch_add(1, Ordering::Relaxed);
        Answering(Arc::clone(self))
    }

    /// Waits until nothing has happened for `limit`, or up to twice as long.
    pub async fn until_idle(&self, limit: Duration) {
        loop {
            let before = self.steps.load(Ordering::Relaxed);
            sleep(limit).await;
            let is_busy = self.busy.load(Ordering::Relaxed) > 0;
            if !is_busy && self.steps.load(Ordering::Relaxed) == before {
                return;
            }
        }
    }

    /// Notes that a snapshot is being sent until the guard is dropped.
    pub fn streaming(self: &Arc<Self>) -> Streaming {
        self.streams.fetch_add(1, Ordering::Relaxed);
        Streaming(Arc::clone(self))
    }

    /// Waits until the connection has lived long enough: ten minutes, or as long as a snapshot is
    /// sent that gets on.
    pub async fn until_old(&self) {
        let begun = Instant::now();
        let look = || {
            let streams = self.streams.load(Ordering::Relaxed);
            let is_under_way = streams > self.streams_ended.load(Ordering::Relaxed);
            (is_under_way.then_some(streams), self.sent_bytes.load(Ordering::Relaxed))
        };
        let mut before = look();
        loop {
            sleep(LOOK_PAUSE).await;
            let now = look();
            let is_over = match now.0 {
                None => begun.elapsed() >= LIFE_MAX,
                // It was under way at the last look too: a whole pause was its own.
                stream if stream == before.0 => now.1 - before.1 < STREAM_BYTES_MIN,
                Some(_) => false,
            };
            if is_over {
                return;
            }
            before = now;
        }
    }

    pub(crate) fn step(&self) {
        let turn = self.turns.fetch_add(1, Ordering::Relaxed);
        self.last_turn.store(turn, Ordering::Relaxed);
        self.steps.fetch_add(1, Ordering::Relaxed);
    }
}

/// A request that is being answered.
#[derive(Debug)]
pub struct Answering(Arc<Activity>);

impl Drop for Answering {
    fn drop(&mut self) {
        self.0.busy.fetch_sub(1, Ordering::Relaxed);
        self.0.step();
    }
}

/// A snapshot that is being sent.
#[derive(Debug)]
pub struct Streaming(Arc<Activity>);

impl Drop for Streaming {
    fn drop(&mut self) {
        self.0.streams_ended.fetch_add(1, Ordering::Relaxed);
    }
}

/// A stream that notes its activity.
pub type IdleStream<S> = NotedStream<S, Arc<Activity>>;

impl Notes for Activity {
    fn read(&self) {
        self.step();
    }

    fn written(&self, bytes: usize) {
        self.step();
        self.sent_bytes.fetch_add(bytes as u64, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Sends `bytes` each second while a snapshot is under way for `seconds`. Returns how long the
    /// connection lived, in minutes.
    async fn life(seconds: u64, bytes: u64) -> u64 {
        let activity = Arc::new(Activity::default());
        let begun = Instant::now();
        let send = async {
            // It begins between two looks.
            sleep(Duration::from_secs(45)).await;
            let streaming = activity.streaming();
            for _ in 0..seconds {
                sleep(Duration::from_secs(1)).await;
                activity.sent_bytes.fetch_add(bytes, Ordering::Relaxed);
            }
            drop(streaming);
            std::future::pending::<()>().await;
        };
        tokio::select! {
            () = send => {}
            () = activity.until_old() => {}
        }
        begun.elapsed().as_secs() / 60
    }

    #[tokio::test(start_paused = true)]
    async fn a_snapshot_that_gets_on_is_not_cut_and_one_that_does_not_is() {
        assert_eq!(life(3600, 1 << 20).await, 61);
        assert_eq!(life(3600, 1 << 10).await, 2, "a client that hardly reads");
        assert_eq!(life(1, 0).await, 10, "any other connection");
    }
}
