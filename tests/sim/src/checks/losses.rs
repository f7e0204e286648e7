//! A server whose log has lost durable data does not run until its disk is replaced: it has forgotten
//! entries or votes that it has acknowledged, even if other servers still have them.

use super::{Counts, Run, Violation};
use crate::history::Loss;

/// Looks for servers that ran with the rest of such a log.
pub(super) fn check(run: &Run<'_>, counts: &mut Counts) -> Vec<Violation> {
    let losses = &run.history.losses;
    counts.losses = u64::try_from(losses.len()).unwrap_or(u64::MAX);
    let ran = losses.iter().filter_map(|loss| Some((loss.ran_at?, loss)));
    let violation = |(at, loss): (_, &Loss)| {
        let Loss { server, lost, .. } = loss;
        let what = format!(
            "server {server} runs without durable data of its log: at {} it lost {lost:?}",
            loss.at
        );
        Violation { promise: "lost log", at, what }
    };
    ran.map(violation).collect()
}
