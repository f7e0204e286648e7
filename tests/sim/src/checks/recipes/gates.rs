//! Who waits for a barrier goes on when it is not there, and not before.

use std::collections::BTreeMap;

use super::Noted;
use super::caches::FOLLOWS_WITHIN;
use crate::SimTime;
use crate::checks::{Counts, Run, Violation};
use crate::history::RecipeStep;
use crate::model::ChangeKind;

const K8: &str = "K8 gate";

/// From when until when the barrier was not there; without an end it is not there at the end.
type Gap = (SimTime, Option<SimTime>);

/// Compares the ends of waits with the times at which the barrier was not there.
#[allow(clippy::wildcard_enum_match_arm, reason = "the other steps are of other recipes")]
pub(super) fn check(
    run: &Run<'_>,
    path: &str,
    steps: &[Noted<'_>],
    counts: &mut Counts,
    found: &mut Vec<Violation>,
) {
    let gaps = gaps(run, path);
    let mut begun = BTreeMap::new();
    for noted in steps {
        let is_open = match noted.step {
            RecipeStep::Awaits => {
                begun.insert(noted.client, noted.at);
                continue;
            }
            RecipeStep::Awaited { is_open } => *is_open,
            _ => continue,
        };
        let Some(from) = begun.remove(&noted.client) else { continue };
        counts.waits += 1;
        let within =
            |gap: &Gap| gap.0 <= noted.at && gap.1.is_none_or(|shut_again| shut_again >= from);
        // From here on no fault is in the way, nor what a fault has left.
        let calm = from.max(run.history.healed_at + 2 * FOLLOWS_WITHIN);
        let for_long = |gap: &Gap| {
            gap.0.max(calm) + FOLLOWS_WITHIN <= noted.at
                && gap.1.is_none_or(|shut_again| shut_again > noted.at)
        };
        let why = if is_open && !gaps.iter().any(within) {
            "went on, and it was there all the time"
        } else if !is_open && gaps.iter().any(for_long) {
            "waited in vain, and it was not there"
        } else {
            continue;
        };
        let what =
            format!("client {}, from {from} to {}, at {path}: {why}", noted.client.0, noted.at);
        found.push(Violation { promise: K8, at: noted.at, what });
    }
}

/// When the barrier was not there, by the log.
fn gaps(run: &Run<'_>, path: &str) -> Vec<Gap> {
    let mut gaps: Vec<Gap> = vec![(SimTime::default(), None)];
    for one in &run.model.transactions {
        for change in one.outcome.changes.iter().filter(|change| change.path == path) {
            match change.kind {
                ChangeKind::Created => {
                    if let Some((_, shut @ None)) = gaps.last_mut() {
                        *shut = Some(one.first_at);
                    }
                }
                ChangeKind::Deleted => gaps.push((one.first_at, None)),
                ChangeKind::DataChanged => {}
            }
        }
    }
    gaps
}
