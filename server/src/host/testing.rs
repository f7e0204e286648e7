//! A task for tests of turns.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use tokio::task::{JoinHandle, yield_now};

use super::Host;
pub(crate) use super::received::testing::decoded_bytes;

/// A task of the same thread, which runs as often as it can.
pub(crate) struct OtherTask {
    turns: Arc<AtomicU64>,
    /// The most work between two of its turns, or the most of whatever is counted.
    longest: Arc<AtomicU64>,
    task: JoinHandle<()>,
}

impl OtherTask {
    pub(crate) fn spawn(host: &Arc<Host>) -> Self {
        let host = Arc::clone(host);
        Self::counting(move || host.work_done())
    }

    pub(crate) fn counting(count: impl Fn() -> u64 + Send + 'static) -> Self {
        let (turns, longest) = <(Arc<AtomicU64>, Arc<AtomicU64>)>::default();
        let (counted, longest_so_far) = (Arc::clone(&turns), Arc::clone(&longest));
        let task = tokio::spawn(async move {
            let mut before = count();
            loop {
                yield_now().await;
                let now = count();
                longest_so_far.fetch_max(now - before, Ordering::Relaxed);
                counted.fetch_add(1, Ordering::Relaxed);
                before = now;
            }
        });
        Self { turns, longest, task }
    }

    pub(crate) fn turns(&self) -> u64 {
        self.turns.load(Ordering::Relaxed)
    }

    /// Returns the most that was counted between two of its turns, up to now.
    pub(crate) async fn longest(self) -> u64 {
        let before = self.turns();
        while self.turns() == before {
            yield_now().await;
        }
        self.task.abort();
        self.longest.load(Ordering::Relaxed)
    }
}
