//! What the guarded resource took and refused, and what the ensemble committed under locks.

use std::collections::BTreeMap;

use super::{Promise, RunHistory, Verdict};
use crate::log::Life;

pub(super) fn check(history: &RunHistory, verdict: &mut Verdict) {
    let mut highest: BTreeMap<&str, i64> = BTreeMap::new();
    for write in &history.writes {
        let highest = highest.entry(&write.lock).or_insert(write.token);
        if !write.accepted {
            verdict.refused += 1;
            if write.token >= *highest {
                let what = format!("{write:?} was refused; the highest token was {highest}");
                verdict.breaks(Promise::NoStaleWrite, what);
            }
        } else if write.token < *highest {
            let what = format!("{write:?} was accepted behind token {highest}");
            verdict.breaks(Promise::NoStaleWrite, what);
        }
        *highest = write.token.max(*highest);
    }
    guarded(history, verdict);
}

fn guarded(history: &RunHistory, verdict: &mut Verdict) {
    let mut lives: BTreeMap<&str, BTreeMap<String, Vec<Life>>> = BTreeMap::new();
    for guarded in &history.guarded {
        let Some((dir, name)) = guarded.path.rsplit_once('/') else { continue };
        let lives = lives.entry(dir).or_insert_with(|| {
            let mut by_name: BTreeMap<String, Vec<Life>> = BTreeMap::new();
            for life in history.log.lives(dir) {
                by_name.entry(life.name.clone()).or_default().push(life);
            }
            by_name
        });
        let own = lives.get(name).map(Vec::as_slice).unwrap_or_default();
        // Its create may lie in a gap; a znode of that name is not created again.
        let unseen = own.is_empty()
            && history.log.open_gaps(dir).iter().any(|(from, _)| *from <= guarded.zxid);
        if !unseen && !own.iter().any(|life| life.is_at(guarded.zxid)) {
            let what = format!("{guarded:?} committed; the znode lived {own:?}");
            verdict.breaks(Promise::GuardedWhileHeld, what);
        }
    }
}
