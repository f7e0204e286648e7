//! Creating and deleting znodes (protocol §2.1, §2.2).

use bytes::Bytes;

use crate::wire::record;
use crate::{Acl, DecodeError};

/// What kind of znode a create makes: the meaning of its flags.
///
/// Exhaustive on purpose: a server has to decide about a new mode, and a client which operation
/// carries it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(i32)]
pub enum CreateMode {
    /// Stays until it is deleted.
    Persistent = 0,
    /// Deleted when the session that created it ends.
    Ephemeral = 1,
    /// Persistent, with a number appended to its name.
    PersistentSequential = 2,
    /// Ephemeral, with a number appended to its name.
    EphemeralSequential = 3,
    /// Deleted some time after its last child.
    Container = 4,
    /// Deleted when it has had no child and no write for its time to live.
    PersistentWithTtl = 5,
    /// The same, with a number appended to its name.
    PersistentSequentialWithTtl = 6,
}

impl CreateMode {
    /// The mode of the flags on the wire; others are answered with −8.
    pub const fn from_flags(flags: i32) -> Option<Self> {
        match flags {
            0 => Some(Self::Persistent),
            1 => Some(Self::Ephemeral),
            2 => Some(Self::PersistentSequential),
            3 => Some(Self::EphemeralSequential),
            4 => Some(Self::Container),
            5 => Some(Self::PersistentWithTtl),
            6 => Some(Self::PersistentSequentialWithTtl),
            _ => None,
        }
    }

    /// Whether the session's end deletes the znode.
    pub const fn is_ephemeral(self) -> bool {
        matches!(self, Self::Ephemeral | Self::EphemeralSequential)
    }

    /// Whether a number is appended to the name.
    pub const fn is_sequential(self) -> bool {
        matches!(
            self,
            Self::PersistentSequential
                | Self::EphemeralSequential
                | Self::PersistentSequentialWithTtl
        )
    }

    /// Whether the znode has a time to live.
    pub const fn is_ttl(self) -> bool {
        matches!(self, Self::PersistentWithTtl | Self::PersistentSequentialWithTtl)
    }
}

record! {
    /// Body of `create`, `create2` and `createContainer`.
    pub struct CreateRequest {
        /// The path, without the number that a sequential mode appends.
        pub path: String,
        /// The data; null and empty are different values.
        pub data: Option<Bytes>,
        /// The ACL; null is answered with −114.
        pub acl: Option<Vec<Acl>>,
        /// The mode; see [`CreateMode::from_flags`].
        pub flags: i32,
    }
}

record! {
    /// Body of `createTTL`.
    pub struct CreateTtlRequest {
        /// The path, without the number that a sequential mode appends.
        pub path: String,
        /// The data; null and empty are different values.
        pub data: Option<Bytes>,
        /// The ACL; null is answered with −114.
        pub acl: Option<Vec<Acl>>,
        /// The mode; see [`CreateMode::from_flags`].
        pub flags: i32,
        /// The time to live in milliseconds, 1 to 2⁴⁰ − 1 (protocol §11.2).
        pub ttl_ms: i64,
    }
}

record! {
    /// Body of `delete`, and of `check` inside a multi.
    pub struct PathVersionRequest {
        /// The path.
        pub path: String,
        /// The expected version; −1 for any.
        pub version: i32,
    }
}

/// Refuses flags that name no mode of the operation, as the servers since 3.9 do inside a multi
/// (protocol §10.1). A time to live goes with `createTTL` alone.
pub(crate) fn check_flags(flags: i32, has_ttl: bool) -> Result<(), DecodeError> {
    match CreateMode::from_flags(flags) {
        Some(mode) if has_ttl || !mode.is_ttl() => Ok(()),
        Some(_) | None => Err(DecodeError::UnknownValue { field: "flags", value: flags }),
    }
}

/// Refuses a null ACL inside a multi, where Apache fails to pass it on; at top level and in a
/// `createTTL` it is for the server to answer (protocol §9.4).
pub(crate) fn check_acl(is_there: bool) -> Result<(), DecodeError> {
    if is_there { Ok(()) } else { Err(DecodeError::Null { field: "acl" }) }
}
