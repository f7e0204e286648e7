//! A znode and its Stat (protocol §4).

use std::collections::BTreeSet;
use std::sync::Arc;

use bytes::Bytes;
use zoolet_jute::{Acl, SessionId, Stat, Zxid};

/// What ends a znode besides a delete.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Nothing.
    Persistent,
    /// The end of this session.
    Ephemeral(SessionId),
    /// The loss of its last child (protocol §11.1).
    Container,
    /// This many milliseconds without a write and without children (protocol §11.2).
    Ttl(i64),
}

impl Kind {
    /// The session that owns it, or [`SessionId::NONE`].
    pub fn owner(self) -> SessionId {
        match self {
            Self::Ephemeral(session) => session,
            Self::Persistent | Self::Container | Self::Ttl(_) => SessionId::NONE,
        }
    }
}

/// A znode.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Znode {
    /// Its data; null and empty differ.
    pub data: Option<Bytes>,
    /// Its ACL.
    pub acl: Arc<[Acl]>,
    /// What ends it.
    pub kind: Kind,
    /// The transaction that created it.
    pub czxid: Zxid,
    /// The last one that wrote its data.
    pub mzxid: Zxid,
    /// The last one that created or deleted a child.
    pub pzxid: Zxid,
    /// The time of `czxid`.
    pub ctime: i64,
    /// The time of `mzxid`.
    pub mtime: i64,
    /// How often its data was written.
    pub version: i32,
    /// How often its ACL was written.
    pub aversion: i32,
    /// How many children were ever created: the next sequential number (protocol §5).
    pub created: u32,
    /// The names of its children.
    pub children: BTreeSet<String>,
}

impl Znode {
    /// A built-in znode (protocol §6.2).
    pub(super) fn built_in(acl: Vec<Acl>) -> Self {
        Self {
            data: Some(Bytes::new()),
            acl: acl.into(),
            kind: Kind::Persistent,
            czxid: Zxid(0),
            mzxid: Zxid(0),
            pzxid: Zxid(0),
            ctime: 0,
            mtime: 0,
            version: 0,
            aversion: 0,
            created: 0,
            children: BTreeSet::new(),
        }
    }

    /// The length of its data.
    pub fn data_bytes(&self) -> i64 {
        self.data.as_ref().map_or(0, |data| i64::try_from(data.len()).unwrap_or(i64::MAX))
    }

    /// Its eleven numbers.
    pub fn stat(&self) -> Stat {
        let num_children = i32::try_from(self.children.len()).unwrap_or(i32::MAX);
        Stat {
            czxid: self.czxid,
            mzxid: self.mzxid,
            ctime: self.ctime,
            mtime: self.mtime,
            version: self.version,
            // Each create counts twice, and each child that is there is taken off: so a create adds
            // one, and a delete as well.
            cversion: self.created.wrapping_mul(2).cast_signed().wrapping_sub(num_children),
            aversion: self.aversion,
            ephemeral_owner: self.kind.owner(),
            data_length: i32::try_from(self.data_bytes()).unwrap_or(i32::MAX),
            num_children,
            pzxid: self.pzxid,
        }
    }
}
