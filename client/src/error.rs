//! What can go wrong, sorted by what the caller can do about it.

use std::fmt;
use std::io;
use std::sync::Arc;

use thiserror::Error;
use zoolet_jute::{DecodeError, ErrorCode, Reply};

/// A failed call.
#[derive(Debug, Error)]
#[error("{kind}{}", Because(.why.as_deref()))]
pub struct Error {
    kind: ErrorKind,
    /// What has led to it, for people.
    why: Option<Arc<str>>,
    /// Whether a write may have taken effect, where that is known better than by the kind.
    happened: Option<bool>,
    part: Option<usize>,
    #[source]
    source: Option<Box<dyn std::error::Error + Send + Sync>>,
}

/// What has led to a failure, behind what it is.
struct Because<'a>(Option<&'a str>);

impl fmt::Display for Because<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Some(why) if !why.is_empty() => write!(f, ": {why}"),
            Some(_) | None => Ok(()),
        }
    }
}

/// The kinds of failure.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum ErrorKind {
    /// The server refused the operation; nothing was changed.
    #[error("the server answered {0}")]
    Server(ErrorCode),
    /// The connection broke before the reply came: the operation may have happened or not.
    #[error("the connection was lost before the reply came")]
    ConnectionLoss,
    /// The session has ended; its ephemeral znodes are gone.
    #[error("the session has expired")]
    SessionExpired,
    /// The server refused the credentials and closed the connection.
    #[error("the credentials were refused")]
    AuthFailed,
    /// The client was closed.
    #[error("the client is closed")]
    Closed,
    /// No server could be reached in time.
    #[error("no server answered within {0} ms")]
    Timeout(u64),
    /// The request is longer than servers accept, and was not sent; see
    /// [`request_bytes_max`](crate::ClientOptions::request_bytes_max).
    #[error("the request has {bytes} bytes, the limit is {bytes_max}: it was not sent")]
    RequestTooLong {
        /// The bytes of the request.
        bytes: usize,
        /// The most that it may have.
        bytes_max: usize,
    },
    /// The reply is longer than the client takes; asked again it would be, too.
    #[error("the reply has more than {bytes_max} bytes")]
    ReplyTooLong {
        /// The most that it may have.
        bytes_max: usize,
    },
    /// The lock under which the transaction was to commit is not held any more; nothing was changed.
    #[error("the lock is no longer held")]
    LockLost,
    /// The watch has ended and the session lives on: its events were not taken in time, somebody
    /// removed it, or a server did not take it over after a reconnect. Look again, and watch again.
    #[error("the watch has ended")]
    WatchEnded,
    /// The other side broke the protocol, or the connect string, a path or an expected version is none.
    #[error("{0}")]
    Protocol(String),
}

impl Error {
    fn new(kind: ErrorKind) -> Self {
        Self { kind, why: None, happened: None, part: None, source: None }
    }

    /// A failure, and what has led to it.
    pub(crate) fn because(kind: ErrorKind, why: impl Into<Arc<str>>) -> Self {
        Self { why: Some(why.into()), ..Self::new(kind) }
    }

    /// Returns what has led to it, or else what it is.
    pub(crate) fn cause(&self) -> String {
        self.source.as_ref().map_or_else(|| self.to_string(), ToString::to_string)
    }

    /// The failure of a request that was never sent.
    pub(crate) fn unsent(kind: ErrorKind) -> Self {
        Self { happened: Some(false), ..Self::new(kind) }
    }

    /// The failure of a request that was sent and not answered.
    pub(crate) fn unanswered(kind: ErrorKind) -> Self {
        Self { happened: Some(true), ..Self::new(kind) }
    }

    /// Returns this failure as one after which a write may have taken effect, if an earlier attempt
    /// at the same write is in doubt. Otherwise returns it as it is.
    pub(crate) fn with_doubt(self, in_doubt: bool) -> Self {
        let happened = if in_doubt { Some(true) } else { self.happened };
        Self { happened, ..self }
    }

    /// The failure of a request that was answered, but not with what answers it.
    pub(crate) fn unexpected(reply: &Reply) -> Self {
        let why = format!("unexpected reply: {reply:?}");
        Self { happened: Some(true), ..Self::new(ErrorKind::Protocol(why)) }
    }

    /// The failure of a transaction by one of its parts.
    pub(crate) fn of_part(kind: ErrorKind, part: usize) -> Self {
        Self { part: Some(part), ..Self::new(kind) }
    }

    /// What kind of failure it is.
    pub fn kind(&self) -> &ErrorKind {
        &self.kind
    }

    /// The server's error code, if a server answered one.
    pub fn code(&self) -> Option<ErrorCode> {
        match self.kind {
            ErrorKind::Server(code) => Some(code),
            ErrorKind::ConnectionLoss
            | ErrorKind::SessionExpired
            | ErrorKind::AuthFailed
            | ErrorKind::Closed
            | ErrorKind::Timeout(_)
            | ErrorKind::RequestTooLong { .. }
            | ErrorKind::ReplyTooLong { .. }
            | ErrorKind::LockLost
            | ErrorKind::WatchEnded
            | ErrorKind::Protocol(_) => None,
        }
    }

    /// Which part of a transaction has failed, counted from 0 as the caller has added them.
    pub fn part(&self) -> Option<usize> {
        self.part
    }

    /// Whether a write may have taken effect although the call failed: a lost reply is not a
    /// failed write. A request that was never sent has no effect.
    pub fn may_have_happened(&self) -> bool {
        if let Some(happened) = self.happened {
            return happened;
        }
        match self.kind {
            ErrorKind::ConnectionLoss | ErrorKind::SessionExpired | ErrorKind::Closed => true,
            // The server does not know the outcome either.
            ErrorKind::Server(code) => matches!(
                code,
                ErrorCode::ConnectionLoss | ErrorCode::OperationTimeout | ErrorCode::RequestTimeout
            ),
            ErrorKind::AuthFailed
            | ErrorKind::Timeout(_)
            | ErrorKind::RequestTooLong { .. }
            | ErrorKind::ReplyTooLong { .. }
            | ErrorKind::LockLost
            | ErrorKind::WatchEnded
            | ErrorKind::Protocol(_) => false,
        }
    }

    /// Whether the session is over, so that a new client must be made.
    pub fn ends_session(&self) -> bool {
        match self.kind {
            ErrorKind::SessionExpired | ErrorKind::AuthFailed | ErrorKind::Closed => true,
            ErrorKind::Server(code) => code == ErrorCode::SessionExpired,
            ErrorKind::ConnectionLoss
            | ErrorKind::Timeout(_)
            | ErrorKind::RequestTooLong { .. }
            | ErrorKind::ReplyTooLong { .. }
            | ErrorKind::LockLost
            | ErrorKind::WatchEnded
            | ErrorKind::Protocol(_) => false,
        }
    }

    /// Whether the outcome is unknown, or no server carried the request out for now, and the session
    /// may live on: a request that does no harm twice may be repeated, after a wait. A write may have
    /// taken effect, see [`may_have_happened`](Self::may_have_happened).
    pub fn is_transient(&self) -> bool {
        match self.kind {
            ErrorKind::ConnectionLoss => true,
            ErrorKind::Server(code) => {
                matches!(
                    code,
                    ErrorCode::ConnectionLoss
                        | ErrorCode::OperationTimeout
                        | ErrorCode::RequestTimeout
                        | ErrorCode::SessionMoved
                        // Not carried out, for want of time.
                        | ErrorCode::ThrottledOp
                        // Not carried out: the server is cut off from its ensemble and serves reads.
                        | ErrorCode::NotReadOnly
                )
            }
            ErrorKind::SessionExpired
            | ErrorKind::AuthFailed
            | ErrorKind::Closed
            | ErrorKind::Timeout(_)
            | ErrorKind::RequestTooLong { .. }
            | ErrorKind::ReplyTooLong { .. }
            | ErrorKind::LockLost
            | ErrorKind::WatchEnded
            | ErrorKind::Protocol(_) => false,
        }
    }
}

impl From<ErrorKind> for Error {
    fn from(kind: ErrorKind) -> Self {
        Self::new(kind)
    }
}

impl From<ErrorCode> for Error {
    fn from(code: ErrorCode) -> Self {
        Self::new(ErrorKind::Server(code))
    }
}

impl From<DecodeError> for Error {
    fn from(source: DecodeError) -> Self {
        let kind = ErrorKind::Protocol(format!("a reply does not decode: {source}"));
        // Something was answered: who knows what.
        Self { happened: Some(true), source: Some(Box::new(source)), ..Self::new(kind) }
    }
}

impl From<io::Error> for Error {
    fn from(source: io::Error) -> Self {
        Self { source: Some(Box::new(source)), ..Self::new(ErrorKind::ConnectionLoss) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_that_was_never_sent_has_no_effect() {
        assert!(Error::from(ErrorKind::ConnectionLoss).may_have_happened());
        assert!(Error::from(ErrorKind::SessionExpired).may_have_happened());
        let unsent = Error::unsent(ErrorKind::SessionExpired);
        assert!(!unsent.may_have_happened() && unsent.ends_session());
    }

    #[test]
    fn a_refusal_has_no_effect_unless_the_server_does_not_know() {
        assert!(!Error::from(ErrorCode::NodeExists).may_have_happened());
        assert!(Error::from(ErrorCode::RequestTimeout).may_have_happened());
        assert!(Error::unexpected(&Reply::Empty).may_have_happened());
        assert!(Error::from(DecodeError::UnknownOp(9)).may_have_happened());
        assert!(!Error::from(ErrorKind::Protocol("no path".into())).may_have_happened());
    }

    #[test]
    fn what_ends_a_session_or_is_refused_is_not_transient() {
        for kind in [ErrorKind::SessionExpired, ErrorKind::AuthFailed, ErrorKind::Closed] {
            assert!(!Error::from(kind).is_transient());
        }
        assert!(!Error::from(ErrorCode::SessionExpired).is_transient());
        assert!(!Error::from(ErrorCode::NoNode).is_transient());
        assert!(Error::from(ErrorKind::ConnectionLoss).is_transient());
        assert!(Error::from(ErrorCode::SessionMoved).is_transient());
    }

    #[test]
    fn the_code_of_an_expired_session_ends_it() {
        let error = Error::from(ErrorCode::SessionExpired);
        assert_eq!(error.code(), Some(ErrorCode::SessionExpired));
        assert!(error.ends_session() && !error.may_have_happened());
        assert!(!Error::from(ErrorCode::SessionMoved).ends_session());
    }
}
