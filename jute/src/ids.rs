//! The numbers of the protocol, each a type of its own.

use std::fmt;

use bytes::{Bytes, BytesMut};

use crate::{Decode, DecodeError, Encode};

/// A transaction id: the leader's epoch in the high half, a counter in the low (protocol §13.1).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Zxid(pub i64);

impl Zxid {
    /// The zxid of notifications that `setWatches` makes up, and of replies to unknown operations.
    pub const NONE: Self = Self(-1);

    /// A zxid of its two halves.
    pub const fn new(epoch: u32, counter: u32) -> Self {
        Self(((epoch as i64) << 32) | counter as i64)
    }

    /// The leader's epoch: the high half.
    #[allow(clippy::cast_sign_loss, clippy::cast_possible_truncation, reason = "the high half")]
    pub const fn epoch(self) -> u32 {
        (self.0 >> 32) as u32
    }

    /// The counter within the epoch: the low half.
    #[allow(clippy::cast_sign_loss, clippy::cast_possible_truncation, reason = "the low half")]
    pub const fn counter(self) -> u32 {
        self.0 as u32
    }
}

impl fmt::Display for Zxid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:#x}", self.0)
    }
}

/// The client's number of a request, echoed in its reply (protocol §1.5).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Xid(pub i32);

impl Xid {
    /// A watch event, from the server.
    pub const NOTIFICATION: Self = Self(-1);
    /// A ping and its reply, whatever the client sent.
    pub const PING: Self = Self(-2);
    /// An authentication, by the clients that do not number it.
    pub const AUTH: Self = Self(-4);
    /// A `setWatches`, by the clients that do not number it.
    pub const SET_WATCHES: Self = Self(-8);
}

impl fmt::Display for Xid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// A session's id; zero stands for none (protocol §7.1).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SessionId(pub i64);

impl SessionId {
    /// No session: in a `ConnectRequest` it asks for a new one.
    pub const NONE: Self = Self(0);
}

impl fmt::Display for SessionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:#x}", self.0)
    }
}

macro_rules! wire_as_inner {
    ($($name:ident($inner:ty)),*) => {$(
        impl Encode for $name {
            fn encode(&self, out: &mut BytesMut) {
                self.0.encode(out);
            }
        }

        impl Decode for $name {
            fn decode(input: &mut Bytes, field: &'static str) -> Result<Self, DecodeError> {
                <$inner>::decode(input, field).map(Self)
            }
        }
    )*};
}
wire_as_inner!(Zxid(i64), Xid(i32), SessionId(i64));
