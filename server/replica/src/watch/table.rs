//! Who watches what. Watches belong to a connection and are gone with it (protocol §8.1).

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::ops::Bound;
use std::sync::Arc;

use super::mode::{Modes, Trigger};
use super::shares::{Share, Shares};
use super::watched::Watched;
use crate::ConnectionId;
use crate::path_table::PathTable;
use crate::sorted_map::SortedMap;

/// What a watch takes besides its path's text, in bytes: its places in the maps, and the head of the
/// text's allocation.
const ENTRY_BYTES: usize = 160;

/// All watches of this server's connections.
#[derive(Debug, Default)]
pub(crate) struct WatchTable {
    // Each path's text is held once and shared by the three maps.
    paths: SortedMap<Arc<str>, Watchers>,
    // Invariant: the other direction of `paths`.
    connections: SortedMap<ConnectionId, Watched>,
    // Invariant: the recursive part of `paths`, for the changes below them.
    recursive: PathTable<Arc<str>, BTreeSet<ConnectionId>>,
    registrations: usize,
    // Invariant: the sum over `connections`.
    bytes: usize,
    shares: Shares,
    data_entries: usize,
    child_entries: usize,
}

/// A place in the table, to go on behind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WatchPlace {
    path: Arc<str>,
    /// The path's watchers behind this one are still to be looked at; `None` if all were.
    connection: Option<ConnectionId>,
}

/// A path, and the connections that watch it.
pub(crate) type WatchedPath = (Arc<str>, Vec<ConnectionId>);

/// The connections that watch one path. Most paths have one: a contender in a lock's queue watches
/// the znode before its own.
#[derive(Debug)]
enum Watchers {
    One(ConnectionId, Modes),
    // Boxed, because it is rare and there is one of these for each path.
    Many(Box<SortedMap<ConnectionId, Modes>>),
}

impl WatchTable {
    /// Registers. Doing it twice is the same as once.
    pub(crate) fn add(&mut self, connection: ConnectionId, path: &str, modes: Modes) {
        let path = self.intern(path);
        let before = self.modes(connection, &path);
        let after = before.with(modes);
        if before == after {
            return;
        }
        if before.is_empty() {
            let is_new = match self.connections.get_mut(&connection) {
                Some(watched) => watched.insert(Arc::clone(&path)),
                None => self.connections.insert(connection, Watched::One(Arc::clone(&path))),
            };
            invariant!(is_new, "connection {} has a path that does not have it", connection.0);
            self.bytes += Self::bytes_of(&path);
            self.registrations += 1;
            self.shares.grow(connection, Self::bytes_of(&path));
        }
        if after.intersects(Modes::RECURSIVE) {
            match self.recursive.get_mut(&path) {
                Some(connections) => _ = connections.insert(connection),
                None => self.recursive.insert(Arc::clone(&path), BTreeSet::from([connection])),
            }
        }
        self.count(before, after);
        match self.paths.get_mut(&*path) {
            Some(watchers) => watchers.set(connection, after),
            None => {
                self.paths.insert(path, Watchers::One(connection, after));
            }
        }
    }

    /// How a connection watches exactly this path.
    pub(crate) fn modes(&self, connection: ConnectionId, path: &str) -> Modes {
        probe!(1 + path.len() / 128);
        self.paths.get(path).map_or(Modes::default(), |watchers| watchers.modes(connection))
    }

    /// Whether a connection watches exactly this path in one of these modes.
    pub(crate) fn contains(&self, connection: ConnectionId, path: &str, modes: Modes) -> bool {
        self.modes(connection, path).intersects(modes)
    }

    /// Removes; `false` if there was nothing to remove.
    pub(crate) fn remove(&mut self, connection: ConnectionId, path: &str, modes: Modes) -> bool {
        let before = self.modes(connection, path);
        if !before.intersects(modes) {
            return false;
        }
        let after = before.without(modes);
        if let Some(watchers) = self.paths.get_mut(path) {
            watchers.set(connection, after);
            if watchers.is_empty() {
                self.paths.remove(path);
            }
        }
        self.unlink(connection, path, before, after);
        true
    }

    /// Removes watches of a connection of about `bytes_max` bytes, and returns their bytes; 0 once it
    /// has none.
    pub(crate) fn remove_some(&mut self, connection: ConnectionId, bytes_max: usize) -> usize {
        if planted!("watches-of-the-gone-stay") {
            return 0;
        }
        let paths = self.paths_of(connection, None, bytes_max);
        for path in &paths {
            self.remove(connection, path, Modes::of(zoolet_jute::WatcherType::Any));
        }
        paths.iter().map(|path| Self::bytes_of(path)).sum()
    }

    /// The connections that a change at a path notifies, in their order and each once. Those at the
    /// path itself are to be given to [`WatchTable::consume`].
    pub(crate) fn targets(&self, path: &str, trigger: Trigger) -> Vec<ConnectionId> {
        let watchers = self.paths.get(path);
        let mut notified = watchers.map_or_else(Vec::new, |all| {
            all.matching(|modes| modes.intersects(trigger.notified()))
        });
        if trigger.climbs() && !self.recursive.is_empty() && !planted!("nothing-below-is-watched") {
            let exact = notified.len();
            for (ancestor, connections) in self.recursive.at_or_above(path) {
                if ancestor != path {
                    notified.extend(connections);
                }
            }
            if notified.len() > exact {
                notified.sort_unstable();
                notified.dedup();
            }
        }
        notified
    }

    /// Uses up the one-shot watches of a connection in the tables of a trigger, whatever the event
    /// is.
    pub(crate) fn consume(&mut self, connection: ConnectionId, path: &str, trigger: Trigger) {
        if !planted!("watch-fires-twice") {
            self.remove(connection, path, trigger.consumed());
        }
    }

    /// Returns the next paths after `after` that a connection watches, and how: watches of about
    /// `bytes_max` bytes, and none at the end.
    pub(crate) fn some_of(
        &self,
        connection: ConnectionId,
        after: Option<&str>,
        bytes_max: usize,
    ) -> Vec<(Arc<str>, Modes)> {
        let paths = self.paths_of(connection, after, bytes_max).into_iter();
        let with_modes = paths.map(|path| {
            let modes = self.modes(connection, &path);
            (path, modes)
        });
        with_modes.collect()
    }

    /// Returns the next paths after `after` that a connection watches, until their watches have
    /// `bytes_max` bytes.
    fn paths_of(
        &self,
        connection: ConnectionId,
        after: Option<&str>,
        bytes_max: usize,
    ) -> Vec<Arc<str>> {
        let mut bytes = 0;
        let watched = self.connections.get(&connection).into_iter();
        let paths = watched.flat_map(|watched| watched.behind(after)).take_while(|path| {
            let is_taken = bytes < bytes_max;
            bytes += Self::bytes_of(path);
            is_taken
        });
        paths.cloned().collect()
    }

    /// All connections that watch anything.
    pub(crate) fn connections(&self) -> impl Iterator<Item = ConnectionId> {
        self.connections.iter().map(|(connection, _)| *connection)
    }

    /// The paths of the data table behind `after` with their connections, found by `max` looks at
    /// paths and watchers (two at least), and where to go on unless that was the end.
    pub(crate) fn data_table(
        &self,
        after: Option<&WatchPlace>,
        max: usize,
    ) -> (Vec<WatchedPath>, Option<WatchPlace>) {
        let from = match after {
            None => Bound::Unbounded,
            Some(WatchPlace { path, connection: None }) => Bound::Excluded(&**path),
            Some(WatchPlace { path, connection: Some(_) }) => Bound::Included(&**path),
        };
        let (mut found, mut left, mut done) = (Vec::new(), max.max(2), None);
        for (path, watchers) in self.paths.range(from) {
            // A path that is begun has at least one of its watchers looked at.
            if let Some(done) = done.filter(|_| left < 2) {
                return (found, Some(WatchPlace { path: Arc::clone(done), connection: None }));
            }
            let behind = after.filter(|place| place.path == *path);
            let (mut connections, mut last) = (Vec::new(), None);
            left -= 1;
            for (connection, modes) in watchers.behind(behind.and_then(|place| place.connection)) {
                if left == 0 {
                    break;
                }
                if modes.in_data_table() {
                    connections.push(connection);
                }
                left -= 1;
                last = Some(connection).filter(|_| left == 0);
            }
            if !connections.is_empty() {
                found.push((Arc::clone(path), connections));
            }
            if left == 0 {
                return (found, Some(WatchPlace { path: Arc::clone(path), connection: last }));
            }
            done = Some(path);
        }
        (found, None)
    }

    /// The watches of a connection count for this address, until [`WatchTable::leave`].
    pub(super) fn enter(&mut self, connection: ConnectionId, peer: IpAddr) {
        self.shares.enter(connection, peer);
    }

    /// A connection is closed: its watches do not count any more, and are removed by and by.
    pub(crate) fn leave(&mut self, connection: ConnectionId) {
        let all = self.share_of(connection);
        self.shares.leave(connection, all);
    }

    /// Returns the watches of a connection.
    pub(crate) fn share_of(&self, connection: ConnectionId) -> Share {
        let watched = self.connections.get(&connection);
        watched.map_or(Share::default(), |all| Share { len: all.len(), bytes: all.bytes() })
    }

    /// Returns the watches of all connections from an address.
    pub(super) fn share_of_address(&self, peer: IpAddr) -> Share {
        self.shares.of_address(peer)
    }

    /// Returns all watches that count.
    pub(crate) fn total(&self) -> Share {
        self.shares.total()
    }

    /// Returns the address that has most, and how much.
    pub(crate) fn busiest(&self, measure: fn(Share) -> usize) -> Option<(IpAddr, Share)> {
        self.shares.busiest(measure)
    }

    /// Returns the connection of an address that has most, and how much.
    pub(super) fn largest_of(
        &self,
        address: IpAddr,
        measure: fn(Share) -> usize,
    ) -> Option<(ConnectionId, usize)> {
        let all = self.shares.connections_of(address);
        all.map(|one| (one, measure(self.share_of(one)))).max_by_key(|(_, size)| *size)
    }

    /// Returns how many connections [`WatchTable::largest_of`] looks at.
    pub(super) fn watchers(&self) -> usize {
        self.shares.len()
    }

    /// The memory of a watch on this path, in bytes. A path that several connections watch is held
    /// once and counted for each: any of them may be the last.
    pub(crate) const fn bytes_of(path: &str) -> usize {
        ENTRY_BYTES + path.len()
    }

    /// How many pairs of a connection and a path there are.
    pub(crate) const fn len(&self) -> usize {
        self.registrations
    }

    /// The entries of the data table.
    #[cfg(test)]
    pub(crate) const fn data_entries(&self) -> usize {
        self.data_entries
    }

    /// The entries of both tables.
    pub(crate) const fn entries(&self) -> usize {
        self.data_entries + self.child_entries
    }

    /// Checks that all maps and counts say the same.
    pub(crate) fn check(&self) {
        let (mut pairs, mut data, mut child, mut recursive) = (0, 0, 0, 0);
        for (path, watchers) in self.paths.iter() {
            for (connection, modes) in watchers.behind(None) {
                let of_connection = self.connections.get(&connection);
                let is_listed = of_connection.is_some_and(|watched| watched.contains(path));
                invariant!(is_listed, "{connection:?} watches {path} and does not have it");
                let is_recursive = modes.intersects(Modes::RECURSIVE);
                let of_path = self.recursive.get(path);
                let is_listed = of_path.is_some_and(|all| all.contains(&connection));
                invariant!(is_listed == is_recursive, "{connection:?} recursive at {path}");
                pairs += 1;
                data += usize::from(modes.in_data_table());
                child += usize::from(modes.in_child_table());
                recursive += usize::from(is_recursive);
            }
        }
        let listed: usize = self.connections.iter().map(|(_, watched)| watched.len()).sum();
        let counted = self.registrations;
        let is_same = listed == pairs && counted == pairs;
        invariant!(is_same, "{pairs} watches are listed as {listed} and counted as {counted}");
        let counted = (self.data_entries, self.child_entries);
        invariant!(counted == (data, child), "{data} and {child} entries: {counted:?}");
        let listed: usize = self.recursive.values().map(BTreeSet::len).sum();
        invariant!(listed == recursive, "{recursive} recursive watches are listed as {listed}");
        let of_paths =
            |watched: &Watched| watched.behind(None).map(|path| Self::bytes_of(path)).sum();
        let is_summed = |(_, watched): (_, &Watched)| watched.bytes() == of_paths(watched);
        let sum: usize = self.connections.iter().map(|(_, watched)| watched.bytes()).sum();
        let is_summed = sum == self.bytes && self.connections.iter().all(is_summed);
        invariant!(is_summed, "{sum} bytes of watches are counted as {}", self.bytes);
        self.shares.check(|connection| self.share_of(connection));
    }

    /// Keeps everything but `paths` in step with a connection's fewer modes.
    fn unlink(&mut self, connection: ConnectionId, path: &str, before: Modes, after: Modes) {
        self.count(before, after);
        if after.is_empty() {
            let all = self.registrations;
            invariant!(all > 0, "a watch of connection {} is one of {all}", connection.0);
            self.registrations -= 1;
            let watched = self.connections.get_mut(&connection);
            let left = watched.and_then(|watched| watched.remove(path));
            invariant!(left.is_some(), "connection {} does not have its path", connection.0);
            let (bytes, sum) = (Self::bytes_of(path), self.bytes);
            invariant!(bytes <= sum, "a watch has {bytes} of {sum} bytes");
            self.bytes = sum - bytes;
            self.shares.shrink(connection, Share { len: 1, bytes });
            if left == Some(0) {
                self.connections.remove(&connection);
            }
        }
        if before.without(after).intersects(Modes::RECURSIVE)
            && let Some(connections) = self.recursive.get_mut(path)
        {
            connections.remove(&connection);
            if connections.is_empty() {
                self.recursive.remove(path);
            }
        }
    }

    fn count(&mut self, before: Modes, after: Modes) {
        self.data_entries += usize::from(after.in_data_table());
        self.data_entries -= usize::from(before.in_data_table());
        self.child_entries += usize::from(after.in_child_table());
        self.child_entries -= usize::from(before.in_child_table());
    }

    fn intern(&self, path: &str) -> Arc<str> {
        let known = self.paths.get_key_value(path).map(|(known, _)| Arc::clone(known));
        known.unwrap_or_else(|| Arc::from(path))
    }
}

impl Watchers {
    fn modes(&self, connection: ConnectionId) -> Modes {
        match self {
            Self::One(only, modes) if *only == connection => *modes,
            Self::One(..) => Modes::default(),
            Self::Many(all) => all.get(&connection).copied().unwrap_or_default(),
        }
    }

    fn set(&mut self, connection: ConnectionId, modes: Modes) {
        match self {
            Self::One(only, before) if *only == connection => *before = modes,
            Self::One(only, before) => {
                let mut both = Box::<SortedMap<_, _>>::default();
                both.insert(*only, *before);
                both.insert(connection, modes);
                *self = Self::Many(both);
            }
            Self::Many(all) if modes.is_empty() => {
                all.remove(&connection);
            }
            Self::Many(all) => match all.get_mut(&connection) {
                Some(before) => *before = modes,
                None => {
                    all.insert(connection, modes);
                }
            },
        }
    }

    fn is_empty(&self) -> bool {
        match self {
            Self::One(_, modes) => modes.is_empty(),
            Self::Many(all) => all.is_empty(),
        }
    }

    /// Those behind `after`, in order.
    fn behind(&self, after: Option<ConnectionId>) -> impl Iterator<Item = (ConnectionId, Modes)> {
        let (one, many) = match self {
            Self::One(only, modes) => (Some((*only, *modes)), None),
            Self::Many(all) => (None, Some(all)),
        };
        let one = one.into_iter().filter(move |(only, _)| after.is_none_or(|after| after < *only));
        let from = after.map_or(Bound::Unbounded, Bound::Excluded);
        let many = many.into_iter().flat_map(move |all| all.range(from.as_ref()));
        one.chain(many.map(|(connection, modes)| (*connection, *modes)))
    }

    fn matching(&self, of: impl Fn(Modes) -> bool) -> Vec<ConnectionId> {
        match self {
            Self::One(only, modes) => of(*modes).then_some(*only).into_iter().collect(),
            Self::Many(all) => {
                all.iter().filter(|(_, modes)| of(**modes)).map(|(only, _)| *only).collect()
            }
        }
    }
}

/// The parent of a path; `/` has none.
pub(crate) fn parent(path: &str) -> Option<&str> {
    let (parent, name) = path.rsplit_once('/')?;
    match (parent, name) {
        ("", "") => None,
        ("", _) => Some("/"),
        (parent, _) => Some(parent),
    }
}
