//! K8: the recipes that are not locks keep their promises, by what their users have noted and by the
//! log. What a call without an outcome has done is in doubt: it counts for both.

mod barriers;
mod caches;
mod counters;
mod gates;
mod groups;
mod queues;
mod turns;

use std::collections::BTreeMap;

use super::{Counts, Run, Violation};
use crate::SimTime;
use crate::history::{ClientNumber, RecipeStep, What};

/// A step that was noted.
#[derive(Clone, Copy, Debug)]
struct Noted<'a> {
    at: SimTime,
    client: ClientNumber,
    step: &'a RecipeStep,
}

/// The steps at one path, in order.
type Steps<'a> = Vec<Noted<'a>>;

/// Looks at each path.
pub(super) fn check(run: &Run<'_>, counts: &mut Counts) -> Vec<Violation> {
    let mut found = Vec::new();
    let mut by_path: BTreeMap<&str, Steps<'_>> = BTreeMap::new();
    for record in &run.history.records {
        if let What::Recipe { client, path, step } = &record.what {
            let noted = Noted { at: record.at, client: *client, step };
            by_path.entry(path).or_default().push(noted);
        }
    }
    for (path, steps) in &by_path {
        let Some(first) = steps.first() else { continue };
        match first.step {
            RecipeStep::Puts { .. }
            | RecipeStep::Put { .. }
            | RecipeStep::Takes
            | RecipeStep::Took { .. } => {
                queues::check(run, path, steps, counts, &mut found);
                turns::check(run, path, steps, counts, &mut found);
            }
            RecipeStep::Adds | RecipeStep::Added { .. } => {
                counters::check(run, path, steps, counts, &mut found);
            }
            RecipeStep::Enters { .. }
            | RecipeStep::Entered { .. }
            | RecipeStep::Leaves
            | RecipeStep::Left => barriers::check(run, path, steps, counts, &mut found),
            RecipeStep::Awaits | RecipeStep::Awaited { .. } => {
                gates::check(run, path, steps, counts, &mut found);
            }
            RecipeStep::Shows { .. } | RecipeStep::IsMember { .. } => {
                caches::check(run, path, steps, counts, &mut found);
                groups::check(run, path, steps, counts, &mut found);
            }
        }
    }
    found
}
