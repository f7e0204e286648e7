//! The eleven numbers of a znode (protocol §4).

use crate::wire::record;
use crate::{SessionId, Zxid};

record! {
    /// A znode's Stat, in wire order; 68 bytes.
    #[derive(Copy, Default)]
    pub struct Stat {
        /// The transaction that created the znode.
        pub czxid: Zxid,
        /// The transaction that last wrote its data.
        pub mzxid: Zxid,
        /// When it was created, milliseconds since 1970 by the proposer's clock.
        pub ctime: i64,
        /// When its data was last written, likewise.
        pub mtime: i64,
        /// How many times its data was written.
        pub version: i32,
        /// How many times a child was created or deleted.
        pub cversion: i32,
        /// How many times its ACL was written.
        pub aversion: i32,
        /// The session whose end deletes it; none for all but ephemeral znodes.
        pub ephemeral_owner: SessionId,
        /// The bytes of its data.
        pub data_length: i32,
        /// The number of its children.
        pub num_children: i32,
        /// The transaction that last created or deleted a child.
        pub pzxid: Zxid,
    }
}
