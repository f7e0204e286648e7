//! What the service manager that started this process, such as systemd, is notified of:
//! `sd_notify(3)`. Without a service manager nothing is sent.
//!
//! ```text
//! STATUS=starting ─▶ STATUS=waiting for a leader ─▶ READY=1 ─▶ WATCHDOG=1 … ─▶ STOPPING=1
//!                                                    │    ▲
//!                                            SIGHUP: ▼    │
//!                                                RELOADING=1
//! ```
//!
//! Ready means that the server serves clients: it leads, or has a leader. A server that waits to be
//! taken in (`--join`) or for a majority is not ready yet. One that loses its leader later stays
//! ready, as the interface has it; its status line says so.

use std::convert::Infallible;
use std::future::pending;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use sd_notify::NotifyState;
use tokio::time::sleep;
use tracing::{debug, warn};
use zoolet_server::embed::{Readiness, Server};

/// How often the status line is brought up to date, at least.
const STATUS_INTERVAL: Duration = Duration::from_secs(2);

/// The service manager of this process.
#[derive(Debug, Default)]
pub(crate) struct Service {
    is_ready: AtomicBool,
    /// The status line that was sent last.
    status: Mutex<String>,
}

impl Service {
    /// Reports that the server is being started.
    pub(crate) fn starting(&self) {
        self.status("starting");
    }

    /// Reports when the server serves, whether it still does, and, if the service manager wants a
    /// watchdog, that it makes progress. Ends never.
    pub(crate) async fn report(&self, server: &Server) -> Infallible {
        self.status("waiting for a leader");
        if server.wait_ready().await.is_err() {
            // The caller waits for failures, too.
            return pending().await;
        }
        self.is_ready.store(true, Ordering::Relaxed);
        send(&[NotifyState::Ready]);
        let watchdog = sd_notify::watchdog_enabled();
        let pause = pause(watchdog);
        loop {
            self.status(&described(server));
            if watchdog.is_some() && server.responds().await {
                send(&[NotifyState::Watchdog]);
            }
            sleep(pause).await;
        }
    }

    /// Reports that the process rereads what it can while it runs, does so, and reports the end.
    pub(crate) fn reload(&self, reload: impl FnOnce()) {
        // A service that is being started would be taken for ready.
        let is_ready = self.is_ready.load(Ordering::Relaxed);
        if is_ready {
            match NotifyState::monotonic_usec_now() {
                Ok(now) => send(&[NotifyState::Reloading, now]),
                Err(error) => debug!(%error, "the clock cannot be read"),
            }
        }
        reload();
        if is_ready {
            send(&[NotifyState::Ready]);
        }
    }

    /// Reports that the process ends.
    pub(crate) fn stopping(&self, reason: &str) {
        self.is_ready.store(false, Ordering::Relaxed);
        send(&[NotifyState::Stopping, NotifyState::Status(&format!("stopping: {}", line(reason)))]);
    }

    fn status(&self, status: &str) {
        let Ok(mut last) = self.status.lock() else { return };
        if *last != status {
            send(&[NotifyState::Status(&line(status))]);
            status.clone_into(&mut last);
        }
    }
}

/// The time between two signs of life: a third of what the service manager waits for one.
fn pause(watchdog: Option<Duration>) -> Duration {
    watchdog.map_or(STATUS_INTERVAL, |limit| (limit / 3).min(STATUS_INTERVAL))
}

fn described(server: &Server) -> String {
    let reports = server.reports();
    match reports.readiness() {
        Readiness::Ready => format!("serving, {}", reports.mode()),
        Readiness::NotReady(why) => format!("not serving: {why}"),
        Readiness::Failed(why) => format!("failed: {why}"),
        _ => "unknown".to_owned(),
    }
}

/// A text in one line: the next one would be another message.
fn line(text: &str) -> String {
    text.replace('\n', " ")
}

/// What cannot be sent is lost: the service manager ends a service that it waits for in vain.
fn send(states: &[NotifyState<'_>]) {
    if let Err(error) = sd_notify::notify(states) {
        warn!(%error, "the service manager cannot be notified");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_watchdog_gets_two_signs_of_life_before_its_time_is_over() {
        assert_eq!(pause(None), STATUS_INTERVAL);
        assert_eq!(pause(Some(Duration::from_millis(900))), Duration::from_millis(300));
        assert_eq!(pause(Some(Duration::from_mins(1))), STATUS_INTERVAL);
    }

    #[test]
    fn a_status_has_one_line() {
        assert_eq!(line("a\nREADY=1"), "a READY=1");
    }
}
