//! P9: a server that has lost its ensemble stops serving.
//!
//! What it serves meanwhile is old. So no reply shows a state that is older than the time for which a
//! server may serve without a leader: what was committed that long before the call, it shows.

use std::time::Duration;

use zoolet_jute::{Request, Zxid};

use super::{Counts, Run, Violation, is_write};
use crate::SimTime;

/// Compares the zxid of each reply to a read with what was committed long before its call.
pub(super) fn check(run: &Run<'_>, counts: &mut Counts) -> Vec<Violation> {
    let mut found = Vec::new();
    let applied = Applied::of(run);
    for call in run.calls.values() {
        let is_read = !is_write(call.request) && !matches!(call.request, Request::Ping);
        let Some(answer) = call.answer.filter(|answer| is_read && answer.zxid.0 > 0) else {
            continue;
        };
        let server = run.links.get(&call.connection).and_then(|link| link.granted);
        let Some(server) = server.map(|granted| granted.server) else { continue };
        counts.ages += 1;
        let Some((missing, at)) = applied.newest(call.at, run.options.serves_alone_within) else {
            continue;
        };
        if answer.zxid < missing {
            let what = format!(
                "server {server} answered {} with zxid {} at {}, where {missing} had been committed at \
                 {at}: it has served for too long without its ensemble",
                run.describe(call),
                answer.zxid,
                answer.at
            );
            found.push(Violation { promise: "P9 alone", at: answer.at, what });
        }
    }
    found
}

/// The newest zxid that any server had applied, at each moment.
struct Applied(Vec<(SimTime, Zxid)>);

impl Applied {
    fn of(run: &Run<'_>) -> Self {
        let mut all: Vec<(SimTime, Zxid)> =
            run.model.transactions.iter().map(|one| (one.first_at, one.zxid)).collect();
        all.sort_unstable();
        Self(all)
    }

    /// The newest one that had been applied so long before a moment, and when it was.
    fn newest(&self, at: SimTime, before: Duration) -> Option<(Zxid, SimTime)> {
        let known = self.0.partition_point(|(applied, _)| *applied + before <= at);
        let (at, zxid) = self.0.get(known.checked_sub(1)?)?;
        Some((*zxid, *at))
    }
}
