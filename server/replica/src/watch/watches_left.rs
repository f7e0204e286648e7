//! The rest of a `setWatches` that takes several steps (protocol §8.6).

use std::sync::Arc;

use zoolet_jute::{EventType, Id, SetWatches2Request, Zxid};

use super::Modes;
use crate::state::State;

/// The watches of a `setWatches` that are not looked at yet, in the order of their catch-up events.
#[derive(Debug)]
pub(crate) struct WatchesLeft {
    // The first list last, and all as they came: copying a hundred thousand paths into one takes long.
    lists: Vec<(std::vec::IntoIter<String>, WatchList)>,
    since: Zxid,
    identities: Arc<[Id]>,
    is_long: bool,
}

impl WatchesLeft {
    /// One that is not long is done in one step.
    pub(crate) fn new(body: SetWatches2Request, identities: &Arc<[Id]>, is_long: bool) -> Self {
        let since = body.relative_zxid;
        let are_lost = planted!("children-are-not-watched-again");
        let child_watches = if are_lost { Vec::new() } else { body.child_watches };
        let lists = [
            (body.persistent_recursive_watches, WatchList::Recursive),
            (body.persistent_watches, WatchList::Persistent),
            (child_watches, WatchList::Child),
            (body.exist_watches, WatchList::Exist),
            (body.data_watches, WatchList::Data),
        ];
        let lists = lists.map(|(paths, kind)| (paths.into_iter(), kind)).into();
        Self { lists, since, identities: Arc::clone(identities), is_long }
    }

    /// The transaction up to which the client has seen everything.
    pub(super) fn since(&self) -> Zxid {
        self.since
    }

    pub(crate) fn is_long(&self) -> bool {
        self.is_long
    }

    /// Whom the connection had proved to be.
    pub(super) fn identities(&self) -> &[Id] {
        &self.identities
    }

    pub(super) fn next(&mut self) -> Option<(String, WatchList)> {
        loop {
            let (paths, kind) = self.lists.last_mut()?;
            if let Some(path) = paths.next() {
                return Some((path, *kind));
            }
            self.lists.pop();
        }
    }
}

/// The lists of a `setWatches`.
#[derive(Clone, Copy, Debug)]
pub(super) enum WatchList {
    Data,
    Exist,
    Child,
    Persistent,
    Recursive,
}

impl WatchList {
    pub(super) const fn modes(self) -> Modes {
        match self {
            Self::Data | Self::Exist => Modes::DATA,
            Self::Child => Modes::CHILD,
            Self::Persistent => Modes::PERSISTENT,
            Self::Recursive => Modes::RECURSIVE,
        }
    }

    /// The event that a watch of this list has missed since then, if any.
    pub(super) fn missed(self, state: &State, path: &str, since: Zxid) -> Option<EventType> {
        match (self, state.stat(path)) {
            (Self::Data | Self::Child, None) => Some(EventType::NodeDeleted),
            (Self::Data, Some(stat)) if planted!("events-come-again-after-a-resume") => {
                (stat.mzxid >= since).then_some(EventType::NodeDataChanged)
            }
            (Self::Data, Some(stat)) => (stat.mzxid > since).then_some(EventType::NodeDataChanged),
            (Self::Child, Some(stat)) => {
                (stat.pzxid > since).then_some(EventType::NodeChildrenChanged)
            }
            (Self::Exist, Some(_)) => Some(EventType::NodeCreated),
            (Self::Exist, None) | (Self::Persistent | Self::Recursive, _) => None,
        }
    }
}
