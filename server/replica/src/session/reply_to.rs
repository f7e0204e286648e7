//! Where a reply goes.

use zoolet_jute::Xid;

use crate::ConnectionId;

/// A request that is being replied to.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ReplyTo {
    /// The connection on which it came.
    pub(crate) connection: ConnectionId,
    /// The client's number.
    pub(crate) xid: Xid,
    /// When it came in, on the monotonic clock, in milliseconds.
    pub(crate) since_ms: u64,
}
