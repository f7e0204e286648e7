//! The connections that are not HTTP as a port understands it, in the log: for the ports of servers too,
//! which show a console (`zoolet-http`).

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use thiserror::Error;
use tokio::time::Instant;
use tracing::{debug, info, warn};

use crate::opening::NotOpened;

/// The pause between two lines of the same kind: a stranger must not fill the log.
const PAUSE: Duration = Duration::from_secs(10);

/// Why a request was refused before it was understood.
#[derive(Debug, Error)]
pub enum Malformed {
    /// The connection does not begin as one of this port does.
    #[error(transparent)]
    NotOpened(NotOpened),
    /// A part of the request is wrong.
    #[error(transparent)]
    Request(hyper::Error),
}

/// When something was logged last.
#[derive(Debug, Default)]
pub struct Pause(Option<Instant>);

impl Pause {
    /// Returns whether it may be logged again, and begins the next pause if so.
    pub fn is_over(&mut self) -> bool {
        let is_over = self.0.is_none_or(|at| at.elapsed() >= PAUSE);
        if is_over {
            self.0 = Some(Instant::now());
        }
        is_over
    }
}

/// Logs what was refused, the first of them for a while at a level that is shown.
#[derive(Debug, Default)]
pub struct Refusals(Mutex<BTreeMap<&'static str, Pause>>);

impl Refusals {
    /// Logs one, or not, if one like it was logged within ten seconds.
    pub fn log(&self, peer: SocketAddr, error: &Malformed) {
        let (kind, is_tls) = match error {
            Malformed::NotOpened(error) => (error.kind(), matches!(error, NotOpened::Tls(_))),
            Malformed::Request(_) => ("request", false),
        };
        let is_due = {
            let mut pauses = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            pauses.entry(kind).or_default().is_over()
        };
        match (is_due, is_tls) {
            // The operator of the client has to mend it, and may not find out from the client alone.
            (true, true) => {
                warn!(%peer, %error, "HTTP connection refused; others like it may not be logged for 10 s");
            }
            (true, false) => {
                info!(%peer, %error, "malformed HTTP request refused; others may not be logged for 10 s");
            }
            (false, _) => debug!(%peer, %error, "malformed HTTP request refused"),
        }
    }
}
