//! How locks look.

use serde_json::Value;
use zoolet_client::SessionId;
use zoolet_survey::clock::now_ms;
use zoolet_survey::locks::{Lock, Member};

use super::clients::Clients;
use crate::format::{data_text, name_text, time_text};

/// The longest data that is shown to a person, in characters.
const DATA_SHOWN_MAX: usize = 60;

/// The locks for a person: one paragraph each, the holders first.
pub(crate) fn text(locks: &[Lock], all: bool, clients: &Clients) -> String {
    if locks.is_empty() {
        let more = if all { "" } else { "; --all shows those of unknown clients too" };
        return format!("no locks{more}");
    }
    let now_ms = now_ms();
    let paragraphs = locks.iter().map(|lock| {
        let mut lines = vec![headline(lock)];
        lines.extend(lock.warnings.iter().map(|warning| format!("  ! {}", name_text(warning))));
        lines.extend(table(lock, clients, now_ms));
        lines.join("\n")
    });
    paragraphs.collect::<Vec<_>>().join("\n\n")
}

fn headline(lock: &Lock) -> String {
    let held = lock.members.iter().filter(|member| member.holds).count();
    let waiting = lock.members.len() - held;
    let of = lock.permits.map(|permits| format!(" of {permits}")).unwrap_or_default();
    let kind = lock.kind.word();
    format!("{}  {kind}, {held}{of} held, {waiting} waiting", name_text(&lock.path))
}

const COLUMNS: [&str; 8] = ["", "FOR", "SINCE", "FAMILY", "SESSION", "CLIENT", "ZNODE", "DATA"];

fn table(lock: &Lock, clients: &Clients, now_ms: i64) -> Vec<String> {
    let mut rows = vec![COLUMNS.map(str::to_owned)];
    let mut position = 0;
    for member in &lock.members {
        position += usize::from(!member.holds);
        rows.push(row(member, position, clients, now_ms));
    }
    table_text(&rows, "  ")
}

/// Rows of the same length, each cell as wide as the widest one of its column.
pub(super) fn table_text<const COLUMNS: usize>(
    rows: &[[String; COLUMNS]],
    indent: &str,
) -> Vec<String> {
    let width = |column: usize| {
        rows.iter().filter_map(|row| row.get(column)).map(|cell| cell.chars().count()).max()
    };
    let widths: Vec<usize> = (0..COLUMNS).map(|column| width(column).unwrap_or(0)).collect();
    let line = |row: &[String; COLUMNS]| {
        let cells = row.iter().zip(&widths).map(|(cell, width)| format!("{cell:<width$}"));
        format!("{indent}{}", cells.collect::<Vec<_>>().join("  ")).trim_end().to_owned()
    };
    rows.iter().map(line).collect()
}

fn row(member: &Member, position: usize, clients: &Clients, now_ms: i64) -> [String; 8] {
    let session = member.session();
    let role = member.place.role.word();
    let state = if member.holds { "held".to_owned() } else { format!("{position}.") };
    [
        format!("{state} {role}"),
        age_text(now_ms.saturating_sub(member.stat.ctime)),
        time_text(member.stat.ctime),
        member.place.family.to_string(),
        if session == SessionId::NONE { "-".to_owned() } else { session.to_string() },
        clients.address(session).unwrap_or("-").to_owned(),
        name_text(member.path.rsplit('/').next().unwrap_or_default()),
        data_shown(member),
    ]
}

/// The data on a znode, on one line and not too long.
pub(crate) fn data_shown(member: &Member) -> String {
    let text = data_text(&member.data).replace('\n', "\\n");
    match text.char_indices().nth(DATA_SHOWN_MAX) {
        Some((end, _)) => format!("{}…", text.get(..end).unwrap_or_default()),
        None => text,
    }
}

/// A time span for a person. The clocks of servers may be ahead of this machine's.
pub(super) fn age_text(ms: i64) -> String {
    match ms.max(0) {
        ms @ 0..60_000 => format!("{}.{} s", ms / 1000, ms % 1000 / 100),
        ms @ 60_000..3_600_000 => format!("{} min {} s", ms / 60_000, ms / 1000 % 60),
        ms => format!("{} h {} min", ms / 3_600_000, ms / 60_000 % 60),
    }
}

/// The locks for a program.
pub(crate) fn json(locks: &[Lock], clients: &Clients) -> Value {
    clients.form(now_ms()).locks(locks)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ages_are_short() {
        assert_eq!(age_text(-5), "0.0 s");
        assert_eq!(age_text(59_999), "59.9 s");
        assert_eq!(age_text(61_000), "1 min 1 s");
        assert_eq!(age_text(7_260_000), "2 h 1 min");
    }
}
