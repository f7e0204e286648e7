//! The session: what the client knows of it, and the one task that owns the socket.
//!
//! `core`, `pending`, `watches` and `timeouts` decide and do no I/O; `task` carries out.

pub(crate) mod calls;
pub(crate) mod core;
mod dials;
mod end;
mod identities;
mod info;
pub(crate) mod lease;
mod outgoing;
pub(crate) mod pending;
mod probe;
mod pulse;
pub(crate) mod route;
pub(crate) mod task;
pub(crate) mod timeouts;
pub(crate) mod watches;
mod window;

use crate::ErrorKind;

pub use self::info::SessionInfo;

/// Where the session stands.
///
/// ```text
///                 ┌───────────────┐ a reply            ┌───────────────────────────┐
///                 ▼               │                    │ all of them can end in    │
/// Disconnected ─▶ Connected ──────┼─▶ Disconnected ──┐ │ Expired, AuthFailed and   │
///      │          ▲   │ no answer │                  │ │ Closed, which are for good│
///      ▼          │   ▼ to a ping │   no server      │ └───────────────────────────┘
///   ReadOnly ─────┴─ Lost ◀───────┴──────────────────┘
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum SessionState {
    /// No server serves it at the moment; it lives on until the servers give it up. Curator's
    /// `SUSPENDED`.
    Disconnected,
    /// A server serves it. Curator's `CONNECTED` and `RECONNECTED`.
    Connected,
    /// A server that is cut off from its ensemble serves reads, and does not keep the session
    /// alive; see [`read_only`](crate::ClientOptions::read_only). Curator's `READ_ONLY`.
    ReadOnly,
    /// No server has answered a ping for so long that the session may have ended: the locks that it
    /// holds may be given away from now on. Curator's `LOST`, but not for good: a server that is
    /// reached may still know the session. There may be a connection, on which long replies come
    /// in; the answer to a ping makes it `Connected` again.
    Lost,
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

    /// Whether a server serves the session, if only reads.
    pub const fn is_served(self) -> bool {
        matches!(self, Self::Connected | Self::ReadOnly)
    }

    /// What a call fails with once the session is over.
    pub(crate) const fn end(self) -> ErrorKind {
        match self {
            Self::Expired => ErrorKind::SessionExpired,
            Self::AuthFailed => ErrorKind::AuthFailed,
            Self::Closed | Self::Connected | Self::ReadOnly | Self::Lost | Self::Disconnected => {
                ErrorKind::Closed
            }
        }
    }
}
