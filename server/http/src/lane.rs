//! The lane of a connection, which limits its requests, and the counters of a port.
//!
//! When all places are busy, new connections have a few places of their own, in which only probes are
//! answered: a supervisor must not find a busy server dead.

use std::sync::atomic::AtomicU64;

use tokio::sync::watch;
use zoolet_tls::CertificatesInForce;

/// The requests that a connection can make.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Lane {
    All,
    /// `/health` and `/ready`: the answers are short and never wait.
    Probes,
}

/// The counters of a port.
#[derive(Debug, Default)]
pub(crate) struct PortFigures {
    /// The connections that came when all places were taken.
    pub(crate) crowded: AtomicU64,
    /// The requests that were refused for the same reason.
    pub(crate) refused: AtomicU64,
    /// The certificates of its TLS.
    pub(crate) certificates: Option<watch::Receiver<CertificatesInForce>>,
}
