//! Each item is taken at most once, and none is lost.

use std::collections::BTreeMap;

use bytes::Bytes;

use super::Noted;
use crate::SimTime;
use crate::checks::{Counts, Run, Violation};
use crate::history::RecipeStep;

const K8: &str = "K8 queue";

/// What has become of an item.
#[derive(Debug, Default)]
struct Item {
    is_begun: bool,
    put: Option<SimTime>,
    taken: u64,
    left: u64,
}

/// Compares what was put with what was taken and what is left.
#[allow(clippy::wildcard_enum_match_arm, reason = "the other steps are of other recipes")]
pub(super) fn check(
    run: &Run<'_>,
    path: &str,
    steps: &[Noted<'_>],
    counts: &mut Counts,
    found: &mut Vec<Violation>,
) {
    let mut items: BTreeMap<&Bytes, Item> = BTreeMap::new();
    let mut doubts = 0_u64;
    for noted in steps {
        match noted.step {
            RecipeStep::Puts { item } => items.entry(item).or_default().is_begun = true,
            RecipeStep::Put { item } => items.entry(item).or_default().put = Some(noted.at),
            RecipeStep::Takes => doubts += 1,
            RecipeStep::Took { item } => {
                doubts = doubts.saturating_sub(1);
                let Some(item) = item else { continue };
                let known = items.entry(item).or_default();
                known.taken += 1;
                if !known.is_begun || known.taken > 1 {
                    let what = format!(
                        "client {} has taken {item:?} of {path}, which {}",
                        noted.client.0,
                        if known.is_begun { "was taken before" } else { "no client had put" }
                    );
                    found.push(Violation { promise: K8, at: noted.at, what });
                }
            }
            _ => {}
        }
    }
    for (_, znode) in run.model.last.tree.below(path) {
        let Some(data) = &znode.data else { continue };
        if let Some(item) = items.get_mut(&unframed(data)) {
            item.left += 1;
        }
    }
    judge(path, &items, doubts, (run.history.ended_at, counts), found);
}

/// The item in a frame of Curator's queue with priorities: a version, a byte 1, the length, the item, a
/// byte 2. Data without a frame are an item themselves.
pub(super) fn unframed(data: &Bytes) -> Bytes {
    const HEAD: &[u8] = &[0, 1, 0, 1, 1];
    match data.as_ref() {
        [head @ .., 2] if head.starts_with(HEAD) && head.len() >= HEAD.len() + 4 => {
            data.slice(HEAD.len() + 4..head.len())
        }
        _ => data.clone(),
    }
}

/// An item is taken once or is left; one that was acknowledged is gone only by a take in doubt.
fn judge(
    path: &str,
    items: &BTreeMap<&Bytes, Item>,
    doubts: u64,
    (ended_at, counts): (SimTime, &mut Counts),
    found: &mut Vec<Violation>,
) {
    let mut lost = Vec::new();
    for (item, known) in items {
        counts.items += 1;
        if known.left > 0 && known.taken + known.left > 1 {
            let what = format!(
                "{item:?} of {path} is in the queue {} times at the end, and was taken {} times",
                known.left, known.taken
            );
            found.push(Violation { promise: K8, at: ended_at, what });
        }
        if let Some(put) = known.put.filter(|_| known.taken + known.left == 0) {
            lost.push((put, *item));
        }
    }
    let missing = u64::try_from(lost.len()).unwrap_or(u64::MAX);
    counts.items_in_doubt += missing;
    if missing > doubts {
        let at = lost.iter().map(|(put, _)| *put).min().unwrap_or(ended_at);
        let what = format!(
            "{missing} items of {path} were put, not taken, and are not there at the end, where \
             {doubts} takes have no outcome: {lost:?}"
        );
        found.push(Violation { promise: K8, at, what });
    }
}
