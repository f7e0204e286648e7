//! A run that is to end before its time: servers, namespaces and mounts go, as at its end.

use std::sync::atomic::{AtomicBool, Ordering};

use tokio::runtime::Runtime;
use tokio::signal::unix::{SignalKind, signal};

use super::ChaosError;

static IS_INTERRUPTED: AtomicBool = AtomicBool::new(false);

/// From now on SIGINT and SIGTERM end the run in good order.
pub fn watch_signals(runtime: &Runtime) -> Result<(), ChaosError> {
    let _inside = runtime.enter();
    for kind in [SignalKind::interrupt(), SignalKind::terminate(), SignalKind::hangup()] {
        let mut signals = signal(kind)?;
        runtime.spawn(async move {
            if signals.recv().await.is_some() {
                IS_INTERRUPTED.store(true, Ordering::Relaxed);
            }
        });
    }
    Ok(())
}

/// Whether the run is to end.
pub(super) fn is_interrupted() -> bool {
    IS_INTERRUPTED.load(Ordering::Relaxed)
}

/// An error if the run is to end.
pub(super) fn check() -> Result<(), ChaosError> {
    if is_interrupted() { Err(ChaosError::Interrupted) } else { Ok(()) }
}
