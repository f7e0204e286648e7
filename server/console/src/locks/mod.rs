//! Locks: who holds which, who waits, and who waits for whom.
//!
//! Which names are places in a queue, and who of those in it holds the lock, is decided by the same
//! package as for `zooletctl locks`.

mod deadlock;
mod scan;

use std::collections::BTreeMap;

use serde_json::{Value, json};
use zoolet_client::SessionId;
use zoolet_survey::locks::{Lock, Member};

use crate::failure::Failure;
use crate::state::{Asked, State};
use crate::{data, sessions};

/// `locks`: the locks at a path and below.
pub(crate) async fn list(state: &State, asked: &Asked) -> Result<Value, Failure> {
    let path = asked.query.path("path")?;
    let client = state.client(asked).await?;
    let scanned = scan::scan(path, &client).await?;
    let addresses =
        if scanned.locks.is_empty() { BTreeMap::new() } else { sessions::addresses(state).await };
    let now_ms = zoolet_survey::clock::now_ms();
    let shown = scanned.locks.iter().map(|lock| lock_json(lock, &addresses, now_ms));
    Ok(json!({
        "path": path,
        "locks": shown.collect::<Value>(),
        "deadlocks": deadlock::circles(&scanned.locks),
        "visited": scanned.visited,
        "isComplete": scanned.is_complete,
        "nowMs": now_ms,
    }))
}

fn lock_json(lock: &Lock, addresses: &BTreeMap<SessionId, String>, now_ms: i64) -> Value {
    let of = |holds: bool| {
        let members = lock.members.iter().filter(|member| member.holds == holds);
        members.map(|member| member_json(member, addresses, now_ms)).collect::<Value>()
    };
    json!({
        "path": lock.path,
        "kind": lock.kind.word(),
        "holders": of(true),
        "queue": of(false),
        "warnings": lock.warnings,
    })
}

fn member_json(member: &Member, addresses: &BTreeMap<SessionId, String>, now_ms: i64) -> Value {
    let session = member.stat.ephemeral_owner;
    json!({
        "path": member.path,
        "role": member.place.role.word(),
        "family": member.place.family.word(),
        "session": (session != SessionId::NONE).then(|| session.to_string()),
        "address": addresses.get(&session),
        "sinceMs": member.stat.ctime,
        "forMs": now_ms.saturating_sub(member.stat.ctime).max(0),
        "token": member.stat.czxid.0.to_string(),
        "data": data::shown(&member.data),
    })
}
