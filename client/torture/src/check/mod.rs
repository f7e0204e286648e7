//! Holds a history against the promises: K1 to K8, the rows of [`Promise`].
//!
//! Nothing here asks a recipe whether it did well. The order of grants is taken from zxids: a grant
//! counts from the newest transaction that its holder had seen at the grant, to the one that
//! deleted its znode. Clocks are compared only where the promise is about time.

mod counts;
mod grants;
mod models;
pub mod reported;
mod resource;
#[cfg(test)]
mod tests;
mod woken;

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use crate::recipe::Recipe;
use crate::run_history::RunHistory;

/// A promise.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Promise {
    /// K1: the guarded resource accepts no token below one that it has seen.
    NoStaleWrite,
    /// K1, in the ensemble: a guarded transaction commits only while the lock is held.
    GuardedWhileHeld,
    /// K2: tokens rise with every grant.
    TokensRise,
    /// K3: one holder at a time in the committed log, or as many as there are permits.
    OneHolder,
    /// K3: no contender is granted a lock while another precedes it.
    InTurn,
    /// K4: a release wakes one waiter.
    OneWoken,
    /// K4: it does so within a session timeout.
    NotifiedSoon,
    /// K4: every contender gets a turn once the faults are over.
    NoWaiterStuck,
    /// K5: nothing is left behind.
    NothingLeft,
    /// K6: a client reports the loss before somebody else is granted the lock.
    LossReported,
    /// K7: grants come in the order of the queue, and its numbers rise.
    QueueOrder,
    /// K8: an item is taken once and in order, a number is added once, members pass together.
    Model,
    /// Wakes and hand-overs were judged.
    Judged,
    /// A recipe fails only with the session.
    NoError,
    /// The run has shown what it was meant to show.
    Proves,
}

impl Promise {
    /// Its number and a few words; `docs/locks.md` says how each is checked.
    pub const fn name(self) -> &'static str {
        match self {
            Self::NoStaleWrite => "K1 no stale write",
            Self::GuardedWhileHeld => "K1 guarded while held",
            Self::TokensRise => "K2 tokens rise",
            Self::OneHolder => "K3 one holder",
            Self::InTurn => "K3 in turn",
            Self::OneWoken => "K4 one woken",
            Self::NotifiedSoon => "K4 notified soon",
            Self::NoWaiterStuck => "K4 no waiter stuck",
            Self::NothingLeft => "K5 nothing left",
            Self::LossReported => "K6 loss reported",
            Self::QueueOrder => "K7 queue order",
            Self::Model => "K8 model",
            Self::Judged => "K4 judged",
            Self::NoError => "no error",
            Self::Proves => "proves something",
        }
    }
}

/// A broken promise.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// Which one.
    pub promise: Promise,
    /// What was seen.
    pub what: String,
}

impl std::error::Error for Violation {}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.promise.name(), self.what)
    }
}

/// What was judged of one recipe.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Judged {
    /// Grants that the log confirms, from their beginning to their end.
    pub verified: usize,
    /// Grants that a gap in the log leaves open.
    pub unverified: usize,
    /// Ends of znodes in queues that one waiter was notified of.
    pub wakes: usize,
    /// Hand-overs whose time was judged.
    pub hand_overs: usize,
}

impl Judged {
    /// What came to it since.
    const fn since(self, before: Self) -> Self {
        Self {
            verified: self.verified - before.verified,
            unverified: self.unverified - before.unverified,
            wakes: self.wakes - before.wakes,
            hand_overs: self.hand_overs - before.hand_overs,
        }
    }

    /// Adds what was judged elsewhere.
    pub const fn add(&mut self, more: Self) {
        self.verified += more.verified;
        self.unverified += more.unverified;
        self.wakes += more.wakes;
        self.hand_overs += more.hand_overs;
    }
}

/// What the checks found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Verdict {
    /// The broken promises.
    pub violations: Vec<Violation>,
    /// Grants that the log confirms, from their beginning to their end.
    pub verified: usize,
    /// Grants that a gap in the log leaves open.
    pub unverified: usize,
    /// The same and more, by recipe.
    pub by_recipe: BTreeMap<Recipe, Judged>,
    /// Gaps of the log.
    pub gaps: usize,
    /// Stale writes that the resource refused.
    pub refused: usize,
    /// Ends of znodes in queues that one waiter was notified of.
    pub wakes: usize,
    /// Hand-overs whose time was judged: nothing was done to the two or to the servers.
    pub hand_overs: usize,
    /// The longest of them.
    pub hand_over_max: Duration,
    /// Grants that came before the former holder's client would have reported the loss, where
    /// those are [counted](RunHistory::early_grants_are_counted): there only the token protects.
    pub early_grants: usize,
}

impl Verdict {
    pub(super) fn breaks(&mut self, promise: Promise, what: String) {
        self.violations.push(Violation { promise, what });
    }

    const fn judged(&self) -> Judged {
        let (verified, unverified) = (self.verified, self.unverified);
        Judged { verified, unverified, wakes: self.wakes, hand_overs: self.hand_overs }
    }
}

/// Checks a history.
pub fn check(history: &RunHistory) -> Verdict {
    let mut verdict = Verdict { gaps: history.log.gaps().len(), ..Verdict::default() };
    resource::check(history, &mut verdict);
    for lock in history.locks.iter().filter(|lock| lock.recipe.is_lock()) {
        let before = verdict.judged();
        grants::check(history, lock, &mut verdict);
        woken::one_woken(history, lock, &mut verdict);
        let judged = verdict.judged().since(before);
        verdict.by_recipe.entry(lock.whole).or_default().add(judged);
    }
    for paths in &history.gone {
        if !paths.iter().any(|path| history.by_hand.contains(path)) {
            let what = format!("{paths:?}: gone while held, and not deleted by hand");
            verdict.breaks(Promise::OneHolder, what);
        }
    }
    models::check(history, &mut verdict);
    for left in &history.leftovers {
        verdict.breaks(Promise::NothingLeft, left.clone());
    }
    for stuck in &history.stuck {
        verdict.breaks(Promise::NoWaiterStuck, stuck.clone());
    }
    for error in &history.errors {
        verdict.breaks(Promise::NoError, error.clone());
    }
    proves(history, &mut verdict);
    verdict
}

/// From this many grants of queues on, some of them are handed over to one that waits.
const JUDGED_GRANTS_MIN: usize = 50;

/// A run in which nothing was in danger proves nothing.
fn proves(history: &RunHistory, verdict: &mut Verdict) {
    if history.claims.is_empty() && history.locks.iter().any(|lock| lock.recipe.is_lock()) {
        verdict.breaks(Promise::Proves, "no lock was granted".to_owned());
    }
    if history.holders_stopped > 0 && verdict.refused == 0 {
        let stopped = history.holders_stopped;
        let what = format!("{stopped} holders were stopped, and no stale write was refused");
        verdict.breaks(Promise::Proves, what);
    }
    for (recipe, judged) in verdict.by_recipe.clone() {
        let Judged { verified, unverified, .. } = judged;
        if unverified > verified {
            let what = format!(
                "{recipe}: gaps of the log leave {unverified} grants open; {verified} are verified"
            );
            verdict.breaks(Promise::Proves, what);
        }
    }
    let grants = history
        .claims
        .iter()
        .filter(|claim| history.lock(&claim.lock).is_some_and(|lock| lock.queue().is_some()));
    if grants.count() >= JUDGED_GRANTS_MIN && (verdict.wakes == 0 || verdict.hand_overs == 0) {
        let (wakes, hand_overs) = (verdict.wakes, verdict.hand_overs);
        let what = format!("{wakes} wakes and {hand_overs} hand-overs could be judged");
        verdict.breaks(Promise::Judged, what);
    }
}
