//! Why a connection ends.

use std::io;

use thiserror::Error;
use zoolet_jute::DecodeError;

/// Why a connection ends; one line at debug level where it does, for most are the client's doing.
#[derive(Debug, Error)]
pub(super) enum ConnectionError {
    /// The client broke the protocol.
    #[error("the client sent a bad frame: {0}")]
    Decode(#[from] DecodeError),
    /// The network, or the client's end of it.
    #[error("the socket failed: {0}")]
    Io(#[from] io::Error),
    /// The client was silent for longer than its session timeout allows.
    #[error("nothing was received for {0} ms")]
    Idle(u64),
    /// The client does not read what it is sent.
    #[error("the client does not read")]
    SlowReader,
    /// The client asked for more than one reply can hold.
    #[error("a reply would be longer than outbox_bytes_max and 16 MiB")]
    ReplyTooLong,
    /// The client did not send its handshake in time.
    #[error("no handshake within {0} ms")]
    HandshakeTimeout(u64),
    /// The commands that wait to be proposed fill their queue.
    #[error("the queue of proposals was full for {0} ms")]
    Busy(u64),
    /// This server does not serve now.
    #[error("this server has no leader to follow")]
    NotServing,
}

impl ConnectionError {
    /// Whether the client may still read what was written to it.
    pub(super) fn leaves_a_reader(&self) -> bool {
        match self {
            Self::Decode(_)
            | Self::Idle(_)
            | Self::ReplyTooLong
            | Self::NotServing
            | Self::Busy(_) => true,
            Self::Io(_) | Self::SlowReader | Self::HandshakeTimeout(_) => false,
        }
    }
}
