//! The watch table against a list of triples.

use std::collections::{BTreeMap, BTreeSet};

use zoolet_jute::WatcherType;

use super::mode::{Modes, Trigger};
use super::table::{WatchTable, parent};
use crate::ConnectionId;

const PATHS: [&str; 7] = ["/", "/a", "/a/b", "/a/b/c", "/ab", "relative", ""];
const MODES: [Modes; 4] = [Modes::DATA, Modes::CHILD, Modes::PERSISTENT, Modes::RECURSIVE];
const TYPES: [WatcherType; 5] = [
    WatcherType::Children,
    WatcherType::Data,
    WatcherType::Any,
    WatcherType::Persistent,
    WatcherType::PersistentRecursive,
];

/// What the table must say: which connection watches which path in which of [`MODES`].
#[derive(Default)]
struct Model(BTreeSet<(ConnectionId, &'static str, usize)>);

impl Model {
    fn fire(&mut self, path: &str, trigger: Trigger) -> Vec<ConnectionId> {
        // Data, child, persistent, recursive.
        let (notified, consumed): (&[usize], &[usize]) = match trigger {
            Trigger::Data => (&[0, 2, 3], &[0]),
            Trigger::Child => (&[1, 2], &[1]),
            Trigger::Both => (&[0, 1, 2, 3], &[0, 1]),
        };
        let is_above = |above: &str| {
            path != above
                && path.starts_with('/')
                && (above == "/" || {
                    path.strip_prefix(above).is_some_and(|rest| rest.starts_with('/'))
                        && above.starts_with('/')
                })
        };
        let fired: BTreeSet<ConnectionId> = self
            .0
            .iter()
            .filter(|(_, at, mode)| {
                *at == path && notified.contains(mode)
                    || trigger != Trigger::Child && *mode == 3 && is_above(at)
            })
            .map(|(connection, ..)| *connection)
            .collect();
        self.0.retain(|(_, at, mode)| *at != path || !consumed.contains(mode));
        fired.into_iter().collect()
    }

    fn remove(&mut self, connection: ConnectionId, path: &str, kind: WatcherType) -> bool {
        let before = self.0.len();
        self.0.retain(|(who, at, mode)| {
            *who != connection || *at != path || !Modes::of(kind).intersects(MODES[*mode])
        });
        self.0.len() != before
    }

    fn check(&self, table: &WatchTable) {
        let mut pairs: BTreeMap<(ConnectionId, &str), Modes> = BTreeMap::new();
        for (connection, path, mode) in &self.0 {
            let modes = pairs.entry((*connection, path)).or_default();
            *modes = modes.with(MODES[*mode]);
        }
        assert_eq!(table.len(), pairs.len(), "watches in the table and in the list");
        let data = pairs.values().filter(|modes| modes.in_data_table()).count();
        let child = pairs.values().filter(|modes| modes.in_child_table()).count();
        assert_eq!(table.data_entries(), data);
        assert_eq!(table.entries(), data + child);
        let listed: usize =
            table.data_table(None, usize::MAX).0.iter().map(|(_, all)| all.len()).sum();
        assert_eq!(listed, data);
        let all: BTreeMap<(ConnectionId, String), Modes> = table
            .connections()
            .flat_map(|connection| {
                let of = table.some_of(connection, None, usize::MAX);
                of.into_iter().map(move |(path, modes)| ((connection, path.to_string()), modes))
            })
            .collect();
        let expected: BTreeMap<(ConnectionId, String), Modes> =
            pairs.iter().map(|((who, at), modes)| ((*who, (*at).to_owned()), *modes)).collect();
        assert_eq!(all, expected);
    }
}

/// Notifies as a change does.
fn fire(table: &mut WatchTable, path: &str, trigger: Trigger) -> Vec<ConnectionId> {
    let targets = table.targets(path, trigger);
    for connection in &targets {
        table.consume(*connection, path, trigger);
    }
    targets
}

#[test]
fn the_table_agrees_with_a_list_of_watches() {
    let mut table = WatchTable::default();
    let mut model = Model::default();
    let mut random = 0x9E37_79B9_7F4A_7C15_u64;
    let mut pick = |below: usize| {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        usize::try_from(random % below as u64).expect("a small number")
    };
    for _ in 0..20_000 {
        let connection = ConnectionId(pick(4) as u64);
        let path = PATHS[pick(PATHS.len())];
        match pick(8) {
            0..=3 => {
                let mode = pick(MODES.len());
                table.add(connection, path, MODES[mode]);
                model.0.insert((connection, path, mode));
            }
            4 | 5 => {
                let trigger = [Trigger::Data, Trigger::Child, Trigger::Both][pick(3)];
                assert_eq!(fire(&mut table, path, trigger), model.fire(path, trigger), "{path}");
            }
            6 => {
                let kind = TYPES[pick(TYPES.len())];
                let removed = table.remove(connection, path, Modes::of(kind));
                assert_eq!(removed, model.remove(connection, path, kind), "{path}");
            }
            _ if pick(4) == 0 => {
                table.remove_some(connection, usize::MAX);
                model.0.retain(|(who, ..)| *who != connection);
            }
            _ => {}
        }
        model.check(&table);
    }
    for connection in 0..4 {
        table.remove_some(ConnectionId(connection), usize::MAX);
    }
    Model::default().check(&table);
    assert_eq!(fire(&mut table, "/a/b/c", Trigger::Both), [], "nothing is left behind");
}

#[test]
fn parents_are_those_of_absolute_paths() {
    for (path, expected) in
        [("/", None), ("/a", Some("/")), ("/a/b", Some("/a")), ("relative", None), ("", None)]
    {
        assert_eq!(parent(path), expected, "{path:?}");
    }
}
