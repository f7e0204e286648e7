//! Behind the last fault all servers come to the same state, and every call comes back.

use std::collections::BTreeSet;

use zoolet_replica::ServerId;

use super::{Counts, Run, Violation};

const CONVERGENCE: &str = "convergence";

/// Looks at the end of the run.
pub(super) fn check(run: &Run<'_>, _: &mut Counts) -> Vec<Violation> {
    let mut found = Vec::new();
    let deadline = run.history.healed_at + run.options.converges_within;
    if run.history.ended_at >= deadline {
        servers(run, &mut found);
    }
    for link in run.links.values().filter(|link| link.ended_at.is_none()) {
        for call in link.calls.iter().filter_map(|number| run.calls.get(number)) {
            let due = call.at.max(run.history.healed_at) + run.options.converges_within;
            if call.answer.is_none() && due <= run.history.ended_at {
                let what = format!(
                    "{} has no reply at the end of the run, at {}, and its connection has not ended",
                    run.describe(call),
                    run.history.ended_at
                );
                found.push(Violation { promise: CONVERGENCE, at: call.at, what });
            }
        }
    }
    found
}

/// Every server has applied all that had been applied before the last moments of the run.
fn servers(run: &Run<'_>, found: &mut Vec<Violation>) {
    let all: BTreeSet<ServerId> = run.history.servers.keys().copied().collect();
    let members = run.options.members.as_ref().unwrap_or(&all);
    // What came in the last moments may still be on its way.
    let settled = |at| at + run.options.converges_within <= run.history.ended_at;
    let wanted = run.model.transactions.iter().filter(|one| settled(one.first_at));
    let Some((wanted, zxid)) = wanted.map(|one| (one.index, one.zxid)).max() else { return };
    for server in members {
        let log = run.history.servers.get(server);
        let applied = log.and_then(|log| log.applied.last()).map(|one| one.index);
        let reached = log.and_then(|log| log.digests.last()).map(|one| one.index);
        // After a snapshot nothing may have come.
        let restored = log.and_then(|log| {
            log.restored
                .last()
                .filter(|one| one.applied_before == log.applied.len())
                .map(|one| one.zxid)
        });
        // The last life counts: what an earlier one had applied may be gone with its disk.
        let last = applied.max(reached).unwrap_or(0);
        if last < wanted && restored < Some(zxid) {
            let what = format!(
                "server {server} has applied the log up to {last} at the end of the run, where others \
                 had applied index {wanted} {} ms before",
                run.options.converges_within.as_millis()
            );
            found.push(Violation { promise: CONVERGENCE, at: run.history.ended_at, what });
        }
    }
}
