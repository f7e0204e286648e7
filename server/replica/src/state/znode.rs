//! One znode, as it is stored.

use zoolet_jute::{SessionId, Stat, Zxid};

use super::access::AclId;
use super::chunk::TextPlace;
use super::digest::Hasher;

/// The place of a znode in the arena. Places are local to a server: nothing that a client or
/// another server can see depends on them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct ZnodeId(pub(super) u32);

impl ZnodeId {
    /// The root is never moved nor deleted.
    pub(super) const ROOT: Self = Self(0);
}

/// What ends a znode's life.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Kind {
    /// A delete only.
    #[default]
    Persistent,
    /// The end of this session.
    Ephemeral(SessionId),
    /// The loss of its last child (protocol §11.1).
    Container,
    /// This many milliseconds without a child and a write (protocol §11.2).
    Ttl(i64),
}

impl Kind {
    /// Whether the leader's reaper looks after it.
    pub(super) const fn is_reapable(self) -> bool {
        matches!(self, Self::Container | Self::Ttl(_))
    }

    /// The session whose end deletes the znode, or [`SessionId::NONE`].
    pub(super) const fn owner(self) -> SessionId {
        match self {
            Self::Ephemeral(session) => session,
            Self::Persistent | Self::Container | Self::Ttl(_) => SessionId::NONE,
        }
    }

    /// The kind as a number and its argument, for the snapshot and the digest.
    pub(super) const fn to_parts(self) -> (u8, i64) {
        match self {
            Self::Persistent => (0, 0),
            Self::Ephemeral(session) => (1, session.0),
            Self::Container => (2, 0),
            Self::Ttl(ttl_ms) => (3, ttl_ms),
        }
    }

    pub(super) const fn from_parts(tag: u8, argument: i64) -> Option<Self> {
        match (tag, argument) {
            (0, 0) => Some(Self::Persistent),
            (1, _) => Some(Self::Ephemeral(SessionId(argument))),
            (2, 0) => Some(Self::Container),
            (3, _) => Some(Self::Ttl(argument)),
            _ => None,
        }
    }
}

/// A znode. Its name and data are in the chunk, and its children beside the chunks.
#[derive(Clone, Copy, Debug)]
pub(super) struct Znode {
    /// The root is its own parent.
    pub(super) parent: ZnodeId,
    pub(super) text: TextPlace,
    pub(super) acl: AclId,
    pub(super) kind: Kind,
    pub(super) czxid: Zxid,
    pub(super) mzxid: Zxid,
    pub(super) pzxid: Zxid,
    pub(super) ctime: i64,
    pub(super) mtime: i64,
    pub(super) version: i32,
    pub(super) aversion: i32,
    /// How many children were ever created: the next sequential number (protocol §5). Wider than
    /// the numbers may be, so that a counter that is used up can be recognized.
    pub(super) created: u32,
    /// The hash of the path, made from the parent's.
    pub(super) path_hash: u64,
    /// The hash of the data.
    pub(super) data_hash: u64,
}

impl Znode {
    /// A built-in znode: all numbers zero.
    pub(super) const fn built_in(parent: ZnodeId, acl: AclId) -> Self {
        Self {
            parent,
            text: TextPlace::EMPTY,
            acl,
            kind: Kind::Persistent,
            czxid: Zxid(0),
            mzxid: Zxid(0),
            pzxid: Zxid(0),
            ctime: 0,
            mtime: 0,
            version: 0,
            aversion: 0,
            created: 0,
            path_hash: 0,
            data_hash: 0,
        }
    }

    pub(super) const fn data_bytes(&self) -> u64 {
        self.text.data_bytes()
    }

    /// The eleven numbers (protocol §4). Counted twice, less the children that are there, the
    /// creates give one for each create and one for each delete.
    #[allow(clippy::cast_possible_wrap, reason = "the wire's counter wraps as well")]
    pub(super) fn stat(&self, children: usize) -> Stat {
        let num_children = i32::try_from(children).unwrap_or(i32::MAX);
        let doubled = self.created.wrapping_mul(2) as i32;
        Stat {
            czxid: self.czxid,
            mzxid: self.mzxid,
            ctime: self.ctime,
            mtime: self.mtime,
            version: self.version,
            cversion: doubled.wrapping_sub(num_children),
            aversion: self.aversion,
            ephemeral_owner: match self.kind {
                Kind::Ephemeral(session) => session,
                Kind::Persistent | Kind::Container | Kind::Ttl(_) => SessionId::NONE,
            },
            data_length: i32::try_from(self.data_bytes()).unwrap_or(i32::MAX),
            num_children,
            pzxid: self.pzxid,
        }
    }

    /// The znode's part in the state's digest.
    pub(super) fn digest(&self, acl_hash: u64) -> u64 {
        let (tag, argument) = self.kind.to_parts();
        Hasher::new(self.path_hash)
            .word(self.data_hash)
            .word(acl_hash)
            .signed(self.czxid.0)
            .signed(self.mzxid.0)
            .signed(self.pzxid.0)
            .signed(self.ctime)
            .signed(self.mtime)
            .signed(i64::from(self.version))
            .signed(i64::from(self.aversion))
            .word(u64::from(self.created))
            .word(u64::from(tag))
            .signed(argument)
            .finish()
    }
}

/// The hash of data; null and empty differ.
pub(super) fn hash_data(data: Option<&[u8]>) -> u64 {
    match data {
        None => 0,
        Some(data) => Hasher::new(1).bytes(data).finish(),
    }
}

/// The hash of the path of a child.
pub(super) fn hash_path(parent: u64, name: &str) -> u64 {
    Hasher::new(parent).bytes(name.as_bytes()).finish()
}
