//! What the connections of a port share.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use tokio::sync::watch;
use tokio::time::Instant;

use super::options::PortOptions;
use super::registry::Registry;
use crate::host::Host;

/// Apache's trace mask at the start: requests, packets of servers, sessions and warnings.
const TRACE_MASK: u64 = 306;

/// What all connections of a port share.
#[derive(Debug)]
pub(super) struct PortContext {
    pub(super) options: PortOptions,
    pub(super) host: Arc<Host>,
    pub(super) registry: Arc<Registry>,
    /// What `stmk` sets and `gtmk` shows, and nothing reads.
    pub(super) trace_mask: AtomicU64,
    /// When the port was opened.
    pub(super) opened: Instant,
    /// Where the port listens now.
    pub(super) bound_at: watch::Receiver<SocketAddr>,
}

impl PortContext {
    /// Returns the context of a port that opens now.
    pub(super) fn new(
        options: PortOptions,
        host: Arc<Host>,
        bound_at: watch::Receiver<SocketAddr>,
    ) -> Self {
        let registry = Registry::new(&options);
        let trace_mask = AtomicU64::new(TRACE_MASK);
        Self { options, host, registry, trace_mask, opened: Instant::now(), bound_at }
    }
}
