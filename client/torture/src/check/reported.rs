//! Locks whose holders report each grant, write and release to a referee outside of the ensemble,
//! and wait for its answer before they go on. So the referee knows at any moment which contenders
//! may believe to hold the lock, in whatever language they are written, and needs no log.
//!
//! A contender in doubt, which was stopped, cut off or killed, may lose a lock and not know it. Then
//! others are granted the lock, but not before its session may have ended, and what it writes later
//! is stale.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Debug;
use std::time::{Duration, Instant};

use super::{Promise, Violation};
use crate::run_history::Mode;

/// What identifies a contender.
pub trait Contender: Clone + Debug + Ord {}

impl<C: Clone + Debug + Ord> Contender for C {}

/// The contenders whose sessions may have ended.
#[derive(Debug)]
pub struct Doubts<C> {
    /// Since when. It ends with a new grant.
    since: BTreeMap<C, Instant>,
    /// Those of which the servers receive nothing at the moment.
    cut_off: BTreeSet<C>,
    /// No session ends earlier after its contender's last sign of life.
    expiry_min: Duration,
}

impl<C: Contender> Doubts<C> {
    /// No contender is in doubt yet. A client pings at least every third of its session timeout, so
    /// no session ends earlier than two thirds of it after the last sign of life; the rest of the
    /// second half is for what was under way.
    pub fn new(session_timeout: Duration) -> Self {
        let expiry_min = session_timeout / 2;
        Self { since: BTreeMap::new(), cut_off: BTreeSet::new(), expiry_min }
    }

    /// The servers receive nothing from a contender from now on.
    pub fn begin(&mut self, contender: C, now: Instant) {
        self.cut_off.insert(contender.clone());
        self.since.entry(contender).or_insert(now);
    }

    /// They receive what it sends again.
    pub fn end(&mut self, contender: &C) {
        self.cut_off.remove(contender);
    }

    /// A contender has been granted a lock: it has a session.
    pub fn lives(&mut self, contender: &C) {
        if !self.cut_off.contains(contender) {
            self.since.remove(contender);
        }
    }

    fn contains(&self, contender: &C) -> bool {
        self.since.contains_key(contender)
    }
}

/// One grant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Grant<C> {
    /// Who holds the lock.
    pub contender: C,
    /// How.
    pub mode: Mode,
    /// The fencing token, of locks that have one.
    pub token: Option<i64>,
}

/// What the report of a grant means.
#[derive(Debug, PartialEq, Eq)]
pub enum Entry<C> {
    /// The contender holds a lock that had room for it.
    Free,
    /// It holds the lock that another has lost, this long after that one came into doubt.
    TakenOver(Grant<C>, Duration),
    /// It had been granted the lock, and has lost it before it could report that.
    Late,
}

/// One lock and its holders.
#[derive(Debug)]
pub struct ReportedLock<C> {
    path: String,
    permits: usize,
    holders: BTreeMap<C, Grant<C>>,
    /// The highest token of any grant.
    highest: Option<i64>,
    grants: u64,
    holders_max: usize,
}

impl<C: Contender> ReportedLock<C> {
    /// A lock that as many contenders may hold together in shared mode as there are permits.
    pub fn new(path: &str, permits: usize) -> Self {
        let (path, holders) = (path.to_owned(), BTreeMap::new());
        Self { path, permits, holders, highest: None, grants: 0, holders_max: 0 }
    }

    /// How often it was granted.
    pub const fn grants(&self) -> u64 {
        self.grants
    }

    /// The most holders that it had at a time.
    pub const fn holders_max(&self) -> usize {
        self.holders_max
    }

    /// Its holders.
    pub fn holders(&self) -> impl Iterator<Item = &C> {
        self.holders.keys()
    }

    /// A contender reports that it holds the lock.
    pub fn enter(
        &mut self,
        grant: Grant<C>,
        doubts: &Doubts<C>,
        now: Instant,
    ) -> Result<Entry<C>, Violation> {
        if let (Some(token), Some(highest)) = (grant.token, self.highest)
            && token <= highest
        {
            if doubts.contains(&grant.contender) {
                return Ok(Entry::Late);
            }
            let what = format!("{grant:?} does not exceed the token {highest}");
            return self.broken(Promise::TokensRise, &what);
        }
        let taken_over = self.make_room(&grant, doubts, now)?;
        self.highest = grant.token.or(self.highest);
        self.holders.insert(grant.contender.clone(), grant);
        self.grants += 1;
        self.holders_max = self.holders_max.max(self.holders.len());
        Ok(taken_over.map_or(Entry::Free, |(former, after)| Entry::TakenOver(former, after)))
    }

    /// Takes the lock from those who must have lost it if this grant is right. Returns the one that
    /// came into doubt last, and how long ago.
    fn make_room(
        &mut self,
        grant: &Grant<C>,
        doubts: &Doubts<C>,
        now: Instant,
    ) -> Result<Option<(Grant<C>, Duration)>, Violation> {
        let since = |holder: &Grant<C>| doubts.since.get(&holder.contender).copied();
        let excluded = |holder: &&Grant<C>| {
            grant.mode.excludes(holder.mode) || grant.contender == holder.contender
        };
        let mut former: Vec<Grant<C>> = self.holders.values().filter(excluded).cloned().collect();
        if former.is_empty() && self.holders.len() >= self.permits {
            // Of all holders the one that has been in doubt for the longest time.
            let first = self.holders.values().min_by_key(|holder| {
                let since = since(holder);
                (since.is_none(), since)
            });
            former.extend(first.cloned());
        }
        let mut taken_over = None;
        for holder in former {
            let Some(since) = since(&holder) else {
                let what = format!("{grant:?} while it is held by {:?}", self.holders);
                return self.broken(Promise::OneHolder, &what);
            };
            let after = now.saturating_duration_since(since);
            if after < doubts.expiry_min {
                let what = format!("{grant:?} only {after:?} after the last of {holder:?}");
                return self.broken(Promise::OneHolder, &what);
            }
            self.holders.remove(&holder.contender);
            if taken_over.as_ref().is_none_or(|(_, longest)| after < *longest) {
                taken_over = Some((holder, after));
            }
        }
        Ok(taken_over)
    }

    /// What the lock guards has accepted a contender's write, or refused it.
    pub fn wrote(
        &self,
        contender: &C,
        token: i64,
        accepted: bool,
        doubts: &Doubts<C>,
    ) -> Result<(), Violation> {
        let holds = self.holders.get(contender).is_some_and(|grant| grant.token == Some(token));
        let verb = match accepted {
            true if !holds => "accepted",
            false if holds || !doubts.contains(contender) => "refused",
            true | false => return Ok(()),
        };
        let what = format!(
            "a write of {contender:?} with token {token} was {verb}, and the holders are {:?}",
            self.holders
        );
        self.broken(Promise::NoStaleWrite, &what)
    }

    /// A contender reports that it is about to release the lock. Returns whether it held it.
    pub fn leave(&mut self, contender: &C, doubts: &Doubts<C>) -> Result<bool, Violation> {
        if self.holders.remove(contender).is_some() {
            return Ok(true);
        }
        if doubts.contains(contender) {
            return Ok(false);
        }
        let what = format!("{contender:?} frees what {:?} hold", self.holders);
        self.broken(Promise::OneHolder, &what)
    }

    fn broken<T>(&self, promise: Promise, what: &str) -> Result<T, Violation> {
        Err(Violation { promise, what: format!("{}: {what}", self.path) })
    }
}

#[cfg(test)]
#[allow(clippy::disallowed_methods, reason = "a moment to count from")]
mod tests {
    use super::*;

    const SESSION: Duration = Duration::from_secs(8);
    const SECOND: Duration = Duration::from_secs(1);

    fn no_doubts() -> Doubts<char> {
        Doubts::new(SESSION)
    }

    fn exclusive(contender: char, token: i64) -> Grant<char> {
        Grant { contender, mode: Mode::Exclusive, token: Some(token) }
    }

    fn shared(contender: char) -> Grant<char> {
        Grant { contender, mode: Mode::Shared, token: None }
    }

    /// The promise that a report breaks, after looking for a part of what it says.
    fn breaks<T: Debug>(report: Result<T, Violation>, part: &str) -> Promise {
        let violation = report.unwrap_err();
        assert!(violation.what.contains(part), "{violation}");
        violation.promise
    }

    #[test]
    fn a_second_holder_is_found() {
        let (mut lock, none, now) = (ReportedLock::new("/m", 1), no_doubts(), Instant::now());
        assert_eq!(lock.enter(exclusive('a', 5), &none, now), Ok(Entry::Free));
        let beside = lock.enter(exclusive('b', 6), &none, now);
        assert_eq!(breaks(beside, "/m: "), Promise::OneHolder);
        assert_eq!(lock.leave(&'a', &none), Ok(true));
        assert_eq!(breaks(lock.leave(&'a', &none), "frees"), Promise::OneHolder);
        assert_eq!(lock.enter(exclusive('b', 6), &none, now), Ok(Entry::Free));
        let without = Grant { token: None, ..exclusive('a', 0) };
        assert_eq!(breaks(lock.enter(without, &none, now), "while it is held"), Promise::OneHolder);
        let again = lock.enter(exclusive('b', 7), &none, now);
        assert_eq!(breaks(again, "while it is held"), Promise::OneHolder);
        assert_eq!(lock.grants(), 2);
    }

    #[test]
    fn a_token_that_does_not_rise_is_found() {
        let (mut lock, none, now) = (ReportedLock::new("/m", 1), no_doubts(), Instant::now());
        lock.enter(exclusive('a', 7), &none, now).unwrap();
        lock.leave(&'a', &none).unwrap();
        for token in [6, 7] {
            let same = lock.enter(exclusive('a', token), &none, now);
            assert_eq!(breaks(same, "does not exceed the token 7"), Promise::TokensRise);
        }
        lock.enter(exclusive('a', 8), &none, now).unwrap();
        assert_eq!(lock.wrote(&'a', 8, true, &none), Ok(()));
        let other = lock.wrote(&'a', 7, true, &none);
        assert_eq!(breaks(other, "token 7 was accepted"), Promise::NoStaleWrite);
    }

    #[test]
    fn a_third_holder_of_two_permits_is_found() {
        let (mut lock, mut doubts, now) = (ReportedLock::new("/s", 2), no_doubts(), Instant::now());
        lock.enter(shared('a'), &doubts, now).unwrap();
        lock.enter(shared('b'), &doubts, now).unwrap();
        let third = lock.enter(shared('c'), &doubts, now);
        assert_eq!(breaks(third, "while it is held"), Promise::OneHolder);
        assert_eq!(lock.holders_max(), 2);
        doubts.begin('b', now);
        let early = lock.enter(shared('c'), &doubts, now + SECOND);
        assert_eq!(breaks(early, "only 1s after"), Promise::OneHolder);
        let entry = lock.enter(shared('c'), &doubts, now + SESSION);
        assert_eq!(entry, Ok(Entry::TakenOver(shared('b'), SESSION)));
        assert_eq!(lock.holders().collect::<String>(), "ac");
    }

    #[test]
    fn readers_and_writers_keep_apart() {
        let (mut lock, none) = (ReportedLock::new("/rw", usize::MAX), no_doubts());
        let now = Instant::now();
        lock.enter(shared('a'), &none, now).unwrap();
        lock.enter(shared('b'), &none, now).unwrap();
        let writer = lock.enter(exclusive('c', 1), &none, now);
        assert_eq!(breaks(writer, "while it is held"), Promise::OneHolder);
        lock.leave(&'a', &none).unwrap();
        lock.leave(&'b', &none).unwrap();
        lock.enter(exclusive('c', 1), &none, now).unwrap();
        let reader = lock.enter(shared('a'), &none, now);
        assert_eq!(breaks(reader, "while it is held"), Promise::OneHolder);
    }

    #[test]
    fn a_holder_in_doubt_loses_the_lock_in_time_and_writes_no_more() {
        let (mut lock, mut doubts, now) = (ReportedLock::new("/m", 1), no_doubts(), Instant::now());
        lock.enter(exclusive('a', 5), &doubts, now).unwrap();
        doubts.begin('a', now);
        let early = lock.enter(exclusive('b', 6), &doubts, now + SECOND);
        assert_eq!(breaks(early, "only 1s after"), Promise::OneHolder);
        assert_eq!(lock.wrote(&'a', 5, true, &doubts), Ok(()));
        let (later, after) = (now + SECOND * 5, SECOND * 5);
        let entry = lock.enter(exclusive('b', 6), &doubts, later);
        assert_eq!(entry, Ok(Entry::TakenOver(exclusive('a', 5), after)));
        let stale = lock.wrote(&'a', 5, true, &doubts);
        assert_eq!(breaks(stale, "was accepted"), Promise::NoStaleWrite);
        assert_eq!(lock.wrote(&'a', 5, false, &doubts), Ok(()));
        let refused = lock.wrote(&'b', 6, false, &doubts);
        assert_eq!(breaks(refused, "was refused"), Promise::NoStaleWrite);
        assert_eq!(lock.leave(&'a', &doubts), Ok(false));
        assert_eq!(lock.enter(exclusive('a', 4), &doubts, later), Ok(Entry::Late));
    }

    #[test]
    fn a_new_grant_ends_the_doubt() {
        let (mut doubts, now) = (no_doubts(), Instant::now());
        doubts.begin('a', now);
        doubts.lives(&'a');
        assert!(doubts.contains(&'a'), "it is still cut off");
        doubts.end(&'a');
        assert!(doubts.contains(&'a'), "it is unknown whether its session lives");
        doubts.lives(&'a');
        assert!(!doubts.contains(&'a'));
    }
}
