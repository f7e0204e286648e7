//! `locks --graph`: who waits for whom, and the deadlocks.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;
use zoolet_client::SessionId;
use zoolet_survey::clock::now_ms;
use zoolet_survey::locks::{Deadlock, Edges, Member, Spot, Turn, WaitGraph};

use super::clients::Clients;
use super::print::{age_text, table_text};
use super::{scope, spinner};
use crate::args::{Locks, Options};
use crate::context::Context;
use crate::error::{CtlError, Exit};
use crate::format::name_text;
use crate::output;

/// How many of those that one waits for a person sees.
const BEFORE_SHOWN_MAX: usize = 3;

/// `locks --graph [PATH]`. It fails with a code of its own if there is a deadlock.
pub(super) async fn run(
    arguments: &Locks,
    options: &Options,
    context: &Context,
) -> Result<(), CtlError> {
    if arguments.dot && context.output.json {
        return Err(CtlError::new(Exit::Usage, "--dot and --json are two forms: give one of them"));
    }
    let (reader, scope) = (context.connection.reader(), scope(&arguments.path, arguments.all));
    let found = WaitGraph::look(scope, &reader, spinner()).await?;
    let clients = Clients::of(found.locks(), options).await?;
    let deadlocks = found.deadlocks();
    print(&Graph { found: &found, deadlocks, clients: &clients }, arguments, context)
}

fn print(graph: &Graph<'_>, arguments: &Locks, context: &Context) -> Result<(), CtlError> {
    if arguments.dot {
        output::line(&graph.dot())?;
    } else {
        if !context.output.json {
            graph.clients.complain();
        }
        context.output.result(|| graph.text(now_ms()), || graph.json())?;
    }
    if graph.deadlocks.is_empty() { Ok(()) } else { Err(CtlError::new(Exit::Deadlock, "")) }
}

/// What is shown.
#[derive(Debug)]
struct Graph<'a> {
    found: &'a WaitGraph,
    deadlocks: Vec<Deadlock<'a>>,
    clients: &'a Clients,
}

impl Graph<'_> {
    fn text(&self, now_ms: i64) -> String {
        let rows: Vec<[String; 5]> =
            self.found.edges().map(|edges| self.row(&edges, now_ms)).collect();
        let mut parts = Vec::new();
        if rows.is_empty() {
            parts.push("no one waits".to_owned());
        } else {
            let columns = ["LOCK", "SESSION", "CLIENT", "FOR", "WAITS FOR"].map(str::to_owned);
            parts.push(table_text(&[vec![columns], rows].concat(), "").join("\n"));
        }
        for spot in self.found.waits_for_itself() {
            let (session, lock) = (spot.member.session(), name_text(&spot.lock.path));
            parts.push(format!(
                "! {session} holds {lock} and waits for it: it waits for ever unless another thread \
                 of that program holds it"
            ));
        }
        parts.extend(self.deadlocks.iter().map(|deadlock| self.deadlock_text(deadlock)));
        parts.join("\n\n")
    }

    fn row(&self, edges: &Edges<'_>, now_ms: i64) -> [String; 5] {
        let Spot { lock, member } = edges.waiter;
        let state = |it: &&Member| {
            let state = if it.holds { "holds" } else { "waits" };
            format!("{} ({state})", session_text(it))
        };
        let separator = if edges.any { " or " } else { ", " };
        let shown: Vec<String> = edges.before.iter().take(BEFORE_SHOWN_MAX).map(state).collect();
        let more = edges.before.len() - shown.len();
        let more = if more > 0 { format!("{separator}{more} more") } else { String::new() };
        [
            name_text(&lock.path),
            session_text(member),
            self.clients.address(member.session()).unwrap_or("-").to_owned(),
            age_text(now_ms.saturating_sub(member.stat.ctime)),
            format!("{}{more}", shown.join(separator)),
        ]
    }

    fn deadlock_text(&self, deadlock: &Deadlock<'_>) -> String {
        let turn = |turn: &Turn<'_>| {
            let client = self.clients.address(turn.session());
            let client = client.map(|address| format!(" ({address})")).unwrap_or_default();
            let held = turn.held.map(|held| format!("holds {}, ", name_text(&held.lock.path)));
            let awaited = name_text(&turn.awaited.lock.path);
            let held = held.unwrap_or_default();
            format!("\n  {}{client} {held}waits for {awaited}", turn.session())
        };
        let turns: String = deadlock.turns.iter().map(turn).collect();
        format!(
            "deadlock of {} sessions, each waits for the next one:{turns}",
            deadlock.turns.len()
        )
    }

    fn json(&self) -> Value {
        self.clients.form(now_ms()).graph(self.found, &self.deadlocks).into()
    }

    /// The sessions and their waits in Graphviz's language; the edges of deadlocks are red.
    fn dot(&self) -> String {
        let mut in_cycle = BTreeSet::new();
        for deadlock in &self.deadlocks {
            let next = deadlock.turns.iter().cycle().skip(1);
            in_cycle.extend(deadlock.turns.iter().zip(next).map(|(one, next)| {
                (one.session(), next.session(), one.awaited.lock.path.as_str())
            }));
        }
        let (mut nodes, mut lines) = (BTreeMap::new(), BTreeMap::new());
        let mut edge = |waiter: &Member, other: &Member, lock: &str| {
            for member in [waiter, other] {
                let label = match self.clients.address(member.session()) {
                    Some(address) => format!("{}\n{address}", session_text(member)),
                    None => session_text(member),
                };
                nodes.insert(session_text(member), label);
            }
            let color = if in_cycle.contains(&(waiter.session(), other.session(), lock)) {
                ", color=red"
            } else {
                ""
            };
            let ends = (session_text(waiter), session_text(other), name_text(lock));
            lines.insert(ends, color);
        };
        for edges in self.found.edges() {
            let lock = edges.waiter.lock.path.as_str();
            for member in &edges.before {
                edge(edges.waiter.member, member, lock);
            }
        }
        for deadlock in &self.deadlocks {
            let next = deadlock.turns.iter().cycle().skip(1);
            for (one, next) in deadlock.turns.iter().zip(next) {
                let next = next.held.unwrap_or(next.awaited);
                edge(one.awaited.member, next.member, &one.awaited.lock.path);
            }
        }
        let nodes = nodes
            .iter()
            .map(|(name, label)| format!("  {} [label={}];\n", quoted(name), quoted(label)));
        let edges = lines.iter().map(|((from, to, lock), color)| {
            format!("  {} -> {} [label={}{color}];\n", quoted(from), quoted(to), quoted(lock))
        });
        format!("digraph locks {{\n{}{}}}", nodes.collect::<String>(), edges.collect::<String>())
    }
}

/// How a session is called; a znode without one by its path.
fn session_text(member: &Member) -> String {
    match member.session() {
        SessionId::NONE => name_text(&member.path),
        session => session.to_string(),
    }
}

/// A text in Graphviz's language. It takes what follows a backslash for an order, as for a new line.
fn quoted(text: &str) -> String {
    let text = text.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n");
    format!("\"{text}\"")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_ends_no_text_of_graphviz() {
        assert_eq!(quoted("a\"b\\c\nd"), r#""a\"b\\c\nd""#);
    }
}
