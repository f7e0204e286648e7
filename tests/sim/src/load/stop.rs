//! The order to stop. A sender that is gone can give no order any more: that is one.

use std::time::Duration;

use tokio::sync::watch;
use tokio::time::sleep;

/// Whether the order was given.
pub(super) fn is_stopped(stop: &watch::Receiver<bool>) -> bool {
    *stop.borrow() || stop.has_changed().is_err()
}

/// Waits for the order.
pub(super) async fn stopped(stop: &watch::Receiver<bool>) {
    let _ = stop.clone().wait_for(|is_stopped| *is_stopped).await;
}

/// Waits for so long, or for the order.
pub(super) async fn rest(stop: &watch::Receiver<bool>, span: Duration) {
    tokio::select! {
        biased;
        () = stopped(stop) => {}
        () = sleep(span) => {}
    }
}

/// Waits until a program that is to stop has waited for the last replies as long as it may.
pub(super) async fn out_of_time(stop: &watch::Receiver<bool>, limit: Duration) {
    stopped(stop).await;
    sleep(limit).await;
}
