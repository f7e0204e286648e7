//! Where a reply goes, and what its request was.

use zoolet_jute::{OpCode, Xid};

use crate::ConnectionId;

/// A request that is being replied to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReplyTo {
    /// The connection on which it came.
    pub connection: ConnectionId,
    /// The client's number.
    pub xid: Xid,
    /// When it came in, on the monotonic clock, in milliseconds.
    pub since_ms: u64,
    /// What it takes until it is replied to.
    pub in_flight: InFlight,
}

/// What flow control counts of a request that is not replied to yet. It comes in with the request
/// and goes out with the reply, unchanged.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct InFlight {
    /// The operation, if it is one.
    pub op: Option<OpCode>,
    /// The bytes of its frame.
    pub bytes: usize,
    /// As how many reads with long replies it counts.
    pub long_reads: usize,
    /// Whether its bytes were granted before it was read.
    pub is_large: bool,
}
