//! Semaphores whose number of permits changes while they are held.

use super::{Promise, RunHistory, Verdict};
use crate::run_history::Claim;

/// A permit is granted while fewer are out than there are. `others` of them were out when the holder
/// learned of its grant.
pub(super) fn check(history: &RunHistory, claim: &Claim, others: usize, verdict: &mut Verdict) {
    if history.counts.iter().any(|set| set.path == claim.lock)
        && let Some(count) = count_at(history, claim)
        && others >= count
    {
        let what = format!("{claim:?} was granted beside {others} others of {count} permits");
        verdict.breaks(Promise::OneHolder, what);
    }
}

/// The number of permits from the create of a lease to its grant, if it was one and the same and is
/// known: not while a write of it is under way. A write that was not acknowledged may be carried out
/// late; what is written after it is known only from the second acknowledged write on.
fn count_at(history: &RunHistory, claim: &Claim) -> Option<usize> {
    let of_lock = || history.counts.iter().filter(|set| set.path == claim.lock);
    let begun: Vec<_> = of_lock().filter(|set| set.from < claim.seen).collect();
    let last = begun.last()?;
    let is_settled = last.to.is_some_and(|to| to <= claim.token);
    let former = begun.iter().rev().nth(1).is_none_or(|former| former.to.is_some());
    (is_settled && former).then_some(last.value)
}
