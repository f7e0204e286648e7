//! How a connection ends.

use std::io;

use super::SessionState;
use crate::{Error, ErrorKind};

/// Why a connection ended.
#[derive(Debug)]
pub(crate) enum End {
    /// It broke: find another server.
    Lost(Error),
    /// The session is over.
    Over(SessionState),
}

impl End {
    /// The server broke the protocol.
    pub(crate) fn protocol(why: &str) -> Self {
        Self::Lost(ErrorKind::Protocol(why.to_owned()).into())
    }
}

impl From<Error> for End {
    fn from(error: Error) -> Self {
        Self::Lost(error)
    }
}

impl From<io::Error> for End {
    fn from(error: io::Error) -> Self {
        Self::Lost(error.into())
    }
}
