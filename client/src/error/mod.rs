//! What can go wrong, sorted by what the caller can do about it.

mod concerning;
mod meaning;

use std::fmt;
use std::io;
use std::sync::Arc;

use thiserror::Error;
use zoolet_jute::{DecodeError, ErrorCode, OpCode, Reply};

pub(crate) use self::concerning::Concerning;

/// What a failure comes from, which several calls may share.
pub(crate) type Cause = Arc<dyn std::error::Error + Send + Sync>;

/// A failed call: what was asked for, what has failed, and why.
///
/// Its text is one line with all of that, such as `create /a/b: the znode exists (NodeExists)`, and
/// contains the text of its [`source`](std::error::Error::source). For decisions there are
/// [`kind`](Self::kind), [`code`](Self::code) and the others.
#[derive(Debug)]
pub struct Error {
    kind: ErrorKind,
    /// Empty for a failure outside of a call, as that of a first connection.
    concerning: Option<Box<Concerning>>,
    /// What has led to it, for people.
    why: Option<Arc<str>>,
    /// Whether a write may have taken effect, where that is known better than by the kind.
    happened: Option<bool>,
    part: Option<usize>,
    source: Option<Cause>,
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(part) = self.part {
            write!(f, "part {part} of a transaction: ")?;
        }
        if let Some(concerning) = &self.concerning {
            write!(f, "{concerning}")?;
        }
        write!(f, "{}", self.kind)?;
        match self.why.as_deref() {
            Some(why) if !why.is_empty() => write!(f, ": {why}"),
            Some(_) | None => Ok(()),
        }
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.source.as_ref().map(|source| source.as_ref() as &(dyn std::error::Error + 'static))
    }
}

/// The text of a server's refusal: what it means, and its name.
struct Refusal(ErrorCode);

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match meaning::meaning(self.0) {
            Some(meaning) => write!(f, "{meaning} ({})", self.0.name()),
            None => write!(f, "the server answered {}", self.0),
        }
    }
}

/// The kinds of failure.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum ErrorKind {
    /// The server refused the operation; nothing was changed.
    #[error("{}", Refusal(*.0))]
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
        Self { kind, concerning: None, why: None, happened: None, part: None, source: None }
    }

    /// The failure of a call on a connection that was lost for this reason.
    pub(crate) fn lost(why: Arc<str>, source: Option<Cause>) -> Self {
        Self { why: Some(why), source, ..Self::new(ErrorKind::ConnectionLoss) }
    }

    /// Returns this failure with what was asked for, unless that is known already.
    pub(crate) fn concerning(self, concerning: impl FnOnce() -> Concerning) -> Self {
        let concerning = self.concerning.unwrap_or_else(|| Box::new(concerning()));
        Self { concerning: Some(concerning), ..self }
    }

    /// Returns this failure with the path that it concerns, unless it has one.
    pub(crate) fn at(self, path: &str) -> Self {
        self.concerning(|| Concerning::path(path))
    }

    /// A failure, and what has led to it.
    pub(crate) fn because(kind: ErrorKind, why: impl Into<Arc<str>>) -> Self {
        Self { why: Some(why.into()), ..Self::new(kind) }
    }

    /// Returns what has led to it, or else what it is.
    pub(crate) fn cause(&self) -> String {
        self.source.as_ref().map_or_else(|| self.to_string(), ToString::to_string)
    }

    /// Returns the error of a layer below that has led to it.
    pub(crate) fn shared_source(&self) -> Option<Cause> {
        self.source.clone()
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

    /// The operation that has failed, of a part if it was one [of a transaction](Self::part). `None`
    /// for what is not the failure of a request: the first connection, a watch that has ended.
    pub fn operation(&self) -> Option<OpCode> {
        self.concerning.as_ref().and_then(|concerning| concerning.operation)
    }

    /// The path that the failure concerns, as the caller writes it, behind the chroot. Of a lock the
    /// path of its znode.
    pub fn path(&self) -> Option<&str> {
        self.concerning.as_ref().and_then(|concerning| concerning.path.as_deref())
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
        Self { happened: Some(true), source: Some(Arc::new(source)), ..Self::new(kind) }
    }
}

impl From<io::Error> for Error {
    fn from(source: io::Error) -> Self {
        let why: Arc<str> = source.to_string().into();
        Self::lost(why, Some(Arc::new(source)))
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
    fn a_failure_says_what_was_asked_for_what_has_failed_and_why() {
        let asked =
            || Concerning { operation: Some(OpCode::Create2), path: Some("/a/b".to_owned()) };
        let refused = Error::from(ErrorCode::NodeExists).concerning(asked);
        assert_eq!(refused.to_string(), "create /a/b: the znode exists (NodeExists)");
        assert_eq!((refused.operation(), refused.path()), (Some(OpCode::Create2), Some("/a/b")));
        assert!(std::error::Error::source(&refused).is_none(), "the code is all there is");

        let broken = io::Error::new(io::ErrorKind::ConnectionReset, "reset by the test");
        let lost = Error::from(broken).concerning(asked).at("/other");
        let text = "create /a/b: the connection was lost before the reply came: reset by the test";
        assert_eq!(lost.to_string(), text);
        let source = std::error::Error::source(&lost).unwrap().downcast_ref::<io::Error>();
        assert_eq!(source.unwrap().kind(), io::ErrorKind::ConnectionReset);
        let shared = Error::lost("why".into(), lost.shared_source());
        assert!(std::error::Error::source(&shared).is_some());
    }

    #[test]
    fn every_code_of_a_server_has_words() {
        let made_by_clients_or_internal = [
            ErrorCode::SystemError,
            ErrorCode::DataInconsistency,
            ErrorCode::InvalidState,
            ErrorCode::UnknownSession,
            ErrorCode::ApiError,
            ErrorCode::InvalidCallback,
            ErrorCode::Closing,
            ErrorCode::Nothing,
        ];
        for code in ErrorCode::ALL {
            let is_left_out = made_by_clients_or_internal.contains(code);
            assert_eq!(meaning::meaning(*code).is_none(), is_left_out, "{code}");
            assert!(ErrorKind::Server(*code).to_string().contains(code.name()));
        }
    }

    #[test]
    fn the_code_of_an_expired_session_ends_it() {
        let error = Error::from(ErrorCode::SessionExpired);
        assert_eq!(error.code(), Some(ErrorCode::SessionExpired));
        assert!(error.ends_session() && !error.may_have_happened());
        assert!(!Error::from(ErrorCode::SessionMoved).ends_session());
    }
}
