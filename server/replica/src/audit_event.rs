//! The events of the audit log.

use std::sync::Arc;

use zoolet_jute::{Acl, CreateMode, ErrorCode, Id, SessionId, Xid, Zxid};

/// A change of the state, or the attempt at one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AuditEvent {
    /// The session that asked, or that has ended; [`SessionId::NONE`] without one.
    pub session: SessionId,
    /// Whom the connection had proved to be; none for what the server has decided by itself.
    pub identities: Arc<[Id]>,
    /// The number of the request.
    pub cxid: Xid,
    /// The transaction; none for what did not get into the log.
    pub zxid: Option<Zxid>,
    /// What was changed, or the one thing that was not.
    pub changes: Vec<AuditedChange>,
    /// Why nothing was changed.
    pub error: Option<ErrorCode>,
}

/// What was done to a znode, or tried.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AuditedChange {
    /// What.
    pub operation: AuditOperation,
    /// Its path; of a create that has succeeded, with its number.
    pub path: Option<String>,
    /// Of a create: the kind of the znode.
    pub mode: Option<CreateMode>,
    /// Of a setACL: the new access list.
    pub acl: Option<Vec<Acl>>,
}

/// The operations of the audit log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AuditOperation {
    /// A create of any kind.
    Create,
    /// A delete, also of a container or an overdue znode.
    Delete,
    /// A setData.
    SetData,
    /// A setACL.
    SetAcl,
    /// A check, which is reported only as the part that made a multi fail.
    Check,
    /// A multi that was refused as a whole.
    Multi,
    /// A change of the ensemble.
    Reconfig,
    /// The deletion of an ephemeral znode whose session has ended.
    EphemeralDelete,
}

impl AuditOperation {
    /// The name that Apache `ZooKeeper` gives it, where it has one.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Create => "create",
            Self::Delete => "delete",
            Self::SetData => "setData",
            Self::SetAcl => "setAcl",
            Self::Check => "check",
            Self::Multi => "multiOperation",
            Self::Reconfig => "reconfig",
            Self::EphemeralDelete => "ephemeralZNodeDeletionOnSessionCloseOrExpire",
        }
    }
}
