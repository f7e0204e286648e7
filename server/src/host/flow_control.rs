//! Which requests are taken now, and which must wait on their connection's side of the socket.
//!
//! Nothing is dropped: a connection over a limit is not read until its replies are out.

use std::collections::VecDeque;
use std::sync::Arc;

use zoolet_jute::Request;
use zoolet_replica::{BadRequest, ConnectionId, InFlight, Limit, Options, invariant};

use super::{Inner, Received};
use crate::clock::Now;
use crate::limits::LimitTable;
use crate::outbox::Outbox;

/// Reads with long replies that may wait for their turn on one connection, the parts of a multiRead
/// each for one. They are all served at the moment at which the write or sync in front of them is
/// done, before the client can have read any reply, so their replies are in memory together.
const LONG_READS_MAX: usize = 32;

/// The bounds on requests without a reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(clippy::struct_field_names, reason = "each is a most, and its name says so")]
pub struct FlowLimits {
    /// Requests of one connection.
    pub connection_requests_max: usize,
    /// Requests of all connections. At it, a connection is still granted one at a time, so that
    /// none starves (`globalOutstandingLimit`, protocol §1.3).
    pub requests_max: usize,
    /// Bytes of requests of all connections, likewise, and of the commands that wait to be
    /// proposed.
    pub bytes_max: usize,
    /// A request that had to wait longer for these limits, in milliseconds, is refused with
    /// `ThrottledOp`; zero means that none is.
    pub wait_ms_max: u64,
}

impl Default for FlowLimits {
    fn default() -> Self {
        Self {
            connection_requests_max: 1000,
            requests_max: 1000,
            bytes_max: 256 << 20,
            wait_ms_max: 0,
        }
    }
}

impl FlowLimits {
    /// Enters the maxima of the limits that the host and its replica keep.
    pub(super) fn register(&self, options: &Options, table: &LimitTable) {
        for (limit, max) in [
            (Limit::Requests, self.requests_max),
            (Limit::RequestBytes, self.bytes_max),
            (Limit::Sessions, options.sessions_max),
            (Limit::SessionsPerAddress, options.sessions_per_address_max),
            (Limit::SessionsPerIdentity, options.sessions_per_identity_max),
            (Limit::WatchesPerAddress, options.watches_per_address_max),
            (Limit::WatchBytesPerAddress, options.watch_bytes_per_address_max),
            (Limit::SessionIdentities, options.identities_per_connection_max),
            (Limit::SessionIdentityBytes, options.identity_bytes_per_connection_max),
            (Limit::AclEntries, options.acl_entries_max),
            (Limit::SessionWatches, options.watches_per_connection_max),
            (Limit::SessionWatchBytes, options.watch_bytes_per_connection_max),
            (Limit::Watches, options.watches_max),
            (Limit::WatchBytes, options.watch_bytes_max),
        ] {
            table.set_max(limit, max);
        }
    }
}

/// A setWatches counts as another long read for each of this many bytes.
const EVENTS_BYTES: usize = 32 << 10;

/// What became of the requests that were offered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Admission {
    /// All were taken.
    Open,
    /// The rest must wait until replies are written.
    Busy,
    /// The turn of the connection's task is over: the rest may be offered in its next one.
    Turn,
    /// The connection is closed; the rest goes nowhere.
    Closed,
}

/// A connection, as the host keeps it.
#[derive(Debug)]
pub(super) struct ConnectionLoad {
    pub(super) outbox: Arc<Outbox>,
    /// Whether the handshake is answered: requests behind it wait until then.
    pub(super) accepted: bool,
    /// Whether its requests wait for its own client: to read, or for the handshake.
    is_held_up: bool,
    /// When a wait for its own client was last seen to be over.
    held_up_ms: u64,
    /// The requests without a reply; their bytes, and as how many reads with long replies they
    /// count.
    in_flight: usize,
    bytes: usize,
    long_reads: usize,
}

impl ConnectionLoad {
    pub(super) fn new(outbox: Arc<Outbox>) -> Self {
        Self {
            outbox,
            accepted: false,
            is_held_up: false,
            held_up_ms: 0,
            in_flight: 0,
            bytes: 0,
            long_reads: 0,
        }
    }

    pub(super) fn in_flight(&self) -> usize {
        self.in_flight
    }

    pub(super) fn bytes_in_flight(&self) -> usize {
        self.bytes
    }

    /// Takes off a request that is replied to.
    pub(super) fn answered(&mut self, request: InFlight) {
        let (count, bytes, reads) = (self.in_flight, self.bytes, self.long_reads);
        let is_counted = count > 0 && request.bytes <= bytes && request.long_reads <= reads;
        invariant!(
            is_counted,
            "{request:?} is one of {count} requests of {bytes} bytes, {reads} long"
        );
        self.in_flight -= 1;
        self.bytes -= request.bytes;
        self.long_reads -= request.long_reads;
        if request.is_large {
            self.outbox.end_large();
        }
    }

    fn take(&mut self, received: &Received) -> InFlight {
        let Received { op, bytes, is_large, .. } = *received;
        let long_reads = long_reads(received);
        self.in_flight += 1;
        self.bytes += bytes;
        self.long_reads += long_reads;
        InFlight { op, bytes, long_reads, is_large }
    }

    /// Whether another read with a long reply would be one too many. One goes through in any case.
    fn is_full_of_reads(&self, next: &Received) -> bool {
        self.long_reads > 0 && self.long_reads + long_reads(next) > LONG_READS_MAX
    }
}

/// As how many reads with long replies a request counts: those whose replies, or events, are put
/// together from the state and may be much longer than the request. Data is not, for it is
/// not copied once it is long.
#[allow(clippy::wildcard_enum_match_arm, reason = "the others have short replies")]
fn long_reads(received: &Received) -> usize {
    match &received.request {
        Ok(Request::MultiRead(parts)) => parts.0.len().max(1),
        Ok(
            Request::GetChildren(_)
            | Request::GetChildren2(_)
            | Request::GetEphemerals(_)
            | Request::GetAcl(_)
            | Request::WhoAmI,
        ) => 1,
        // One event for each path at most.
        Ok(Request::SetWatches(_) | Request::SetWatches2(_)) => 1 + received.bytes / EVENTS_BYTES,
        _ => 0,
    }
}

impl Inner {
    /// The next request, or why there is none.
    pub(super) fn admit(
        &mut self,
        now: Now,
        connection: ConnectionId,
        requests: &mut VecDeque<Received>,
        queue_is_full: bool,
    ) -> Result<(Received, InFlight), Admission> {
        let Some(entry) = self.connections.get_mut(&connection) else {
            return Err(Admission::Closed);
        };
        let Some(next) = requests.front() else { return Err(Admission::Open) };
        let server_is_full = self.requests_in_flight >= self.limits.requests_max
            || self.bytes_in_flight >= self.limits.bytes_max
            // A closed connection leaves the books of the host, but what it has asked for is done.
            || queue_is_full;
        if !entry.accepted || entry.outbox.is_full() {
            entry.is_held_up = true;
            return Err(Admission::Busy);
        }
        if std::mem::take(&mut entry.is_held_up) {
            // The connection offers its requests again when all is written, not all the time.
            entry.held_up_ms = now.mono_ms;
        }
        let is_full = entry.in_flight() >= self.limits.connection_requests_max
            || entry.is_full_of_reads(next);
        if is_full || (server_is_full && entry.in_flight() > 0) {
            return Err(Admission::Busy);
        }
        let mut received = requests.pop_front().ok_or(Admission::Open)?;
        let wait_ms = now.mono_ms.saturating_sub(received.since_ms.max(entry.held_up_ms));
        let wait_ms_max = self.limits.wait_ms_max;
        if wait_ms_max > 0 && wait_ms > wait_ms_max && received.is_throttlable() {
            received.request = Err(BadRequest::Throttled);
            self.figures.throttled += 1;
        }
        let in_flight = entry.take(&received);
        self.requests_in_flight += 1;
        self.bytes_in_flight += in_flight.bytes;
        Ok((received, in_flight))
    }
}
