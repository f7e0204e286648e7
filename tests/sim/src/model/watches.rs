//! Who watches what, and what a change fires (protocol §8.1, §8.3, §8.6).

use std::collections::{BTreeMap, BTreeSet};

use zoolet_jute::{EventType, Request, SetWatches2Request, WatcherType, Zxid};

use super::change::{Change, ChangeKind};
use super::path;
use super::tree::Tree;
use crate::history::Connection;

/// The ways in which a connection watches a path.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[allow(clippy::struct_excessive_bools, reason = "each is a way of its own")]
pub struct Modes {
    /// Once, what happens to the znode: of getData and exists.
    pub data: bool,
    /// Once, what happens to its children: of getChildren.
    pub child: bool,
    /// Both, until removed.
    pub persistent: bool,
    /// What happens to the znode and to all below it, until removed.
    pub recursive: bool,
}

impl Modes {
    /// One-shot, of getData and exists.
    pub const DATA: Self = Self { data: true, child: false, persistent: false, recursive: false };
    /// One-shot, of getChildren.
    pub const CHILD: Self = Self { data: false, child: true, persistent: false, recursive: false };
    /// Of addWatch.
    pub const PERSISTENT: Self =
        Self { data: false, child: false, persistent: true, recursive: false };
    /// Of addWatch, for all below as well.
    pub const RECURSIVE: Self =
        Self { data: false, child: false, persistent: false, recursive: true };

    /// What a checkWatches or removeWatches means (protocol §2.10).
    pub fn of(watcher_type: WatcherType) -> Self {
        match watcher_type {
            WatcherType::Children => Self::CHILD,
            WatcherType::Data => Self::DATA,
            WatcherType::Any => Self { data: true, child: true, persistent: true, recursive: true },
            WatcherType::Persistent => Self::PERSISTENT,
            WatcherType::PersistentRecursive => Self::RECURSIVE,
        }
    }

    fn with(self, more: Self) -> Self {
        Self {
            data: self.data || more.data,
            child: self.child || more.child,
            persistent: self.persistent || more.persistent,
            recursive: self.recursive || more.recursive,
        }
    }

    fn without(self, less: Self) -> Self {
        Self {
            data: self.data && !less.data,
            child: self.child && !less.child,
            persistent: self.persistent && !less.persistent,
            recursive: self.recursive && !less.recursive,
        }
    }

    fn is_empty(self) -> bool {
        self == Self::default()
    }
}

/// An event that some connections get.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fired {
    /// What it says.
    pub event_type: EventType,
    /// Of which path.
    pub path: String,
    /// Whether the ACL of the parent decides who gets it, and not that of the changed znode.
    pub is_of_parent: bool,
    /// The connections.
    pub to: BTreeSet<Connection>,
}

/// All watches.
#[derive(Debug, Default)]
pub struct WatchTable {
    by_path: BTreeMap<String, BTreeMap<Connection, Modes>>,
    by_connection: BTreeMap<Connection, BTreeSet<String>>,
}

impl WatchTable {
    /// Registers watches.
    pub fn add(&mut self, connection: Connection, path: &str, modes: Modes) {
        let of_path = self.by_path.entry(path.to_owned()).or_default();
        let before = of_path.entry(connection).or_default();
        *before = before.with(modes);
        self.by_connection.entry(connection).or_default().insert(path.to_owned());
    }

    /// How a connection watches a path.
    pub fn modes(&self, connection: Connection, path: &str) -> Modes {
        let of_path = self.by_path.get(path);
        of_path.and_then(|of_path| of_path.get(&connection)).copied().unwrap_or_default()
    }

    /// Whether the connection watches the path in one of these ways.
    pub fn has(&self, connection: Connection, path: &str, modes: Modes) -> bool {
        let before = self.modes(connection, path);
        before.without(modes) != before
    }

    /// Removes watches.
    pub fn remove(&mut self, connection: Connection, path: &str, modes: Modes) {
        let Some(of_path) = self.by_path.get_mut(path) else { return };
        let Some(before) = of_path.get_mut(&connection) else { return };
        *before = before.without(modes);
        if before.is_empty() {
            of_path.remove(&connection);
            if of_path.is_empty() {
                self.by_path.remove(path);
            }
            if let Some(paths) = self.by_connection.get_mut(&connection) {
                paths.remove(path);
            }
        }
    }

    /// Takes away all watches of a connection.
    pub fn take(&mut self, connection: Connection) -> Vec<(String, Modes)> {
        let mut taken = Vec::new();
        for path in self.by_connection.remove(&connection).unwrap_or_default() {
            taken.push((path.clone(), self.modes(connection, &path)));
            if let Some(of_path) = self.by_path.get_mut(&path) {
                of_path.remove(&connection);
                if of_path.is_empty() {
                    self.by_path.remove(&path);
                }
            }
        }
        taken
    }

    /// The events of a change, in order. One-shot watches that are selected are gone.
    pub fn fire(&mut self, change: &Change) -> Vec<Fired> {
        let own = match change.kind {
            ChangeKind::Created => EventType::NodeCreated,
            ChangeKind::Deleted => EventType::NodeDeleted,
            ChangeKind::DataChanged => EventType::NodeDataChanged,
        };
        let is_delete = change.kind == ChangeKind::Deleted;
        let at = &change.path;
        let mut to = self.select(at, |modes| {
            modes.data || modes.persistent || modes.recursive || (is_delete && modes.child)
        });
        let mut above = path::parent(at);
        while let Some(path) = above {
            to.extend(self.select(path, |modes| modes.recursive));
            above = path::parent(path);
        }
        for connection in &to {
            let used_up = Modes { data: true, child: is_delete, ..Modes::default() };
            self.remove(*connection, at, used_up);
        }
        let mut fired = vec![Fired { event_type: own, path: at.clone(), is_of_parent: false, to }];
        if change.kind != ChangeKind::DataChanged
            && let Some(parent) = path::parent(at)
        {
            let to = self.select(parent, |modes| modes.child || modes.persistent);
            for connection in &to {
                self.remove(*connection, parent, Modes::CHILD);
            }
            let (event_type, path) = (EventType::NodeChildrenChanged, parent.to_owned());
            fired.push(Fired { event_type, path, is_of_parent: true, to });
        }
        fired
    }

    fn select(&self, path: &str, wants: impl Fn(Modes) -> bool) -> BTreeSet<Connection> {
        let of_path = self.by_path.get(path).into_iter().flatten();
        of_path.filter(|(_, modes)| wants(**modes)).map(|(connection, _)| *connection).collect()
    }
}

/// The lists of a setWatches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WatchList {
    /// Of getData.
    Data,
    /// Of exists, where nothing was.
    Exist,
    /// Of getChildren.
    Child,
    /// Of addWatch.
    Persistent,
    /// Of addWatch, for all below as well.
    Recursive,
}

impl WatchList {
    /// How they watch.
    pub fn modes(self) -> Modes {
        match self {
            Self::Data | Self::Exist => Modes::DATA,
            Self::Child => Modes::CHILD,
            Self::Persistent => Modes::PERSISTENT,
            Self::Recursive => Modes::RECURSIVE,
        }
    }

    /// The event that such a watch has missed since then.
    pub fn missed(self, tree: &Tree, path: &str, since: Zxid) -> Option<EventType> {
        match (self, tree.get(path)) {
            (Self::Data | Self::Child, None) => Some(EventType::NodeDeleted),
            (Self::Data, Some(znode)) if znode.mzxid > since => Some(EventType::NodeDataChanged),
            (Self::Child, Some(znode)) if znode.pzxid > since => {
                Some(EventType::NodeChildrenChanged)
            }
            (Self::Exist, Some(_)) => Some(EventType::NodeCreated),
            (Self::Data | Self::Exist | Self::Child | Self::Persistent | Self::Recursive, _) => {
                None
            }
        }
    }
}

/// The watches that a request registers anew, if it is a setWatches.
pub fn set_watches(request: &Request) -> Option<SetWatches2Request> {
    if let Request::SetWatches(body) = request {
        Some(body.clone().into())
    } else if let Request::SetWatches2(body) = request {
        Some(body.clone())
    } else {
        None
    }
}

/// Its paths, in the order in which they are looked at.
pub fn watch_lists(body: &SetWatches2Request) -> Vec<(&str, WatchList)> {
    let all = [
        (&body.data_watches, WatchList::Data),
        (&body.exist_watches, WatchList::Exist),
        (&body.child_watches, WatchList::Child),
        (&body.persistent_watches, WatchList::Persistent),
        (&body.persistent_recursive_watches, WatchList::Recursive),
    ];
    all.into_iter()
        .flat_map(|(paths, list)| paths.iter().map(move |path| (path.as_str(), list)))
        .collect()
}
