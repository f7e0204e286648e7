//! Why a connection ends.

use std::io;

use thiserror::Error;
use zoolet_jute::{DecodeError, SessionId};

/// Why a connection ends; one line at debug level where it does, for most are the client's doing.
#[derive(Debug, Error)]
pub(super) enum ConnectionError {
    /// The client broke the protocol.
    #[error("the client sent a bad frame: {0}")]
    Decode(#[from] DecodeError),
    /// The client sent a longer frame than is taken.
    #[error(
        "session {session}: a request of {bytes} bytes, and the limit is {bytes_max} \
         (frame_bytes_max, jute.maxbuffer); it was not read"
    )]
    RequestTooLong {
        /// The client's session.
        session: SessionId,
        /// The length that the client has announced.
        bytes: usize,
        /// The most that is taken.
        bytes_max: usize,
    },
    /// The network, or the client's end of it.
    #[error("the socket failed: {0}")]
    Io(#[from] io::Error),
    /// The client begins with TLS where it is not spoken.
    #[error("TLS hello on the plain port: the client wants TLS, which secureClientPort has")]
    TlsHello,
    /// TLS fails.
    #[error(transparent)]
    Tls(zoolet_tls::HandshakeError),
    /// The certificate of the client has no name.
    #[error("{0}")]
    Certificate(String),
    /// The client was silent for longer than its session timeout allows.
    #[error("nothing was received for {0} ms")]
    Idle(u64),
    /// The client does not read what it is sent.
    #[error("the client does not read")]
    SlowReader,
    /// The client does not read, or does not send all of a request, and a limit is reached.
    #[error("the client is too slow, and {0} is reached")]
    Evicted(&'static str),
    /// The client asked for more than one reply can hold.
    #[error("a reply would be longer than outbox_bytes_max and 16 MiB")]
    ReplyTooLong,
    /// The client did not send its handshake in time.
    #[error("no handshake within {0} ms")]
    HandshakeTimeout(u64),
    /// The connection has given way to another: too many handshakes are unfinished.
    #[error(
        "too many connections without a session: this one had the most from its address, or had \
         its time (handshakes_max, tls_handshakes_max, connections_max)"
    )]
    GaveWay,
    /// The commands that wait to be proposed fill their queue.
    #[error("the queue of proposals was full for {0} ms")]
    Busy(u64),
    /// This server does not serve now.
    #[error("this server has no leader to follow")]
    NotServing,
}

impl ConnectionError {
    /// The reason of a connection that ends with its handshake: the session has expired, a limit is
    /// reached, or the client has seen more than this server.
    pub(super) const NOT_ACCEPTED: &'static str = "not_accepted";

    /// Every result of [`Self::reason`], and [`Self::NOT_ACCEPTED`].
    pub(super) const REASONS: [&'static str; 14] = [
        Self::NOT_ACCEPTED,
        "bad_frame",
        "request_too_long",
        "socket",
        "tls",
        "certificate",
        "idle",
        "slow_reader",
        "limit",
        "reply_too_long",
        "handshake_timeout",
        "gave_way",
        "proposals_full",
        "not_serving",
    ];

    /// Returns the reason as metrics name it.
    pub(super) fn reason(&self) -> &'static str {
        match self {
            Self::Decode(_) => "bad_frame",
            Self::RequestTooLong { .. } => "request_too_long",
            Self::Io(_) => "socket",
            Self::TlsHello | Self::Tls(_) => "tls",
            Self::Certificate(_) => "certificate",
            Self::Idle(_) => "idle",
            Self::SlowReader => "slow_reader",
            Self::Evicted(_) => "limit",
            Self::ReplyTooLong => "reply_too_long",
            Self::HandshakeTimeout(_) => "handshake_timeout",
            Self::GaveWay => "gave_way",
            Self::Busy(_) => "proposals_full",
            Self::NotServing => "not_serving",
        }
    }

    /// Returns the kind of a fault that the operator of the client has to mend, and would not find
    /// out from the client alone.
    pub(super) fn warned_as(&self) -> Option<&'static str> {
        if let Self::TlsHello = self {
            Some("hello")
        } else if let Self::Tls(error) = self {
            Some(error.kind())
        } else if let Self::GaveWay = self {
            Some("gave way")
        } else if let Self::Certificate(_) = self {
            Some("unreadable certificate")
        } else if let Self::RequestTooLong { .. } = self {
            Some("request too long")
        } else if matches!(self, Self::SlowReader | Self::ReplyTooLong | Self::Busy(_)) {
            Some(self.reason())
        } else {
            None
        }
    }

    /// Whether the client may still read what was written to it.
    pub(super) fn leaves_a_reader(&self) -> bool {
        match self {
            Self::Decode(_)
            | Self::RequestTooLong { .. }
            | Self::Idle(_)
            | Self::ReplyTooLong
            | Self::NotServing
            | Self::Busy(_) => true,
            Self::Io(_)
            | Self::SlowReader
            | Self::Evicted(_)
            | Self::HandshakeTimeout(_)
            | Self::GaveWay
            | Self::TlsHello
            | Self::Tls(_)
            | Self::Certificate(_) => false,
        }
    }
}

impl From<zoolet_tls::HandshakeError> for ConnectionError {
    /// A socket that fails is the same with TLS and without.
    fn from(error: zoolet_tls::HandshakeError) -> Self {
        if let zoolet_tls::HandshakeError::Io(error) = error {
            Self::Io(error)
        } else {
            Self::Tls(error)
        }
    }
}
