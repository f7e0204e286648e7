//! The error codes that may stand on the wire (protocol §3).

use std::fmt;

use bytes::{BufMut, Bytes, BytesMut};

use crate::{Decode, DecodeError, Encode};

macro_rules! error_codes {
    ($($(#[$meta:meta])* $name:ident = $code:literal,)*) => {
        /// Why an operation was refused: a value in a reply, not a failure of the server.
        ///
        /// Clients look codes up in tables and break on others, so nothing outside this list is
        /// ever sent (protocol §3).
        ///
        /// Releases of `ZooKeeper` add codes, so a match needs an arm for others.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[non_exhaustive]
        #[repr(i32)]
        pub enum ErrorCode { $($(#[$meta])* $name = $code,)* }

        impl ErrorCode {
            /// Every code.
            pub const ALL: &[Self] = &[$(Self::$name,)*];

            /// The code of a number on the wire; `None` for zero (success) and unknown numbers.
            pub const fn from_i32(code: i32) -> Option<Self> {
                match code { $($code => Some(Self::$name),)* _ => None }
            }

            /// The name, as ZooKeeper's documentation writes it.
            pub const fn name(self) -> &'static str {
                match self { $(Self::$name => stringify!($name),)* }
            }
        }
    };
}

error_codes! {
    /// A range marker.
    SystemError = -1,
    /// A result of a multi behind the one that failed.
    RuntimeInconsistency = -2,
    /// Unused by servers.
    DataInconsistency = -3,
    /// Made by clients: the outcome is unknown.
    ConnectionLoss = -4,
    /// The body cannot be decoded.
    MarshallingError = -5,
    /// The operation does not exist, or is switched off.
    Unimplemented = -6,
    /// Made by clients.
    OperationTimeout = -7,
    /// A path, flag, TTL or configuration that breaks the rules.
    BadArguments = -8,
    /// Made by clients.
    InvalidState = -9,
    /// Internal to Apache's servers.
    UnknownSession = -12,
    /// The new configuration has no quorum in sync.
    NewConfigNoQuorum = -13,
    /// Another reconfiguration is under way.
    ReconfigInProgress = -14,
    /// A range marker: codes below it are the user's.
    ApiError = -100,
    /// The znode does not exist.
    NoNode = -101,
    /// The ACL denies it.
    NoAuth = -102,
    /// The version is not the expected one.
    BadVersion = -103,
    /// An ephemeral znode has no children.
    NoChildrenForEphemerals = -108,
    /// The znode exists.
    NodeExists = -110,
    /// The znode has children.
    NotEmpty = -111,
    /// The session has ended.
    SessionExpired = -112,
    /// Made by clients.
    InvalidCallback = -113,
    /// The ACL is empty or malformed.
    InvalidAcl = -114,
    /// The credentials were refused; the connection is closed behind it.
    AuthFailed = -115,
    /// Made by clients.
    Closing = -116,
    /// Made by clients.
    Nothing = -117,
    /// The session lives on another server; servers close the connection instead.
    SessionMoved = -118,
    /// A write on a read-only server.
    NotReadOnly = -119,
    /// An ephemeral znode on a local session.
    EphemeralOnLocalSession = -120,
    /// No such watch.
    NoWatcher = -121,
    /// Made by clients.
    RequestTimeout = -122,
    /// Reconfiguration is switched off.
    ReconfigDisabled = -123,
    /// The connection lacks the identity that the server demands; it is closed behind it.
    SessionClosedRequireSaslAuth = -124,
    /// A hard quota would be exceeded.
    QuotaExceeded = -125,
    /// The server is too busy; the operation was not executed.
    ThrottledOp = -127,
}

impl fmt::Display for ErrorCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({})", self.name(), *self as i32)
    }
}

/// The `err` field of headers: zero for success.
impl Encode for Option<ErrorCode> {
    fn encode(&self, out: &mut BytesMut) {
        out.put_i32(self.map_or(0, |code| code as i32));
    }
}

impl Decode for Option<ErrorCode> {
    fn decode(input: &mut Bytes, field: &'static str) -> Result<Self, DecodeError> {
        match i32::decode(input, field)? {
            0 => Ok(None),
            value => ErrorCode::from_i32(value)
                .map(Some)
                .ok_or(DecodeError::UnknownValue { field, value }),
        }
    }
}
