//! Who holds what, and whether that may be.

use std::collections::BTreeMap;

use super::Group;

/// How a lock is held.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Mode {
    Exclusive,
    Shared,
}

/// A contender: which process, and its number there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Contender {
    pub(super) process: usize,
    pub(super) number: usize,
}

/// One lock and those who hold it.
#[derive(Debug)]
pub(super) struct Lock {
    path: &'static str,
    pub(super) permits: usize,
    holders: BTreeMap<Contender, Mode>,
    /// The highest token that was shown; 0 before the first.
    highest: i64,
    /// How often it was granted.
    pub(super) grants: u64,
    /// The most holders at a time.
    pub(super) most: usize,
}

impl Lock {
    pub(super) fn new(group: &Group) -> Self {
        let holders = BTreeMap::new();
        Self { path: group.path, permits: group.permits, holders, highest: 0, grants: 0, most: 0 }
    }

    /// Somebody says that it has the lock.
    pub(super) fn enter(&mut self, who: Contender, mode: Mode) -> Result<(), String> {
        let alone = self.holders.is_empty();
        let among_readers = mode == Mode::Shared
            && self.holders.len() < self.permits
            && self.holders.values().all(|held| *held == Mode::Shared);
        if !alone && !among_readers {
            let (path, holders) = (self.path, &self.holders);
            return Err(format!("{path}: {who:?} got it {mode:?} while it is held by {holders:?}"));
        }
        self.holders.insert(who, mode);
        self.grants += 1;
        self.most = self.most.max(self.holders.len());
        Ok(())
    }

    /// A holder shows its token.
    pub(super) fn present(&mut self, who: Contender, token: i64) -> Result<(), String> {
        if token < self.highest {
            let (path, highest) = (self.path, self.highest);
            return Err(format!("{path}: {who:?} holds it by {token}, which is below {highest}"));
        }
        self.highest = token;
        Ok(())
    }

    /// Somebody says that it is going to release the lock.
    pub(super) fn leave(&mut self, who: Contender) -> Result<(), String> {
        match self.holders.remove(&who) {
            Some(_) => Ok(()),
            None => Err(format!("{}: {who:?} frees what it does not hold", self.path)),
        }
    }

    /// A process was killed, and what it held is held no more.
    pub(super) fn bury(&mut self, process: usize) {
        self.holders.retain(|who, _| who.process != process);
    }

    pub(super) fn is_held_by(&self, process: usize) -> bool {
        self.holders.keys().any(|who| who.process == process)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: Contender = Contender { process: 0, number: 0 };
    const B: Contender = Contender { process: 1, number: 0 };
    const C: Contender = Contender { process: 1, number: 1 };

    #[test]
    fn a_second_holder_of_a_mutex_is_found() {
        let mut lock = Lock::new(&Group::exclusive("mutex", "/m"));
        lock.enter(A, Mode::Exclusive).unwrap();
        assert!(lock.enter(B, Mode::Exclusive).unwrap_err().contains("while it is held"));
        lock.bury(A.process);
        lock.enter(B, Mode::Exclusive).unwrap();
        assert!(lock.leave(A).is_err(), "it was buried");
    }

    #[test]
    fn a_token_that_falls_is_found() {
        let mut lock = Lock::new(&Group::exclusive("mutex", "/m"));
        lock.present(A, 7).unwrap();
        lock.present(A, 7).unwrap();
        lock.present(B, 9).unwrap();
        assert!(lock.present(A, 7).unwrap_err().contains("below 9"));
    }

    #[test]
    fn a_third_holder_of_two_permits_is_found() {
        let mut lock = Lock::new(&Group::semaphore("/s"));
        lock.enter(A, Mode::Shared).unwrap();
        lock.enter(B, Mode::Shared).unwrap();
        assert!(lock.enter(C, Mode::Shared).is_err());
        assert_eq!(lock.most, 2);
    }

    #[test]
    fn readers_and_writers_keep_apart() {
        let mut lock = Lock::new(&Group::read_write("/rw"));
        lock.enter(A, Mode::Shared).unwrap();
        lock.enter(B, Mode::Shared).unwrap();
        assert!(lock.enter(C, Mode::Exclusive).is_err());
        lock.leave(A).unwrap();
        lock.leave(B).unwrap();
        lock.enter(C, Mode::Exclusive).unwrap();
        assert!(lock.enter(A, Mode::Shared).is_err());
    }
}
