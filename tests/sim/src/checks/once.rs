//! P7 and P8: a call takes effect at most once, and no write of a connection overtakes an earlier one
//! that was lost.

use zoolet_jute::ErrorCode;

use super::replies::may_vanish;
use super::{Call, Counts, Link, Run, Violation, is_write};
use crate::model::Transaction;

/// Compares calls with the commands of the log.
pub(super) fn check(run: &Run<'_>, counts: &mut Counts) -> Vec<Violation> {
    counts.commands_unattributed = run.unattributed;
    let is_moved = |one: &&Transaction| one.outcome.result == Err(ErrorCode::SessionMoved);
    let moved = run.model.transactions.iter().filter(is_moved).count();
    counts.writes_moved = u64::try_from(moved).unwrap_or(u64::MAX);
    let mut found = Vec::new();
    for place in &run.foreign {
        let Some(one) = run.model.transactions.get(*place) else { continue };
        let what = format!(
            "the log has {:?} of session {} with cxid {} at {}, which its client has not asked for",
            one.command.op, one.command.session, one.command.cxid, one.zxid
        );
        found.push(Violation { promise: "P7 once", at: one.first_at, what });
    }
    for link in run.links.values().filter(|link| run.attach(link).is_some()) {
        of_link(run, link, counts, &mut found);
    }
    found
}

fn of_link(run: &Run<'_>, link: &Link<'_>, counts: &mut Counts, found: &mut Vec<Violation>) {
    let calls = link.calls.iter().filter_map(|number| run.calls.get(number));
    let mut lost: Option<&Call<'_>> = None;
    let mut last = None;
    for call in calls.filter(|call| is_write(call.request)) {
        let mut transactions = run.transactions_of(call);
        let Some(one) = transactions.next() else {
            if call.answer.is_none() {
                counts.lost.1 += 1;
                if !may_vanish(run, call.request) {
                    lost = lost.or(Some(call));
                }
            }
            continue;
        };
        counts.lost.0 += u64::from(call.answer.is_none());
        let mut violated = |promise, what: String| {
            found.push(Violation { promise, at: one.first_at, what });
        };
        if let Some(again) = transactions.next() {
            let what = format!(
                "{} is in the log at {} and again at {}",
                run.describe(call),
                one.zxid,
                again.zxid
            );
            violated("P7 once", what);
        }
        if !Run::is_of(call, one) {
            let what = format!(
                "{} is in the log at {} as another request: {:?}",
                run.describe(call),
                one.zxid,
                one.command.op
            );
            violated("P7 once", what);
        }
        if let Some(lost) = lost {
            let what = format!(
                "{} is in the log at {}, and this earlier one is not: {}",
                run.describe(call),
                one.zxid,
                run.describe(lost)
            );
            violated("P8 no overtaking", what);
        }
        if let Some(before) = last.filter(|before| *before > one.zxid) {
            let what = format!(
                "{} is in the log at {}, in front of an earlier call at {before}",
                run.describe(call),
                one.zxid
            );
            violated("P8 no overtaking", what);
        }
        last = last.max(Some(one.zxid));
    }
}
