//! The operation codes (protocol §2).

use std::fmt;

macro_rules! op_codes {
    ($($(#[$meta:meta])* $name:ident = $code:literal,)*) => {
        /// What a request asks for.
        ///
        /// Exhaustive on purpose, as [`Request`](crate::Request) and [`Reply`](crate::Reply) are: a
        /// server has to decide about a new operation, and must not compile until it has.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[repr(i32)]
        pub enum OpCode { $($(#[$meta])* $name = $code,)* }

        impl OpCode {
            /// Every operation.
            pub const ALL: &[Self] = &[$(Self::$name,)*];

            /// The operation of a number on the wire.
            pub const fn from_i32(code: i32) -> Option<Self> {
                match code { $($code => Some(Self::$name),)* _ => None }
            }

            /// The name.
            pub const fn name(self) -> &'static str {
                match self { $(Self::$name => stringify!($name),)* }
            }
        }
    };
}

op_codes! {
    /// A watch event, from the server.
    Notification = 0,
    /// Create a znode, answer its path.
    Create = 1,
    /// Delete a znode.
    Delete = 2,
    /// Read a Stat.
    Exists = 3,
    /// Read data and Stat.
    GetData = 4,
    /// Write data.
    SetData = 5,
    /// Read the ACL.
    GetAcl = 6,
    /// Write the ACL.
    SetAcl = 7,
    /// List the children.
    GetChildren = 8,
    /// Wait for everything committed before.
    Sync = 9,
    /// Keep the session alive.
    Ping = 11,
    /// List the children, with the Stat.
    GetChildren2 = 12,
    /// Compare a version, inside a multi.
    Check = 13,
    /// A transaction of writes.
    Multi = 14,
    /// Create a znode, answer its path and Stat.
    Create2 = 15,
    /// Change the ensemble.
    Reconfig = 16,
    /// Ask whether a watch is registered.
    CheckWatches = 17,
    /// Remove watches.
    RemoveWatches = 18,
    /// Create a container.
    CreateContainer = 19,
    /// Internal: reap a container or TTL znode.
    DeleteContainer = 20,
    /// Create a znode with a time to live.
    CreateTtl = 21,
    /// Several reads in one.
    MultiRead = 22,
    /// Authenticate the connection.
    Auth = 100,
    /// Register watches anew after a reconnect.
    SetWatches = 101,
    /// A SASL token.
    Sasl = 102,
    /// List the session's ephemeral znodes.
    GetEphemerals = 103,
    /// Count all descendants.
    GetAllChildrenNumber = 104,
    /// Register watches anew, persistent ones as well.
    SetWatches2 = 105,
    /// Register a persistent watch.
    AddWatch = 106,
    /// List the connection's identities.
    WhoAmI = 107,
    /// Internal: begin a session.
    CreateSession = -10,
    /// End the session.
    CloseSession = -11,
    /// Internal, and the marker of errors in the results of a multi.
    Error = -1,
}

impl fmt::Display for OpCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
