//! Reading and writing data, ACLs and the ensemble's configuration (protocol §2.3 to §2.9).

use std::fmt;

use bytes::{Bytes, BytesMut};

use crate::wire::record;
use crate::{Acl, Decode, DecodeError, Encode};

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

/// Body of `auth`.
#[derive(Clone, PartialEq, Eq)]
pub struct AuthPacket {
    /// Ignored by servers; zero.
    pub auth_type: i32,
    /// The scheme.
    pub scheme: Option<String>,
    /// The credentials, in the scheme's own form.
    pub auth: Option<Bytes>,
}

/// Without the credentials.
impl fmt::Debug for AuthPacket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AuthPacket").field("scheme", &self.scheme).finish_non_exhaustive()
    }
}

impl Encode for AuthPacket {
    fn encode(&self, out: &mut BytesMut) {
        self.auth_type.encode(out);
        self.scheme.encode(out);
        self.auth.encode(out);
    }
}

impl Decode for AuthPacket {
    fn decode(input: &mut Bytes, _: &'static str) -> Result<Self, DecodeError> {
        Ok(Self {
            auth_type: Decode::decode(input, "auth_type")?,
            scheme: Decode::decode(input, "scheme")?,
            auth: Decode::decode(input, "auth")?,
        })
    }
}
