//! Access control lists and identities (protocol §9).

use crate::wire::record;

/// The permission bits (protocol §9.1); the wire does not restrict the number to them.
pub mod perms {
    /// Read the data, the children, the Stat.
    pub const READ: i32 = 1;
    /// Write the data.
    pub const WRITE: i32 = 2;
    /// Create a child.
    pub const CREATE: i32 = 4;
    /// Delete a child.
    pub const DELETE: i32 = 8;
    /// Write the ACL.
    pub const ADMIN: i32 = 16;
    /// All of them.
    pub const ALL: i32 = 31;
}

record! {
    /// Who: a scheme and an id within it. Either can be null on the wire: kazoo sends null for "".
    #[derive(Default, PartialOrd, Ord, Hash)]
    pub struct Id {
        /// `world`, `ip`, `digest`, `auth`, …
        pub scheme: Option<String>,
        /// The identity, in the scheme's own form.
        pub id: Option<String>,
    }
}

impl Id {
    /// What it takes on the wire, in bytes.
    pub fn encoded_bytes(&self) -> usize {
        let text = |text: &Option<String>| size_of::<i32>() + text.as_ref().map_or(0, String::len);
        text(&self.scheme) + text(&self.id)
    }

    /// An identity of its two parts.
    pub fn new(scheme: impl Into<String>, id: impl Into<String>) -> Self {
        Self { scheme: Some(scheme.into()), id: Some(id.into()) }
    }
}

record! {
    /// One entry of an ACL: what one identity may do.
    #[derive(PartialOrd, Ord, Hash)]
    pub struct Acl {
        /// The permission bits; see [`perms`].
        pub perms: i32,
        /// Whom they are given.
        pub id: Id,
    }
}

impl Acl {
    /// The ACL that allows everything to everyone: `world:anyone` with all permissions.
    pub fn open() -> Vec<Self> {
        vec![Self { perms: perms::ALL, id: Id::new("world", "anyone") }]
    }
}

record! {
    /// An identity of a connection, as `whoAmI` answers it.
    pub struct ClientInfo {
        /// The scheme.
        pub auth_scheme: String,
        /// The user, without its secret.
        pub user: String,
    }
}
