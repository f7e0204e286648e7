//! P2: what a reconfiguration was answered is true of the configurations that the log has.
//!
//! The log has the configurations, and not which request each of them came of. So each answer is held
//! against those that were in force between the request and its reply (protocol §2.9).

use std::collections::BTreeMap;

use zoolet_jute::{ErrorCode, ReconfigRequest, Reply, Request, perms};
use zoolet_replica::Op;

use super::{Answer, Call, Counts, Run, Violation};
use crate::SimTime;
use crate::model::Replay;
use crate::model::path::CONFIG;

const P2: &str = "P2 reconfig";

/// Holds each answer against the configurations of the log.
pub(super) fn check(run: &Run<'_>, counts: &mut Counts) -> Vec<Violation> {
    let is_allowed = run.model.transactions.iter().any(|one| one.command.policy.reconfig);
    let all = configurations(run);
    let mut calls: Vec<(&Call<'_>, Answer<'_>, &ReconfigRequest)> = Vec::new();
    for call in run.calls.values() {
        // Where they are switched off they are in the log, and judged as writes.
        if let (Request::Reconfig(body), Some(answer)) = (call.request, call.answer)
            && call.transactions.is_empty()
        {
            calls.push((call, answer, body));
        }
    }
    calls.sort_by_key(|(call, answer, _)| (answer.zxid, call.number));
    let mut replay = run.model.replay();
    let mut found = Vec::new();
    for (call, answer, body) in calls {
        let in_force = in_force(&all, call.at, answer.at);
        let why = match answer.result {
            Ok(reply) => {
                counts.reconfigs += 1;
                done(&mut replay, (call, answer, body), reply, in_force)
            }
            Err(code) => refused(&mut replay, (call, answer, body), *code, in_force, is_allowed),
        };
        counts.reconfigs_refused += u64::from(answer.result.is_err());
        if let Some(why) = why {
            let what = format!("{} was answered {:?}: {why}", run.describe(call), answer.result);
            found.push(Violation { promise: P2, at: answer.at, what });
        }
    }
    found
}

/// A configuration of the log.
#[derive(Debug)]
struct Configuration {
    at: SimTime,
    /// The zxid of its command.
    version: i64,
    /// Whether each server votes, by its number.
    votes: BTreeMap<u64, bool>,
}

/// All of them, in their order.
fn configurations(run: &Run<'_>) -> Vec<Configuration> {
    let done = run.model.transactions.iter().filter(|one| one.outcome.result.is_ok());
    let configurations = done.filter_map(|one| {
        let Op::SetConfig { text, .. } = &one.command.op else { return None };
        Some(Configuration { at: one.first_at, version: one.zxid.0, votes: votes(text.lines()) })
    });
    configurations.collect()
}

/// The servers of lines such as `server.1=host:2888:3888:participant;2181`.
fn votes<'a>(lines: impl Iterator<Item = &'a str>) -> BTreeMap<u64, bool> {
    let server = |line: &str| {
        let (number, addresses) = line.strip_prefix("server.")?.split_once('=')?;
        Some((number.parse().ok()?, !addresses.contains(":observer")))
    };
    lines.filter_map(server).collect()
}

/// Those that were in force at some moment between two.
fn in_force(all: &[Configuration], from: SimTime, until: SimTime) -> &[Configuration] {
    let first = all.partition_point(|one| one.at <= from).saturating_sub(1);
    let end = all.partition_point(|one| one.at <= until);
    all.get(first..end).unwrap_or_default()
}

/// A request, its answer, and its body.
type Asked<'a> = (&'a Call<'a>, Answer<'a>, &'a ReconfigRequest);

/// Why a reconfiguration cannot have been done.
fn done(
    replay: &mut Replay<'_>,
    (call, answer, body): Asked<'_>,
    reply: &Reply,
    in_force: &[Configuration],
) -> Option<String> {
    let config = replay.to(answer.zxid).tree.get(CONFIG)?;
    let expected = Reply::Data(config.data.clone(), config.stat());
    if *reply != expected {
        return Some(format!("at {} the log has {expected:?}", answer.zxid));
    }
    if call.who.may(&config.acl, perms::WRITE) == Some(false) {
        return Some(format!("its connection may not write {CONFIG}"));
    }
    if body.config_id != -1 && !in_force.iter().any(|one| one.version == body.config_id) {
        return Some(format!("its version was not in force: {in_force:?}"));
    }
    let is_done = in_force.iter().any(|one| has(one, body));
    (!is_done).then(|| format!("no configuration is what it asks for: {in_force:?}"))
}

/// Whether a configuration is what a request asks for.
fn has(one: &Configuration, body: &ReconfigRequest) -> bool {
    let lines = |text: &Option<String>| votes(text.as_deref().unwrap_or_default().split(','));
    let leaving = body.leaving_servers.as_deref().unwrap_or_default();
    let mut leaving = leaving.split(',').filter_map(|number| number.parse().ok());
    let joining = lines(&body.joining_servers);
    joining.iter().all(|(server, votes)| one.votes.get(server) == Some(votes))
        && leaving.all(|server: u64| !one.votes.contains_key(&server))
        && (body.new_members.is_none() || one.votes == lines(&body.new_members))
}

/// Why a reconfiguration cannot have been refused with this code.
fn refused(
    replay: &mut Replay<'_>,
    (call, answer, body): Asked<'_>,
    code: ErrorCode,
    in_force: &[Configuration],
    is_allowed: bool,
) -> Option<String> {
    #[allow(clippy::wildcard_enum_match_arm, reason = "the others are about what no log shows")]
    match code {
        ErrorCode::BadVersion => {
            let is_right =
                body.config_id == -1 || in_force.iter().all(|one| one.version == body.config_id);
            is_right.then(|| format!("its version was in force all the time: {in_force:?}"))
        }
        ErrorCode::NoAuth => {
            let config = replay.to(answer.zxid).tree.get(CONFIG)?;
            let may = call.who.may(&config.acl, perms::WRITE) == Some(true);
            may.then(|| format!("its connection may write {CONFIG}"))
        }
        ErrorCode::ReconfigDisabled if is_allowed => Some("it is not switched off".to_owned()),
        _ => None,
    }
}
