//! A lock whose holders show tokens, among processes that stand still or are cut off.
//!
//! A holder that was shaken may lose the lock and not know it. Then others get it, but not before its
//! session may have ended, and what it writes later is stale.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use super::multi_language::SESSION_SECONDS;
use super::referee::Contender;

/// A client pings at least every third of its timeout, so no session ends earlier after its last sign
/// of life than two thirds of it; the rest is for what was under way.
const EXPIRY_MIN: Duration = Duration::from_secs(SESSION_SECONDS / 2);

/// Whose sessions may have ended.
#[derive(Debug, Default)]
pub(super) struct Shaken {
    /// Since when. It ends with a new grant.
    since: BTreeMap<Contender, Instant>,
    /// The processes that are being shaken.
    now: BTreeSet<usize>,
}

impl Shaken {
    /// A process of `contenders` contenders is cut off from the servers.
    pub(super) fn begin(&mut self, process: usize, contenders: usize, now: Instant) {
        self.now.insert(process);
        for number in 0..contenders {
            self.since.entry(Contender { process, number }).or_insert(now);
        }
    }

    /// They hear from it again.
    pub(super) fn end(&mut self, process: usize) {
        self.now.remove(&process);
    }

    /// A contender has been granted a lock: it has a session.
    pub(super) fn lives(&mut self, who: Contender) {
        if !self.now.contains(&who.process) {
            self.since.remove(&who);
        }
    }

    fn contains(&self, who: Contender) -> bool {
        self.since.contains_key(&who)
    }
}

/// One grant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Grant {
    pub(super) who: Contender,
    pub(super) token: i64,
}

/// What becomes of one who says that it holds the lock.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Entry {
    /// It holds a lock that was free.
    Free,
    /// It holds the lock that another has lost, so long after that one was shaken.
    TakenOver(Grant, Duration),
    /// It had been granted the lock, and has lost it before it could say so.
    Late,
}

/// A mutex.
#[derive(Debug)]
pub(super) struct Fenced {
    path: &'static str,
    holder: Option<Grant>,
    /// The highest token of any grant; 0 before the first.
    highest: i64,
}

impl Fenced {
    pub(super) fn new(path: &'static str) -> Self {
        Self { path, holder: None, highest: 0 }
    }

    /// Somebody says that it holds the lock.
    pub(super) fn enter(
        &mut self,
        grant: Grant,
        shaken: &Shaken,
        now: Instant,
    ) -> Result<Entry, String> {
        let (path, highest) = (self.path, self.highest);
        if grant.token <= highest {
            return if shaken.contains(grant.who) {
                Ok(Entry::Late)
            } else {
                Err(format!("{path}: {grant:?} does not exceed the token {highest}"))
            };
        }
        if let Some(former) = self.holder {
            let Some(since) = shaken.since.get(&former.who) else {
                return Err(format!("{path}: {grant:?} while it is held by {former:?}"));
            };
            let after = now.saturating_duration_since(*since);
            if after < EXPIRY_MIN {
                return Err(format!(
                    "{path}: {grant:?} only {after:?} after the last of {former:?}"
                ));
            }
            self.become_held(grant);
            return Ok(Entry::TakenOver(former, after));
        }
        self.become_held(grant);
        Ok(Entry::Free)
    }

    fn become_held(&mut self, grant: Grant) {
        self.holder = Some(grant);
        self.highest = grant.token;
    }

    /// The resource has taken a write, or refused it.
    pub(super) fn wrote(
        &self,
        grant: Grant,
        accepted: bool,
        shaken: &Shaken,
    ) -> Result<(), String> {
        let (path, holder) = (self.path, self.holder);
        match accepted {
            true if holder != Some(grant) => Err(format!(
                "{path}: a write of {grant:?} was accepted, and the holder is {holder:?}"
            )),
            false if holder == Some(grant) || !shaken.contains(grant.who) => Err(format!(
                "{path}: a write of {grant:?} was refused, and the holder is {holder:?}"
            )),
            true | false => Ok(()),
        }
    }

    /// A contender is about to release the lock. Returns whether it held it.
    pub(super) fn leave(&mut self, who: Contender, shaken: &Shaken) -> Result<bool, String> {
        if self.holder.is_some_and(|holder| holder.who == who) {
            self.holder = None;
            return Ok(true);
        }
        if shaken.contains(who) {
            return Ok(false);
        }
        Err(format!("{}: {who:?} frees what {:?} holds", self.path, self.holder))
    }
}

#[cfg(test)]
#[allow(clippy::disallowed_methods, reason = "a moment to count from")]
mod tests {
    use super::*;

    const A: Contender = Contender { process: 0, number: 0 };
    const B: Contender = Contender { process: 1, number: 0 };

    fn grant(who: Contender, token: i64) -> Grant {
        Grant { who, token }
    }

    #[test]
    fn a_second_grant_beside_a_holder_that_lives_is_found() {
        let (mut lock, shaken, now) = (Fenced::new("/m"), Shaken::default(), Instant::now());
        assert_eq!(lock.enter(grant(A, 5), &shaken, now), Ok(Entry::Free));
        assert!(lock.enter(grant(B, 6), &shaken, now).unwrap_err().contains("while it is held"));
        assert_eq!(lock.leave(A, &shaken), Ok(true));
        assert!(lock.leave(A, &shaken).is_err(), "it is free");
        assert!(lock.enter(grant(B, 5), &shaken, now).unwrap_err().contains("exceed"));
        assert_eq!(lock.enter(grant(B, 6), &shaken, now), Ok(Entry::Free));
    }

    #[test]
    fn a_shaken_holder_loses_the_lock_in_time_and_writes_no_more() {
        let (mut lock, mut shaken, now) = (Fenced::new("/m"), Shaken::default(), Instant::now());
        lock.enter(grant(A, 5), &shaken, now).unwrap();
        shaken.begin(A.process, 1, now);
        let early = now + Duration::from_secs(1);
        assert!(lock.enter(grant(B, 6), &shaken, early).unwrap_err().contains("only 1s"));
        assert_eq!(lock.wrote(grant(A, 5), true, &shaken), Ok(()));
        let later = now + Duration::from_secs(5);
        let taken_over = Entry::TakenOver(grant(A, 5), Duration::from_secs(5));
        assert_eq!(lock.enter(grant(B, 6), &shaken, later), Ok(taken_over));
        assert!(lock.wrote(grant(A, 5), true, &shaken).unwrap_err().contains("was accepted"));
        assert_eq!(lock.wrote(grant(A, 5), false, &shaken), Ok(()));
        assert!(lock.wrote(grant(B, 6), false, &shaken).unwrap_err().contains("was refused"));
        assert_eq!(lock.leave(A, &shaken), Ok(false));
        assert_eq!(lock.enter(grant(A, 4), &shaken, later), Ok(Entry::Late));
    }

    #[test]
    fn a_new_grant_ends_the_doubt() {
        let (mut shaken, now) = (Shaken::default(), Instant::now());
        shaken.begin(A.process, 1, now);
        shaken.lives(A);
        assert!(shaken.contains(A), "it is still cut off");
        shaken.end(A.process);
        assert!(shaken.contains(A), "it is unknown whether its session lives");
        shaken.lives(A);
        assert!(!shaken.contains(A));
    }
}
