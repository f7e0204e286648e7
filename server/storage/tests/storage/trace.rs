//! Random calls to a log, and a model of what it must hold after each of them.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use bytes::Bytes;
use zoolet_storage::{
    Entry, LogIndex, LogPosition, MemoryDisk, OnDurable, StorageError, Wal, WalMode, WalOptions,
};

pub(crate) const DIRECTORY: &str = "data/wal";

/// splitmix64.
#[derive(Debug, Clone)]
pub(crate) struct Dice(pub(crate) u64);

impl Dice {
    pub(crate) fn roll(&mut self, sides: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)) % sides
    }

    pub(crate) fn bytes(&mut self, length: u64) -> Bytes {
        (0..length).map(|_| self.roll(256) as u8).collect()
    }
}

/// What a log holds.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Model {
    pub(crate) vote: Option<Bytes>,
    pub(crate) committed: Option<LogPosition>,
    pub(crate) purged: Option<LogPosition>,
    pub(crate) last: Option<LogPosition>,
    pub(crate) entries: BTreeMap<LogIndex, Entry>,
}

/// One call to a log.
#[derive(Debug, Clone)]
pub(crate) enum Op {
    Append(Vec<Entry>),
    Vote(Bytes),
    Committed(LogPosition),
    TruncateFrom(LogIndex),
    PurgeTo(LogPosition),
    Flush,
}

impl Model {
    /// What an open log holds.
    pub(crate) fn of(wal: &Wal) -> Result<Self, StorageError> {
        let state = wal.state();
        let entries = wal.entries(state.entries.clone(), usize::MAX)?;
        let expected = usize::try_from(state.entries.end.0 - state.entries.start.0).unwrap();
        assert_eq!(entries.len(), expected, "the log does not give all entries it says it has");
        for entry in &entries {
            assert_eq!(wal.position(entry.position.index), Some(entry.position));
        }
        let entries = entries.into_iter().map(|entry| (entry.position.index, entry)).collect();
        let (vote, committed) = (state.vote, state.committed);
        Ok(Self { vote, committed, purged: state.purged, last: state.last, entries })
    }

    fn next_index(&self) -> u64 {
        self.last.map_or(0, |last| last.index.0 + 1)
    }

    pub(crate) fn apply(&mut self, op: &Op) {
        match op {
            Op::Append(entries) => {
                for entry in entries {
                    self.entries.insert(entry.position.index, entry.clone());
                    self.last = Some(entry.position);
                }
            }
            Op::Vote(vote) => self.vote = Some(vote.clone()),
            Op::Committed(position) => self.committed = Some(*position),
            Op::TruncateFrom(from) => {
                self.entries.split_off(from);
                let before = self.entries.last_key_value().map(|(_, entry)| entry.position);
                self.last = before.or(self.purged);
            }
            Op::PurgeTo(position) => {
                if position.index.0 >= self.next_index() {
                    self.last = Some(*position);
                }
                self.entries = self.entries.split_off(&LogIndex(position.index.0 + 1));
                self.purged = Some(*position);
            }
            Op::Flush => {}
        }
    }

    /// A call that makes sense for a log that holds this.
    pub(crate) fn random_op(&self, dice: &mut Dice) -> Op {
        let last = self.last.unwrap_or(LogPosition { term: 1, node: 1, index: LogIndex(0) });
        let somewhere = |dice: &mut Dice| {
            let at = dice.roll(self.entries.len() as u64);
            self.entries.values().nth(at as usize).unwrap().position
        };
        match dice.roll(20) {
            0..=9 => Op::Append(self.random_entries(dice)),
            10 | 11 => {
                let length = 1 + dice.roll(20);
                Op::Vote(dice.bytes(length))
            }
            12..=14 if !self.entries.is_empty() => Op::Committed(somewhere(dice)),
            15 | 16 if !self.entries.is_empty() => Op::TruncateFrom(somewhere(dice).index),
            17 if !self.entries.is_empty() => Op::PurgeTo(somewhere(dice)),
            18 if dice.roll(3) == 0 => {
                // A snapshot from another server reaches further than the log.
                let index = self.next_index() + dice.roll(5);
                Op::PurgeTo(LogPosition { term: last.term + 1, node: 3, index: LogIndex(index) })
            }
            _ => Op::Flush,
        }
    }

    fn random_entries(&self, dice: &mut Dice) -> Vec<Entry> {
        let count = 1 + dice.roll(4);
        let term = self.last.map_or(1, |last| last.term) + dice.roll(2);
        let node = 1 + dice.roll(3);
        let first = self.next_index();
        let entry = |index| {
            let length = match dice.roll(12) {
                0 => 0,
                1 => 1500 + dice.roll(4000),
                2 | 3 => dice.roll(1000),
                _ => dice.roll(100),
            };
            let position = LogPosition { term, node, index: LogIndex(index) };
            Entry { position, kind: dice.roll(4) as u8, body: dice.bytes(length) }
        };
        (first..first + count).map(entry).collect()
    }
}

pub(crate) fn options(mode: WalMode) -> WalOptions {
    WalOptions {
        mode,
        segment_bytes: 4096,
        cache_bytes_max: 300,
        batch_bytes_max: 2000,
        salt: 0x5a17,
    }
}

pub(crate) fn open(disk: &MemoryDisk) -> Result<Wal, StorageError> {
    let disk = Arc::new(disk.clone());
    Wal::open(disk, Path::new(DIRECTORY), options(WalMode::Manual)).map(|(wal, _)| wal)
}

/// How far a trace has come.
#[derive(Debug, Default)]
pub(crate) struct Progress {
    /// How many calls were handed in.
    pub(crate) issued: AtomicUsize,
    /// All calls up to this one are acknowledged.
    pub(crate) acknowledged: AtomicUsize,
    /// How many calls were answered with an error.
    pub(crate) refused: AtomicUsize,
}

impl Progress {
    pub(crate) fn range(&self) -> std::ops::RangeInclusive<usize> {
        self.acknowledged.load(Ordering::SeqCst)..=self.issued.load(Ordering::SeqCst)
    }
}

/// A trace on its way: a log, and what it must hold after each call.
#[derive(Debug)]
pub(crate) struct Trace {
    pub(crate) disk: MemoryDisk,
    pub(crate) wal: Option<Wal>,
    /// `models[n]` is after n calls.
    pub(crate) models: Vec<Model>,
    pub(crate) progress: Arc<Progress>,
    pub(crate) dice: Dice,
}

impl Trace {
    pub(crate) fn new(disk: MemoryDisk, seed: u64) -> Self {
        let (models, progress) = (vec![Model::default()], Arc::default());
        Self { disk, wal: None, models, progress, dice: Dice(seed) }
    }

    pub(crate) fn open(&mut self) -> Result<(), StorageError> {
        let wal = open(&self.disk)?;
        assert_eq!(Model::of(&wal)?, *self.models.last().unwrap(), "after opening again");
        self.wal = Some(wal);
        Ok(())
    }

    fn wal(&self) -> &Wal {
        self.wal.as_ref().unwrap()
    }

    /// One random step: a call, or some writing, or a stop in good order and a new start.
    pub(crate) fn step(&mut self) -> Result<(), StorageError> {
        match self.dice.roll(40) {
            0 => {
                let failed = Arc::new(AtomicUsize::new(0));
                let count = failed.clone();
                let hook = move |_: &StorageError| {
                    count.fetch_add(1, Ordering::SeqCst);
                };
                self.wal().on_failure(Box::new(hook));
                self.wal = None;
                return match failed.load(Ordering::SeqCst) {
                    0 => self.open(),
                    _ => Err(StorageError::Closed),
                };
            }
            1..=15 => {
                self.wal().write_waiting();
            }
            _ => {
                let op = self.models.last().unwrap().random_op(&mut self.dice);
                self.call(&op)?;
            }
        }
        Ok(())
    }

    pub(crate) fn call(&mut self, op: &Op) -> Result<(), StorageError> {
        let mut model = self.models.last().unwrap().clone();
        model.apply(op);
        self.models.push(model);
        let number = self.models.len() - 1;
        self.progress.issued.store(number, Ordering::SeqCst);
        let done = self.on_durable(number);
        match op.clone() {
            Op::Append(entries) => self.wal().append(entries, done),
            Op::Vote(vote) => self.wal().save_vote(vote, done),
            Op::Committed(position) => self.wal().save_committed(Some(position)),
            Op::TruncateFrom(from) => self.wal().truncate_from(from, done),
            Op::PurgeTo(position) => self.wal().purge_to(position, done),
            Op::Flush => self.wal().flush(done),
        }
    }

    fn on_durable(&self, number: usize) -> OnDurable {
        let progress = self.progress.clone();
        Box::new(move |result| {
            if result.is_err() {
                progress.refused.fetch_add(1, Ordering::SeqCst);
                return;
            }
            let before = progress.acknowledged.swap(number, Ordering::SeqCst);
            assert!(before < number, "call {number} was acknowledged after call {before}");
            let refused = progress.refused.load(Ordering::SeqCst);
            assert_eq!(refused, 0, "call {number} was acknowledged after one was refused");
        })
    }

    pub(crate) fn write_all(&self) {
        while self.wal().write_waiting() {}
    }

    /// The server is killed: nothing more happens on its disk.
    pub(crate) fn kill(&mut self) {
        self.disk.switch_off();
        self.wal = None;
    }
}
