//! How a history looks to people.

use serde_json::Value;

use crate::format::{base64_bytes, data_text, name_text, time_text};

/// One event, or a gap, on one line: when, what, who.
pub(super) fn entry_text(entry: &Value) -> String {
    let kind = text(entry, "kind");
    if kind == "gap" {
        return gap_text(entry);
    }
    let what = match kind.as_str() {
        "created" => format!("created {}{}", text(entry, "path"), owned(entry)),
        "deleted" => format!("deleted {}{}", text(entry, "path"), deleted(entry)),
        "data_changed" => format!("data changed {}{}", text(entry, "path"), versions(entry)),
        "acl_changed" => format!("ACL changed {}{}", text(entry, "path"), versions(entry)),
        "session_opened" => "session opened".to_owned(),
        "session_resumed" => "session resumed".to_owned(),
        "session_closed" => format!("session ended: {}", reason(&text(entry, "reason"))),
        other => name_text(other),
    };
    format!(
        "{}  {}  {what}  {}{}",
        time(entry, "time_ms"),
        text(entry, "zxid"),
        who(entry),
        data(entry)
    )
}

/// What is not recorded, and why.
pub(super) fn gap_text(gap: &Value) -> String {
    let (after, through) = (text(gap, "after"), text(gap, "through"));
    let why = match text(gap, "reason").as_str() {
        "overload" => "more was changed than could be written down",
        "disk" => "the files could not be written",
        "removed" => "it was removed from the history, or a new one has begun",
        "damage" => "a part of the history is damaged",
        _ => "the server has got its state by a snapshot",
    };
    format!("(something may be missing behind zxid {after} up to {through}: {why})")
}

/// One place in the queue of a lock: who, since when it waited and held, and how it ended.
pub(super) fn turn_text(turn: &Value) -> String {
    let (queued, held, ended) =
        (ms(turn, "queued_at_ms"), ms(turn, "held_at_ms"), ms(turn, "ended_at_ms"));
    let has_held = turn.get("held").and_then(Value::as_bool) == Some(true);
    let begin = held.or(queued).map_or_else(|| "(before)".to_owned(), time_text);
    let state = match (held, ended) {
        (Some(held), Some(ended)) => format!("held {}", span(held, ended)),
        (Some(_), None) => "holds it now".to_owned(),
        (None, None) if has_held => "holds it now, since a time that is not known".to_owned(),
        (None, Some(_)) if has_held => "held since a time that is not known".to_owned(),
        (None, Some(_)) if queued.is_none() => "was there".to_owned(),
        (None, Some(_)) => "gave up".to_owned(),
        (None, None) => "waits".to_owned(),
    };
    let waited = match (queued, held.or(ended)) {
        (Some(queued), Some(until)) if until > queued && (held.is_some() || !has_held) => {
            format!(" after {} of waiting", span(queued, until))
        }
        _ => String::new(),
    };
    let end = match text(turn, "reason").as_str() {
        "" => String::new(),
        // What it has not held, it has not released.
        "released" if held.is_none() && !has_held && queued.is_some() => String::new(),
        "deleted_by_other" => format!(", deleted by session {}", text(turn, "deleted_by")),
        other => format!(", {}", reason(other)),
    };
    let shared = turn.get("shared").and_then(Value::as_bool) == Some(true);
    let shared = if shared { " (shared)" } else { "" };
    let (session, address) = (text(turn, "session"), text(turn, "address"));
    let address = if address.is_empty() { String::new() } else { format!(" from {address}") };
    let path = text(turn, "path");
    format!("{begin}  session {session}{address}  {state}{waited}{end}{shared}  {path}")
}

/// What is said when there is nothing.
pub(super) fn nothing_text(begin_ms: Option<i64>) -> String {
    match begin_ms {
        Some(begin_ms) => {
            format!(
                "nothing is known of it; the history of this server begins at {}",
                time_text(begin_ms)
            )
        }
        None => "the history of this server is empty".to_owned(),
    }
}

/// What is said when no place of a lock is known.
pub(super) fn no_turns_text(path: &str, begin_ms: Option<i64>) -> String {
    let path = name_text(path);
    let since = begin_ms.map_or_else(
        || "; the history of this server is empty".to_owned(),
        |begin_ms| format!(" since {}, where the history begins", time_text(begin_ms)),
    );
    format!(
        "{path}: no place in the queue of a lock is known{since}\n  who held and who waited is known of \
         mutexes, read-write locks and elections, not of semaphores: `history --below {path}` shows \
         their events"
    )
}

fn who(entry: &Value) -> String {
    let (session, server) = (text(entry, "session"), entry.get("server").and_then(Value::as_u64));
    let server = server.map(|server| format!(" by server {server}")).unwrap_or_default();
    if session == "0x0" {
        return format!("the ensemble{server}");
    }
    let address = text(entry, "address");
    let address = if address.is_empty() { String::new() } else { format!(" from {address}") };
    let identities = entry.get("identities").and_then(Value::as_array);
    let identities = identities.into_iter().flatten().filter_map(Value::as_str);
    let identities: Vec<_> = identities.map(name_text).collect();
    let identities =
        if identities.is_empty() { String::new() } else { format!(" as {}", identities.join(",")) };
    format!("session {session}{address}{identities}{server}")
}

fn owned(entry: &Value) -> &'static str {
    if text(entry, "owner") == "0x0" { "" } else { " (ephemeral)" }
}

fn deleted(entry: &Value) -> String {
    match (text(entry, "reason").as_str(), owned(entry)) {
        ("released", _) => String::new(),
        ("deleted_by_other", _) => format!(" of session {}", text(entry, "owner")),
        (other, _) => format!(": {}", reason(other)),
    }
}

fn versions(entry: &Value) -> String {
    let number = |name| entry.get(name).and_then(Value::as_i64).unwrap_or_default();
    format!(" version {} -> {}", number("old_version"), number("version"))
}

fn data(entry: &Value) -> String {
    let bytes = entry.get("data_base64").and_then(Value::as_str);
    let bytes = bytes.and_then(|text| base64_bytes(text.as_bytes()).ok());
    bytes.map(|bytes| format!("  {}", name_text(&data_text(&bytes)))).unwrap_or_default()
}

fn reason(reason: &str) -> String {
    match reason {
        "released" => "released".to_owned(),
        "session_closed" => "its session was closed".to_owned(),
        "session_expired" => "its session has expired".to_owned(),
        "reaped" => "removed by the server, as empty or overdue".to_owned(),
        "unknown" => "the history has a gap here".to_owned(),
        other => name_text(other),
    }
}

fn span(from_ms: i64, to_ms: i64) -> String {
    let ms = u64::try_from(to_ms.saturating_sub(from_ms)).unwrap_or(0);
    humantime::format_duration(std::time::Duration::from_millis(ms)).to_string()
}

fn time(entry: &Value, name: &str) -> String {
    ms(entry, name).map(time_text).unwrap_or_default()
}

fn ms(entry: &Value, name: &str) -> Option<i64> {
    entry.get(name).and_then(Value::as_i64)
}

/// A text of the server, which may hold the names of clients.
fn text(entry: &Value, name: &str) -> String {
    entry.get(name).and_then(Value::as_str).map(name_text).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn events_say_when_what_and_who() {
        let entry = json!({
            "kind": "deleted", "zxid": "0x100000007", "time_ms": 1_764_000_000_123_i64,
            "path": "/lock/a\u{1b}", "owner": "0x5", "reason": "deleted_by_other", "session": "0x9",
            "address": "127.0.0.1", "identities": ["digest:bob:x"], "server": 2,
        });
        let expected = "2025-11-24T16:00:00.123Z  0x100000007  deleted /lock/a\\u{1b} of session 0x5  \
                        session 0x9 from 127.0.0.1 as digest:bob:x by server 2";
        assert_eq!(entry_text(&entry), expected);
        let gap = json!({"kind": "gap", "after": "0x1", "through": "0x5", "reason": "overload"});
        assert!(
            entry_text(&gap)
                .starts_with("(something may be missing behind zxid 0x1 up to 0x5: more ")
        );
    }

    /// Nothing was printed: neither of a semaphore nor of what is not a lock.
    #[test]
    fn a_lock_without_a_place_says_since_when_and_what_is_not_known() {
        let text = no_turns_text("/a", Some(0));
        assert!(
            text.contains("/a: no place in the queue of a lock is known since 1970-"),
            "{text}"
        );
        assert!(text.contains("not of semaphores: `history --below /a`"), "{text}");
        assert!(no_turns_text("/a", None).contains("the history of this server is empty"));
    }

    #[test]
    fn turns_say_how_long_and_how_it_ended() {
        let turn = |held: Value, ended: Value, reason: Value| {
            turn_text(&json!({
                "path": "/l/lock-1", "session": "0x5", "address": "10.0.0.1", "shared": false,
                "queued_at_ms": 1000, "held": held == true || held.is_number(),
                "held_at_ms": held.as_i64(), "ended_at_ms": ended, "reason": reason,
                "deleted_by": null,
            }))
        };
        let expired = turn(json!(3000), json!(10_500), json!("session_expired"));
        let expected = "1970-01-01T00:00:03.000Z  session 0x5 from 10.0.0.1  held 7s 500ms after 2s of \
                        waiting, its session has expired  /l/lock-1";
        assert_eq!(expired, expected);
        assert!(turn(json!(3000), Value::Null, Value::Null).contains("holds it now"));
        assert!(turn(Value::Null, Value::Null, Value::Null).contains("waits"));
        let unknown = "holds it now, since a time that is not known  /l";
        assert!(turn(json!(true), Value::Null, Value::Null).contains(unknown));
        let ended = turn(json!(true), json!(2000), json!("released"));
        assert!(ended.contains("held since a time that is not known, released"), "{ended}");
        let waited = turn(Value::Null, json!(2000), json!("released"));
        assert!(waited.contains("gave up") && !waited.contains("released"), "{waited}");
    }
}
