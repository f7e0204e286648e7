//! The servers as a table and as JSON.

use serde_json::{Value, json};
use zoolet_survey::members::Unknown;
use zoolet_survey::srvr::{ReachedLimit, Served};

use super::Ensemble;
use super::look::Look;
use crate::format::lines_text;

/// The heads of the columns.
const HEADS: [&str; 9] =
    ["SERVER", "ROLE", "TERM", "ZXID", "BEHIND", "CONNECTIONS", "WAITING", "LATENCY", "VERSION"];

/// Returns the table, and the summary behind it.
pub(super) fn text(ensemble: &Ensemble) -> String {
    let leader = leader(ensemble);
    let mut rows = vec![HEADS.map(str::to_owned).to_vec()];
    rows.extend(ensemble.looks.iter().map(|look| row(look, leader)));
    rows.extend(ensemble.unknown.iter().map(row_of_unknown));
    // A row of two cells says what is wrong, over the whole width.
    let width = |column: usize| {
        let cells =
            rows.iter().filter(|row| row.len() == HEADS.len()).filter_map(|row| row.get(column));
        let addresses = rows.iter().filter_map(|row| row.first()).filter(|_| column == 0);
        cells.chain(addresses).map(|cell| cell.chars().count()).max().unwrap_or_default()
    };
    let widths: Vec<_> = (0..HEADS.len()).map(width).collect();
    let mut out = String::new();
    for row in &rows {
        let padded = row.iter().zip(&widths).map(|(cell, &width)| format!("{cell:width$}"));
        out += padded.collect::<Vec<_>>().join("  ").trim_end();
        out.push('\n');
    }
    let limits = limits(ensemble);
    if !limits.is_empty() {
        out.push('\n');
        out += &limits.join("\n");
        out.push('\n');
    }
    // Names and versions are what the servers say.
    lines_text(&(out + "\n" + &ensemble.summary()))
}

/// Returns a line for each limit that a server has reached.
fn limits(ensemble: &Ensemble) -> Vec<String> {
    let of_server = |look: &Look| -> Vec<String> {
        let line = |limit: &ReachedLimit| {
            let whose = if limit.is_total { "" } else { " by one address or identity" };
            format!("{}: limit reached{whose}: {}", look.address, limit.text)
        };
        let reached = look.found.serving().map(|served| served.limits_reached.iter().map(line));
        reached.into_iter().flatten().collect()
    };
    ensemble.looks.iter().flat_map(of_server).collect()
}

fn leader(ensemble: &Ensemble) -> Option<&Served> {
    ensemble.leader()?.found.serving()
}

fn row(look: &Look, leader: Option<&Served>) -> Vec<String> {
    let Some(served) = look.found.serving() else {
        return vec![look.address.clone(), look.found.to_string()];
    };
    let behind = leader.and_then(|leader| served.behind(leader));
    vec![
        look.address.clone(),
        served.mode.clone(),
        served.term().to_string(),
        zxid(served),
        behind.map_or_else(|| "?".to_owned(), |behind| behind.to_string()),
        served.connections.to_string(),
        served.outstanding.to_string(),
        format!("{:.1} ms", served.latency_ms),
        served.version.clone(),
    ]
}

fn row_of_unknown(unknown: &Unknown) -> Vec<String> {
    vec![unknown.to_string(), problem_of_unknown(unknown)]
}

/// Returns the text in the row of a server that cannot be asked.
fn problem_of_unknown(unknown: &Unknown) -> String {
    let remedy = match unknown.taken {
        Some(_) => "correct the configuration",
        None => "name it in --servers",
    };
    format!("{}; {remedy}", unknown.problem())
}

fn zxid(served: &Served) -> String {
    format!("{:#x}", served.zxid)
}

/// Returns the same for programs. Zxids are texts: they do not fit into the numbers of JSON.
pub(super) fn json(ensemble: &Ensemble) -> Value {
    let leader = leader(ensemble);
    let known = ensemble.looks.iter().map(|look| server(look, leader));
    let unknown = ensemble.unknown.iter().map(unknown_server);
    json!({
        "servers": known.chain(unknown).collect::<Vec<_>>(),
        "leader": ensemble.leader().map(|look| &look.address),
        "healthy": ensemble.exit().is_none(),
        "summary": ensemble.summary(),
    })
}

fn server(look: &Look, leader: Option<&Served>) -> Value {
    let Some(served) = look.found.serving() else {
        let problem = look.found.to_string();
        return json!({ "address": look.address, "serving": false, "problem": problem });
    };
    json!({
        "address": look.address,
        "serving": true,
        "role": served.mode,
        "term": served.term(),
        "zxid": zxid(served),
        "behind": leader.and_then(|leader| served.behind(leader)),
        "connections": served.connections,
        "waiting": served.outstanding,
        "latency_ms": served.latency_ms,
        "znodes": served.znodes,
        "version": served.version,
        "limits_reached": served.limits_reached.iter().map(|limit| &limit.text).collect::<Vec<_>>(),
    })
}

fn unknown_server(unknown: &Unknown) -> Value {
    json!({
        "address": null,
        "server": unknown.member.id,
        "peer": unknown.member.peer,
        "serving": null,
        "problem": problem_of_unknown(unknown),
    })
}
