//! P6: what was acknowledged is in the log.

use super::{Counts, Run, Violation, is_write};

/// Looks for the command of each write that was answered with success.
pub(super) fn check(run: &Run<'_>, _: &mut Counts) -> Vec<Violation> {
    let mut found = Vec::new();
    for call in run.calls.values().filter(|call| is_write(call.request)) {
        let Some(answer) = call.answer.filter(|answer| answer.result.is_ok()) else { continue };
        let session = run.links.get(&call.connection).and_then(|link| link.granted);
        let there = run.model.transaction(answer.zxid);
        let is_there = there.is_some_and(|one| {
            Run::is_of(call, one)
                && one.command.cxid == call.xid
                && session.is_none_or(|granted| granted.session == one.command.session)
        });
        if !is_there {
            let instead = match there {
                None => "has no such zxid".to_owned(),
                Some(one) => format!(
                    "has {:?} of session {} with cxid {} there",
                    one.command.op, one.command.session, one.command.cxid
                ),
            };
            let what = format!(
                "{} was acknowledged with zxid {}, and the log {instead}",
                run.describe(call),
                answer.zxid
            );
            found.push(Violation { promise: "P6 durability", at: answer.at, what });
        }
    }
    found
}
