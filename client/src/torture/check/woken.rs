//! Who was told of a release, and how soon.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use super::{History, Promise, Verdict};
use crate::torture::history::Claim;
use crate::torture::log::Life;
use crate::torture::recipe::{Lock, Recipe};
use crate::torture::shift::DIGITS;

/// Of those who stand in a queue, one is told that a znode in it is gone; of readers, all that wait
/// for the same writer.
pub(super) fn one_woken(history: &History, lock: &Lock, verdict: &mut Verdict) {
    let Some(dir) = lock.queue() else { return };
    let lives = history.log.lives(&dir);
    let mut own: BTreeMap<usize, Vec<&Life>> = BTreeMap::new();
    for life in &lives {
        if let Some(maker) = maker(history, &format!("{dir}/{}", life.name)) {
            own.entry(maker).or_default().push(life);
        }
    }
    for gone in &lives {
        let Some(end) = gone.deleted else { continue };
        let path = format!("{dir}/{}", gone.name);
        let told = (0..history.woken.len())
            .filter(|who| history.woken.get(*who).is_some_and(|woken| woken.contains(&path)));
        let mut waiting: Vec<(usize, &Life)> = Vec::new();
        for who in told {
            let own = own.get(&who).map(Vec::as_slice).unwrap_or_default();
            if own.iter().any(|life| life.name == gone.name) {
                // A holder is told of its own end.
                continue;
            }
            // One that has given up meanwhile, or died, does not stand there.
            let stands = own.iter().rfind(|life| life.created < end && life.is_at(end));
            waiting.extend(stands.map(|life| (who, *life)));
        }
        let are_readers = || waiting.iter().all(|(_, life)| is_reader(life));
        verdict.wakes += usize::from(waiting.len() == 1);
        if waiting.len() > 1 && (is_reader(gone) || !are_readers()) {
            let what = format!("{path} was deleted at {end}, and {waiting:?} were woken");
            verdict.breaks(Promise::OneWoken, what);
        }
    }
}

fn is_reader(life: &Life) -> bool {
    life.name.contains("__READ__")
}

/// Who has created a znode: nobody else asked for its name.
fn maker(history: &History, path: &str) -> Option<usize> {
    let base = path.get(..path.len().saturating_sub(DIGITS)).unwrap_or_default();
    let has_made = |made: &BTreeSet<String>| made.contains(path) || made.contains(base);
    history.made.iter().position(has_made)
}

/// A release is told to the one behind it at once: a session timeout is two ticks at least, and far
/// more than that takes. Time in which something was done to the servers or to one of the two does
/// not count, nor does time in which the machine stood still.
pub(super) fn told_soon(history: &History, lock: &Lock, lives: &[Life], verdict: &mut Verdict) {
    // A grant of several locks waits for the others.
    if !lock.recipe.is_fair() || lock.recipe == Recipe::MultiLock {
        return;
    }
    let claims = history.claims_of(lock);
    for (former, next) in claims.iter().zip(claims.iter().skip(1)) {
        let (from_us, to_us) = (former.believed_until_us, next.granted_us);
        if !former.released || to_us < from_us || !is_next(lives, former, next) {
            continue;
        }
        let is_between = |one: Option<usize>| {
            one.is_none_or(|who| who == former.contender || who == next.contender)
        };
        let grace_us = |contender: Option<usize>| match contender {
            // The servers elect, the contenders find another one.
            None => micros(history.session_timeout),
            Some(_) => micros(history.session_timeout / 4),
        };
        let mut disturbances = history.disturbances.iter();
        if disturbances.any(|it| {
            let over_us = it.to_us + grace_us(it.contender);
            is_between(it.contender) && it.from_us <= to_us && over_us >= from_us
        }) {
            continue;
        }
        verdict.hand_overs += 1;
        let stalls = history.stalls.iter();
        let stalled_us: u64 = stalls
            .map(|(since_us, until_us)| {
                (*until_us).min(to_us).saturating_sub((*since_us).max(from_us))
            })
            .sum();
        let took_us = (to_us - from_us).saturating_sub(stalled_us);
        verdict.hand_over_max = verdict.hand_over_max.max(Duration::from_micros(took_us));
        if took_us > micros(history.session_timeout) {
            let what = format!("{took_us} µs from the release of {former:?} to {next:?}");
            verdict.breaks(Promise::ToldSoon, what);
        }
    }
}

/// Whether a holder stood right behind the former one when that one's znode went.
fn is_next(lives: &[Life], former: &Claim, next: &Claim) -> bool {
    let life_of = |claim: &Claim| {
        let name = claim.path.rsplit('/').next().unwrap_or_default();
        lives.iter().rfind(|life| life.name == name && life.created <= claim.seen)
    };
    let (Some(left), Some(own)) = (life_of(former), life_of(next)) else { return false };
    let Some(end) = left.deleted else { return false };
    let stands = |life: &&Life| life.created < own.created && life.is_at(end);
    own.created < end && !lives.iter().any(|life| stands(&life))
}

fn micros(time: Duration) -> u64 {
    u64::try_from(time.as_micros()).unwrap_or(u64::MAX)
}
