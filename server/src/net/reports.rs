//! What a port knows, for those who ask otherwise than by a four-letter word.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use zoolet_replica::Role;

use super::context::PortContext;
use super::format;
use super::server_info::ServerInfo;
use crate::host::Host;
use crate::limits::LimitReading;

/// A client's connection.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct ConnectionReport {
    /// Where it comes from.
    pub peer: SocketAddr,
    /// When it was accepted, in milliseconds since 1970.
    pub since_ms: i64,
    /// Whether it speaks TLS.
    pub is_secure: bool,
    /// Its session and the session's timeout in milliseconds, once the handshake is answered.
    pub session: Option<(i64, i32)>,
    /// Requests that are not answered yet.
    pub queued: u64,
    /// Frames from the client and to it, since the last reset.
    pub received: u64,
    /// Frames to the client.
    pub sent: u64,
    /// The last operation, as `ZooKeeper` abbreviates it.
    pub last_operation: &'static str,
    /// The number of the last ordinary request, if there was one.
    pub last_cxid: Option<i32>,
    /// The zxid of the last reply.
    pub last_zxid: i64,
    /// When the last reply was made, in milliseconds on the monotonic clock.
    pub last_response_ms: u64,
    /// How long the last request took, in milliseconds; the shortest, the mean and the longest.
    pub last_latency_ms: u64,
    /// The shortest.
    pub min_latency_ms: u64,
    /// The mean.
    pub avg_latency_ms: f64,
    /// The longest.
    pub max_latency_ms: u64,
}

/// The connections that a port has.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ConnectionCounts {
    pub open: usize,
    /// Those that were turned away because of a limit, and because their handshake came late.
    pub refused: u64,
    pub late: u64,
    /// Those that have spoken TLS.
    pub secure: u64,
    /// Those that have not agreed on TLS yet, and those that were over the limit of handshakes.
    pub tls_handshakes: usize,
    pub tls_exceeded: u64,
    /// Those that gave way to others before their handshake was done.
    pub gave_way: u64,
}

/// Reads what a port knows.
#[derive(Clone, Debug)]
pub(crate) struct PortReports(pub(super) Arc<PortContext>);

impl PortReports {
    pub(crate) fn host(&self) -> &Arc<Host> {
        &self.0.host
    }

    pub(crate) fn server_info(&self) -> &ServerInfo {
        &self.0.options.server_info
    }

    /// Where clients are served now.
    pub(crate) fn address(&self) -> SocketAddr {
        *self.0.bound_at.borrow()
    }

    /// How long the port has been open.
    pub(crate) fn uptime(&self) -> Duration {
        self.0.opened.elapsed()
    }

    /// What stands for the version of `ZooKeeper`.
    pub(crate) fn version() -> &'static str {
        format::VERSION
    }

    /// `ZooKeeper`'s name of a role.
    pub(crate) fn mode(&self, role: Role) -> &'static str {
        format::mode(&self.0, role)
    }

    pub(crate) fn counts(&self) -> ConnectionCounts {
        let registry = &self.0.registry;
        let turned_away = registry.turned_away();
        ConnectionCounts {
            open: registry.count(),
            refused: turned_away.refused,
            late: turned_away.late,
            secure: registry.secure(),
            tls_handshakes: registry.tls_handshakes(),
            tls_exceeded: turned_away.tls_exceeded,
            gave_way: turned_away.gave_way,
        }
    }

    /// Returns the limits of the server, as they are now.
    pub(crate) fn limits(&self) -> Vec<LimitReading> {
        self.0.limits()
    }

    /// Returns how many connections have ended with an error, by its reason.
    pub(crate) fn errors(&self) -> Vec<(&'static str, u64)> {
        self.0.errors()
    }

    pub(crate) fn connections(&self) -> Vec<ConnectionReport> {
        let report = |entry: super::registry::RegisteredConnection| {
            let (traffic, accepted) = (entry.outbox.traffic(), entry.outbox.accepted());
            ConnectionReport {
                peer: entry.peer,
                since_ms: entry.since_ms,
                is_secure: entry.is_secure,
                session: accepted.map(|accepted| (accepted.session.0, accepted.timeout_ms)),
                queued: traffic.queued,
                received: traffic.received,
                sent: traffic.sent,
                last_operation: format::last_operation(traffic.last_op),
                last_cxid: traffic.last_cxid.map(|cxid| cxid.0),
                last_zxid: traffic.last_zxid.0,
                last_response_ms: traffic.last_response_ms,
                last_latency_ms: traffic.last_latency_ms,
                min_latency_ms: traffic.latency.min_ms(),
                avg_latency_ms: traffic.latency.average_ms(),
                max_latency_ms: traffic.latency.max_ms(),
            }
        };
        self.0.registry.entries().into_iter().map(report).collect()
    }

    /// Returns the lines of `mntr`.
    pub(crate) fn monitor(&self) -> String {
        format::mntr(&self.0)
    }

    /// As `crst`.
    pub(crate) fn reset_connections(&self) {
        format::reset_connections(&self.0);
    }

    /// As `srst`.
    pub(crate) fn reset_server(&self) {
        format::reset_server(&self.0);
    }

    pub(crate) fn trace_mask(&self) -> u64 {
        self.0.trace_mask.load(Ordering::Relaxed)
    }

    pub(crate) fn set_trace_mask(&self, mask: u64) {
        self.0.trace_mask.store(mask, Ordering::Relaxed);
    }
}
