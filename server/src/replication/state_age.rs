//! The age of the state that a server serves.
//!
//! A leader that sends heartbeats does not prove that its entries arrive: they take another
//! connection, which may be slow or lose long packets only. So a follower keeps the moment up to
//! which its state is known to be complete, and stops serving when that is too long ago (P9).
//!
//! ```text
//! follower   answer to a message, with a stamp: the follower's own time s
//! leader     a later message: the newest commit c, and the stamp s of the last answer received
//! follower   everything committed before s is in the log up to c: once c is applied, the state is
//!            complete as of s
//! ```
//!
//! The leader has sent c after it received s, so the proof does not depend on how long either
//! message was on its way. A leader of a release without stamps returns none; then s is the arrival
//! of its message. A leader's state is complete as of a moment once what it had committed then is
//! applied.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::Instant;
use zoolet_replica::Term;
use zoolet_storage::LogIndex;

use crate::consensus::Echo;

/// The most announced commits that wait to be applied. With one for each heartbeat, they reach back
/// further than a follower may serve; further ones are ignored until some of them are applied.
const PENDING_MAX: usize = 1024;

/// The knowledge about the age of the state.
#[derive(Debug)]
pub(super) struct StateAge {
    origin: Instant,
    /// The stamp of `origin`. It is random, so that a stamp from before a restart is recognized.
    first_stamp: u64,
    /// The shortest time between two announcements that are kept.
    spacing: Duration,
    proofs: Mutex<Proofs>,
    stops: AtomicU64,
}

#[derive(Debug, Default)]
struct Proofs {
    /// Everything that was committed before this moment is applied.
    complete_as_of: Option<Instant>,
    /// Announced commits that were not applied, and what they prove once they are. Both rise.
    pending: VecDeque<(LogIndex, Instant)>,
    /// The last term in which this server led, and since when it knew that.
    led_since: Option<(Term, Instant)>,
}

impl StateAge {
    pub(super) fn new(first_stamp: u64, spacing: Duration) -> Self {
        let (origin, proofs, stops) = (Instant::now(), Mutex::default(), AtomicU64::new(0));
        Self { origin, first_stamp, spacing, proofs, stops }
    }

    /// Returns the stamp of this moment.
    pub(super) fn stamp(&self) -> u64 {
        self.first_stamp.wrapping_add(micros(self.origin.elapsed()))
    }

    /// Returns the moment of a stamp of this server; `None` if it was made before the last restart.
    fn moment(&self, stamp: u64) -> Option<Instant> {
        let since_us = stamp.wrapping_sub(self.first_stamp);
        let is_past = since_us <= micros(self.origin.elapsed());
        is_past.then(|| self.origin + Duration::from_micros(since_us))
    }

    /// Takes a commit that the leader has announced.
    pub(super) fn announced(&self, committed: LogIndex, echo: Echo, applied: Option<LogIndex>) {
        let as_of = match echo {
            Echo::Unsupported => Some(Instant::now()),
            Echo::NoneYet => None,
            Echo::Stamp(stamp) => self.moment(stamp),
        };
        if let Some(as_of) = as_of {
            self.keep(as_of, committed, applied);
        }
    }

    /// Keeps that the state is complete as of this moment once it is applied up to `committed`.
    fn keep(&self, as_of: Instant, committed: LogIndex, applied: Option<LogIndex>) {
        let mut proofs = self.lock();
        proofs.collect(applied);
        if applied >= Some(committed) || planted!("announced-entries-count-as-applied") {
            return proofs.prove(as_of);
        }
        let is_full = proofs.pending.len() >= PENDING_MAX;
        match proofs.pending.back_mut() {
            Some((index, known)) if *index == committed => *known = as_of.max(*known),
            Some((index, known)) if *index > committed || *known + self.spacing > as_of => {}
            Some(_) | None if is_full => {}
            Some(_) | None => proofs.pending.push_back((committed, as_of)),
        }
    }

    /// Records, as leader, the last committed entry at a moment, and the last applied one. The first
    /// entry of the term implies everything that earlier leaders have committed.
    pub(super) fn leads(
        &self,
        (term, now): (Term, Instant),
        has_first_entry: bool,
        committed: Option<LogIndex>,
        applied: Option<LogIndex>,
    ) {
        let mut proofs = self.lock();
        let known = proofs.led_since.filter(|(known, _)| *known == term);
        let (_, since) = *proofs.led_since.insert(known.unwrap_or((term, now)));
        if has_first_entry && let Some(committed) = committed {
            proofs.prove(since);
            drop(proofs);
            self.keep(now, committed, applied);
        }
    }

    /// Takes note that everything committed before this moment is applied.
    pub(super) fn proved(&self, as_of: Instant) {
        self.lock().prove(as_of);
    }

    /// Returns the time since the moment up to which the state is known to be complete; `None` if
    /// that was never known.
    pub(super) fn age(&self, applied: Option<LogIndex>) -> Option<Duration> {
        let mut proofs = self.lock();
        proofs.collect(applied);
        Some(proofs.complete_as_of?.elapsed())
    }

    /// Counts that this server has stopped serving because of its state's age.
    pub(super) fn count_stop(&self) {
        self.stops.fetch_add(1, Ordering::Relaxed);
    }

    /// Returns how often it has.
    pub(super) fn stops(&self) -> u64 {
        self.stops.load(Ordering::Relaxed)
    }

    fn lock(&self) -> MutexGuard<'_, Proofs> {
        self.proofs.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Proofs {
    fn prove(&mut self, as_of: Instant) {
        self.complete_as_of = self.complete_as_of.max(Some(as_of));
    }

    /// Takes the proofs of commits that are applied by now.
    fn collect(&mut self, applied: Option<LogIndex>) {
        while let Some((_, as_of)) =
            self.pending.pop_front_if(|(committed, _)| applied >= Some(*committed))
        {
            self.prove(as_of);
        }
    }
}

fn micros(time: Duration) -> u64 {
    u64::try_from(time.as_micros()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use tokio::time::advance;

    use super::*;

    const MS: Duration = Duration::from_millis(1);

    /// A follower that heard heartbeats and received no entries served a value for 60 s that others
    /// had overwritten.
    #[tokio::test(start_paused = true)]
    async fn announced_commits_that_are_not_applied_prove_nothing() {
        let age = StateAge::new(u64::MAX - 7, MS);
        assert_eq!(age.age(Some(LogIndex(9))), None);
        let mut first = None;
        for commit in 5..15 {
            let stamp = age.stamp();
            first = first.or(Some(stamp));
            advance(100 * MS).await;
            age.announced(LogIndex(commit), Echo::Stamp(stamp), Some(LogIndex(5)));
        }
        assert_eq!(age.age(Some(LogIndex(5))), Some(1000 * MS), "the first commit is applied");
        assert_eq!(age.age(Some(LogIndex(7))), Some(800 * MS));
        assert_eq!(age.age(Some(LogIndex(6))), Some(800 * MS), "what was known stays known");
        assert_eq!(age.age(Some(LogIndex(20))), Some(100 * MS));
        advance(50 * MS).await;
        age.announced(LogIndex(14), Echo::Stamp(first.unwrap()), Some(LogIndex(20)));
        assert_eq!(
            age.age(Some(LogIndex(20))),
            Some(150 * MS),
            "a message that was on its way for long"
        );
        age.proved(Instant::now());
        assert_eq!(age.age(None), Some(Duration::ZERO));
    }

    #[tokio::test(start_paused = true)]
    async fn a_leader_without_stamps_is_judged_by_the_arrival_of_its_messages() {
        let age = StateAge::new(3, MS);
        age.announced(LogIndex(4), Echo::NoneYet, Some(LogIndex(4)));
        assert_eq!(age.age(Some(LogIndex(4))), None);
        age.announced(LogIndex(4), Echo::Unsupported, Some(LogIndex(3)));
        advance(40 * MS).await;
        assert_eq!((age.age(Some(LogIndex(3))), age.age(Some(LogIndex(4)))), (None, Some(40 * MS)));
    }

    /// Its age was reported as zero, however much it had not applied.
    #[tokio::test(start_paused = true)]
    async fn the_state_of_a_leader_is_as_old_as_what_it_has_not_applied() {
        let (age, index) = (StateAge::new(3, MS), |index| Some(LogIndex(index)));
        let led = || (Term(2), Instant::now());
        age.leads(led(), false, index(4), index(4));
        assert_eq!(age.age(index(4)), None, "it may lack what others have committed");
        advance(30 * MS).await;
        age.leads(led(), true, index(9), index(5));
        assert_eq!(age.age(index(5)), Some(30 * MS), "it had all when it was elected");
        advance(20 * MS).await;
        age.leads(led(), true, index(12), index(8));
        assert_eq!((age.age(index(8)), age.age(index(9))), (Some(50 * MS), Some(20 * MS)));
        age.leads(led(), true, index(12), index(12));
        assert_eq!(age.age(index(12)), Some(Duration::ZERO));
    }

    #[tokio::test(start_paused = true)]
    async fn a_stamp_from_before_a_restart_proves_nothing() {
        let before = StateAge::new(5_000_000, MS);
        advance(10 * MS).await;
        for first_stamp in [0, 7_000_000] {
            let age = StateAge::new(first_stamp, MS);
            age.announced(LogIndex(4), Echo::Stamp(before.stamp()), Some(LogIndex(4)));
            assert_eq!(age.age(Some(LogIndex(4))), None);
        }
    }

    #[tokio::test(start_paused = true)]
    async fn announcements_are_thinned_out_and_limited() {
        let age = StateAge::new(0, 10 * MS);
        for commit in 1..100_000 {
            advance(MS).await;
            age.announced(LogIndex(commit), Echo::Stamp(age.stamp()), None);
        }
        assert_eq!(age.lock().pending.len(), PENDING_MAX);
        let applied = Some(LogIndex(100_000));
        let known = age.age(applied).unwrap();
        assert!(known > 80_000 * MS && age.lock().pending.is_empty(), "{known:?}");
        age.announced(LogIndex(100_000), Echo::Stamp(age.stamp()), applied);
        assert_eq!(age.age(applied), Some(Duration::ZERO));
    }
}
