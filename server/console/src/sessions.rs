//! Sessions: where each comes from, and what it holds; and ending one.

use std::collections::BTreeMap;

use futures_util::future::{join_all, join3};
use hyper::StatusCode;
use serde_json::{Value, json};
use zoolet_client::SessionId;
use zoolet_survey::sessions::{self as parse, Connection, Dump};

use crate::ask::{self, Silence};
use crate::failure::Failure;
use crate::logins::Login;
use crate::options::{HttpEnd, SharedConnector};
use crate::requests::Sent;
use crate::state::{Asked, State};

/// The most sessions of one page, and how many a page has by default.
const PAGE_MAX: usize = 500;
const PAGE_DEFAULT: usize = 100;

/// The largest offset.
const OFFSET_MAX: usize = 1 << 30;

/// The most paths of one kind that are shown of a session.
const PATHS_MAX: usize = 50;

/// What is known of a session.
#[derive(Clone, Debug, Default)]
struct Session {
    /// The server that it is connected to, and the connection.
    connection: Option<(String, Connection)>,
    ephemerals: Vec<String>,
    watches: Vec<String>,
}

/// What one server says of sessions; the texts are why something may be missing.
#[derive(Debug)]
struct Said {
    address: String,
    connections: Result<Vec<Connection>, String>,
    dump: Result<Dump, String>,
    watches: Result<BTreeMap<SessionId, Vec<String>>, String>,
}

/// `sessions`: a page of the sessions, by id; `filter` is a part of id, address or path.
pub(crate) async fn list(state: &State, asked: &Asked) -> Result<Value, Failure> {
    let offset = asked.query.number("offset", 0, OFFSET_MAX)?;
    let limit = asked.query.number("limit", PAGE_DEFAULT, PAGE_MAX)?;
    let filter = asked.query.text("filter").unwrap_or_default();
    let servers = state.shown.addresses().await;
    let connector = &state.options.connector;
    let asking = servers.iter().map(|it| ask_one(&it.client, it.http.as_ref(), connector));
    let said = join_all(asking).await;
    let notes: Vec<String> = said.iter().flat_map(notes_of).collect();
    let sessions = merged(said);
    let fits = |(id, session): &(&SessionId, &Session)| {
        let address = session.connection.as_ref().map_or("", |(_, it)| it.address.as_str());
        let mut paths = session.ephemerals.iter().chain(&session.watches);
        id.to_string().contains(filter)
            || address.contains(filter)
            || paths.any(|path| path.contains(filter))
    };
    let matching: Vec<_> = sessions.iter().filter(fits).collect();
    let page = matching.iter().skip(offset).take(limit);
    Ok(json!({
        "total": sessions.len(),
        "matching": matching.len(),
        "offset": offset,
        "sessions": page.map(|(id, session)| session_json(**id, session)).collect::<Value>(),
        "notes": notes,
        "nowMs": zoolet_survey::clock::now_ms(),
    }))
}

/// Returns the addresses from which sessions come, as far as servers say.
pub(crate) async fn addresses(state: &State) -> BTreeMap<SessionId, String> {
    let servers = state.shown.addresses().await;
    let connector = &state.options.connector;
    let asking = servers.iter().map(|it| connections(&it.client, it.http.as_ref(), connector));
    let said = join_all(asking).await.into_iter().filter_map(Result::ok).flatten();
    said.map(|connection| (connection.session, connection.address)).collect()
}

async fn ask_one(address: &str, http: Option<&HttpEnd>, connector: &SharedConnector) -> Said {
    let (connections, dump, watches) = join3(
        connections(address, http, connector),
        either(address, http, connector, ("dump", parse::dump), ("dump", parse::dump_json)),
        either(
            address,
            http,
            connector,
            ("wchc", parse::watches),
            ("watches", parse::watches_json),
        ),
    )
    .await;
    Said { address: address.to_owned(), connections, dump, watches }
}

async fn connections(
    address: &str,
    http: Option<&HttpEnd>,
    connector: &SharedConnector,
) -> Result<Vec<Connection>, String> {
    let word = ("cons", parse::connections as fn(&str) -> _);
    either(address, http, connector, word, ("connections", parse::connections_json)).await
}

/// Asks a four-letter word, or else a command if the HTTP port is known.
async fn either<T>(
    address: &str,
    http: Option<&HttpEnd>,
    connector: &SharedConnector,
    (word, of_text): (&'static str, fn(&str) -> T),
    (command, of_json): (&'static str, fn(&Value) -> T),
) -> Result<T, String> {
    let silence = match ask::word(connector, address, word).await {
        Ok(answer) => return Ok(of_text(&answer)),
        Err(silence) => silence,
    };
    if let Some(http) = http
        && let Ok(answer) = ask::command(http, command, None).await
    {
        return Ok(of_json(&answer));
    }
    Err(match &silence {
        Silence::Forbidden => format!("{address} does not allow `{word}` (4lw.commands.whitelist)"),
        Silence::Unreachable(_) | Silence::Late | Silence::NotServing | Silence::Refused { .. } => {
            format!("{address}: {silence}")
        }
    })
}

/// Returns why something may be missing, each reason once.
fn notes_of(said: &Said) -> Vec<String> {
    let mut notes = Vec::new();
    let (a, b) = (said.connections.as_ref().err(), said.dump.as_ref().err());
    for note in [a, b, said.watches.as_ref().err()].into_iter().flatten() {
        if !notes.contains(note) {
            notes.push(note.clone());
        }
    }
    notes
}

fn merged(said: Vec<Said>) -> BTreeMap<SessionId, Session> {
    let mut sessions: BTreeMap<SessionId, Session> = BTreeMap::new();
    for Said { address, connections, dump, watches } in said {
        for connection in connections.into_iter().flatten() {
            let session = sessions.entry(connection.session).or_default();
            session.connection = Some((address.clone(), connection));
        }
        if let Ok(dump) = dump {
            for id in dump.sessions {
                sessions.entry(id).or_default();
            }
            // Every server has those of all sessions.
            for (id, paths) in dump.ephemerals {
                sessions.entry(id).or_default().ephemerals = paths;
            }
        }
        for (id, paths) in watches.into_iter().flatten() {
            sessions.entry(id).or_default().watches.extend(paths);
        }
    }
    sessions
}

fn session_json(id: SessionId, session: &Session) -> Value {
    let connection = session.connection.as_ref().map(|(server, it)| {
        json!({
            "server": server,
            "address": it.address,
            "sinceMs": it.since_ms,
            "timeoutMs": it.timeout_ms,
            "queued": it.queued,
            "received": it.received,
            "sent": it.sent,
            "lastOperation": it.last_operation,
        })
    });
    let first = |paths: &[String]| paths.iter().take(PATHS_MAX).cloned().collect::<Vec<_>>();
    json!({
        "id": id.to_string(),
        "connection": connection,
        "ephemerals": first(&session.ephemerals),
        "ephemeralCount": session.ephemerals.len(),
        "watches": first(&session.watches),
        "watchCount": session.watches.len(),
    })
}

/// `close`: ends a session. The protocol has no request for it, so a server has to have the command,
/// and the one that leads carries it out.
pub(crate) async fn close(state: &State, login: &Login, sent: &Sent) -> Result<Value, Failure> {
    let id = sent.text("session")?;
    let digits = id.strip_prefix("0x").filter(|digits| u64::from_str_radix(digits, 16).is_ok());
    let digits = digits.ok_or_else(|| Failure::invalid(format!("invalid session {id:?}")))?;
    let command = format!("expire_session?session=0x{digits}");
    let mut last = None;
    for http in state.options.http_ends() {
        match ask::command(&http, &command, Some(&login.proof)).await {
            Ok(_) => return Ok(json!({ "closed": id })),
            Err(silence) => last = Some(silence),
        }
        // The identity is the same everywhere.
        if let Some(Silence::Refused { status: 401 | 403, .. }) = last {
            break;
        }
    }
    Err(match last {
        None => Failure::new(
            StatusCode::NOT_IMPLEMENTED,
            "no HTTP port of the servers is known, and ZooKeeper's protocol has no request that ends \
             the session of another client",
        ),
        Some(Silence::Refused { status: 401 | 403, why }) => {
            Failure::new(StatusCode::FORBIDDEN, format!("close {id}: {why}"))
        }
        Some(silence) => Failure::unavailable(format!("close {id}: {silence}")),
    })
}
