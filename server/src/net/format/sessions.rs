//! `dump` and the watch words: sessions, their ephemeral znodes and their watches.

use std::collections::{BTreeMap, BTreeSet};

use super::super::context::PortContext;
use super::put;
use zoolet_jute::SessionId;
use zoolet_replica::Role;

pub(in super::super) fn dump(context: &PortContext) -> String {
    let report = context.host.sessions();
    let mut out = "SessionTracker dump:\n".to_owned();
    if report.role == Role::Leader {
        let mut sets: BTreeMap<u64, Vec<SessionId>> = BTreeMap::new();
        for known in &report.sessions {
            sets.entry(known.expires_ms.unwrap_or(0)).or_default().push(known.session);
        }
        let sessions = report.sessions.len();
        put(&mut out, format_args!("Session Sets ({})/({sessions}):\n", sets.len()));
        let now = context.host.now();
        for (expires_ms, sessions) in sets {
            let away_ms = expires_ms.saturating_sub(now.mono_ms);
            let at_ms = now.wall_ms.saturating_add_unsigned(away_ms);
            let date = java_date(at_ms);
            put(&mut out, format_args!("{} expire at {date}:\n", sessions.len()));
            for session in sessions {
                put(&mut out, format_args!("\t{session}\n"));
            }
        }
    } else {
        put(&mut out, format_args!("Global Sessions({}):\n", report.sessions.len()));
        for known in &report.sessions {
            put(&mut out, format_args!("{}\t{}ms\n", known.session, known.timeout_ms));
        }
    }
    let count = report.ephemerals.len();
    put(&mut out, format_args!("ephemeral nodes dump:\nSessions with Ephemerals ({count}):\n"));
    for (session, paths) in report.ephemerals {
        put(&mut out, format_args!("{session}:\n"));
        for path in paths.iter() {
            put(&mut out, format_args!("\t{path}\n"));
        }
    }
    out.push_str(&connections(context));
    out
}

/// The connections by the time at which they are closed without another sign of life.
fn connections(context: &PortContext) -> String {
    let entries = context.registry.entries();
    let count = entries.len();
    let mut sets: BTreeMap<i32, Vec<String>> = BTreeMap::new();
    for entry in entries {
        let accepted = entry.outbox.accepted();
        let session = accepted.map_or(SessionId::NONE, |accepted| accepted.session);
        let line = format!("\tip: /{} sessionId: {session}\n", entry.peer);
        sets.entry(accepted.map_or(0, |accepted| accepted.timeout_ms)).or_default().push(line);
    }
    let mut out = format!("Connections dump:\nConnections Sets ({})/({count}):\n", sets.len());
    let now_ms = context.host.now().wall_ms;
    for (timeout_ms, lines) in sets {
        let date = java_date(now_ms.saturating_add(i64::from(timeout_ms)));
        put(&mut out, format_args!("{} expire at {date}:\n{}", lines.len(), lines.concat()));
    }
    out
}

pub(in super::super) fn wchs(context: &PortContext) -> String {
    let (mut connections, mut paths, mut watches) = (BTreeSet::new(), 0, 0);
    context.host.watched_paths(|_, sessions| {
        paths += 1;
        watches += sessions.len();
        connections.extend(sessions);
    });
    let connections = connections.len();
    format!("{connections} connections watching {paths} paths\nTotal watches:{watches}\n")
}

pub(in super::super) fn wchc(context: &PortContext) -> String {
    let mut by_session: BTreeMap<SessionId, Vec<String>> = BTreeMap::new();
    context.host.watched_paths(|path, sessions| {
        for session in sessions {
            by_session.entry(session).or_default().push(path.clone());
        }
    });
    let mut out = String::new();
    for (session, paths) in by_session {
        put(&mut out, format_args!("{session}\n"));
        for path in paths {
            put(&mut out, format_args!("\t{path}\n"));
        }
    }
    out.push('\n');
    out
}

pub(in super::super) fn wchp(context: &PortContext) -> String {
    let mut out = String::new();
    context.host.watched_paths(|path, sessions| {
        put(&mut out, format_args!("{path}\n"));
        for session in sessions {
            put(&mut out, format_args!("\t{session}\n"));
        }
    });
    out.push('\n');
    out
}

/// A moment as Java's `Date` prints it, in UTC: `Fri Nov 20 10:34:53 UTC 2026`.
fn java_date(ms: i64) -> String {
    const DAYS: [&str; 7] = ["Thu", "Fri", "Sat", "Sun", "Mon", "Tue", "Wed"];
    const MONTHS: [&str; 12] =
        ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
    let seconds = ms.div_euclid(1000);
    let (days, second) = (seconds.div_euclid(86_400), seconds.rem_euclid(86_400));
    let (year, month, day) = civil(days);
    let name = |names: &[&'static str], index: i64| {
        usize::try_from(index).ok().and_then(|index| names.get(index).copied()).unwrap_or("?")
    };
    format!(
        "{} {} {day:02} {:02}:{:02}:{:02} UTC {year}",
        name(&DAYS, days.rem_euclid(7)),
        name(&MONTHS, month - 1),
        second / 3600,
        second / 60 % 60,
        second % 60,
    )
}

/// Year, month and day of a day since 1970, in the Gregorian calendar: years that begin in March
/// put the leap day at their end, and 400 of them have 146,097 days.
fn civil(days: i64) -> (i64, i64, i64) {
    let days = days + 719_468;
    let era = days.div_euclid(146_097);
    let day_of_era = days.rem_euclid(146_097);
    let year_of_era =
        (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted = (5 * day_of_year + 2) / 153;
    let month = if shifted < 10 { shifted + 3 } else { shifted - 9 };
    let day = day_of_year - (153 * shifted + 2) / 5 + 1;
    (year_of_era + era * 400 + i64::from(month <= 2), month, day)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_are_those_of_java() {
        for (ms, text) in [
            (0, "Thu Jan 01 00:00:00 UTC 1970"),
            (1_795_170_893_000, "Fri Nov 20 10:34:53 UTC 2026"),
            (951_782_400_000, "Tue Feb 29 00:00:00 UTC 2000"),
            (-1000, "Wed Dec 31 23:59:59 UTC 1969"),
        ] {
            assert_eq!(java_date(ms), text);
        }
    }
}
