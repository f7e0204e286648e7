//! Reading and writing data, ACLs and the ensemble's configuration (protocol §2.3 to §2.9).

use bytes::Bytes;

use crate::Acl;
use crate::wire::record;

record! {
    /// Body of `exists`, `getData`, `getChildren` and `getChildren2`.
    pub struct PathWatchRequest {
        /// The path.
        pub path: String,
        /// Whether to register a one-shot watch in the same moment.
        pub watch: bool,
    }
}

record! {
    /// Body of `setData`.
    pub struct SetDataRequest {
        /// The path.
        pub path: String,
        /// The data; null and empty are different values.
        pub data: Option<Bytes>,
        /// The expected version; −1 for any.
        pub version: i32,
    }
}

record! {
    /// Body of `setACL`.
    pub struct SetAclRequest {
        /// The path.
        pub path: String,
        /// The ACL; null is answered with −114.
        pub acl: Option<Vec<Acl>>,
        /// The expected ACL version; −1 for any.
        pub version: i32,
    }
}

record! {
    /// Body of `getACL` and `getAllChildrenNumber`.
    pub struct PathRequest {
        /// The path.
        pub path: String,
    }
}

record! {
    /// Body of `sync` and `getEphemerals`, whose path may be null.
    pub struct NullablePathRequest {
        /// The path, or the prefix.
        pub path: Option<String>,
    }
}

record! {
    /// Body of `reconfig` (protocol §15.4).
    pub struct ReconfigRequest {
        /// Servers to add or replace, in the form of the configuration file.
        pub joining_servers: Option<String>,
        /// Ids of servers to remove.
        pub leaving_servers: Option<String>,
        /// The whole list, instead of the two.
        pub new_members: Option<String>,
        /// The expected version of the configuration; −1 for any.
        pub config_id: i64,
    }
}

record! {
    /// Body of `auth`.
    pub struct AuthPacket {
        /// Ignored by servers; zero.
        pub auth_type: i32,
        /// The scheme.
        pub scheme: Option<String>,
        /// The credentials, in the scheme's own form.
        pub auth: Option<Bytes>,
    }
}
