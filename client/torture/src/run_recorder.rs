//! The guarded resource: it takes writes that carry a token, refuses those below the highest that
//! it has seen, and keeps everything that it was given.
//!
//! It stands outside of the ensemble, as a database or a disk would. Its own record, not its word,
//! is what the checks look at.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::Instant;

use crate::run_history::{Arrival, Claim, CountSet, Disturbance, Guarded, Opening, Passage, Write};

/// A place in the list of claims.
pub type ClaimId = usize;

#[derive(Debug, Default)]
struct Inner {
    highest: BTreeMap<String, i64>,
    kept: Kept,
}

/// What the recorder has kept.
#[derive(Debug, Default)]
pub struct Kept {
    /// The writes that reached the resource, in its own order.
    pub writes: Vec<Write>,
    /// The grants.
    pub claims: Vec<Claim>,
    /// Transactions that were to commit only while a lock was held.
    pub guarded: Vec<Guarded>,
    /// Passages of double barriers.
    pub passages: Vec<Passage>,
    /// Barriers that were found open.
    pub openings: Vec<Opening>,
    /// What was done, and to whom.
    pub disturbances: Vec<Disturbance>,
    /// The znodes of locks that were deleted by hand, under the names that servers have.
    pub by_hand: BTreeSet<String>,
    /// Locks that were gone when their holder released or used them, though its session lived: the
    /// znodes of each.
    pub gone: Vec<Vec<String>>,
    /// The writes of numbers of permits.
    pub counts: Vec<CountSet>,
    /// Members that began to enter a double barrier under faults.
    pub arrivals: Vec<Arrival>,
    /// What a recipe has shown that it must not.
    pub broke: Vec<String>,
    /// Failures that no recipe should answer.
    pub errors: Vec<String>,
    /// The faults that have struck, by kind.
    pub struck: BTreeMap<&'static str, usize>,
}

/// The resource and the record.
#[derive(Debug)]
pub struct RunRecorder {
    start: Instant,
    inner: Mutex<Inner>,
    grants: watch::Sender<u64>,
}

impl Default for RunRecorder {
    fn default() -> Self {
        Self::new()
    }
}

impl RunRecorder {
    /// An empty record; its clock starts now.
    pub fn new() -> Self {
        Self { start: Instant::now(), inner: Mutex::default(), grants: watch::channel(0).0 }
    }

    /// Microseconds from the start.
    pub fn now_us(&self) -> u64 {
        u64::try_from(self.start.elapsed().as_micros()).unwrap_or(u64::MAX)
    }

    /// Writes to the resource behind a lock. Returns whether it took the write: it refuses a token
    /// below the highest one.
    pub fn write(&self, lock: &str, contender: usize, token: i64) -> bool {
        let mut inner = self.inner();
        let highest = inner.highest.entry(lock.to_owned()).or_insert(token);
        let accepted = token >= *highest;
        *highest = token.max(*highest);
        let at_us = self.now_us();
        inner.kept.writes.push(Write { lock: lock.to_owned(), contender, token, at_us, accepted });
        accepted
    }

    /// Writes without a token that the resource would look at: what no program should do.
    pub(crate) fn write_unfenced(&self, lock: &str, contender: usize, token: i64) {
        let at_us = self.now_us();
        let write = Write { lock: lock.to_owned(), contender, token, at_us, accepted: true };
        self.inner().kept.writes.push(write);
    }

    /// Notes a grant.
    pub fn claim(&self, claim: Claim) -> ClaimId {
        let mut inner = self.inner();
        inner.kept.claims.push(claim);
        let id = inner.kept.claims.len() - 1;
        drop(inner);
        self.grants.send_modify(|count| *count += 1);
        id
    }

    /// Notes until when the holder believed in it.
    pub fn believed_until(&self, id: ClaimId, until_us: u64) {
        if let Some(claim) = self.inner().kept.claims.get_mut(id) {
            claim.believed_until_us = until_us.max(claim.granted_us);
        }
    }

    /// Notes that the release found the lock held.
    pub fn released(&self, id: ClaimId) {
        if let Some(claim) = self.inner().kept.claims.get_mut(id) {
            claim.released = true;
        }
    }

    /// Notes that its guard was dropped.
    pub(crate) fn dropped(&self, id: ClaimId) {
        if let Some(claim) = self.inner().kept.claims.get_mut(id) {
            claim.dropped = true;
        }
    }

    pub(crate) fn guarded(&self, guarded: Guarded) {
        self.inner().kept.guarded.push(guarded);
    }

    pub(crate) fn passed(&self, passage: Passage) {
        self.inner().kept.passages.push(passage);
    }

    /// Notes a barrier that was found open.
    pub(crate) fn opened(&self, opening: Opening) {
        self.inner().kept.openings.push(opening);
    }

    /// Notes that a znode is about to be deleted by hand.
    pub(crate) fn deletes_by_hand(&self, path: &str) {
        self.inner().kept.by_hand.insert(path.to_owned());
    }

    /// Notes that a lock with these znodes was gone although its holder's session lives.
    pub(crate) fn gone(&self, paths: Vec<String>) {
        self.inner().kept.gone.push(paths);
    }

    /// Notes that a member begins to enter a double barrier.
    pub(crate) fn arrives(&self, path: &str, members: usize) -> usize {
        let at_us = self.now_us();
        let mut inner = self.inner();
        let path = path.to_owned();
        inner.kept.arrivals.push(Arrival { path, members, at_us, entered_us: None });
        inner.kept.arrivals.len() - 1
    }

    /// Notes that it is inside.
    pub(crate) fn has_entered(&self, number: usize) {
        let at_us = self.now_us();
        if let Some(arrival) = self.inner().kept.arrivals.get_mut(number) {
            arrival.entered_us = Some(at_us);
        }
    }

    /// Notes that a number of permits is about to be written.
    pub(crate) fn sets_count(&self, set: CountSet) -> usize {
        let mut inner = self.inner();
        inner.kept.counts.push(set);
        inner.kept.counts.len() - 1
    }

    /// Notes that it was written, by this transaction or an earlier one.
    pub(crate) fn has_set_count(&self, number: usize, to: i64) {
        if let Some(set) = self.inner().kept.counts.get_mut(number) {
            set.to = Some(to);
        }
    }

    /// Notes what a recipe has shown that it must not.
    pub(crate) fn broke(&self, text: String) {
        self.inner().kept.broke.push(text);
    }

    pub(crate) fn error(&self, text: String) {
        self.inner().kept.errors.push(text);
    }

    /// Notes that something is done from now on, for so long, to a contender or to all.
    pub(crate) fn disturbed(&self, contender: Option<usize>, long: Duration) {
        let now = Instant::now();
        self.disturbed_between(contender, now, now + long);
    }

    /// Notes something that was done to a contender or to all, and is over.
    pub(crate) fn disturbed_between(&self, contender: Option<usize>, from: Instant, to: Instant) {
        let (from_us, to_us) = (self.us_at(from), self.us_at(to));
        self.inner().kept.disturbances.push(Disturbance { contender, from_us, to_us });
    }

    /// A moment in microseconds from the start.
    pub(crate) fn us_at(&self, at: Instant) -> u64 {
        u64::try_from(at.saturating_duration_since(self.start).as_micros()).unwrap_or(0)
    }

    /// Counts a fault that has struck.
    pub(crate) fn struck(&self, kind: &'static str) {
        *self.inner().kept.struck.entry(kind).or_default() += 1;
    }

    /// The number of grants so far, and as it grows.
    pub(crate) fn grants(&self) -> watch::Receiver<u64> {
        self.grants.subscribe()
    }

    /// Everything that was kept; the record is empty then.
    pub fn take(&self) -> Kept {
        std::mem::take(&mut *self.inner()).kept
    }

    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
