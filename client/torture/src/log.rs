//! The committed log below the root of a run: which znode was created and deleted by which
//! transaction.
//!
//! Observers with a session at each server fill it from recursive watches, whose events carry their
//! zxids. Each tells from which zxid to which it has seen everything; what lies in between and no
//! observer has seen is a gap. A gap is closed for a directory when the directory's own counter of
//! changes, read behind it, equals the changes that were seen: then nothing happened there in the
//! gap. A gap that stays open leaves the grants that it touches unverified, and they are counted.

use std::collections::{BTreeMap, BTreeSet};

use tokio::time::Instant;

/// What happened to a znode.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Happened {
    /// It was created.
    Created,
    /// It was deleted.
    Deleted,
}

/// A directory as an observer read it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Listing {
    pub(crate) dir: String,
    /// As of this transaction.
    pub(crate) zxid: i64,
    /// The transaction that created the directory.
    pub(crate) created: i64,
    /// The last one that changed its children.
    pub(crate) changed: i64,
    /// How many creates and deletes of children there were.
    pub(crate) changes: usize,
}

/// The life of one znode; a path may have several.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Life {
    pub(crate) name: String,
    pub(crate) created: i64,
    /// `None`: it was still there, or its end was not seen.
    pub(crate) deleted: Option<i64>,
}

impl Life {
    pub(crate) fn is_at(&self, zxid: i64) -> bool {
        self.created <= zxid && self.deleted.is_none_or(|deleted| zxid < deleted)
    }
}

/// The log.
#[derive(Clone, Debug, Default)]
pub struct Log {
    /// By transaction and path.
    events: BTreeMap<(i64, String), Happened>,
    /// From which zxid to which an observer has seen everything, both included.
    seen: Vec<(i64, i64)>,
    listings: Vec<Listing>,
    /// When a transaction was first observed.
    observed: BTreeMap<i64, Instant>,
}

impl Log {
    /// Adds an event; observers report the same one.
    pub fn add(&mut self, zxid: i64, path: &str, happened: Happened) {
        self.events.insert((zxid, path.to_owned()), happened);
    }

    /// Notes that a transaction was observed at this moment.
    pub(crate) fn observed(&mut self, zxid: i64, at: Instant) {
        self.observed.entry(zxid).or_insert(at);
    }

    /// When each transaction was first observed.
    pub(crate) fn take_observed(&mut self) -> BTreeMap<i64, Instant> {
        std::mem::take(&mut self.observed)
    }

    /// Notes that everything from one zxid to another is there. An empty range, `to` just before
    /// `from`, ends a gap.
    pub fn covers(&mut self, from: i64, to: i64) {
        if from <= to + 1 {
            self.seen.push((from, to));
        }
    }

    /// Forgets what was covered.
    #[cfg(test)]
    pub(crate) fn uncover(&mut self) {
        self.seen.clear();
    }

    pub(crate) fn list(&mut self, listing: Listing) {
        self.listings.push(listing);
    }

    /// How many events there are.
    pub fn len(&self) -> usize {
        self.events.len()
    }

    /// Whether it has no events.
    pub fn is_empty(&self) -> bool {
        self.events.is_empty()
    }

    /// The ranges that no observer has seen, first and last zxid, between the first and the last
    /// that any has.
    pub fn gaps(&self) -> Vec<(i64, i64)> {
        let mut seen = self.seen.clone();
        seen.sort_unstable();
        let mut gaps = Vec::new();
        let mut reached: Option<i64> = None;
        for (from, to) in seen {
            if let Some(reached) = reached
                && from > reached + 1
            {
                gaps.push((reached + 1, from - 1));
            }
            reached = Some(reached.map_or(to, |reached| reached.max(to)));
        }
        gaps
    }

    /// The same, without those in which nothing happened in a directory.
    pub(crate) fn open_gaps(&self, dir: &str) -> Vec<(i64, i64)> {
        let mut gaps = self.gaps();
        gaps.retain(|(from, to)| {
            !self.listings.iter().any(|listing| {
                listing.dir == dir
                    && listing.zxid >= *to
                    && listing.created <= *from
                    && self.changes(dir, listing) == listing.changes
            })
        });
        gaps
    }

    fn changes(&self, dir: &str, listing: &Listing) -> usize {
        let first = (listing.created, String::new());
        let last = (listing.changed + 1, String::new());
        let inside = self.events.range(first..last);
        inside.filter(|((_, path), _)| child_of(dir, path).is_some()).count()
    }

    /// The lives of the children of a directory, in the order of their creation.
    pub(crate) fn lives(&self, dir: &str) -> Vec<Life> {
        let mut lives: Vec<Life> = Vec::new();
        let mut open: BTreeMap<&str, usize> = BTreeMap::new();
        for ((zxid, path), happened) in &self.events {
            let Some(name) = child_of(dir, path) else { continue };
            match happened {
                Happened::Created => {
                    open.insert(name, lives.len());
                    lives.push(Life { name: name.to_owned(), created: *zxid, deleted: None });
                }
                Happened::Deleted => {
                    if let Some(life) = open.remove(name).and_then(|at| lives.get_mut(at)) {
                        life.deleted = Some(*zxid);
                    }
                }
            }
        }
        lives
    }

    /// Returns the transactions that deleted a child of a directory whose create was not seen.
    pub(crate) fn ends_without_create(&self, dir: &str) -> Vec<i64> {
        let mut open: BTreeSet<&str> = BTreeSet::new();
        let mut ends = Vec::new();
        for ((zxid, path), happened) in &self.events {
            let Some(name) = child_of(dir, path) else { continue };
            if *happened == Happened::Created {
                open.insert(name);
            } else if !open.remove(name) {
                ends.push(*zxid);
            }
        }
        ends
    }

    /// The lives of one path.
    pub(crate) fn lives_of(&self, path: &str) -> Vec<Life> {
        let Some((dir, name)) = path.rsplit_once('/') else { return Vec::new() };
        let mut lives = self.lives(dir);
        lives.retain(|life| life.name == name);
        lives
    }
}

/// The name of a child of a directory.
fn child_of<'a>(dir: &str, path: &'a str) -> Option<&'a str> {
    let name = path.strip_prefix(dir)?.strip_prefix('/')?;
    (!name.is_empty() && !name.contains('/')).then_some(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_gap_is_reported_and_closed_by_the_directory_s_own_count() {
        let mut log = Log::default();
        log.add(3, "/d", Happened::Created);
        log.add(5, "/d/a", Happened::Created);
        log.covers(1, 6);
        log.covers(4, 5);
        log.covers(9, 12);
        assert_eq!(log.gaps(), [(7, 8)]);
        assert_eq!(log.open_gaps("/d"), [(7, 8)]);
        let listing =
            |changes| Listing { dir: "/d".to_owned(), zxid: 9, created: 3, changed: 5, changes };
        log.list(listing(2));
        assert_eq!(log.open_gaps("/d"), [(7, 8)], "a change was missed");
        log.list(listing(1));
        assert_eq!(log.open_gaps("/d"), []);
        assert_eq!(log.open_gaps("/e"), [(7, 8)]);
        log.covers(15, 14);
        assert_eq!(log.gaps(), [(7, 8), (13, 14)]);
    }

    #[test]
    fn a_path_has_several_lives() {
        let mut log = Log::default();
        for (zxid, happened) in
            [(2, Happened::Created), (4, Happened::Deleted), (5, Happened::Created)]
        {
            log.add(zxid, "/d/a", happened);
            log.add(zxid, "/d/a/b", happened);
        }
        let lives = log.lives_of("/d/a");
        assert_eq!(lives.iter().map(|life| life.deleted).collect::<Vec<_>>(), [Some(4), None]);
        assert_eq!(log.ends_without_create("/d"), [0_i64; 0]);
        log.add(6, "/d/c", Happened::Deleted);
        assert_eq!(log.ends_without_create("/d"), [6]);
        assert!(lives.iter().any(|life| life.is_at(3)) && !lives.iter().any(|life| life.is_at(4)));
    }
}
