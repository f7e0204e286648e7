//! What a run has seen, in the form in which it is checked.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use crate::log::Log;
use crate::recipe::{Lock, Recipe};
use crate::sequence_offset::SequenceOffset;

/// How a lock is held.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// Alone, or as one of as many as there are permits.
    Exclusive,
    /// With other readers.
    Shared,
}

impl Mode {
    /// Whether a lock cannot be held in both modes at a time.
    pub fn excludes(self, other: Self) -> bool {
        self == Self::Exclusive || other == Self::Exclusive
    }
}

/// One grant, as its holder saw it. Times are microseconds from the start of the run, on the one
/// monotonic clock that all contenders of a process share.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Claim {
    /// The path of the lock.
    pub lock: String,
    /// Who holds it.
    pub contender: usize,
    /// How.
    pub mode: Mode,
    /// The znode that stands for the grant.
    pub path: String,
    /// The fencing token.
    pub token: i64,
    /// The newest zxid that the holder's client had seen when it got the grant: everything
    /// that made it the holder was committed by then.
    pub seen: i64,
    /// When it got the grant.
    pub granted_us: u64,
    /// Until when it believed to hold the lock: when it began to release it, or when its client
    /// would have reported the loss.
    pub believed_until_us: u64,
    /// Whether the release found the lock still held.
    pub released: bool,
    /// Whether its guard was dropped: the lock is released in the background.
    pub dropped: bool,
}

/// A write to the guarded resource.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Write {
    /// The path of the lock that guards the resource.
    pub lock: String,
    /// Who wrote.
    pub contender: usize,
    /// The token that came with it.
    pub token: i64,
    /// When, in microseconds from the start.
    pub at_us: u64,
    /// Whether the resource took it.
    pub accepted: bool,
}

/// A transaction of the ensemble that was to commit only while a lock was held, and did.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Guarded {
    /// The path of the lock.
    pub lock: String,
    /// The znode that it checked.
    pub path: String,
    /// The transaction.
    pub zxid: i64,
}

/// What a queue or a counter was asked and answered.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// The path.
    pub path: String,
    /// Items that were put, or values that increments answered, each acknowledged.
    pub given: Vec<String>,
    /// Items or increments whose outcome is unknown.
    pub given_in_doubt: Vec<String>,
    /// Items that were taken; for a counter, its value in the end.
    pub taken: Vec<String>,
    /// Takes whose outcome is unknown: each may have cost an item.
    pub taken_in_doubt: usize,
}

impl Tally {
    /// An item or an increment that was in doubt has happened, with this answer.
    pub(crate) fn confirm(&mut self, doubt: &str, answer: String) {
        self.deny(doubt);
        self.given.push(answer);
    }

    /// It has not happened.
    pub(crate) fn deny(&mut self, doubt: &str) {
        self.given_in_doubt.retain(|doubtful| doubtful != doubt);
    }
}

/// A barrier that somebody found open. Zxids are the newest ones that its client had seen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Opening {
    /// The barrier.
    pub path: String,
    /// Who found it open.
    pub contender: usize,
    /// Before it looked.
    pub from: i64,
    /// When the look returned.
    pub to: i64,
}

/// A member that began to enter a double barrier under faults. Each enters a barrier once.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Arrival {
    /// The barrier.
    pub path: String,
    /// How many members it has.
    pub members: usize,
    /// When it began, in microseconds from the start.
    pub at_us: u64,
    /// When it was inside, if it came to that.
    pub entered_us: Option<u64>,
}

/// A write of the number of permits of a semaphore. One contender makes all of them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CountSet {
    /// The semaphore.
    pub path: String,
    /// The number.
    pub value: usize,
    /// The newest zxid that the writer had seen before.
    pub from: i64,
    /// The newest one that it had seen when the write was acknowledged; `None`: it was not.
    pub to: Option<i64>,
}

/// A passage of a double barrier, in microseconds from the start.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Passage {
    /// The barrier.
    pub path: String,
    /// How many members it has.
    pub members: usize,
    /// When this member began to enter.
    pub arrived_us: u64,
    /// When it was inside.
    pub entered_us: u64,
    /// When it began to leave.
    pub leaving_us: u64,
    /// When it was outside.
    pub left_us: u64,
}

/// Something that was done, in microseconds from the start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Disturbance {
    /// To whom; `None`: to the servers, or to all.
    pub contender: Option<usize>,
    /// When it began.
    pub from_us: u64,
    /// When it ended.
    pub to_us: u64,
}

/// Everything that a run has seen.
#[derive(Clone, Debug, Default)]
pub struct RunHistory {
    /// The locks, one by one: those of a multi-lock are two.
    pub locks: Vec<Lock>,
    /// The grants.
    pub claims: Vec<Claim>,
    /// The writes that reached the guarded resource, in its own order.
    pub writes: Vec<Write>,
    /// The guarded transactions that committed.
    pub guarded: Vec<Guarded>,
    /// The log of the ensemble, as far as it was observed.
    pub log: Log,
    /// For each contender, the deletions that a watch notified it of.
    pub woken: Vec<BTreeSet<String>>,
    /// For each contender, the znodes whose creation it has asked for; sequential ones without
    /// their numbers.
    pub made: Vec<BTreeSet<String>>,
    /// The queues and counters.
    pub tallies: Vec<Tally>,
    /// The double barriers.
    pub passages: Vec<Passage>,
    /// The barriers.
    pub openings: Vec<Opening>,
    /// The znodes of locks that were deleted by hand.
    pub by_hand: BTreeSet<String>,
    /// Locks that were gone when their holder released or used them, though its session lived: the
    /// znodes of each.
    pub gone: Vec<Vec<String>>,
    /// The writes of numbers of permits, in the order in which they were made.
    pub counts: Vec<CountSet>,
    /// The members that entered double barriers under faults.
    pub arrivals: Vec<Arrival>,
    /// When a transaction was first observed, in microseconds from the start.
    pub observed_us: BTreeMap<i64, u64>,
    /// What a recipe has shown that it must not.
    pub broke: Vec<String>,
    /// Znodes that were there when no contender held or waited, and when all had gone.
    pub leftovers: Vec<String>,
    /// Contenders that did not get their last turn.
    pub stuck: Vec<String>,
    /// Failures that no recipe should answer.
    pub errors: Vec<String>,
    /// The faults that have struck, by kind.
    pub struck: BTreeMap<&'static str, usize>,
    /// How many holders were stopped for so long that their sessions must have ended.
    pub holders_stopped: usize,
    /// Whether a grant that comes before the former holder's client would have reported the loss
    /// is counted and breaks no promise: servers whose followers answer pings by themselves stood
    /// still or were cut off.
    pub early_grants_are_counted: bool,
    /// The session timeout.
    pub session_timeout: Duration,
    /// What was done, and to whom.
    pub disturbances: Vec<Disturbance>,
    /// When the machine stood still, in microseconds: from, to.
    pub stalls: Vec<(u64, u64)>,
    /// What happened when, for the picture.
    pub marks: Vec<(Duration, String)>,
}

impl RunHistory {
    /// Gives the znodes that contenders have named the names that the servers have.
    pub(crate) fn renumber(&mut self, offset: SequenceOffset) {
        for path in self.claims.iter_mut().map(|claim| &mut claim.path) {
            *path = offset.real(path);
        }
        for path in self.gone.iter_mut().flatten() {
            *path = offset.real(path);
        }
        for path in self.guarded.iter_mut().map(|guarded| &mut guarded.path) {
            *path = offset.real(path);
        }
    }

    pub(crate) fn lock(&self, path: &str) -> Option<&Lock> {
        self.locks.iter().find(|lock| lock.path == path)
    }

    /// The grants of a lock in the order in which the ensemble made them.
    pub(crate) fn claims_of<'a>(&'a self, lock: &'a Lock) -> Vec<&'a Claim> {
        let mut claims: Vec<&Claim> =
            self.claims.iter().filter(|claim| claim.lock == lock.path).collect();
        claims.sort_by_key(|claim| (claim.seen, claim.token));
        claims
    }

    /// How many grants a recipe had.
    pub(crate) fn grants(&self, recipe: Recipe) -> usize {
        let of = |claim: &&Claim| self.lock(&claim.lock).is_some_and(|l| l.whole == recipe);
        self.claims.iter().filter(of).count()
    }
}
