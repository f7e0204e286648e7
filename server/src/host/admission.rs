//! Which requests are taken now, and which must wait on their connection's side of the socket.
//!
//! Nothing is dropped: a connection over a limit is not read until its replies are out.

use std::collections::VecDeque;
use std::sync::Arc;

use zoolet_jute::OpCode;

use super::{Inner, Received};
use crate::outbox::{HIGH_WATER_BYTES, Outbox};
use crate::replica::ConnectionId;

/// The bounds on requests without a reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Requests of one connection.
    pub connection_requests_max: usize,
    /// Requests of all connections. At it, a connection is still granted one at a time, so that
    /// nobody starves (`globalOutstandingLimit`, protocol §1.3).
    pub requests_max: usize,
    /// Bytes of requests of all connections, likewise.
    pub bytes_max: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self { connection_requests_max: 1000, requests_max: 1000, bytes_max: 256 << 20 }
    }
}

/// What became of the requests that were offered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Admission {
    /// All were taken.
    Open,
    /// The rest must wait until replies are written.
    Busy,
    /// The connection is closed; the rest goes nowhere.
    Closed,
}

/// A request that was taken and not answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct InFlight {
    pub(super) op: Option<OpCode>,
    pub(super) bytes: usize,
}

/// A connection, as the host keeps it.
#[derive(Debug)]
pub(super) struct Connection {
    pub(super) outbox: Arc<Outbox>,
    /// Whether the handshake is answered: requests behind it wait until then.
    pub(super) accepted: bool,
    in_flight: VecDeque<InFlight>,
    bytes: usize,
}

impl Connection {
    pub(super) fn new(outbox: Arc<Outbox>) -> Self {
        Self { outbox, accepted: false, in_flight: VecDeque::new(), bytes: 0 }
    }

    pub(super) fn in_flight(&self) -> usize {
        self.in_flight.len()
    }

    pub(super) fn bytes_in_flight(&self) -> usize {
        self.bytes
    }

    /// Takes the request off that is answered now: replies go out in order, those to pings aside.
    pub(super) fn answered(&mut self, is_ping: bool) -> Option<InFlight> {
        let is_it = |request: &InFlight| (request.op == Some(OpCode::Ping)) == is_ping;
        let at = self.in_flight.iter().position(is_it).unwrap_or(0);
        let answered = self.in_flight.remove(at)?;
        self.bytes -= answered.bytes;
        Some(answered)
    }

    fn take(&mut self, received: &Received) {
        self.in_flight.push_back(InFlight { op: received.op, bytes: received.bytes });
        self.bytes += received.bytes;
    }
}

impl Inner {
    /// The next request, or why there is none.
    pub(super) fn admit(
        &mut self,
        connection: ConnectionId,
        requests: &mut VecDeque<Received>,
    ) -> Result<Received, Admission> {
        let Some(entry) = self.connections.get_mut(&connection) else {
            return Err(Admission::Closed);
        };
        if requests.is_empty() {
            return Err(Admission::Open);
        }
        let server_is_full = self.requests_in_flight >= self.limits.requests_max
            || self.bytes_in_flight >= self.limits.bytes_max;
        let is_full = entry.in_flight() >= self.limits.connection_requests_max
            || entry.outbox.unwritten_bytes() > HIGH_WATER_BYTES;
        if !entry.accepted || is_full || (server_is_full && entry.in_flight() > 0) {
            return Err(Admission::Busy);
        }
        let received = requests.pop_front().ok_or(Admission::Open)?;
        entry.take(&received);
        self.requests_in_flight += 1;
        self.bytes_in_flight += received.bytes;
        Ok(received)
    }
}
