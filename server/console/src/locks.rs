//! Locks: who holds which, who waits for whom, and deadlocks, as `zooletctl locks` finds them.

use std::collections::BTreeMap;

use serde_json::{Value, json};
use zoolet_client::SessionId;
use zoolet_survey::clock::now_ms;
use zoolet_survey::locks::{Deadlock, Edges, Limits, Lock, Member, Scope, Spot, Turn, WaitGraph};
use zoolet_survey::reader::Reader;

use crate::failure::Failure;
use crate::shared_client::CALL_TIME;
use crate::state::{Asked, State};
use crate::{data, sessions};

/// The limits of one look.
const LIMITS: Limits = Limits { znodes_max: 20_000, places_max: 5000 };

/// `locks`: the locks at a path and below.
pub(crate) async fn list(state: &State, asked: &Asked) -> Result<Value, Failure> {
    let path = asked.query.path("path")?;
    let reader = Reader::new(state.client(asked).await?, CALL_TIME);
    let scope = Scope { top: path, all: false, limits: LIMITS };
    let graph = WaitGraph::look(scope, &reader, |_, _| {}).await?;
    let addresses =
        if graph.locks().is_empty() { BTreeMap::new() } else { sessions::addresses(state).await };
    let view = View { graph: &graph, addresses: &addresses, now_ms: now_ms() };
    Ok(view.to_json(path))
}

/// What is shown.
#[derive(Debug)]
struct View<'a> {
    graph: &'a WaitGraph,
    addresses: &'a BTreeMap<SessionId, String>,
    now_ms: i64,
}

impl View<'_> {
    fn to_json(&self, path: &str) -> Value {
        let graph = self.graph;
        let deadlocks = graph.deadlocks();
        json!({
            "path": path,
            "locks": graph.locks().iter().map(|lock| self.lock(lock)).collect::<Value>(),
            "waits": graph.edges().map(|edges| wait(&edges)).collect::<Value>(),
            "deadlocks": deadlocks.iter().map(|it| self.deadlock(it)).collect::<Value>(),
            "waitForThemselves": graph.waits_for_itself().into_iter().map(place).collect::<Value>(),
            "visited": graph.scanned.visited,
            "isComplete": graph.scanned.is_complete,
            "nowMs": self.now_ms,
        })
    }

    fn lock(&self, lock: &Lock) -> Value {
        let of = |holds: bool| {
            let members = lock.members.iter().filter(|member| member.holds == holds);
            members.map(|member| self.member(member)).collect::<Value>()
        };
        json!({
            "path": lock.path,
            "kind": lock.kind.word(),
            "permits": lock.permits,
            "holders": of(true),
            "queue": of(false),
            "warnings": lock.warnings,
        })
    }

    fn member(&self, member: &Member) -> Value {
        let session = member.session();
        json!({
            "path": member.path,
            "role": member.place.role.word(),
            "family": member.place.family.word(),
            "session": session_text(session),
            "address": self.addresses.get(&session),
            "sinceMs": member.stat.ctime,
            "forMs": self.now_ms.saturating_sub(member.stat.ctime).max(0),
            "token": member.stat.czxid.0.to_string(),
            "data": data::shown(&member.data),
        })
    }

    /// The sessions of a cycle. Each waits for the next one, the last for the first.
    fn deadlock(&self, deadlock: &Deadlock<'_>) -> Value {
        let turn = |turn: &Turn<'_>| {
            json!({
                "session": session_text(turn.session()),
                "address": self.addresses.get(&turn.session()),
                "holds": turn.held.map(place),
                "waitsFor": place(turn.awaited),
            })
        };
        deadlock.turns.iter().map(turn).collect()
    }
}

/// One that waits, and those that it waits for, the nearest of them.
fn wait(edges: &Edges<'_>) -> Value {
    let before = edges.before.iter().map(|member| {
        json!({ "session": session_text(member.session()), "path": member.path, "holds": member.holds })
    });
    let Spot { lock, member } = edges.waiter;
    json!({
        "session": session_text(member.session()),
        "lock": lock.path,
        "path": member.path,
        "any": edges.any,
        "for": before.collect::<Value>(),
    })
}

fn place(spot: Spot<'_>) -> Value {
    let session = session_text(spot.member.session());
    json!({ "lock": spot.lock.path, "path": spot.member.path, "session": session })
}

/// Returns the id of a session; none of a znode without one.
fn session_text(session: SessionId) -> Option<String> {
    (session != SessionId::NONE).then(|| session.to_string())
}
