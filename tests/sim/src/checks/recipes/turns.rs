//! Items leave a queue in turn: those with a lower priority first, and of one priority those with a lower
//! number.

use std::collections::BTreeMap;

use bytes::Bytes;
use zoolet_jute::Zxid;

use super::Noted;
use super::queues::unframed;
use crate::SimTime;
use crate::checks::{Counts, Run, Violation};
use crate::history::RecipeStep;
use crate::model::{ChangeKind, Transaction, path};

const K8: &str = "K8 queue in turn";

/// The digits of a number.
const DIGITS: usize = 10;

/// Where an item stands: its priority as its name has it, with what all names begin with, and its number.
type Place = (String, i64);

/// An item that another one has passed.
#[derive(Clone, Debug)]
struct Passed {
    place: Place,
    created: SimTime,
}

/// An item that has left.
#[derive(Clone, Debug)]
struct Departure {
    item: Bytes,
    place: Place,
    zxid: Zxid,
    at: SimTime,
    passed: Vec<Passed>,
}

/// Looks at each item that was taken, and at what was in front of it then.
#[allow(clippy::wildcard_enum_match_arm, reason = "the other steps do not take")]
pub(super) fn check(
    run: &Run<'_>,
    queue: &str,
    steps: &[Noted<'_>],
    counts: &mut Counts,
    found: &mut Vec<Violation>,
) {
    let departures = departures(run, queue);
    for one in &departures {
        counts.departures += 1;
        // Who sees an item sees those with lower numbers as well. So they are gone whenever it is taken.
        if let Some(passed) = one.passed.iter().find(|passed| passed.place.0 == one.place.0) {
            let what = format!("had a lower number ({}) and was there", passed.place.1);
            found.push(violation(queue, one, &what));
        }
    }
    let by_item: BTreeMap<&Bytes, &Departure> =
        departures.iter().map(|one| (&one.item, one)).collect();
    let mut begun = BTreeMap::new();
    for noted in steps {
        match noted.step {
            RecipeStep::Takes => drop(begun.insert(noted.client, noted.at)),
            RecipeStep::Took { item: Some(item) } => {
                let (Some(one), Some(begun)) = (by_item.get(item), begun.get(&noted.client)) else {
                    continue;
                };
                // What comes in front later may not be seen.
                if let Some(passed) = one.passed.iter().find(|passed| passed.created < *begun) {
                    let what = format!(
                        "was in front ({}{:010}) when client {} began to take, at {begun}",
                        passed.place.0, passed.place.1, noted.client.0
                    );
                    found.push(violation(queue, one, &what));
                }
            }
            _ => {}
        }
    }
}

fn violation(queue: &str, one: &Departure, what: &str) -> Violation {
    let (priority, number) = &one.place;
    let what = format!(
        "{priority}{number:010} of {queue} was taken by {:?}, while another one {what}",
        one.zxid
    );
    Violation { promise: K8, at: one.at, what }
}

/// The place of an item in its queue; `None` for another name.
fn place(path: &str) -> Option<Place> {
    let name = path::name(path);
    let (priority, number) = name.split_at_checked(name.len().checked_sub(DIGITS)?)?;
    Some((priority.to_owned(), number.parse().ok()?))
}

/// Everything that has left a queue, as the log has it.
fn departures(run: &Run<'_>, queue: &str) -> Vec<Departure> {
    let mut replay = run.model.replay();
    let mut waiting: BTreeMap<Place, SimTime> = BTreeMap::new();
    let mut departures = Vec::new();
    for one in &run.model.transactions {
        for change in &one.outcome.changes {
            let Some(place) =
                place(&change.path).filter(|_| path::parent(&change.path) == Some(queue))
            else {
                continue;
            };
            match change.kind {
                ChangeKind::Created => drop(waiting.insert(place, one.first_at)),
                ChangeKind::Deleted => {
                    waiting.remove(&place);
                    let tree = &replay.to(Zxid(one.zxid.0 - 1)).tree;
                    let data = tree.get(&change.path).and_then(|znode| znode.data.as_ref());
                    let item = data.map(unframed).unwrap_or_default();
                    departures.push(departure(one, place, item, &waiting));
                }
                ChangeKind::DataChanged => {}
            }
        }
    }
    departures
}

fn departure(
    one: &Transaction,
    place: Place,
    item: Bytes,
    waiting: &BTreeMap<Place, SimTime>,
) -> Departure {
    let passed = waiting.range(..&place);
    let passed = passed.map(|(place, created)| Passed { place: place.clone(), created: *created });
    Departure { item, zxid: one.zxid, at: one.first_at, passed: passed.collect(), place }
}
