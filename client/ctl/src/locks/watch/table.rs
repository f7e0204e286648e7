//! How the watched locks look.

use std::cmp::Reverse;
use std::time::Duration;

use serde_json::{Value, json};
use zoolet_client::SessionId;

use super::tally::Row;
use crate::args::Order;
use crate::format::name_text;
use crate::locks::clients::Clients;
use crate::locks::print::{age_text, table_text};

/// The locks at one look.
#[derive(Debug, Default)]
pub(super) struct Table {
    pub(super) rows: Vec<Row>,
    pub(super) clients: Clients,
}

/// The first line.
pub(super) fn head(path: &str, interval: Duration, order: Order, has_keys: bool) -> String {
    let keys = if has_keys { "; s sorts, q ends" } else { "" };
    let (path, order) = (name_text(path), order.name());
    format!("locks below {path}, every {interval:?}, by {order}{keys}")
}

const COLUMNS: [&str; 9] =
    ["LOCK", "KIND", "HOLDER", "CLIENT", "HELD", "QUEUE", "LONGEST", "HAND-OVERS", "EXPIRED"];

impl Table {
    pub(super) fn lines(&self, order: Order, trouble: Option<&str>, now_ms: i64) -> Vec<String> {
        let mut lines = Vec::new();
        if let Some(trouble) = trouble {
            let trouble = name_text(trouble);
            lines.push(format!("! {trouble}; what follows is old, and it is tried again"));
        }
        if self.rows.is_empty() {
            lines.push("no locks".to_owned());
            return lines;
        }
        let rows = self.sorted(order, now_ms);
        let mut cells = vec![COLUMNS.map(str::to_owned)];
        cells.extend(rows.iter().map(|row| self.cells(row, now_ms)));
        lines.extend(table_text(&cells, ""));
        lines
    }

    fn cells(&self, row: &Row, now_ms: i64) -> [String; 9] {
        let age = |since: Option<i64>| since.map(|since| age_text(now_ms.saturating_sub(since)));
        let or_dash = |text: Option<String>| text.unwrap_or_else(|| "-".to_owned());
        let more = row.holders.saturating_sub(1);
        let more = if more > 0 { format!(" +{more}") } else { String::new() };
        let holder = session(row).map_or_else(
            || if row.holders > 0 { "no session".to_owned() } else { "-".to_owned() },
            |session| session.to_string(),
        );
        [
            name_text(&row.path),
            row.kind.to_owned(),
            format!("{holder}{more}"),
            or_dash(self.client(row).map(str::to_owned)),
            or_dash(age(row.held_since_ms)),
            row.waiters.to_string(),
            or_dash(age(row.waiting_since_ms)),
            format!("{:.1}/s", row.hand_overs_per_s),
            or_dash(row.expired.map(|expired| expired.to_string())),
        ]
    }

    fn client(&self, row: &Row) -> Option<&str> {
        self.clients.address(session(row)?)
    }

    /// What they are sorted by is decided at this moment; those that are equal are by their paths.
    fn sorted(&self, order: Order, now_ms: i64) -> Vec<&Row> {
        let mut rows: Vec<&Row> = self.rows.iter().collect();
        rows.sort_by(|one, other| one.path.cmp(&other.path).then(one.kind.cmp(other.kind)));
        // The earliest time comes first, and none comes last.
        let earliest = |since: Option<i64>| since.unwrap_or(now_ms.max(0).saturating_add(1));
        match order {
            Order::Queue => rows.sort_by_key(|row| Reverse(row.waiters)),
            Order::Wait => rows.sort_by_key(|row| earliest(row.waiting_since_ms)),
            Order::Held => rows.sort_by_key(|row| earliest(row.held_since_ms)),
            Order::HandOvers => {
                rows.sort_by(|one, other| other.hand_overs_per_s.total_cmp(&one.hand_overs_per_s));
            }
            Order::Path => {}
        }
        rows
    }

    pub(super) fn json(&self, order: Order, trouble: Option<&str>, now_ms: i64) -> Value {
        let row = |row: &Row| {
            let age = |since: Option<i64>| since.map(|it| now_ms.saturating_sub(it).max(0));
            json!({
                "path": row.path,
                "kind": row.kind,
                "session": session(row).map(|session| session.to_string()),
                "address": self.client(row),
                "holders": row.holders,
                "held_for_ms": age(row.held_since_ms),
                "queue": row.waiters,
                "waited_for_ms": age(row.waiting_since_ms),
                "hand_overs_per_second": row.hand_overs_per_s,
                "expired": row.expired,
            })
        };
        let locks: Value = self.sorted(order, now_ms).into_iter().map(row).collect();
        json!({ "time_ms": now_ms, "locks": locks, "trouble": trouble })
    }
}

fn session(row: &Row) -> Option<SessionId> {
    row.holder.filter(|session| *session != SessionId::NONE)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(path: &str, waiters: usize, waiting_since_ms: Option<i64>, rate: f64) -> Row {
        Row {
            path: path.to_owned(),
            kind: "mutex",
            holder: Some(SessionId(1)),
            holders: 1,
            held_since_ms: Some(500),
            waiters,
            waiting_since_ms,
            hand_overs_per_s: rate,
            expired: None,
        }
    }

    #[test]
    fn the_highest_comes_first() {
        let rows = vec![
            row("/b", 1, Some(900), 0.0),
            row("/a", 0, None, 3.0),
            row("/c", 2, Some(700), 1.0),
        ];
        let table = Table { rows, clients: Clients::default() };
        let sorted = |order| {
            let paths = table.sorted(order, 1000).into_iter().map(|row| row.path.clone());
            paths.collect::<Vec<_>>().concat()
        };
        assert_eq!(sorted(Order::Queue), "/c/b/a");
        assert_eq!(sorted(Order::Wait), "/c/b/a");
        assert_eq!(sorted(Order::HandOvers), "/a/c/b");
        assert_eq!(sorted(Order::Held), "/a/b/c");
        assert_eq!(sorted(Order::Path), "/a/b/c");
    }

    #[test]
    fn what_went_wrong_and_names_do_nothing_to_a_terminal() {
        let table =
            Table { rows: vec![row("/\u{1b}[2J", 0, None, 0.0)], clients: Clients::default() };
        let lines = table.lines(Order::Queue, Some("no\nanswer"), 1000);
        assert_eq!(lines[0], "! no\\nanswer; what follows is old, and it is tried again");
        assert!(lines[2].starts_with("/\\u{1b}[2J  mutex  0x1 "), "{lines:?}");
        assert_eq!(Table::default().lines(Order::Path, None, 0), ["no locks"]);
    }
}
