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

/// Ends a session, `0x…`, as if its timeout were over: its ephemeral znodes go. An `AdminServer` has no
/// such command.
pub(super) fn expire(reports: &Reports, session: Option<&str>) -> Result<Object, String> {
    let session = session.ok_or("expire_session requires the argument session=0x…")?;
    let digits = session.strip_prefix("0x").and_then(|it| u64::from_str_radix(it, 16).ok());
    let id = digits.ok_or_else(|| format!("invalid session {session:?}: it is written 0x…"))?;
    if !reports.expire_session(id.cast_signed()) {
        return Err(format!(
            "this server does not lead, or has no session {id:#x}: ask the leader"
        ));
    }
    Ok(entries([("session_id", format!("{id:#x}").into())]))
}

/// Makes an object with numbers as names.
fn by_number<K: ToString, V: Into<Value>>(all: impl IntoIterator<Item = (K, Vec<V>)>) -> Value {
    let pairs = all.into_iter().map(|(key, values)| (key.to_string(), Value::from(values)));
    Value::Object(pairs.collect())
}
