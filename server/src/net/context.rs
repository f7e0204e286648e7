//! What the connections of a port share.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::{Semaphore, watch};
use tokio::time::Instant;
use zoolet_replica::Limit;

use super::error::ConnectionError;
use super::options::PortOptions;
use super::registry::Registry;
use crate::arrivals::Arrivals;
use crate::descriptors::probes_max;
use crate::host::Host;
use crate::large_requests::LargeRequests;
use crate::limits::LimitReading;
use crate::outbox_budget::OutboxBudget;
use crate::process;

/// Apache's trace mask at the start: requests, packets of servers, sessions and warnings.
const TRACE_MASK: u64 = 306;

/// The pause between two warnings of clients that do not speak as the port does.
const WARN_INTERVAL: Duration = Duration::from_secs(10);

/// What all connections of a port share.
#[derive(Debug)]
pub(super) struct PortContext {
    pub(super) options: PortOptions,
    pub(super) host: Arc<Host>,
    pub(super) registry: Arc<Registry>,
    /// Connections over a limit that may ask a four-letter word.
    pub(super) asking: Arrivals,
    /// The place for the one four-letter word whose list is put together.
    pub(super) listing: Semaphore,
    /// The memory of all outboxes.
    pub(super) budget: Arc<OutboxBudget>,
    /// The memory for large requests.
    pub(super) large: Arc<LargeRequests>,
    /// What `stmk` sets and `gtmk` shows, and nothing reads.
    pub(super) trace_mask: AtomicU64,
    /// When the port was opened.
    pub(super) opened: Instant,
    /// Where the port listens now.
    pub(super) bound_at: watch::Receiver<SocketAddr>,
    /// Where the port for TLS listens.
    pub(super) secure_at: Option<SocketAddr>,
    /// The connections that have ended with an error, by its reason.
    errors: [AtomicU64; ConnectionError::REASONS.len()],
    /// When each kind of fault was last warned of.
    warned_at: Mutex<BTreeMap<&'static str, Instant>>,
}

impl PortContext {
    /// Returns the context of a port that opens now.
    pub(super) fn new(
        options: PortOptions,
        host: Arc<Host>,
        bound_at: watch::Receiver<SocketAddr>,
        secure_at: Option<SocketAddr>,
    ) -> Self {
        let registry = Registry::new(&options, host.limit_table());
        let trace_mask = AtomicU64::new(TRACE_MASK);
        let opened = Instant::now();
        let (asking, errors) = (Arrivals::new(probes_max()), Default::default());
        let (warned_at, listing) = (Mutex::default(), Semaphore::new(1));
        let budget =
            OutboxBudget::new(options.outbox_bytes_total_max, options.outbox_bytes_per_address_max);
        let large = LargeRequests::new(options.large_request_bytes_max);
        Self {
            options,
            host,
            registry,
            asking,
            listing,
            budget,
            large,
            trace_mask,
            opened,
            bound_at,
            secure_at,
            errors,
            warned_at,
        }
    }

    /// Returns the limits of the server, as they are now.
    pub(super) fn limits(&self) -> Vec<LimitReading> {
        self.limits_with(process::file_descriptors())
    }

    /// Does the same with the open files and their limit as [`process::file_descriptors`] has just
    /// counted them: with thousands of clients that takes time.
    pub(super) fn limits_with(&self, (open, max): (Option<u64>, Option<u64>)) -> Vec<LimitReading> {
        let table = self.host.limit_table();
        self.host.measure_limits();
        self.registry.measure_limits(table);
        if let (Some(open), Some(max)) = (open, max) {
            table.set_used(Limit::OpenFiles, usize::try_from(open).unwrap_or(usize::MAX));
            table.set_max(Limit::OpenFiles, usize::try_from(max).unwrap_or(usize::MAX));
        }
        table.set_used(Limit::OutboxBytesPerAddress, self.budget.busiest_address());
        table.set_used(Limit::OutboxBytesTotal, self.budget.total());
        table.set_used(Limit::LargeRequestBytes, self.large.used());
        table.readings()
    }

    /// Counts a connection that ends with an error.
    pub(super) fn count_error(&self, reason: &'static str) {
        let all = ConnectionError::REASONS.iter().zip(&self.errors);
        for (_, count) in all.filter(|(known, _)| **known == reason) {
            count.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Returns how many connections have ended with an error, by its reason.
    pub(super) fn errors(&self) -> Vec<(&'static str, u64)> {
        let all = ConnectionError::REASONS.iter().zip(&self.errors);
        all.map(|(reason, count)| (*reason, count.load(Ordering::Relaxed))).collect()
    }

    /// Whether a warning of this kind is due: strangers can connect as often as they like.
    pub(super) fn may_warn(&self, kind: &'static str) -> bool {
        let mut warned_at = self.warned_at.lock().unwrap_or_else(PoisonError::into_inner);
        let is_due = warned_at.get(kind).is_none_or(|at| at.elapsed() >= WARN_INTERVAL);
        if is_due {
            warned_at.insert(kind, Instant::now());
        }
        is_due
    }
}
