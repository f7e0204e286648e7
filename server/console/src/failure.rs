//! Why a request is not carried out: a status, a text for a person, and what a page needs to go on.

use hyper::StatusCode;
use serde_json::{Map, Value};
use zoolet_client::{Error, ErrorCode, ErrorKind};
use zoolet_survey::reader::ReadError;

/// A refusal.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Failure {
    pub(crate) status: StatusCode,
    /// What happened, to what and why.
    pub(crate) error: String,
    /// What a page shows beside it.
    pub(crate) more: Map<String, Value>,
}

impl Failure {
    pub(crate) fn new(status: StatusCode, error: impl Into<String>) -> Self {
        Self { status, error: error.into(), more: Map::new() }
    }

    /// The request is malformed.
    pub(crate) fn invalid(error: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, error)
    }

    /// Somebody was faster.
    pub(crate) fn conflict(error: impl Into<String>) -> Self {
        Self::new(StatusCode::CONFLICT, error)
    }

    /// The console or the ensemble cannot do it now.
    pub(crate) fn unavailable(error: impl Into<String>) -> Self {
        Self::new(StatusCode::SERVICE_UNAVAILABLE, error)
    }

    /// Adds a value for the page.
    #[must_use]
    pub(crate) fn with(mut self, name: &str, value: impl Into<Value>) -> Self {
        self.more.insert(name.to_owned(), value.into());
        self
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        Self::new(status_of(&error), error.to_string())
            .with("code", error.code().map(ErrorCode::name))
            .with("mayHaveHappened", error.may_have_happened())
    }
}

impl From<ReadError> for Failure {
    fn from(error: ReadError) -> Self {
        match error {
            ReadError::Failed { error, .. } => Self::from(error),
            ReadError::Late { .. } => Self::unavailable(error.to_string()),
        }
    }
}

#[allow(
    clippy::wildcard_enum_match_arm,
    reason = "most codes of servers are of no meaning to a page but for their text"
)]
fn status_of(error: &Error) -> StatusCode {
    match error.kind() {
        ErrorKind::Server(code) => match code {
            ErrorCode::NoNode => StatusCode::NOT_FOUND,
            ErrorCode::NoAuth => StatusCode::FORBIDDEN,
            ErrorCode::BadVersion | ErrorCode::NodeExists | ErrorCode::NotEmpty => {
                StatusCode::CONFLICT
            }
            ErrorCode::BadArguments | ErrorCode::InvalidAcl => StatusCode::BAD_REQUEST,
            ErrorCode::Unimplemented => StatusCode::NOT_IMPLEMENTED,
            _ => StatusCode::SERVICE_UNAVAILABLE,
        },
        ErrorKind::RequestTooLong { .. } | ErrorKind::ReplyTooLong { .. } => {
            StatusCode::PAYLOAD_TOO_LARGE
        }
        ErrorKind::Protocol(_) => StatusCode::BAD_REQUEST,
        _ => StatusCode::SERVICE_UNAVAILABLE,
    }
}
