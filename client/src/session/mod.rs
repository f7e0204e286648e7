//! The session: what the client knows of it, and the one task that owns the socket.

pub(crate) mod lease;
pub(crate) mod pending;
pub(crate) mod task;
pub(crate) mod timeouts;
pub(crate) mod watches;

use bytes::Bytes;
use zoolet_jute::{SessionId, Zxid};

/// What a client needs to resume its session, in this process or in another.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SessionInfo {
    /// The id; [`SessionId::NONE`] before the first connection.
    pub id: SessionId,
    /// The password, 16 bytes.
    pub password: Bytes,
    /// The timeout that the server granted, in milliseconds.
    pub timeout_ms: u64,
    /// The newest zxid that was seen.
    pub last_zxid: Zxid,
}

/// Where the session stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SessionState {
    /// No server serves it at the moment; the session may live on.
    Disconnected,
    /// A server serves it.
    Connected,
    /// It has ended; a new client must be made.
    Expired,
    /// The server refused the credentials.
    AuthFailed,
    /// The client was closed.
    Closed,
}

impl SessionState {
    /// Whether the session is over for good.
    pub const fn is_terminal(self) -> bool {
        matches!(self, Self::Expired | Self::AuthFailed | Self::Closed)
    }
}
