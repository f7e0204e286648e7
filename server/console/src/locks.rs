//! Locks: who holds which, who waits for whom, and deadlocks, as `zooletctl locks` finds them.

use std::collections::BTreeMap;

use serde_json::{Value, json};
use zoolet_survey::clock::now_ms;
use zoolet_survey::locks::{Form, Limits, Scope, WaitGraph};
use zoolet_survey::reader::Reader;

use crate::failure::Failure;
use crate::sessions;
use crate::shared_client::CALL_TIME;
use crate::state::{Asked, State};

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
    Ok(answer(path, &graph, Form { addresses: &addresses, now_ms: now_ms() }))
}

/// Locks have the form that `zooletctl` gives them, and so all names of this answer are in `snake_case`.
fn answer(path: &str, graph: &WaitGraph, form: Form<'_>) -> Value {
    let mut answer = form.graph(graph, &graph.deadlocks());
    let more = [
        ("path", json!(path)),
        ("locks", form.locks(graph.locks())),
        ("visited", json!(graph.scanned.visited)),
        ("is_complete", json!(graph.scanned.is_complete)),
        ("now_ms", json!(form.now_ms)),
    ];
    answer.extend(more.map(|(key, value)| (key.to_owned(), value)));
    answer.into()
}
