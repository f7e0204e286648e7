//! What a command did, as far as others must know: the replies' side and the watches' side.

use std::sync::Arc;

use zoolet_jute::{Acl, ErrorCode, Reply, SessionId, Zxid};

use super::session::Owner;

/// The outcome of one command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Applied {
    /// The transaction id that the command took; a refused command takes one as well.
    pub zxid: Zxid,
    /// The result for the caller.
    pub result: Result<Reply, ErrorCode>,
    /// What has changed, in the order in which watches fire (protocol §8.3). Empty for a refused
    /// command.
    pub changes: Vec<Change>,
}

/// What one step of a command did. A long command takes several.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Step {
    /// What has changed in this step, in the order in which watches fire.
    pub changes: Vec<Change>,
    /// The answer, once the command is done.
    pub done: Option<Result<Reply, ErrorCode>>,
    /// How many parts of a long command were done.
    pub work: usize,
    /// The cost of its paths and ACLs, in nanoseconds.
    pub cost_ns: usize,
}

/// One thing that a command changed. It carries what a watch needs to fire and what decides who
/// may learn of it (protocol §8.7), because the znode may be gone by then.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    /// A znode was created.
    Created {
        /// Its path.
        path: String,
        /// Its ACL.
        acl: Arc<[Acl]>,
        /// The ACL of its parent, which has a child more.
        parent_acl: Arc<[Acl]>,
        /// Its session, if it is ephemeral, or [`SessionId::NONE`].
        owner: SessionId,
    },
    /// A znode was deleted.
    Deleted {
        /// Its path.
        path: String,
        /// Its last ACL.
        acl: Arc<[Acl]>,
        /// The ACL of its parent, which has a child less.
        parent_acl: Arc<[Acl]>,
        /// Its session, if it was ephemeral, or [`SessionId::NONE`].
        owner: SessionId,
        /// Its last version.
        version: i32,
    },
    /// A znode's data was written, with the same bytes perhaps.
    DataChanged {
        /// Its path.
        path: String,
        /// Its ACL.
        acl: Arc<[Acl]>,
        /// The version of its data before.
        old_version: i32,
        /// The version of its data.
        version: i32,
    },
    /// A znode's ACL was written. It fires no watch.
    AclChanged {
        /// Its path.
        path: String,
        /// The version of its ACL before.
        old_version: i32,
        /// The version of its ACL.
        version: i32,
    },
    /// A session began.
    SessionOpened(SessionId),
    /// A session was resumed, at the server that is its owner now. A connection of it elsewhere,
    /// or an older one there, has lost it.
    SessionResumed {
        /// The session.
        session: SessionId,
        /// Where it was resumed.
        owner: Owner,
    },
    /// A session ended, closed or expired. The deletions of its ephemeral znodes stand before.
    SessionClosed(SessionId),
}
