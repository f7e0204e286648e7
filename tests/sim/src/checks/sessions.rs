//! P10: a session ends when its client closes it or is silent for its timeout, and not before; then it
//! is over for ever.

use std::collections::BTreeMap;
use std::time::Duration;

use zoolet_jute::{ErrorCode, Request, SessionId};
use zoolet_replica::Op;

use super::{Arrival, Counts, Options, Run, Violation};
use crate::SimTime;
use crate::history::What;
use crate::model::Transaction;

const P10: &str = "P10 sessions";

/// What a client and the servers have shown of a session's life.
#[derive(Debug, Default)]
struct Life<'a> {
    /// From when on its whole timeout must pass: the last ping that was answered, when it was sent, or
    /// the command that began or resumed it; each with the timeout, in the order of the moments at
    /// which the session may end.
    safe_until: Option<(SimTime, String)>,
    /// The last sign of life.
    last: SimTime,
    timeout_ms: u64,
    /// Whether what its client does is recorded.
    is_recorded: bool,
    end: Option<&'a Transaction>,
}

/// Looks at how sessions have ended, and at those that have not.
pub(super) fn check(run: &Run<'_>, counts: &mut Counts) -> Vec<Violation> {
    let mut found = Vec::new();
    let mut lives: BTreeMap<SessionId, Life<'_>> = BTreeMap::new();
    for one in &run.model.transactions {
        command(run.options, &mut lives, one);
    }
    for link in run.links.values() {
        let Some(granted) = link.granted else { continue };
        let life = lives.entry(granted.session).or_default();
        life.last = life.last.max(granted.at);
        life.is_recorded = true;
        for call in link.calls.iter().filter_map(|number| run.calls.get(number)) {
            life.last = life.last.max(call.at);
            if matches!(call.request, Request::Ping) && call.answer.is_some() {
                let sign = format!("a ping sent at {} was answered", call.at);
                life.lives_on(run.options, call.at, u64::from(granted.timeout_ms), &sign);
            }
        }
    }
    for (session, life) in &lives {
        ended(run, counts, *session, life, &mut found);
    }
    never_again(run, &lives, &mut found);
    expired_answers(run, &lives, counts, &mut found);
    closed(run, &lives, counts, &mut found);
    found
}

fn command<'a>(options: &Options, lives: &mut BTreeMap<SessionId, Life<'a>>, one: &'a Transaction) {
    if let (Op::CreateSession { timeout_ms } | Op::ResumeSession { timeout_ms }, Ok(_)) =
        (&one.command.op, &one.outcome.result)
    {
        let timeout_ms = u64::try_from(*timeout_ms).unwrap_or(0);
        let life = lives.entry(one.command.session).or_default();
        life.timeout_ms = timeout_ms;
        life.last = life.last.max(one.first_at);
        let sign = format!("it was begun or resumed by {} at {}", one.zxid, one.first_at);
        life.lives_on(options, one.first_at, timeout_ms, &sign);
    }
    if let Some(session) = one.outcome.ended {
        lives.entry(session).or_default().end = Some(one);
    }
}

/// The shortest and the longest true time in which a server's clock measures a timeout.
fn bounds(options: &Options, timeout_ms: u64) -> (Duration, Duration) {
    let (fast, slow) =
        (u64::from(options.clock_fast_permille), u64::from(options.clock_slow_permille));
    let micros = timeout_ms.saturating_mul(1000);
    let scaled = |permille: u64| {
        Duration::from_micros(micros.saturating_mul(1000).checked_div(permille).unwrap_or(micros))
    };
    (scaled(1000 + fast), scaled(1000_u64.saturating_sub(slow)))
}

impl Life<'_> {
    fn lives_on(&mut self, options: &Options, from: SimTime, timeout_ms: u64, sign: &str) {
        let until = from + bounds(options, timeout_ms).0;
        if self.safe_until.as_ref().is_none_or(|(before, _)| *before < until) {
            self.safe_until = Some((until, format!("{sign}, with a timeout of {timeout_ms} ms")));
        }
    }
}

/// When a session must be over that gives no sign of life any more: soon behind its timeout, under a
/// leader that has led since then, and was elected in time.
fn due(run: &Run<'_>, life: &Life<'_>, longest: Duration) -> SimTime {
    let silent_from = life.last.max(run.history.healed_at);
    let last_epoch = |until: SimTime| {
        let all = &run.model.transactions;
        let known = all.partition_point(|one| one.first_at <= until);
        let last = known.checked_sub(1).and_then(|at| all.get(at))?;
        let begin = all.partition_point(|one| one.zxid.epoch() < last.zxid.epoch());
        all.get(begin).map(|one| one.first_at)
    };
    let latest = silent_from + longest + run.options.expires_within;
    let mut led_from = last_epoch(latest).unwrap_or_default().max(silent_from);
    loop {
        let due = led_from + longest + run.options.expires_under_leader_within;
        // A new leader that knows nothing of a session's silence gives it its whole timeout again.
        match last_epoch(due).filter(|begun| *begun > led_from) {
            Some(begun) => led_from = begun,
            None => return due,
        }
    }
}

/// A session that has expired had its whole timeout; one that is silent for long is over.
fn ended(
    run: &Run<'_>,
    counts: &mut Counts,
    session: SessionId,
    life: &Life<'_>,
    found: &mut Vec<Violation>,
) {
    let longest = bounds(run.options, life.timeout_ms).1;
    let due = due(run, life, longest);
    let is_due = life.is_recorded && due <= run.history.ended_at;
    counts.expiries_due += u64::from(is_due);
    let Some(end) = life.end else {
        if is_due {
            let what = format!(
                "session {session} is not over at the end of the run, at {}: its last sign of life was \
                 at {}, its timeout is {} ms",
                run.history.ended_at, life.last, life.timeout_ms
            );
            found.push(Violation { promise: P10, at: due, what });
        }
        return;
    };
    counts.session_ends += 1;
    let by_server = matches!(end.command.op, Op::ExpireSession { .. });
    if by_server && life.is_recorded && end.first_at > due {
        let what = format!(
            "session {session} has expired with {} at {}, and must have by {due}: its last sign of life \
             was at {}, its timeout is {} ms",
            end.zxid, end.first_at, life.last, life.timeout_ms
        );
        found.push(Violation { promise: P10, at: end.first_at, what });
    }
    if let Some((until, sign)) = &life.safe_until
        && by_server
        && end.first_at < *until
        && !run.options.ended_by_hand.contains(&session)
    {
        let what = format!(
            "session {session} has expired with {} at {}, and must have lived until {until}: {sign}",
            end.zxid, end.first_at
        );
        found.push(Violation { promise: P10, at: end.first_at, what });
    }
}

/// A session that is over is not served any more.
fn never_again(run: &Run<'_>, lives: &BTreeMap<SessionId, Life<'_>>, found: &mut Vec<Violation>) {
    for link in run.links.values() {
        let Some(granted) = link.granted else { continue };
        let Some(end) = lives.get(&granted.session).and_then(|life| life.end) else { continue };
        for arrival in &link.arrivals {
            let Arrival::Reply(number) = arrival else { continue };
            let Some(call) = run.calls.get(number) else { continue };
            let Some(answer) = call.answer.filter(|answer| answer.zxid >= end.zxid) else {
                continue;
            };
            if run.transactions_of(call).any(|one| one.zxid == end.zxid) {
                continue;
            }
            let what = format!(
                "{} was answered with zxid {}, and the session was over with {}",
                run.describe(call),
                answer.zxid,
                end.zxid
            );
            found.push(Violation { promise: P10, at: answer.at, what });
        }
    }
}

/// Before a server says that a session has expired, the session ends in the log.
fn expired_answers(
    run: &Run<'_>,
    lives: &BTreeMap<SessionId, Life<'_>>,
    counts: &mut Counts,
    found: &mut Vec<Violation>,
) {
    for record in &run.history.records {
        #[allow(clippy::wildcard_enum_match_arm, reason = "the others do not say that")]
        let session = match &record.what {
            What::Connected { asked, session: SessionId::NONE, .. } => Some(*asked),
            What::Returned { call, result: Err(ErrorCode::SessionExpired), .. } => {
                let call = run.calls.get(call);
                let link = call.and_then(|call| run.links.get(&call.connection));
                link.and_then(|link| link.granted).map(|granted| granted.session)
            }
            _ => None,
        };
        let Some(session) = session.filter(|session| *session != SessionId::NONE) else { continue };
        counts.expired_answers += 1;
        let end = lives.get(&session).and_then(|life| life.end);
        if end.is_none_or(|end| end.first_at > record.at) {
            let when = end.map_or_else(|| "never".to_owned(), |end| format!("at {}", end.first_at));
            let what = format!(
                "a server said that session {session} has expired; in the log it ended {when}"
            );
            found.push(Violation { promise: P10, at: record.at, what });
        }
    }
}

/// A session whose client has the reply to its close is over by then, and its znodes are gone.
fn closed(
    run: &Run<'_>,
    lives: &BTreeMap<SessionId, Life<'_>>,
    counts: &mut Counts,
    found: &mut Vec<Violation>,
) {
    for call in run.calls.values().filter(|call| matches!(call.request, Request::CloseSession)) {
        let Some(answer) = call.answer.filter(|answer| answer.result.is_ok()) else { continue };
        let link = run.links.get(&call.connection);
        let Some(session) = link.and_then(|link| link.granted).map(|it| it.session) else {
            continue;
        };
        counts.closes += 1;
        let end = lives.get(&session).and_then(|life| life.end);
        let is_over = end.is_some_and(|end| end.zxid <= answer.zxid && end.first_at <= answer.at);
        let mut left = run.model.last.tree.ephemerals(session);
        let why = match left.next() {
            Some(path) => format!("{path} of it is left at the end"),
            None if is_over => continue,
            None => "in the log the session has not ended by then".to_owned(),
        };
        let what = format!("{} was answered, and {why}", run.describe(call));
        found.push(Violation { promise: P10, at: answer.at, what });
    }
}
