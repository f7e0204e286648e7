//! `dump` and the watch words: sessions, their ephemeral znodes and their watches.

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::sync::Arc;

use zoolet_jute::SessionId;
use zoolet_replica::{Role, SessionReport};

use super::super::context::PortContext;
use super::list::List;
use crate::host::Host;

/// The work of a hold of the lock that looks at watches, in units of a turn's budget.
const WATCH_PART: usize = 400;

pub(in super::super) async fn dump(context: &PortContext) -> String {
    let host = &*context.host;
    let mut list = List::new(host);
    list.put(format_args!("SessionTracker dump:\n"));
    // Only the leader knows when sessions expire.
    let leads = host.role() == Role::Leader;
    let mut sessions = BTreeMap::new();
    for part in host.session_parts() {
        // A look at each, and its place among the others.
        list.spend(1 + part.len() / 2);
        sessions.extend(part.into_iter().map(|known| (known.session, known)));
        list.pause().await;
    }
    if leads {
        put_deadlines(&mut list, host, sessions).await;
    } else {
        list.put(format_args!("Global Sessions({}):\n", sessions.len()));
        for known in sessions.into_values() {
            list.put(format_args!("{}\t{}ms\n", known.session, known.timeout_ms));
            list.pause().await;
        }
    }
    put_ephemerals(&mut list, host).await;
    put_connections(&mut list, context).await;
    list.finish()
}

/// The sessions by the time at which they expire without another sign of life.
async fn put_deadlines(
    list: &mut List<'_>,
    host: &Host,
    sessions: BTreeMap<SessionId, SessionReport>,
) {
    let count = sessions.len();
    let mut sets: BTreeMap<u64, Vec<SessionId>> = BTreeMap::new();
    for known in sessions.into_values() {
        sets.entry(known.expires_ms.unwrap_or(0)).or_default().push(known.session);
        list.spend(1);
        list.pause().await;
    }
    list.put(format_args!("Session Sets ({})/({count}):\n", sets.len()));
    let now = host.now();
    for (expires_ms, sessions) in sets {
        let away_ms = expires_ms.saturating_sub(now.mono_ms);
        let date = java_date(now.wall_ms.saturating_add_unsigned(away_ms));
        list.put(format_args!("{} expire at {date}:\n", sessions.len()));
        for session in sessions {
            list.put(format_args!("\t{session}\n"));
            list.pause().await;
        }
    }
}

async fn put_ephemerals(list: &mut List<'_>, host: &Host) {
    let mut owners = Vec::new();
    for part in host.ephemeral_parts() {
        list.spend(1 + part.len());
        owners.extend(part);
        list.pause().await;
    }
    let count = owners.len();
    list.put(format_args!("ephemeral nodes dump:\nSessions with Ephemerals ({count}):\n"));
    for (session, paths) in owners {
        list.put(format_args!("{session}:\n"));
        for path in paths.iter() {
            list.put(format_args!("\t{path}\n"));
            list.pause().await;
        }
    }
}

/// The connections by the time at which they are closed without another sign of life.
async fn put_connections(list: &mut List<'_>, context: &PortContext) {
    let entries = context.registry.entries();
    let count = entries.len();
    let mut sets: BTreeMap<i32, Vec<(SocketAddr, SessionId)>> = BTreeMap::new();
    for entry in entries {
        let accepted = entry.outbox.accepted();
        let session = accepted.map_or(SessionId::NONE, |accepted| accepted.session);
        let timeout_ms = accepted.map_or(0, |accepted| accepted.timeout_ms);
        sets.entry(timeout_ms).or_default().push((entry.peer, session));
        list.spend(1);
        list.pause().await;
    }
    list.put(format_args!("Connections dump:\nConnections Sets ({})/({count}):\n", sets.len()));
    let now_ms = context.host.now().wall_ms;
    for (timeout_ms, connections) in sets {
        let date = java_date(now_ms.saturating_add(i64::from(timeout_ms)));
        list.put(format_args!("{} expire at {date}:\n", connections.len()));
        for (peer, session) in connections {
            list.put(format_args!("\tip: /{peer} sessionId: {session}\n"));
            list.pause().await;
        }
    }
}

pub(in super::super) async fn wchs(context: &PortContext) -> String {
    let mut list = List::new(&context.host);
    let (mut connections, mut paths, mut watches) = (BTreeSet::new(), 0, 0);
    for part in context.host.watch_parts() {
        list.spend(WATCH_PART);
        for (_, sessions) in part {
            (paths, watches) = (paths + 1, watches + sessions.len());
            for session in sessions {
                connections.insert(session);
                list.spend(1);
                list.pause().await;
            }
        }
        list.pause().await;
    }
    let connections = connections.len();
    list.put(format_args!(
        "{connections} connections watching {paths} paths\nTotal watches:{watches}\n"
    ));
    list.finish()
}

pub(in super::super) async fn wchc(context: &PortContext) -> String {
    let mut list = List::new(&context.host);
    let mut by_session: BTreeMap<SessionId, Vec<Arc<str>>> = BTreeMap::new();
    for part in context.host.watch_parts() {
        list.spend(WATCH_PART);
        for (path, sessions) in part {
            let path = Arc::<str>::from(path);
            for session in sessions {
                by_session.entry(session).or_default().push(Arc::clone(&path));
                list.spend(1);
                list.pause().await;
            }
        }
        list.pause().await;
    }
    for (session, paths) in by_session {
        list.put(format_args!("{session}\n"));
        for path in paths {
            list.put(format_args!("\t{path}\n"));
            list.pause().await;
        }
    }
    list.put(format_args!("\n"));
    list.finish()
}

pub(in super::super) async fn wchp(context: &PortContext) -> String {
    let mut list = List::new(&context.host);
    for part in context.host.watch_parts() {
        list.spend(WATCH_PART);
        for (path, sessions) in part {
            list.put(format_args!("{path}\n"));
            for session in sessions {
                list.put(format_args!("\t{session}\n"));
                list.pause().await;
            }
        }
        list.pause().await;
    }
    list.put(format_args!("\n"));
    list.finish()
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
