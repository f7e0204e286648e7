//! The queues of locks, as the log has them.

use std::collections::{BTreeMap, BTreeSet};

use zoolet_jute::{SessionId, Zxid};

use crate::checks::Run;
use crate::model::{Change, ChangeKind, path};

/// What a znode in a queue asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Wish {
    /// To hold beside other readers.
    Read,
    /// To hold alone.
    Alone,
}

/// A znode in a queue, from its create to its delete.
#[derive(Clone, Debug)]
pub(super) struct Place {
    pub(super) path: String,
    pub(super) wish: Wish,
    /// Its number; `None` if it has no place in the order.
    pub(super) number: Option<i64>,
    pub(super) owner: SessionId,
    pub(super) created: Zxid,
    pub(super) deleted: Option<Zxid>,
    /// Those with a lower number that were there when it was created.
    ahead: Vec<usize>,
}

/// The znodes of one directory.
#[derive(Clone, Debug, Default)]
pub(super) struct Queue {
    pub(super) places: Vec<Place>,
    alive: BTreeMap<String, usize>,
    /// How many there were behind each transaction that changed it.
    sizes: Vec<(Zxid, usize)>,
}

/// The queues below some directories.
#[derive(Clone, Debug, Default)]
pub(super) struct Queues {
    by_directory: BTreeMap<String, Queue>,
}

/// The number at the end of a name, of ten digits at least.
fn number(name: &str) -> Option<i64> {
    let digits = name.len() - name.trim_end_matches(|c: char| c.is_ascii_digit()).len();
    let at = name.len().checked_sub(digits).filter(|_| digits >= 10)?;
    name.get(at..)?.parse().ok()
}

impl Queues {
    /// Follows what happens in these directories.
    pub(super) fn of(run: &Run<'_>, directories: &BTreeSet<String>) -> Self {
        let mut queues = Self::default();
        for one in &run.model.transactions {
            for change in &one.outcome.changes {
                let Some(directory) = path::parent(&change.path) else { continue };
                if directories.contains(directory) {
                    let queue = queues.by_directory.entry(directory.to_owned()).or_default();
                    queue.take(one.zxid, change);
                }
            }
        }
        queues
    }

    /// The queue of the znodes in a directory.
    pub(super) fn get(&self, directory: &str) -> Option<&Queue> {
        self.by_directory.get(directory)
    }
}

impl Queue {
    fn take(&mut self, zxid: Zxid, change: &Change) {
        match change.kind {
            ChangeKind::Created => self.create(zxid, change),
            ChangeKind::Deleted => {
                let gone = self.alive.remove(&change.path);
                if let Some(place) = gone.and_then(|gone| self.places.get_mut(gone)) {
                    place.deleted = Some(zxid);
                }
            }
            ChangeKind::DataChanged => return,
        }
        self.sizes.push((zxid, self.alive.len()));
    }

    fn create(&mut self, zxid: Zxid, change: &Change) {
        let name = path::name(&change.path);
        let is_reader = name.contains("__READ__") || name.contains("__rlock__");
        let number = number(name);
        let is_ahead = |other: &Place| {
            let is_own_twin = other.created == zxid && other.owner == change.owner;
            other.number.zip(number).is_some_and(|(other, own)| other < own) && !is_own_twin
        };
        let alive = self.alive.values().copied();
        let ahead = alive.filter(|at| self.places.get(*at).is_some_and(is_ahead)).collect();
        self.alive.insert(change.path.clone(), self.places.len());
        self.places.push(Place {
            path: change.path.clone(),
            wish: if is_reader { Wish::Read } else { Wish::Alone },
            number,
            owner: change.owner,
            created: zxid,
            deleted: None,
            ahead,
        });
    }

    /// Those that are there at the end.
    pub(super) fn left(&self) -> impl Iterator<Item = &Place> {
        self.alive.values().filter_map(|at| self.places.get(*at))
    }

    /// The znode with this path that was created by this transaction; without one, the last one with
    /// this path and owner.
    pub(super) fn find(&self, path: &str, token: Zxid, owner: SessionId) -> Option<&Place> {
        let from = self.places.partition_point(|place| place.created < token);
        let mut of_token = self.places.iter().skip(from).take_while(|place| place.created == token);
        of_token.find(|place| place.path == path).or_else(|| {
            let own = |place: &&Place| place.path == path && place.owner == owner;
            self.places.iter().rev().find(own)
        })
    }

    /// The zxid from which on nothing precedes it in the queue that it has to wait for; the znode that
    /// is in its way for ever, if there is one.
    pub(super) fn turn(&self, place: &Place) -> Result<Zxid, &Place> {
        let mut turn = place.created;
        for other in place.ahead.iter().filter_map(|at| self.places.get(*at)) {
            if place.wish == Wish::Read && other.wish == Wish::Read {
                continue;
            }
            turn = turn.max(other.deleted.ok_or(other)?);
        }
        Ok(turn)
    }

    /// The zxid from which on there were no more than this many, it among them.
    pub(super) fn turn_among(&self, place: &Place, most: usize) -> Option<Zxid> {
        let from = self.sizes.partition_point(|(zxid, _)| *zxid < place.created);
        let mut behind = self.sizes.iter().skip(from).peekable();
        while let Some((zxid, size)) = behind.next() {
            // Within a transaction only the end counts.
            let is_last = behind.peek().is_none_or(|(next, _)| next != zxid);
            if place.deleted.is_some_and(|deleted| deleted <= *zxid) {
                return None;
            }
            if is_last && *size <= most {
                return Some(*zxid);
            }
        }
        None
    }
}
