//! What can go wrong, sorted by what the caller can do about it.

use std::io;

use thiserror::Error;
use zoolet_jute::{DecodeError, ErrorCode};

/// A failed call.
#[derive(Debug, Error)]
#[error("{kind}")]
pub struct Error {
    kind: ErrorKind,
    #[source]
    source: Option<Box<dyn std::error::Error + Send + Sync>>,
}

/// The kinds of failure.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
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
    /// The lock under which the transaction was to commit is not held any more; nothing was changed.
    #[error("the lock is no longer held")]
    LockLost,
    /// The server broke the protocol, or the call breaks a rule that the client knows.
    #[error("{0}")]
    Protocol(String),
}

impl Error {
    pub(crate) fn new(kind: ErrorKind) -> Self {
        Self { kind, source: None }
    }

    /// What kind of failure it is.
    pub fn kind(&self) -> &ErrorKind {
        &self.kind
    }

    /// The server's error code, if the server answered with one.
    pub fn code(&self) -> Option<ErrorCode> {
        match self.kind {
            ErrorKind::Server(code) => Some(code),
            ErrorKind::ConnectionLoss
            | ErrorKind::SessionExpired
            | ErrorKind::AuthFailed
            | ErrorKind::Closed
            | ErrorKind::Timeout(_)
            | ErrorKind::LockLost
            | ErrorKind::Protocol(_) => None,
        }
    }

    /// Whether a write may have taken effect although the call failed: a lost reply is not a
    /// failed write.
    pub fn may_have_happened(&self) -> bool {
        match self.kind {
            ErrorKind::ConnectionLoss | ErrorKind::SessionExpired | ErrorKind::Closed => true,
            ErrorKind::Server(_)
            | ErrorKind::AuthFailed
            | ErrorKind::Timeout(_)
            | ErrorKind::LockLost
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
            | ErrorKind::LockLost
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
        Self { kind, source: Some(Box::new(source)) }
    }
}

impl From<io::Error> for Error {
    fn from(source: io::Error) -> Self {
        Self { kind: ErrorKind::ConnectionLoss, source: Some(Box::new(source)) }
    }
}
