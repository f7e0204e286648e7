//! Which waiters were notified of a release, and how soon.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use super::grants::{blocks, is_downgraded, number};
use super::{Promise, RunHistory, Verdict};
use crate::log::Life;
use crate::recipe::{Lock, Recipe};
use crate::run_history::Claim;
use crate::sequence_offset::DIGITS;

/// Of the waiters in a queue, one is notified that a znode in it is gone; of readers, all that wait
/// for the same writer.
pub(super) fn one_woken(history: &RunHistory, lock: &Lock, verdict: &mut Verdict) {
    let Some(dir) = lock.queue() else { return };
    let lives = history.log.lives(&dir);
    let gaps = history.log.open_gaps(&dir);
    let mut own: BTreeMap<usize, Vec<&Life>> = BTreeMap::new();
    for life in &lives {
        if let Some(maker) = maker(history, &format!("{dir}/{}", life.name)) {
            own.entry(maker).or_default().push(life);
        }
    }
    for gone in &lives {
        let Some(end) = gone.deleted else { continue };
        let path = format!("{dir}/{}", gone.name);
        let notified = (0..history.woken.len())
            .filter(|who| history.woken.get(*who).is_some_and(|woken| woken.contains(&path)));
        let mut waiting: Vec<(usize, &Life)> = Vec::new();
        for who in notified {
            let own = own.get(&who).map(Vec::as_slice).unwrap_or_default();
            if own.iter().any(|life| life.name == gone.name) {
                // A holder is notified of its own end.
                continue;
            }
            // One that has given up meanwhile, or died, does not wait there. The znode of a session in
            // which it died may precede in the queue what its next session has waited for.
            let waits_with = own.iter().rfind(|life| {
                life.created < end && life.is_at(end) && precedes(&gone.name, &life.name)
            });
            // Where the log has a gap it may have left since, and have waited with another znode.
            let waits_with = waits_with.filter(|life| !touches(&gaps, life.created, end));
            waiting.extend(waits_with.map(|life| (who, *life)));
        }
        let are_readers = || waiting.iter().all(|(_, life)| is_reader(life));
        verdict.wakes += usize::from(waiting.len() == 1);
        if waiting.len() > 1 && (is_reader(gone) || !are_readers()) {
            let what = format!("{path} was deleted at {end}, and {waiting:?} were woken");
            verdict.breaks(Promise::OneWoken, what);
        }
    }
}

/// Whether a name has a lower number than another in a queue, whose numbers wrap.
fn precedes(name: &str, other: &str) -> bool {
    number(name).zip(number(other)).is_none_or(|(one, two)| two.wrapping_sub(one) > 0)
}

fn is_reader(life: &Life) -> bool {
    life.name.contains("__READ__")
}

/// Who has created a znode: no other contender asked for its name.
fn maker(history: &RunHistory, path: &str) -> Option<usize> {
    let base = path.get(..path.len().saturating_sub(DIGITS)).unwrap_or_default();
    let has_made = |made: &BTreeSet<String>| made.contains(path) || made.contains(base);
    history.made.iter().position(has_made)
}

/// A waiter is notified at once of the end of what precedes it: a session timeout is two ticks at least,
/// and far more than that takes. Time in which something was done to the servers or to one of the two
/// does not count, nor does time in which the machine stood still.
pub(super) fn notified_soon(
    history: &RunHistory,
    lock: &Lock,
    lives: &[Life],
    verdict: &mut Verdict,
) {
    // The number of permits of a shared semaphore is not that of its recipe.
    let is_timed = lock.queue().is_some() && lock.recipe != Recipe::SharedSemaphore;
    if !is_timed || !lock.is_last {
        return;
    }
    let claims = history.claims_of(lock);
    let blind = BlindSpots::of(history, &lock.dir());
    let released: BTreeMap<i64, &Claim> = claims
        .iter()
        .filter(|claim| claim.released)
        .filter_map(|claim| Some((life_of(lives, claim)?.deleted?, *claim)))
        .collect();
    for claim in &claims {
        // Of several permits, all are granted with the last one.
        let is_with_later = |other: &&Claim| {
            let same = (other.contender, other.seen) == (claim.contender, claim.seen);
            same && other.token > claim.token
        };
        if lock.recipe.permits() > 1 && claims.iter().any(is_with_later) {
            continue;
        }
        let Some(freed) = freed_at(lock, claim, lives) else { continue };
        let own = life_of(lives, claim).map_or(0, |own| own.created);
        if blind.may_hide_predecessor(own, (freed, claim.seen)) {
            continue;
        }
        let former = released.get(&freed);
        let from_us = match former {
            Some(former) => Some(former.believed_until_us),
            // It has died, has lost it, or was deleted by hand.
            None => history.observed_us.get(&freed).copied(),
        };
        let Some(from_us) = from_us.filter(|from_us| *from_us <= claim.granted_us) else {
            continue;
        };
        let who = [Some(claim.contender), former.map(|former| former.contender)];
        let what = || format!("from {former:?}, whose znode went at {freed}, to {claim:?}");
        judge(history, (from_us, claim.granted_us), &who, what, verdict);
    }
}

/// The head of a semaphore's queue takes a lease at once.
pub(super) fn leases_soon(
    history: &RunHistory,
    lock: &Lock,
    leases: &[Life],
    verdict: &mut Verdict,
) {
    let Some(queue) = lock.queue().filter(|queue| *queue != lock.dir()) else { return };
    if !lock.is_last {
        return;
    }
    let makers: Vec<(Option<usize>, &Life)> = leases
        .iter()
        .map(|life| (maker(history, &format!("{}/{}", lock.dir(), life.name)), life))
        .collect();
    let waiters = history.log.lives(&queue);
    let blind = [&queue, &lock.dir()].map(|dir| BlindSpots::of(history, dir));
    for waiter in &waiters {
        let path = format!("{queue}/{}", waiter.name);
        let Some(who) = maker(history, &path) else { continue };
        let before = |life: &&Life| life.created < waiter.created && life.is_at(waiter.created);
        let ends = waiters.iter().filter(before).map(|life| life.deleted.unwrap_or(i64::MAX));
        let Some(head_at) = ends.max() else { continue };
        let lease = makers.iter().find(|(maker, life)| {
            *maker == Some(who) && life.created > head_at && waiter.is_at(life.created)
        });
        let Some((_, lease)) = lease else { continue };
        let (own, wait) = (waiter.created, (head_at, lease.created));
        if blind.iter().any(|dir| dir.may_hide_predecessor(own, wait)) {
            continue;
        }
        let at_us = |zxid: i64| history.observed_us.get(&zxid).copied();
        let (Some(from_us), Some(to_us)) = (at_us(head_at), at_us(lease.created)) else { continue };
        if to_us >= from_us {
            let what = || format!("from {head_at}, when {waiter:?} was first, to {lease:?}");
            judge(history, (from_us, to_us), &[Some(who)], what, verdict);
        }
    }
}

/// When the last znode went for which a holder had to wait; `None` if it had not to wait.
fn freed_at(lock: &Lock, claim: &Claim, lives: &[Life]) -> Option<i64> {
    let own = life_of(lives, claim)?;
    if is_downgraded(claim, own) {
        return None;
    }
    let waits_for = |life: &&Life| {
        blocks(lock, claim, life) && life.created < own.created && life.is_at(own.created)
    };
    let mut ends: Vec<i64> =
        lives.iter().filter(waits_for).map(|life| life.deleted.unwrap_or(i64::MAX)).collect();
    ends.sort_unstable_by(|one, other| other.cmp(one));
    ends.get(lock.recipe.permits() - 1).copied()
}

/// Where the log of a directory may lack the end of a znode: in its gaps, and where one went whose
/// create lies in a gap.
struct BlindSpots {
    gaps: Vec<(i64, i64)>,
    unexplained: Vec<i64>,
}

impl BlindSpots {
    fn of(history: &RunHistory, dir: &str) -> Self {
        let log = &history.log;
        Self { gaps: log.open_gaps(dir), unexplained: log.ends_without_create(dir) }
    }

    /// Whether a znode that is not known may have been created before a waiter's own and have gone
    /// while it waited.
    fn may_hide_predecessor(&self, own: i64, (since, until): (i64, i64)) -> bool {
        let is_created_unseen = self.gaps.iter().any(|(from, _)| *from <= own);
        let inside = |zxid: &i64| (since..=until).contains(zxid);
        let is_gone_unseen = touches(&self.gaps, since, until);
        is_created_unseen && (is_gone_unseen || self.unexplained.iter().any(inside))
    }
}

/// Whether a gap of the log has anything of what happened from one transaction to another.
fn touches(gaps: &[(i64, i64)], since: i64, until: i64) -> bool {
    gaps.iter().any(|(from, to)| *to >= since && *from <= until)
}

fn life_of<'a>(lives: &'a [Life], claim: &Claim) -> Option<&'a Life> {
    let name = claim.path.rsplit('/').next().unwrap_or_default();
    lives.iter().rfind(|life| life.name == name && life.created <= claim.seen)
}

/// Judges a time, unless something was done to the servers or to one of those contenders.
fn judge(
    history: &RunHistory,
    (from_us, to_us): (u64, u64),
    who: &[Option<usize>],
    what: impl FnOnce() -> String,
    verdict: &mut Verdict,
) {
    let grace_us = |contender: Option<usize>| match contender {
        // The servers elect, the contenders find another one.
        None => micros(history.session_timeout),
        Some(_) => micros(history.session_timeout / 4),
    };
    let mut disturbances = history.disturbances.iter();
    if disturbances.any(|it| {
        let over_us = it.to_us + grace_us(it.contender);
        let concerns = it.contender.is_none() || who.contains(&it.contender);
        concerns && it.from_us <= to_us && over_us >= from_us
    }) {
        return;
    }
    verdict.hand_overs += 1;
    let stalls = history.stalls.iter();
    let stalled_us: u64 = stalls
        .map(|(since_us, until_us)| (*until_us).min(to_us).saturating_sub((*since_us).max(from_us)))
        .sum();
    let took_us = (to_us - from_us).saturating_sub(stalled_us);
    verdict.hand_over_max = verdict.hand_over_max.max(Duration::from_micros(took_us));
    if took_us > micros(history.session_timeout) {
        verdict.breaks(Promise::NotifiedSoon, format!("{took_us} µs {}", what()));
    }
}

fn micros(time: Duration) -> u64 {
    u64::try_from(time.as_micros()).unwrap_or(u64::MAX)
}
