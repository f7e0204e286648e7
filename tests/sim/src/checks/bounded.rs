//! What is limited stays within its limit, and what servers have for clients goes with them.

use super::{Counts, Run, Violation};
use crate::history::Gauge;

/// Compares each gauge with its limit, and with nothing where no client is left.
pub(super) fn check(run: &Run<'_>, counts: &mut Counts) -> Vec<Violation> {
    let mut found = Vec::new();
    let quiet = run.history.quiet;
    let is_quiet = |gauge: &Gauge| quiet.is_some_and(|(from, to)| (from..to).contains(&gauge.at));
    for gauge in &run.history.gauges {
        counts.gauges += 1;
        let Gauge { server, name, value, .. } = gauge;
        let mut violated = |why: String| {
            let what = format!("server {server} has {value} of its {name}, {why}");
            found.push(Violation { promise: "bounded", at: gauge.at, what });
        };
        if let Some(limit) = gauge.limit.filter(|limit| value > limit) {
            violated(format!("and may have {limit}"));
        }
        if gauge.is_of_clients && is_quiet(gauge) {
            counts.gauges_at_rest += 1;
            if *value > 0 {
                violated("where all clients have ended".to_owned());
            }
        }
    }
    found
}
