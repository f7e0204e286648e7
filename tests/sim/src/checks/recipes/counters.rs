//! No addition is lost, and none counts twice.

use super::Noted;
use crate::SimTime;
use crate::checks::{Counts, Run, Violation};
use crate::history::RecipeStep;

const K8: &str = "K8 counter";

/// Compares the sums with each other, and the last number with how many were added.
#[allow(clippy::wildcard_enum_match_arm, reason = "the other steps are of other recipes")]
pub(super) fn check(
    run: &Run<'_>,
    path: &str,
    steps: &[Noted<'_>],
    counts: &mut Counts,
    found: &mut Vec<Violation>,
) {
    let mut begun = std::collections::BTreeMap::new();
    let (mut added, mut attempts) = (0_i64, 0_i64);
    // Each addition that has ended: when it began, when it ended, and its sum.
    let mut sums: Vec<(SimTime, SimTime, i64)> = Vec::new();
    for noted in steps {
        match noted.step {
            RecipeStep::Adds => {
                attempts += 1;
                begun.insert(noted.client, noted.at);
            }
            RecipeStep::Added { sum } => {
                added += 1;
                counts.additions += 1;
                let from = begun.get(&noted.client).copied().unwrap_or_default();
                sums.push((from, noted.at, *sum));
            }
            _ => {}
        }
    }
    in_order(path, &sums, found);
    let data = run.model.last.tree.get(path).and_then(|znode| znode.data.clone());
    let data = data.unwrap_or_default();
    // Of 8 bytes, or of 4 if it is a shared count.
    let last = if let Ok(bytes) = data.as_ref().try_into() {
        i64::from_be_bytes(bytes)
    } else {
        data.as_ref().try_into().map_or(0, |bytes| i64::from(i32::from_be_bytes(bytes)))
    };
    if !(added..=attempts).contains(&last) {
        let what = format!(
            "{path} is {last} at the end: one was added {added} times, and {} additions have no outcome",
            attempts - added
        );
        found.push(Violation { promise: K8, at: run.history.ended_at, what });
    }
}

/// No two have the same sum, and one that began behind the end of another has a greater one.
fn in_order(path: &str, sums: &[(SimTime, SimTime, i64)], found: &mut Vec<Violation>) {
    for (place, (from, at, sum)) in sums.iter().enumerate() {
        // They are in the order of their ends.
        let mut before = sums.iter().take(place);
        let wrong = before.rfind(|(_, end, other)| sum == other || (end < from && sum < other));
        if let Some((_, end, other)) = wrong {
            let what = format!(
                "an addition to {path} from {from} to {at} has the sum {sum}, where one that ended at \
                 {end} had {other}"
            );
            found.push(Violation { promise: K8, at: *at, what });
        }
    }
}
