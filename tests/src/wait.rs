//! Waiting for what happens by itself, in real time.

use std::thread;
use std::time::{Duration, Instant};

/// How often it is looked.
const LOOK_AGAIN: Duration = Duration::from_millis(20);

/// Waits until there is something; `None` when there still is nothing after `limit`.
#[allow(clippy::disallowed_methods, reason = "the harness waits for real processes")]
pub fn until<T>(limit: Duration, mut look: impl FnMut() -> Option<T>) -> Option<T> {
    let start = Instant::now();
    loop {
        let found = look();
        if found.is_some() || start.elapsed() > limit {
            return found;
        }
        thread::sleep(LOOK_AGAIN);
    }
}

/// Waits until something is so; `false` when it still is not after `limit`, even if the last look
/// does not end.
pub async fn until_so(limit: Duration, mut is_so: impl AsyncFnMut() -> bool) -> bool {
    let wait = async {
        while !is_so().await {
            tokio::time::sleep(LOOK_AGAIN).await;
        }
    };
    tokio::time::timeout(limit, wait).await.is_ok()
}
