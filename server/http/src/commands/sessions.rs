//! Sessions, their ephemeral znodes and their watches.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;
use zoolet_server::embed::Reports;

use super::{Object, entries};

pub(super) fn dump(reports: &Reports) -> Object {
    let sessions = reports.sessions();
    entries([
        ("expiry_time_to_session_ids", by_number(sessions.expiries)),
        ("session_id_to_ephemeral_paths", by_number(sessions.ephemerals)),
    ])
}

pub(super) fn watches(reports: &Reports) -> Object {
    let mut by_session: BTreeMap<i64, Vec<String>> = BTreeMap::new();
    reports.watched_paths(|path, sessions| {
        for session in sessions {
            by_session.entry(session).or_default().push(path.clone());
        }
    });
    entries([("session_id_to_watched_paths", by_number(by_session))])
}

pub(super) fn watches_by_path(reports: &Reports) -> Object {
    let mut by_path = Object::new();
    reports.watched_paths(|path, sessions| drop(by_path.insert(path, sessions.into())));
    entries([("path_to_session_ids", Value::Object(by_path))])
}

pub(super) fn watch_summary(reports: &Reports) -> Object {
    let (mut connections, mut paths, mut watches) = (BTreeSet::new(), 0, 0);
    reports.watched_paths(|_, sessions| {
        paths += 1;
        watches += sessions.len();
        connections.extend(sessions);
    });
    entries([
        ("num_connections", connections.len().into()),
        ("num_paths", paths.into()),
        ("num_total_watches", watches.into()),
    ])
}

/// Makes an object with numbers as names.
fn by_number<K: ToString, V: Into<Value>>(all: impl IntoIterator<Item = (K, Vec<V>)>) -> Value {
    let pairs = all.into_iter().map(|(key, values)| (key.to_string(), Value::from(values)));
    Value::Object(pairs.collect())
}
