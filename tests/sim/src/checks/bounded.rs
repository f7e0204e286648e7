//! What is limited stays within its limit.

use super::{Counts, Run, Violation};

/// Compares each gauge with its limit.
pub(super) fn check(run: &Run<'_>, counts: &mut Counts) -> Vec<Violation> {
    let mut found = Vec::new();
    for gauge in &run.history.gauges {
        counts.gauges += 1;
        if gauge.value > gauge.limit {
            let what = format!(
                "server {} has {} of {}, and may have {}",
                gauge.server, gauge.value, gauge.name, gauge.limit
            );
            found.push(Violation { promise: "bounded", at: gauge.at, what });
        }
    }
    found
}
