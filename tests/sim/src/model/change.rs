//! What a command has changed, as watchers see it.

use std::sync::Arc;

use zoolet_jute::{Acl, SessionId};

/// What has happened to a znode.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChangeKind {
    /// It was created: its parent has a child more.
    Created,
    /// It was deleted: its parent has a child less.
    Deleted,
    /// Its data was written, with the same bytes perhaps.
    DataChanged,
}

/// A change of a znode.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    /// What has happened.
    pub kind: ChangeKind,
    /// To which znode.
    pub path: String,
    /// Its ACL, which decides who gets the event (protocol §8.7); before a delete.
    pub acl: Arc<[Acl]>,
    /// The ACL of its parent, which decides the same for the parent's event.
    pub parent_acl: Arc<[Acl]>,
    /// The session that owns it, or [`SessionId::NONE`].
    pub owner: SessionId,
}
