//! The places that are in the queue of a lock now.

use zoolet_jute::{SessionId, Zxid};

use super::State;
use super::lock_name::LockName;
use super::names::Names;

/// A znode that is in the queue of a lock.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LockPlace {
    /// Its path.
    pub path: String,
    /// The session that it ends with; [`SessionId::NONE`] for none.
    pub owner: SessionId,
    /// The transaction that made it.
    pub czxid: Zxid,
    /// When that was, in milliseconds since 1970.
    pub ctime_ms: i64,
}

/// The names of a znode's children at one moment. It holds on to the list, which costs nothing.
#[derive(Clone, Debug)]
pub struct ChildNames(Names);

impl ChildNames {
    /// Those that look like places in a queue, in the order of their names.
    pub fn of_places(&self) -> impl Iterator<Item = &str> {
        self.0.iter().map(|(name, _)| name).filter(|name| LockName::parse(name).is_some())
    }
}

impl State {
    /// The names of a znode's children; `None` without any.
    pub fn child_names(&self, path: &str) -> Option<ChildNames> {
        let id = self.tree.find(path)?;
        self.tree.children(id).cloned().map(ChildNames)
    }

    /// A znode as a place; `None` if it has gone.
    pub fn lock_place(&self, path: &str) -> Option<LockPlace> {
        let stat = self.stat(path)?;
        Some(LockPlace {
            path: path.to_owned(),
            owner: stat.ephemeral_owner,
            czxid: stat.czxid,
            ctime_ms: stat.ctime,
        })
    }
}
