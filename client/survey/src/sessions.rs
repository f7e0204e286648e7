//! What servers say of sessions: `cons`, `dump` and `wchc` as text, and the same as JSON.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;
use zoolet_client::SessionId;

/// A connection with a session.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Connection {
    /// The session.
    pub session: SessionId,
    /// Where the client connects from.
    pub address: String,
    /// When it connected; 0 if the server does not say.
    pub since_ms: i64,
    /// The timeout of the session; 0 if the server does not say.
    pub timeout_ms: i64,
    /// Requests that are not answered yet.
    pub queued: u64,
    /// Packets that were received from the client.
    pub received: u64,
    /// Packets that were sent to it.
    pub sent: u64,
    /// The server's word for the last request.
    pub last_operation: String,
}

/// The sessions of all clients, as far as a server knows them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Dump {
    /// All ids.
    pub sessions: BTreeSet<SessionId>,
    /// The ephemeral znodes of each session.
    pub ephemerals: BTreeMap<SessionId, Vec<String>>,
}

/// Reads lines ` /127.0.0.1:5000[1](queued=0,recved=3,sent=3,sid=0x1,lop=PING,est=9,to=10000,…)`.
pub fn connections(answer: &str) -> Vec<Connection> {
    answer.lines().filter_map(connection).collect()
}

fn connection(line: &str) -> Option<Connection> {
    // The interest in brackets is the last of these in front of the figures; an IPv6 address has
    // brackets as well.
    let (head, figures) = line.trim().strip_prefix('/')?.split_once("](")?;
    let (address, _) = head.rsplit_once('[')?;
    let figures = figures.trim_end_matches(')');
    let text = |name: &str| {
        let mut pairs = figures.split(',').filter_map(|pair| pair.split_once('='));
        pairs.find(|(key, _)| *key == name).map(|(_, value)| value)
    };
    let number = |name: &str| text(name).and_then(|value| value.parse::<u64>().ok());
    let signed = |name: &str| text(name).and_then(|value| value.parse::<i64>().ok());
    Some(Connection {
        session: session(text("sid")?)?,
        address: address.to_owned(),
        since_ms: signed("est").unwrap_or_default(),
        timeout_ms: signed("to").unwrap_or_default(),
        queued: number("queued").unwrap_or_default(),
        received: number("recved").unwrap_or_default(),
        sent: number("sent").unwrap_or_default(),
        last_operation: text("lop").unwrap_or_default().to_owned(),
    })
}

/// Reads the answer of the command `connections`.
pub fn connections_json(answer: &Value) -> Vec<Connection> {
    let lists = ["connections", "secure_connections"];
    let all = lists.iter().filter_map(|list| answer.get(list)?.as_array()).flatten();
    let of = |it: &Value| {
        let number = |name: &str| it.get(name).and_then(Value::as_u64).unwrap_or_default();
        let signed = |name: &str| it.get(name).and_then(Value::as_i64).unwrap_or_default();
        let text = |name: &str| it.get(name).and_then(Value::as_str).unwrap_or_default();
        let session = SessionId(signed("session_id"));
        (session != SessionId::NONE).then(|| Connection {
            session,
            address: text("remote_socket_address").trim_start_matches('/').to_owned(),
            // Apache writes a date.
            since_ms: signed("established"),
            timeout_ms: signed("session_timeout"),
            queued: number("outstanding_requests"),
            received: number("packets_received"),
            sent: number("packets_sent"),
            last_operation: text("last_operation").to_owned(),
        })
    };
    all.filter_map(of).collect()
}

/// Reads `dump`: ids on lines of their own, then an id with a colon and its paths below it.
pub fn dump(answer: &str) -> Dump {
    let mut dump = Dump::default();
    let mut owner = None;
    for line in answer.lines() {
        let (trimmed, is_below) = (line.trim(), line.starts_with(char::is_whitespace));
        if trimmed.starts_with('/') && is_below {
            if let Some(owner) = owner {
                dump.ephemerals.entry(owner).or_default().push(trimmed.to_owned());
            }
            continue;
        }
        let id =
            trimmed.split(|it: char| it == ':' || it.is_whitespace()).next().unwrap_or_default();
        if let Some(id) = session(id) {
            owner = trimmed.ends_with(':').then_some(id);
            dump.sessions.insert(id);
        }
    }
    dump
}

/// Reads the answer of the command `dump`.
pub fn dump_json(answer: &Value) -> Dump {
    let mut dump = Dump::default();
    let expiries = answer.get("expiry_time_to_session_ids").and_then(Value::as_object);
    let ids = expiries.into_iter().flat_map(|it| it.values()).filter_map(Value::as_array).flatten();
    dump.sessions.extend(ids.filter_map(Value::as_i64).map(SessionId));
    dump.ephemerals = by_session(answer.get("session_id_to_ephemeral_paths"));
    dump.sessions.extend(dump.ephemerals.keys());
    dump
}

/// Reads `wchc`: an id, and its paths below it.
pub fn watches(answer: &str) -> BTreeMap<SessionId, Vec<String>> {
    let mut all: BTreeMap<SessionId, Vec<String>> = BTreeMap::new();
    let mut owner = None;
    for line in answer.lines() {
        if let Some(path) = line.strip_prefix('\t') {
            if let Some(owner) = owner {
                all.entry(owner).or_default().push(path.to_owned());
            }
        } else if let Some(id) = session(line.trim()) {
            owner = Some(id);
        }
    }
    all
}

/// Reads the answer of the command `watches`.
pub fn watches_json(answer: &Value) -> BTreeMap<SessionId, Vec<String>> {
    by_session(answer.get("session_id_to_watched_paths"))
}

/// Reads an object whose names are the decimal ids of sessions.
fn by_session(object: Option<&Value>) -> BTreeMap<SessionId, Vec<String>> {
    let pairs = object.and_then(Value::as_object).into_iter().flatten();
    let of = |(id, paths): (&String, &Value)| {
        let paths = paths.as_array()?.iter().filter_map(Value::as_str).map(str::to_owned);
        Some((SessionId(id.parse().ok()?), paths.collect()))
    };
    pairs.filter_map(of).collect()
}

/// Reads an id `0x…`.
fn session(text: &str) -> Option<SessionId> {
    let id = u64::from_str_radix(text.strip_prefix("0x")?, 16).ok()?;
    (id != 0).then(|| SessionId(id.cast_signed()))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn connections_are_read_of_either_form() {
        let line = " /[::1]:5[1](queued=0,recved=3,sent=4,sid=0xffffffffffffffff,lop=PING,\
                    est=1700000000000,to=10000,lcxid=0x1,lzxid=0x2)\n\
                    \x20/127.0.0.1:5[0](queued=0,recved=1,sent=0)\n";
        let found = connections(line);
        let expected = Connection {
            session: SessionId(-1),
            address: "[::1]:5".to_owned(),
            since_ms: 1_700_000_000_000,
            timeout_ms: 10_000,
            queued: 0,
            received: 3,
            sent: 4,
            last_operation: "PING".to_owned(),
        };
        assert_eq!(found, std::slice::from_ref(&expected), "one has no session yet");
        let answer = json!({ "connections": [{
            "remote_socket_address": "[::1]:5", "session_id": -1, "established": 1_700_000_000_000_i64,
            "session_timeout": 10_000, "outstanding_requests": 0, "packets_received": 3,
            "packets_sent": 4, "last_operation": "PING",
        }] });
        assert_eq!(connections_json(&answer), [expected]);
    }

    #[test]
    fn ephemeral_znodes_and_watches_are_those_of_the_session_above() {
        let text = "SessionTracker dump:\nSession Sets (2)/(1):\n0 expire at x:\n\
                    1 expire at y:\n\t0x1000000000001\n\
                    ephemeral nodes dump:\nSessions with Ephemerals (1):\n\
                    0x1000000000002:\n\t/a/b\n\t/c\nConnections dump:\n";
        let found = dump(text);
        let [one, two] = [0x1_0000_0000_0001, 0x1_0000_0000_0002].map(SessionId);
        assert_eq!(found.sessions, [one, two].into());
        let paths = || vec!["/a/b".to_owned(), "/c".to_owned()];
        assert_eq!(found.ephemerals, [(two, paths())].into());
        assert_eq!(watches("0x1000000000002\n\t/a/b\n\t/c\n\n"), [(two, paths())].into());
        let answer = json!({
            "expiry_time_to_session_ids": { "5": [one.0] },
            "session_id_to_ephemeral_paths": { two.0.to_string(): ["/a/b", "/c"] },
        });
        assert_eq!(dump_json(&answer), found);
    }
}
