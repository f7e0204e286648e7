//! `history`: what has happened to znodes, sessions and locks (docs/history.md).

use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hyper::StatusCode;
use serde_json::{Value, json};
use zoolet_server::embed::Reports;
use zoolet_server::embed::history::{
    Entry, EntryKind, Found, Gap, HistoryCause, HistoryChange, HistoryEvent, LockPlace, Query,
    QueryError, SessionId, Subject, Turn, TurnEnd, turns,
};

use super::{Asked, Command, Object, answer, permit, refusal};
use crate::answer::Answer;

/// How many entries are returned, unless the request names another number.
const LIMIT: usize = 1000;

/// The most that a request may ask for.
const LIMIT_MAX: usize = 10_000;

/// The most places of a lock that are looked at beside the history.
const PLACES_MAX: usize = 100_000;

/// What a request asks for.
#[derive(Debug)]
struct Wanted {
    query: Query,
    /// Whether the data is to be shown, as far as it is kept.
    data: bool,
}

pub(super) fn run(reports: &Reports, asked: &Asked) -> Answer {
    let refuse = |status, why: &str| refusal(Command::History, status, why);
    let wanted = match Wanted::read(&asked.query, reports.wall_ms()) {
        Ok(wanted) => wanted,
        Err(why) => return refuse(StatusCode::BAD_REQUEST, &why),
    };
    if wanted.data
        && let Err((status, why)) = permit(reports, asked)
    {
        return refuse(status, why);
    }
    let lock = matches!(wanted.query.subject, Subject::Lock(_));
    // Who holds follows from all that came before.
    let all = Query { since_ms: None, limit: usize::MAX, ..wanted.query.clone() };
    // Before the history: what comes in between is in it.
    let live = match &wanted.query.subject {
        Subject::Lock(path) if wanted.query.after.is_none() => {
            reports.lock_places(path, PLACES_MAX)
        }
        Subject::Lock(_)
        | Subject::All
        | Subject::Path(_)
        | Subject::Below(_)
        | Subject::Session(_) => Vec::new(),
    };
    let found = match reports.history(if lock && wanted.query.after.is_none() {
        &all
    } else {
        &wanted.query
    }) {
        None => {
            let why =
                "this server keeps no history: history.enabled is false, or its disk is in memory";
            return refuse(StatusCode::NOT_FOUND, why);
        }
        Some(Err(error @ QueryError::Opening)) => {
            return refuse(StatusCode::SERVICE_UNAVAILABLE, &error.to_string());
        }
        Some(Err(error)) => return refuse(StatusCode::INTERNAL_SERVER_ERROR, &error.to_string()),
        Some(Ok(found)) => found,
    };
    answer(StatusCode::OK, Command::History.name(), wanted.object(found, &live, lock), None)
}

impl Wanted {
    fn read(query: &str, now_ms: i64) -> Result<Self, String> {
        let mut wanted = Self {
            query: Query {
                subject: Subject::All,
                since_ms: None,
                until_ms: None,
                after: None,
                limit: LIMIT,
            },
            data: false,
        };
        for (name, value) in form_urlencoded::parse(query.as_bytes()) {
            wanted.take(&name, &value, now_ms).map_err(|why| format!("{name}={value}: {why}"))?;
        }
        Ok(wanted)
    }

    fn take(&mut self, name: &str, value: &str, now_ms: i64) -> Result<(), String> {
        let number = |what: &str| value.parse().map_err(|_| format!("{what} is wanted"));
        match name {
            "path" => self.subject(Subject::Path(path(value)?)),
            "below" => self.subject(Subject::Below(path(value)?)),
            "lock" => self.subject(Subject::Lock(path(value)?)),
            "session" => self.subject(Subject::Session(session(value)?)),
            "since" => {
                let wanted = "a duration such as 90s, 15m, 1h or 7d is wanted";
                let since: Duration = humantime::parse_duration(value).map_err(|_| wanted)?;
                let since_ms = i64::try_from(since.as_millis()).map_err(|_| wanted)?;
                self.query.since_ms = Some(now_ms.saturating_sub(since_ms));
                Ok(())
            }
            "since_ms" => {
                self.query.since_ms = Some(number("a time in milliseconds since 1970")?);
                Ok(())
            }
            "until_ms" => {
                self.query.until_ms = Some(number("a time in milliseconds since 1970")?);
                Ok(())
            }
            "after" => {
                self.query.after =
                    Some(value.parse().map_err(|_| "the number of an entry is wanted")?);
                Ok(())
            }
            "limit" => {
                let limit = value.parse().ok().filter(|limit| (1..=LIMIT_MAX).contains(limit));
                let wanted = format!("a number from 1 to {LIMIT_MAX} is wanted");
                self.query.limit = limit.ok_or(wanted)?;
                Ok(())
            }
            "data" => {
                self.data = value.parse().map_err(|_| "true or false is wanted")?;
                Ok(())
            }
            _ => Err(
                "unknown parameter: path, below, lock, session, since, since_ms, until_ms, after, \
                      limit and data are known"
                    .to_owned(),
            ),
        }
    }

    fn subject(&mut self, subject: Subject) -> Result<(), String> {
        if self.query.subject != Subject::All {
            return Err("only one of path, below, lock and session may be given".to_owned());
        }
        self.query.subject = subject;
        Ok(())
    }

    fn object(&self, mut found: Found, live: &[LockPlace], lock: bool) -> Object {
        let mut object = Object::new();
        // Before the limit takes some away: they count for the turns as well.
        let gaps = found.entries.iter().filter_map(|entry| match &entry.kind {
            EntryKind::Gap(gap) => Some(gap_json(gap)),
            EntryKind::Event(_) => None,
        });
        object.insert("unrecorded".to_owned(), gaps.collect::<Value>());
        if lock && self.query.after.is_none() {
            let mut turns = turns(&found.entries, live, found.end);
            turns.retain(|turn| self.has(turn));
            let excess = turns.len().saturating_sub(self.query.limit);
            let shown: Vec<_> = turns.iter().skip(excess).map(turn_json).collect();
            object.insert("turns".to_owned(), shown.into());
            found.entries.retain(|entry| self.is_since(entry));
            let excess = found.entries.len().saturating_sub(self.query.limit);
            found.entries.drain(..excess);
            found.truncated |= excess > 0;
        }
        let entries: Vec<_> =
            found.entries.iter().map(|entry| entry_json(entry, self.data)).collect();
        object.insert("history".to_owned(), entries.into());
        object.insert("truncated".to_owned(), found.truncated.into());
        object.insert("last".to_owned(), found.last.into());
        let begin =
            found.begin.map(|(zxid, ms)| json!({ "zxid": zxid.to_string(), "time_ms": ms }));
        object.insert("begin".to_owned(), begin.into());
        object
    }

    fn is_since(&self, entry: &Entry) -> bool {
        let EntryKind::Event(event) = &entry.kind else { return true };
        self.query.since_ms.is_none_or(|since_ms| event.time_ms >= since_ms)
    }

    /// Whether a place was there in the time that is asked for.
    fn has(&self, turn: &Turn) -> bool {
        let ended_ms = turn.ended.map_or(i64::MAX, |(ended_ms, _)| ended_ms);
        self.query.since_ms.is_none_or(|since_ms| ended_ms >= since_ms)
    }
}

fn path(value: &str) -> Result<String, String> {
    if value.starts_with('/') {
        Ok(value.to_owned())
    } else {
        Err("a path such as /app/lock is wanted".to_owned())
    }
}

fn session(value: &str) -> Result<SessionId, String> {
    let number = match value.strip_prefix("0x") {
        Some(digits) => u64::from_str_radix(digits, 16).map(u64::cast_signed),
        None => value.parse(),
    };
    let wanted = |_| "a session id such as 0x100000000000001 is wanted".to_owned();
    number.map(SessionId).map_err(wanted)
}

fn entry_json(entry: &Entry, data: bool) -> Value {
    match &entry.kind {
        EntryKind::Event(event) => event_json(entry.number, event, data),
        EntryKind::Gap(gap) => {
            let mut object = gap_json(gap);
            if let Some(fields) = object.as_object_mut() {
                fields.insert("number".to_owned(), entry.number.into());
                fields.insert("kind".to_owned(), "gap".into());
            }
            object
        }
    }
}

fn gap_json(gap: &Gap) -> Value {
    json!({
        "after": gap.after.to_string(),
        "through": gap.through.to_string(),
        "reason": gap.reason.name(),
    })
}

fn event_json(number: u64, event: &HistoryEvent, data: bool) -> Value {
    let mut object = json!({
        "number": number,
        "kind": kind(&event.change),
        "zxid": event.zxid.to_string(),
        "time_ms": event.time_ms,
        "server": event.server.0,
        "session": event.session.to_string(),
        "cxid": event.cxid.0,
        "address": address(event),
        "identities": identities(event),
        "cause": cause(event.cause),
    });
    let Some(fields) = object.as_object_mut() else { return object };
    let mut put = |name: &str, value: Value| drop(fields.insert(name.to_owned(), value));
    if let Some(path) = event.change.path() {
        put("path", path.into());
    }
    match &event.change {
        HistoryChange::Created { owner, data: kept, .. } => {
            put("owner", owner.to_string().into());
            if let Some(kept) = kept.as_ref().filter(|_| data) {
                put("data_base64", STANDARD.encode(kept).into());
            }
        }
        HistoryChange::Deleted { owner, version, .. } => {
            put("owner", owner.to_string().into());
            put("old_version", (*version).into());
            put("reason", TurnEnd::of(event, *owner).name().into());
        }
        HistoryChange::DataChanged { old_version, version, data: kept, .. } => {
            put("old_version", (*old_version).into());
            put("version", (*version).into());
            if let Some(kept) = kept.as_ref().filter(|_| data) {
                put("data_base64", STANDARD.encode(kept).into());
            }
        }
        HistoryChange::AclChanged { old_version, version, .. } => {
            put("old_version", (*old_version).into());
            put("version", (*version).into());
        }
        HistoryChange::SessionEnded => put("reason", cause(event.cause).into()),
        HistoryChange::SessionOpened | HistoryChange::SessionResumed => {}
    }
    object
}

fn turn_json(turn: &Turn) -> Value {
    let (ended_ms, end) = (turn.ended.map(|(ms, _)| ms), turn.ended.map(|(_, end)| end));
    let by = match end {
        Some(TurnEnd::DeletedBy(session)) => Some(session.to_string()),
        _ => None,
    };
    let ids = turn.identities.iter();
    let address = ids.clone().find(|id| id.scheme.as_deref() == Some("ip"));
    json!({
        "path": turn.path,
        "session": turn.session.to_string(),
        "address": address.and_then(|id| id.id.as_deref()),
        "shared": turn.is_shared,
        "queued_at_ms": turn.queued_ms,
        "held": turn.has_held,
        "held_at_ms": turn.held_ms,
        "ended_at_ms": ended_ms,
        "reason": end.map(TurnEnd::name),
        "deleted_by": by,
    })
}

fn kind(change: &HistoryChange) -> &'static str {
    match change {
        HistoryChange::Created { .. } => "created",
        HistoryChange::Deleted { .. } => "deleted",
        HistoryChange::DataChanged { .. } => "data_changed",
        HistoryChange::AclChanged { .. } => "acl_changed",
        HistoryChange::SessionOpened => "session_opened",
        HistoryChange::SessionResumed => "session_resumed",
        HistoryChange::SessionEnded => "session_closed",
    }
}

fn cause(cause: HistoryCause) -> &'static str {
    match cause {
        HistoryCause::Request => "request",
        HistoryCause::SessionClosed => "session_closed",
        HistoryCause::SessionExpired => "session_expired",
        HistoryCause::Reaped => "reaped",
        HistoryCause::Ensemble => "ensemble",
    }
}

/// The address of the client, which is an identity of every connection.
fn address(event: &HistoryEvent) -> Option<&str> {
    let address = event.identities.iter().find(|id| id.scheme.as_deref() == Some("ip"));
    address.and_then(|id| id.id.as_deref())
}

/// The other identities.
fn identities(event: &HistoryEvent) -> Vec<String> {
    let proved = event.identities.iter().filter(|id| id.scheme.as_deref() != Some("ip"));
    let text = |id: &zoolet_server::embed::history::Identity| {
        let (scheme, id) = (id.scheme.as_deref(), id.id.as_deref());
        format!("{}:{}", scheme.unwrap_or_default(), id.unwrap_or_default())
    };
    proved.map(text).collect()
}

#[cfg(test)]
mod tests {
    use zoolet_server::embed::history::{GapReason, Zxid};

    use super::*;

    #[test]
    fn parameters_are_read_and_mistakes_named() {
        let read = |query: &str| Wanted::read(query, 10_000_000);
        let wanted = read("path=%2Fa%2Fb+c&since=1h&limit=7&data=true").unwrap();
        assert_eq!(wanted.query.subject, Subject::Path("/a/b c".to_owned()));
        assert_eq!((wanted.query.since_ms, wanted.query.limit), (Some(6_400_000), 7));
        assert!(wanted.data);
        let session = read("session=0x10000000001").unwrap().query.subject;
        let Subject::Session(session) = session else { panic!("{session:?}") };
        assert_eq!(session.0, 0x100_0000_0001);
        for (query, why) in [
            ("path=a", "path=a: a path such as"),
            ("path=/a&lock=/b", "only one of"),
            ("session=x", "session=x: a session id"),
            ("since=1", "since=1: a duration"),
            ("limit=0", "a number from 1 to 10000"),
            ("limit=10001", "a number from 1 to 10000"),
            ("after=-1", "the number of an entry"),
            ("data=yes", "true or false"),
            ("paht=/a", "paht=/a: unknown parameter"),
        ] {
            let error = read(query).unwrap_err();
            assert!(error.contains(why), "{query}: {error}");
        }
    }

    /// The turns of a lock are made of all entries, and the gaps among them were cut off by the limit.
    #[test]
    fn gaps_are_named_beyond_the_limit() {
        let gap = |number| {
            let (after, through) = (Zxid(number), Zxid(number + 1));
            let kind = EntryKind::Gap(Gap { after, through, reason: GapReason::Overload });
            Entry { number: number.cast_unsigned(), kind }
        };
        let found = Found { entries: vec![gap(1), gap(5)], ..Found::default() };
        let object = Wanted::read("lock=/a&limit=1", 0).unwrap().object(found, &[], true);
        let named = |after: &str, through: &str| json!({ "after": after, "through": through, "reason": "overload" });
        assert_eq!(object["unrecorded"], json!([named("0x1", "0x2"), named("0x5", "0x6")]));
        assert_eq!(object["history"].as_array().unwrap().len(), 1);
        assert_eq!(object["history"][0]["kind"], "gap");
    }
}
