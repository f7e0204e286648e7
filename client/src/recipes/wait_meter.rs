//! How long an attempt at a lock has waited for others.

use std::time::Duration;

use tokio::sync::watch;
use tokio::time::{Instant, sleep_until};

/// The time that is over, and since when the present wait lasts, if there is one.
#[derive(Clone, Copy, Debug, Default)]
struct Waited {
    before: Duration,
    since: Option<Instant>,
}

/// Measures the waits for others. The time of an attempt's own requests, of reconnects for example,
/// is not theirs.
#[derive(Debug, Default)]
pub(crate) struct WaitMeter {
    waited: watch::Sender<Waited>,
}

impl WaitMeter {
    /// Adds the time that a wait for others takes.
    pub(crate) async fn measure<T>(&self, wait: impl Future<Output = T>) -> T {
        self.waited.send_modify(|waited| waited.since = Some(Instant::now()));
        let output = wait.await;
        self.waited.send_modify(|waited| {
            waited.before += waited.since.take().map(|since| since.elapsed()).unwrap_or_default();
        });
        output
    }

    /// Waits until the waits have taken this long together.
    pub(crate) async fn exceeds(&self, limit: Duration) {
        let mut changes = self.waited.subscribe();
        loop {
            let Waited { before, since } = *changes.borrow_and_update();
            let changed = changes.changed();
            match since {
                Some(since) => tokio::select! {
                    () = sleep_until(since + limit.saturating_sub(before)) => return,
                    _ = changed => {}
                },
                // The meter is borrowed, so its sender is there.
                None => drop(changed.await),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use tokio::time::{sleep, timeout};

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn only_waits_count() {
        let meter = WaitMeter::default();
        let attempt = async {
            for _ in 0..3 {
                sleep(Duration::from_secs(9)).await;
                meter.measure(sleep(Duration::from_millis(400))).await;
            }
            sleep(Duration::from_secs(9)).await;
        };
        let start = Instant::now();
        tokio::select! {
            () = attempt => panic!("the limit was not noticed"),
            () = meter.exceeds(Duration::from_secs(1)) => {}
        }
        assert_eq!(start.elapsed(), Duration::from_secs(28));
        let other = WaitMeter::default();
        assert!(timeout(Duration::from_hours(1), other.exceeds(Duration::ZERO)).await.is_err());
    }
}
