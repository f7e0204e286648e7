//! The requests that are not HTTP as this port understands it, in the log.

use std::net::SocketAddr;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use thiserror::Error;
use tokio::time::Instant;
use tracing::{debug, info};

/// The pause between two lines of the same kind: a stranger must not fill the log.
const PAUSE: Duration = Duration::from_secs(10);

/// Why a request was refused before it was understood.
#[derive(Debug, Error)]
pub(crate) enum Malformed {
    /// The client speaks TLS.
    #[error("TLS hello: this port speaks plain HTTP, use http://")]
    TlsHello,
    /// The client speaks something else.
    #[error("this is not HTTP: it begins with the byte {0:#04x}")]
    NotHttp(u8),
    /// A part of the request is wrong.
    #[error(transparent)]
    Request(hyper::Error),
}

/// When something was logged last.
#[derive(Debug, Default)]
pub(crate) struct Pause(Option<Instant>);

impl Pause {
    /// Returns whether it may be logged again, and begins the next pause if so.
    pub(crate) fn is_over(&mut self) -> bool {
        let is_over = self.0.is_none_or(|at| at.elapsed() >= PAUSE);
        if is_over {
            self.0 = Some(Instant::now());
        }
        is_over
    }
}

/// Logs what was refused, the first of them for a while at a level that is shown.
#[derive(Debug, Default)]
pub(crate) struct Refusals(Mutex<Pause>);

impl Refusals {
    pub(crate) fn log(&self, peer: SocketAddr, error: &Malformed) {
        if self.0.lock().unwrap_or_else(PoisonError::into_inner).is_over() {
            info!(%peer, %error, "malformed HTTP request refused; others may not be logged for 10 s");
        } else {
            debug!(%peer, %error, "malformed HTTP request refused");
        }
    }
}
