//! The grants of one lock against the log.

use std::collections::BTreeMap;

use super::woken::{leases_soon, notified_soon};
use super::{Promise, RunHistory, Verdict, counts};
use crate::log::Life;
use crate::recipe::{Blocks, Lock, Recipe};
use crate::run_history::{Claim, Mode};

/// A grant with its end in the log; `None` if its znode was there to the end.
struct Grant<'a> {
    claim: &'a Claim,
    until: Option<i64>,
}

pub(super) fn check(history: &RunHistory, lock: &Lock, verdict: &mut Verdict) {
    let dir = lock.dir();
    let claims: Vec<&Claim> = history.claims_of(lock);
    let gaps = history.log.open_gaps(&dir);
    let mut lives = history.log.lives(&dir);
    lives.retain(|life| lock.blocks(&life.name).is_some());
    let mut by_name: BTreeMap<&str, Vec<&Life>> = BTreeMap::new();
    for life in &lives {
        by_name.entry(&life.name).or_default().push(life);
    }
    let mut grants = Vec::new();
    let (mut alive, mut to_come) = (Vec::new(), lives.iter().peekable());
    for claim in claims.iter().copied() {
        // Grants come in the order of what their holders had seen.
        while let Some(life) = to_come.next_if(|life| life.created <= claim.seen) {
            alive.push(life);
        }
        alive.retain(|life: &&Life| life.is_at(claim.seen));
        // The znode's own life: the one that had begun at the grant.
        let name = claim.path.rsplit('/').next().unwrap_or_default();
        let mut own = by_name.get(name).into_iter().flatten();
        let own = own.rfind(|life| life.created <= claim.seen);
        let end = own.and_then(|life| life.deleted).unwrap_or(i64::MAX);
        let open = gaps.iter().any(|(from, to)| *to >= claim.token && *from <= end);
        // The end of a znode that was never seen to go may lie in a gap.
        let in_doubt = |life: &Life| {
            let gap_since = |(from, to): &(i64, i64)| *to >= life.created && *from <= claim.seen;
            life.deleted.is_none() && gaps.iter().any(gap_since)
        };
        match own {
            _ if open => verdict.unverified += 1,
            Some(life) => {
                let (doubtful, sure): (Vec<&Life>, Vec<&Life>) =
                    in_front(lock, claim, life, &alive).into_iter().partition(|l| in_doubt(l));
                let permits = lock.recipe.permits();
                deleted_while_waiting(lock, claim, life, (&lives, &gaps), verdict);
                counts::check(history, claim, sure.len(), verdict);
                if sure.len() >= permits {
                    let what = format!("{claim:?} was granted behind {sure:?}");
                    verdict.breaks(Promise::InTurn, what);
                }
                if sure.len() < permits && sure.len() + doubtful.len() >= permits {
                    verdict.unverified += 1;
                } else {
                    verdict.verified += 1;
                }
                grants.push(Grant { claim, until: life.deleted });
            }
            None => {
                let what = format!("{claim:?} stands for a znode that the log does not know");
                verdict.breaks(Promise::InTurn, what);
            }
        }
    }
    one_holder(lock, &grants, verdict);
    tokens_rise(lock, &claims, verdict);
    let births: Vec<i64> = history.log.lives_of(&dir).iter().map(|life| life.created).collect();
    numbers_rise(lock, &lives, &births, &gaps, verdict);
    loss_reported(history, lock, &claims, verdict);
    notified_soon(history, lock, &lives, verdict);
    leases_soon(history, lock, &lives, verdict);
}

/// A znode that was deleted while others stood in front of it was never granted anything: its owner
/// has to enter the queue again.
fn deleted_while_waiting(
    lock: &Lock,
    claim: &Claim,
    own: &Life,
    (lives, gaps): (&[Life], &[(i64, i64)]),
    verdict: &mut Verdict,
) {
    let Some(deleted) = own.deleted.filter(|deleted| *deleted <= claim.seen) else { return };
    if is_downgraded(claim, own) || lock.recipe == Recipe::SimpleLock {
        return;
    }
    let may_be_gone = |life: &Life| {
        let gap = |(from, to): &(i64, i64)| *to >= life.created && *from <= deleted;
        life.deleted.is_none() && gaps.iter().any(gap)
    };
    let precedes = |life: &&Life| {
        blocks(lock, claim, life)
            && life.created < own.created
            && life.deleted.is_none_or(|end| end > deleted)
            && !may_be_gone(life)
    };
    let waited: Vec<&Life> = lives.iter().filter(precedes).collect();
    if waited.len() >= lock.recipe.permits() {
        let what =
            format!("{claim:?} was granted for {own:?}, which was deleted behind {waited:?}");
        verdict.breaks(Promise::InTurn, what);
    }
}

/// Whether a znode keeps the holder of a claim from its grant while it precedes it.
pub(super) fn blocks(lock: &Lock, claim: &Claim, life: &Life) -> bool {
    match (lock.blocks(&life.name), claim.mode) {
        (Some(Blocks::All), _) | (Some(Blocks::Writers), Mode::Exclusive) => true,
        (Some(Blocks::Writers), Mode::Shared) | (None, _) => false,
    }
}

/// The znodes that preceded the holder's at the grant; there may be as many as there are permits,
/// less one.
fn in_front<'a>(lock: &Lock, claim: &Claim, own: &Life, alive: &[&'a Life]) -> Vec<&'a Life> {
    if lock.recipe == Recipe::SimpleLock || is_downgraded(claim, own) {
        return Vec::new();
    }
    let before = |life: &&Life| blocks(lock, claim, life) && life.created < own.created;
    alive.iter().copied().filter(before).collect()
}

/// Whether a reader has come from a writer: its znode has the writer's number and token.
pub(super) fn is_downgraded(claim: &Claim, own: &Life) -> bool {
    claim.mode == Mode::Shared && claim.token < own.created
}

fn one_holder(lock: &Lock, grants: &[Grant<'_>], verdict: &mut Verdict) {
    let mut held: Vec<&Grant<'_>> = Vec::new();
    for grant in grants {
        held.retain(|other| other.until.is_none_or(|until| until > grant.claim.seen));
        let others = held
            .iter()
            .filter(|other| grant.claim.mode.excludes(other.claim.mode))
            .filter(|other| !same_hold(grant.claim, other.claim));
        let others: Vec<&Claim> = others.map(|other| other.claim).collect();
        if others.len() >= lock.recipe.permits() {
            let what = format!("{:?} and {others:?} held it together", grant.claim);
            verdict.breaks(Promise::OneHolder, what);
        }
        held.push(grant);
    }
}

/// A writer that becomes a reader holds both for a moment.
fn same_hold(one: &Claim, other: &Claim) -> bool {
    one.token == other.token && one.contender == other.contender
}

fn tokens_rise(lock: &Lock, claims: &[&Claim], verdict: &mut Verdict) {
    if lock.recipe.permits() > 1 {
        return;
    }
    let exclusive = || claims.iter().filter(|claim| claim.mode == Mode::Exclusive);
    for (before, after) in exclusive().zip(exclusive().skip(1)) {
        let again = before.token == after.token && before.path == after.path;
        if after.token <= before.token && !again {
            verdict.breaks(Promise::TokensRise, format!("{before:?} came before {after:?}"));
            // The token is the transaction that made the place in the queue.
            if lock.recipe.is_fair() {
                verdict.breaks(Promise::QueueOrder, format!("{after:?} was passed by {before:?}"));
            }
        }
    }
}

/// The numbers in a queue rise with its creates, until the directory is made anew; a gap may hide
/// that.
fn numbers_rise(
    lock: &Lock,
    lives: &[Life],
    births: &[i64],
    gaps: &[(i64, i64)],
    verdict: &mut Verdict,
) {
    if lock.recipe == Recipe::SimpleLock {
        return;
    }
    let mut last: Option<(i32, &Life)> = None;
    for life in lives {
        let Some(number) = number(&life.name) else { continue };
        if let Some((before, former)) = last {
            let step = number.wrapping_sub(before);
            let anew = births.iter().any(|birth| (former.created..=life.created).contains(birth))
                || gaps.iter().any(|(from, to)| *to >= former.created && *from <= life.created);
            // A writer that becomes a reader keeps its number.
            let downgrade = life.name.contains("__READ__");
            if step <= 0 && !anew && !downgrade {
                let what = format!("{life:?} was created behind {former:?}");
                verdict.breaks(Promise::QueueOrder, what);
            }
            if step <= 0 && downgrade {
                continue;
            }
        }
        last = Some((number, life));
    }
}

/// The digits at the end of a name, with the minus of a number behind the wrap.
pub(super) fn number(name: &str) -> Option<i32> {
    let digits = name.trim_end_matches(|digit: char| digit.is_ascii_digit()).len();
    let text = name.get(digits..)?;
    let negative = name.get(..digits)?.ends_with("--");
    let number: i64 = text.parse().ok()?;
    i32::try_from(if negative { -number } else { number }).ok()
}

/// On the one clock of the contenders: the belief of each ended before the next grant.
fn loss_reported(history: &RunHistory, lock: &Lock, claims: &[&Claim], verdict: &mut Verdict) {
    if lock.recipe.permits() > 1 {
        return;
    }
    for (at, claim) in claims.iter().enumerate() {
        // A grant that came after a pause, with a lease that had run out, was never believed.
        let by_hand = history.by_hand.contains(&claim.path);
        if claim.believed_until_us <= claim.granted_us || by_hand {
            continue;
        }
        for later in claims.iter().skip(at + 1).take(64) {
            let is_reported = claim.believed_until_us <= later.granted_us;
            let together = !claim.mode.excludes(later.mode);
            if is_reported || together || same_hold(claim, later) || claim.path == later.path {
                continue;
            }
            if history.early_grants_are_counted {
                verdict.early_grants += 1;
            } else {
                let what = format!("{claim:?} was believed when {later:?} was granted");
                verdict.breaks(Promise::LossReported, what);
            }
        }
    }
}
