//! What users of recipes note: what they begin, what has come of it, and what they see.

use std::collections::BTreeMap;

use bytes::Bytes;
use zoolet_jute::{SessionId, Zxid};

/// A step of a contender. `token` is the fencing token, which grows with each grant of a lock.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LockStep {
    /// It has begun to wait. `mode` names the recipe and the kind of place (`mutex`, `read`, `write`,
    /// `semaphore 3`, `curator`).
    Waits {
        /// The recipe.
        mode: String,
    },
    /// It holds the lock.
    Granted {
        /// The fencing token.
        token: i64,
        /// The path of its znode.
        znode: String,
        /// Its session.
        session: SessionId,
    },
    /// It begins to give the lock back: from here on it does nothing under it, and another one may be
    /// granted it before the reply has arrived.
    Releases {
        /// The token of the grant.
        token: i64,
    },
    /// It has given the lock back, and the reply has arrived.
    Released {
        /// The token of the grant.
        token: i64,
    },
    /// It has learned that the lock is lost, or may be.
    Lost {
        /// The token of the grant.
        token: i64,
    },
    /// It gave up waiting.
    GaveUp,
    /// It has written to the guarded resource, which accepted or refused the token.
    Wrote {
        /// The token.
        token: i64,
        /// Whether the resource, which knows the greatest token so far, took it.
        accepted: bool,
    },
}

/// A step with a recipe that is not a lock. What a client has begun, and neither ended nor followed by
/// an end, may have happened or not.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RecipeStep {
    /// It begins to put an item into a queue; no other item is the same.
    Puts {
        /// The item.
        item: Bytes,
    },
    /// The item was put.
    Put {
        /// The item.
        item: Bytes,
    },
    /// It begins to take an item.
    Takes,
    /// It has taken an item, or has learned that it took none.
    Took {
        /// The item.
        item: Option<Bytes>,
    },
    /// It begins to add one to a counter.
    Adds,
    /// It has added one.
    Added {
        /// What the counter is with it.
        sum: i64,
    },
    /// It begins to enter a double barrier.
    Enters {
        /// How many have to enter it.
        members: usize,
    },
    /// It is inside, and so are the others.
    Entered {
        /// Its session.
        session: SessionId,
    },
    /// It begins to leave.
    Leaves,
    /// It has left, and so have the others.
    Left,
    /// It begins to wait until a barrier is not there.
    Awaits,
    /// It has ended its wait.
    Awaited {
        /// Whether it has learned that the barrier is not there; if not, its time was over.
        is_open: bool,
    },
    /// It is a member of a group, by this session and with these data, and has long done nothing about it.
    IsMember {
        /// The name of its znode.
        id: String,
        /// Its session.
        session: SessionId,
        /// What its znode has.
        data: Bytes,
    },
    /// A cache of the tree follows it, and has these znodes: their last writes and their data.
    Shows {
        /// By their paths.
        znodes: BTreeMap<String, (Zxid, Bytes)>,
    },
}
