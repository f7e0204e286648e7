//! Registering, removing and delivering watches (protocol §8).

use bytes::{Bytes, BytesMut};

use crate::wire::record;
use crate::{Decode, DecodeError, Encode, Zxid};

/// Declares an enum whose numbers stand on the wire as an int.
macro_rules! wire_enum {
    ($(#[$meta:meta])* pub enum $name:ident { $($(#[$variant_meta:meta])* $variant:ident = $value:literal,)* }) => {
        $(#[$meta])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[repr(i32)]
        pub enum $name { $($(#[$variant_meta])* $variant = $value,)* }

        impl $name {
            /// The variant of a number on the wire.
            pub const fn from_i32(value: i32) -> Option<Self> {
                match value { $($value => Some(Self::$variant),)* _ => None }
            }
        }

        impl Encode for $name {
            fn encode(&self, out: &mut BytesMut) {
                (*self as i32).encode(out);
            }
        }

        impl Decode for $name {
            fn decode(input: &mut Bytes, field: &'static str) -> Result<Self, DecodeError> {
                let value = i32::decode(input, field)?;
                Self::from_i32(value).ok_or(DecodeError::UnknownValue { field, value })
            }
        }
    };
}

wire_enum! {
    /// What happened to a znode (protocol §8.2). Releases of `ZooKeeper` add types, so a match needs an
    /// arm for others.
    #[non_exhaustive]
    pub enum EventType {
        /// Only the session's state changed; made by clients.
        None = -1,
        /// The znode was created.
        NodeCreated = 1,
        /// The znode was deleted.
        NodeDeleted = 2,
        /// The znode's data was written.
        NodeDataChanged = 3,
        /// A child was created or deleted.
        NodeChildrenChanged = 4,
        /// Made by clients.
        DataWatchRemoved = 5,
        /// Made by clients.
        ChildWatchRemoved = 6,
        /// Made by clients.
        PersistentWatchRemoved = 7,
    }
}

wire_enum! {
    /// The client's connection, as events report it; servers always send `SyncConnected`.
    #[non_exhaustive]
    pub enum KeeperState {
        /// Deprecated.
        Unknown = -1,
        /// The connection is lost.
        Disconnected = 0,
        /// Deprecated.
        NoSyncConnected = 1,
        /// Connected.
        SyncConnected = 3,
        /// The credentials were refused.
        AuthFailed = 4,
        /// Connected to a read-only server.
        ConnectedReadOnly = 5,
        /// Authenticated by SASL.
        SaslAuthenticated = 6,
        /// Closed by the client.
        Closed = 7,
        /// The session has ended.
        Expired = -112,
    }
}

wire_enum! {
    /// How an `addWatch` watches (protocol §2.13). Exhaustive on purpose: a server has to decide what
    /// a new mode does.
    pub enum AddWatchMode {
        /// The znode and its children's coming and going, until removed.
        Persistent = 0,
        /// The znode and everything below it, until removed.
        PersistentRecursive = 1,
    }
}

wire_enum! {
    /// Which watches `checkWatches` and `removeWatches` mean (protocol §2.10). Exhaustive on purpose,
    /// as [`AddWatchMode`] is.
    pub enum WatcherType {
        /// One-shot child watches.
        Children = 1,
        /// One-shot data and exist watches.
        Data = 2,
        /// All of them.
        Any = 3,
        /// Persistent watches.
        Persistent = 4,
        /// Persistent recursive watches.
        PersistentRecursive = 5,
    }
}

record! {
    /// Body of a notification.
    pub struct WatcherEvent {
        /// What happened.
        pub event_type: EventType,
        /// Always `SyncConnected` from a server.
        pub state: KeeperState,
        /// The znode it happened to.
        pub path: String,
    }
}

record! {
    /// Body of `setWatches`.
    pub struct SetWatchesRequest {
        /// The newest zxid that the client has seen.
        pub relative_zxid: Zxid,
        /// Paths of data watches.
        pub data_watches: Vec<String>,
        /// Paths of exist watches.
        pub exist_watches: Vec<String>,
        /// Paths of child watches.
        pub child_watches: Vec<String>,
    }
}

record! {
    /// Body of `setWatches2`.
    pub struct SetWatches2Request {
        /// The newest zxid that the client has seen.
        pub relative_zxid: Zxid,
        /// Paths of data watches.
        pub data_watches: Vec<String>,
        /// Paths of exist watches.
        pub exist_watches: Vec<String>,
        /// Paths of child watches.
        pub child_watches: Vec<String>,
        /// Paths of persistent watches.
        pub persistent_watches: Vec<String>,
        /// Paths of persistent recursive watches.
        pub persistent_recursive_watches: Vec<String>,
    }
}

impl From<SetWatchesRequest> for SetWatches2Request {
    fn from(old: SetWatchesRequest) -> Self {
        Self {
            relative_zxid: old.relative_zxid,
            data_watches: old.data_watches,
            exist_watches: old.exist_watches,
            child_watches: old.child_watches,
            persistent_watches: Vec::new(),
            persistent_recursive_watches: Vec::new(),
        }
    }
}

record! {
    /// Body of `addWatch`.
    pub struct AddWatchRequest {
        /// The path; it need not exist.
        pub path: String,
        /// How to watch.
        pub mode: AddWatchMode,
    }
}

record! {
    /// Body of `checkWatches` and `removeWatches`.
    pub struct WatchesRequest {
        /// The path.
        pub path: String,
        /// Which watches.
        pub watcher_type: WatcherType,
    }
}
