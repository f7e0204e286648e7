//! Queues, counters, barriers, and what is kept over a run.

use std::collections::BTreeSet;

use super::{Promise, RunHistory, Verdict};
use crate::recipe::Recipe;
use crate::run_history::{Arrival, Opening, Passage, Tally};

pub(super) fn check(history: &RunHistory, verdict: &mut Verdict) {
    for tally in &history.tallies {
        match history.lock(&tally.path).map(|lock| lock.recipe) {
            Some(Recipe::Queue | Recipe::DistributedQueue | Recipe::KazooQueue) => {
                queue(tally, verdict);
                in_order(history, tally, verdict);
            }
            Some(Recipe::Counter | Recipe::SharedCount) => counter(tally, verdict),
            _ => {}
        }
    }
    barriers(&history.passages, verdict);
    entered_together(&history.arrivals, verdict);
    for opening in &history.openings {
        open(history, opening, verdict);
    }
    for broke in &history.broke {
        verdict.breaks(Promise::Model, broke.clone());
    }
}

/// A barrier that is found open was not there at some moment of the look.
fn open(history: &RunHistory, opening: &Opening, verdict: &mut Verdict) {
    let lives = history.log.lives_of(&opening.path);
    let closed = lives.iter().find(|life| life.created <= opening.from && life.is_at(opening.to));
    let Some(closed) = closed else { return };
    let dir = opening.path.rsplit_once('/').map_or("", |(dir, _)| dir);
    let mut gaps = history.log.open_gaps(dir).into_iter();
    if !gaps.any(|(from, to)| to >= closed.created && from <= opening.to) {
        let what = format!("{opening:?}, and the barrier stood there: {closed:?}");
        verdict.breaks(Promise::Model, what);
    }
}

/// No member is inside a double barrier before all have come.
fn entered_together(arrivals: &[Arrival], verdict: &mut Verdict) {
    for arrival in arrivals {
        let Some(entered_us) = arrival.entered_us else { continue };
        let came = arrivals
            .iter()
            .filter(|other| other.path == arrival.path && other.at_us <= entered_us)
            .count();
        if came < arrival.members {
            let what = format!("{arrival:?}, when {came} of them had come");
            verdict.breaks(Promise::Model, what);
        }
    }
}

fn queue(tally: &Tally, verdict: &mut Verdict) {
    let path = &tally.path;
    let mut taken = BTreeSet::new();
    for item in &tally.taken {
        if !taken.insert(item) {
            verdict.breaks(Promise::Model, format!("{path}: {item} was taken twice"));
        }
        if !tally.given.contains(item) && !tally.given_in_doubt.contains(item) {
            verdict.breaks(Promise::Model, format!("{path}: {item} was never put"));
        }
    }
    let missing: Vec<&String> = tally.given.iter().filter(|item| !taken.contains(item)).collect();
    if missing.len() > tally.taken_in_doubt {
        let doubts = tally.taken_in_doubt;
        let what = format!("{path}: {missing:?} are gone, and {doubts} takes are in doubt");
        verdict.breaks(Promise::Model, what);
    }
}

/// Items leave a queue in the order in which they came, and each has a name of its own: a name that
/// comes up again makes a slow take mean one item and get another.
fn in_order(history: &RunHistory, tally: &Tally, verdict: &mut Verdict) {
    let lives = history.log.lives(&tally.path);
    let mut names = BTreeSet::new();
    for life in lives.iter().filter(|life| !names.insert(&life.name)) {
        let what = format!("{}: {life:?} has the name of an item before it", tally.path);
        verdict.breaks(Promise::Model, what);
    }
    let taken = lives.iter().filter_map(|life| life.deleted.map(|deleted| (life, deleted)));
    let taken: Vec<_> = taken.collect();
    for ((before, first), (after, second)) in taken.iter().zip(taken.iter().skip(1)) {
        if second < first {
            let what = format!("{}: {after:?} was taken before {before:?}", tally.path);
            verdict.breaks(Promise::Model, what);
        }
    }
}

fn counter(tally: &Tally, verdict: &mut Verdict) {
    let path = &tally.path;
    let distinct: BTreeSet<&String> = tally.given.iter().collect();
    if distinct.len() < tally.given.len() {
        verdict.breaks(Promise::Model, format!("{path}: two increments had the same answer"));
    }
    let value = tally.taken.first().and_then(|value| value.parse::<usize>().ok());
    let Some(value) = value else {
        verdict.breaks(Promise::Model, format!("{path}: the counter was not read in the end"));
        return;
    };
    let (sure, doubts) = (tally.given.len(), tally.given_in_doubt.len());
    if value < sure || value > sure + doubts {
        let what = format!("{path} is {value} after {sure} increments and {doubts} in doubt");
        verdict.breaks(Promise::Model, what);
    }
}

fn barriers(passages: &[Passage], verdict: &mut Verdict) {
    let paths: BTreeSet<&str> = passages.iter().map(|passage| passage.path.as_str()).collect();
    for path in paths {
        let all = || passages.iter().filter(|passage| passage.path == path);
        let members = all().map(|passage| passage.members).max().unwrap_or(0);
        if all().count() < members {
            let what = format!("{path}: {} of {members} members passed", all().count());
            verdict.breaks(Promise::Model, what);
            continue;
        }
        let last_arrived = all().map(|passage| passage.arrived_us).max();
        let last_leaving = all().map(|passage| passage.leaving_us).max();
        for passage in all() {
            if Some(passage.entered_us) < last_arrived || Some(passage.left_us) < last_leaving {
                let what =
                    format!("{passage:?} did not wait for {last_arrived:?} {last_leaving:?}");
                verdict.breaks(Promise::Model, what);
            }
        }
    }
}
