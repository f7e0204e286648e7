//! The blocks in sled, in the order of their numbers.
//!
//! sled writes a leaf of its tree again whenever it splits it, with all values, and it splits one of
//! more than 16 keys: blocks in ascending order would be written four times. So leaves are split
//! before there are blocks in them. The keys of a group are a leaf: nine that have no value, which are
//! put in some groups ahead, and seven for blocks. Where sled cuts differently, it costs time only.

use std::fmt::Display;
use std::ops::RangeBounds;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use std::{fs, io, thread};

use thiserror::Error;
use tracing::warn;
use zoolet_jute::Zxid;

use crate::block::{BlockError, Head, VERSION};
use crate::entry::{Entry, EntryKind, Gap, GapReason};
use crate::panics;

/// What sled keeps in memory of its files.
const CACHE_BYTES: u64 = 4 << 20;

/// The keys without a value in each group: as many as sled leaves in a leaf that it splits.
const FILLERS: u8 = 9;

/// The blocks in each group: with more keys the leaf would be split.
const BLOCKS: u8 = 7;

/// How many groups ahead there are keys: so that the last leaf, which is split next, has no block.
const GROUPS_AHEAD: u64 = 3;

/// How many blocks from the future are looked at, one behind the other, for one behind them that is
/// too old: some 10 MB are read.
const FUTURE_BLOCKS_MAX: usize = 1024;

/// How often, and after which pause, a directory is tried again that is open elsewhere.
const LOCK_ATTEMPTS: usize = 300;
const LOCK_PAUSE: Duration = Duration::from_millis(100);

/// The name under which a damaged directory is kept, beside its own.
const ASIDE: &str = "history.damaged";

/// What cannot be read or written.
#[derive(Debug, Error)]
pub(crate) enum StoreError {
    #[error(transparent)]
    Sled(#[from] sled::Error),
    #[error(transparent)]
    Block(#[from] BlockError),
    #[error("a panic over its files: {0}")]
    Panicked(String),
    #[error("a batch of the history cannot be read, which is a defect")]
    Batch,
    #[error("cannot write in {}: {source}", directory.display())]
    Prepare { directory: PathBuf, source: io::Error },
    #[error("cannot move {} aside: {source}", directory.display())]
    MoveAside { directory: PathBuf, source: io::Error },
}

/// Open files of a history. Clones are of the same ones.
#[derive(Clone, Debug)]
pub(crate) struct Store {
    directory: PathBuf,
    db: sled::Db,
    /// Whether it was logged that a block cannot be read.
    is_damage_logged: Arc<AtomicBool>,
    /// Has the next write fail, in a test.
    #[cfg(test)]
    pub(crate) is_disk_full: Arc<AtomicBool>,
    /// Has what is done with the files panic, in a test.
    #[cfg(test)]
    pub(crate) has_panic: Arc<AtomicBool>,
}

/// The key of a block: its group, and its place there. Blocks come before the keys without a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    group: u64,
    slot: u8,
}

impl Place {
    fn key(self) -> [u8; 9] {
        let mut key = [0; 9];
        if let Some((slot, group)) = key.split_last_mut() {
            group.copy_from_slice(&self.group.to_be_bytes());
            *slot = self.slot;
        }
        key
    }

    fn of(key: &[u8]) -> Option<Self> {
        let (slot, group) = key.split_last()?;
        Some(Self { group: u64::from_be_bytes(*group.as_array()?), slot: *slot })
    }

    fn next(self) -> Self {
        if self.slot + 1 < BLOCKS {
            return Self { slot: self.slot + 1, ..self };
        }
        Self { group: self.group + 1, slot: 0 }
    }
}

impl Store {
    /// Opens a directory. One that is damaged is moved aside, and begun anew.
    pub(crate) fn open(directory: &Path) -> Result<Self, StoreError> {
        if panics::is_marked(directory) {
            return Self::begin_anew(
                directory,
                &"it could not be read, or has made the server panic",
            );
        }
        let prepared = panics::begin_opening(directory);
        let failed_often = prepared
            .map_err(|source| StoreError::Prepare { directory: directory.to_owned(), source })?;
        if failed_often {
            return Self::begin_anew(directory, &"each attempt to open it has ended the server");
        }
        let opened = Self::open_unlocked(directory);
        panics::end_opening(directory);
        match opened {
            Ok(store) => Ok(store),
            Err(error) if is_damage(&error) => {
                Self::move_aside(directory, what_is_wrong(&error), &error)
            }
            Err(error) => Err(error),
        }
    }

    /// Opens a directory; waits while another instance has it open, which may be one of the same
    /// server that has not ended yet.
    fn open_unlocked(directory: &Path) -> Result<Self, StoreError> {
        for _ in 0..LOCK_ATTEMPTS {
            match Self::open_as_it_is(directory) {
                Err(error) if is_locked(&error) => thread::park_timeout(LOCK_PAUSE),
                opened => return opened,
            }
        }
        Self::open_as_it_is(directory)
    }

    fn open_as_it_is(directory: &Path) -> Result<Self, StoreError> {
        panics::watch(directory);
        let config = sled::Config::new()
            .path(directory)
            .cache_capacity(CACHE_BYTES)
            // What a crash takes is in the log of the server, which is applied again.
            .flush_every_ms(None)
            .mode(sled::Mode::LowSpace);
        let store = Self {
            directory: directory.to_owned(),
            db: config.open()?,
            is_damage_logged: Arc::default(),
            #[cfg(test)]
            is_disk_full: Arc::default(),
            #[cfg(test)]
            has_panic: Arc::default(),
        };
        #[cfg(test)]
        assert!(!directory.join("panics").exists(), "a test has the files panic");
        store.first()?;
        store.last()?;
        Ok(store)
    }

    fn begin_anew(directory: &Path, why: &dyn Display) -> Result<Self, StoreError> {
        Self::move_aside(directory, "the history is damaged", why)
    }

    fn move_aside(directory: &Path, what: &str, why: &dyn Display) -> Result<Self, StoreError> {
        panics::forget(directory);
        let aside = directory.with_file_name(ASIDE);
        let failed = |source| StoreError::MoveAside { directory: directory.to_owned(), source };
        match fs::remove_dir_all(&aside) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(failed(error)),
            _ => {}
        }
        fs::rename(directory, &aside).map_err(failed)?;
        let (directory_name, aside) = (directory.display(), aside.display());
        warn!(directory = %directory_name, %why, %aside, "{what}: it was moved aside, and begins anew");
        Self::open_as_it_is(directory)
    }

    /// The head of the last block.
    pub(crate) fn last(&self) -> Result<Option<Head>, StoreError> {
        let last = self.blocks::<&[u8]>(..).next_back().transpose()?;
        last.map(|(_, bytes)| Ok(Head::read(&bytes)?.0)).transpose()
    }

    /// The head of the first block.
    pub(crate) fn first(&self) -> Result<Option<Head>, StoreError> {
        #[cfg(test)]
        assert!(!self.has_panic.load(Ordering::Relaxed), "a test has a read panic");
        let first = self.blocks::<&[u8]>(..).next().transpose()?;
        first.map(|(_, bytes)| Ok(Head::read(&bytes)?.0)).transpose()
    }

    /// The place behind the last block.
    pub(crate) fn end(&self) -> Result<Place, StoreError> {
        let last = self.blocks::<&[u8]>(..).next_back().transpose()?;
        let last = last.and_then(|(key, _)| Place::of(&key));
        let end = last.map_or(Place { group: 0, slot: 0 }, Place::next);
        self.prepare(end.group)?;
        Ok(end)
    }

    /// The place behind another one.
    pub(crate) fn behind(&self, place: Place) -> Result<Place, StoreError> {
        let next = place.next();
        if next.group > place.group {
            self.prepare(next.group)?;
        }
        Ok(next)
    }

    /// Splits the leaves that come behind a group.
    fn prepare(&self, group: u64) -> Result<(), StoreError> {
        let last = self.db.last()?.and_then(|(key, _)| Place::of(&key));
        let begin = last.filter(|last| last.slot >= BLOCKS).map_or(group, |last| last.group + 1);
        for group in begin..=group.saturating_add(GROUPS_AHEAD) {
            for slot in BLOCKS..BLOCKS + FILLERS {
                self.db.insert(Place { group, slot }.key(), &[])?;
            }
        }
        Ok(())
    }

    /// Writes a block, in the place of an earlier one with the same first entry.
    pub(crate) fn put(&self, place: Place, block: &[u8]) -> Result<(), StoreError> {
        #[cfg(test)]
        if self.is_disk_full.load(Ordering::Relaxed) {
            return Err(sled::Error::Io(io::ErrorKind::StorageFull.into()).into());
        }
        self.db.insert(place.key(), block)?;
        #[cfg(test)]
        assert!(!self.has_panic.load(Ordering::Relaxed), "a test has a write panic");
        Ok(())
    }

    fn blocks<K: AsRef<[u8]>>(
        &self,
        range: impl RangeBounds<K>,
    ) -> impl DoubleEndedIterator<Item = sled::Result<(sled::IVec, sled::IVec)>> {
        let has_value =
            |pair: &sled::Result<(_, sled::IVec)>| !pair.as_ref().is_ok_and(|it| it.1.is_empty());
        self.db.range(range).filter(has_value)
    }

    /// Removes this number of the first blocks, but never the last one: numbers and zxids go on from it.
    pub(crate) fn remove_first(&self, count: usize) -> Result<(), StoreError> {
        for _ in 0..count {
            if self.blocks::<&[u8]>(..).nth(1).transpose()?.is_none() {
                break;
            }
            while self.db.pop_min()?.is_some_and(|(_, block)| block.is_empty()) {}
        }
        Ok(())
    }

    /// How many of the first blocks end before a time, which precedes `now_ms`. One from the future,
    /// or that does not say when it ends, counts as old as the one behind it, unless there are too
    /// many of them to look at: those stay until there are too many bytes, or their time has come.
    pub(crate) fn count_older(&self, than_ms: i64, now_ms: i64) -> Result<usize, StoreError> {
        let mut older = 0;
        for (place, block) in self.blocks::<&[u8]>(..).enumerate() {
            let (_, block) = block?;
            // A gap at the begin of a history has no time.
            let end_ms = Head::read(&block).map_or(0, |(head, ..)| head.last_ms);
            if (1..than_ms).contains(&end_ms) {
                older = place + 1;
            } else if (1..=now_ms).contains(&end_ms) || place - older >= FUTURE_BLOCKS_MAX {
                break;
            }
        }
        Ok(older)
    }

    /// The bytes of the files.
    pub(crate) fn file_bytes(&self) -> Result<u64, StoreError> {
        Ok(self.db.size_on_disk()?)
    }

    /// The blocks, the latest first.
    pub(crate) fn backward(&self) -> impl Iterator<Item = Result<sled::IVec, StoreError>> {
        self.blocks::<&[u8]>(..).rev().map(|block| Ok(block?.1))
    }

    /// The blocks in order, from one on that precedes an entry or has it, and has few others before
    /// it.
    pub(crate) fn forward(
        &self,
        entry: u64,
    ) -> Result<impl Iterator<Item = Result<sled::IVec, StoreError>>, StoreError> {
        let group = |found: Option<sled::Result<(sled::IVec, _)>>| {
            let key = found.transpose()?.map(|(key, _)| key);
            Ok::<_, StoreError>(key.and_then(|key| Place::of(&key)).map_or(0, |it| it.group))
        };
        let (mut low, mut high) =
            (group(self.blocks::<&[u8]>(..).next())?, group(self.blocks::<&[u8]>(..).next_back())?);
        // Invariant: the blocks of the lower group are not behind the entry, if any are not.
        while low < high {
            let middle = high - (high - low) / 2;
            match self.first_from(middle, high)? {
                Some((group, head)) if head.first <= entry => low = group,
                _ => high = middle - 1,
            }
        }
        let from = Place { group: low, slot: 0 }.key();
        Ok(self.blocks(from..).map(|block| Ok(block?.1)))
    }

    /// The first block in these groups whose head can be read: its group, and the head.
    fn first_from(&self, low: u64, high: u64) -> Result<Option<(u64, Head)>, StoreError> {
        for block in self.blocks(Place { group: low, slot: 0 }.key()..) {
            let (key, bytes) = block?;
            let Some(place) = Place::of(&key).filter(|place| place.group <= high) else { break };
            if let Ok((head, ..)) = Head::read(&bytes) {
                return Ok(Some((place.group, head)));
            }
        }
        Ok(None)
    }

    /// A gap in the place of blocks that cannot be read, with the number of the last entry in them;
    /// that is logged once.
    pub(crate) fn damaged(&self, number: u64, after: Zxid, through: Zxid) -> Entry {
        if !self.is_damage_logged.swap(true, Ordering::Relaxed) {
            let directory = self.directory.display();
            warn!(%directory, %after, %through, "a part of the history is damaged: it has a gap there");
        }
        Entry { number, kind: EntryKind::Gap(Gap { after, through, reason: GapReason::Damage }) }
    }

    /// Damages a block for a test: the last byte, or a byte of the head.
    #[cfg(test)]
    pub(crate) fn damage(&self, block: usize, is_in_head: bool) {
        let (key, bytes) = self.blocks::<&[u8]>(..).nth(block).unwrap().unwrap();
        let mut bytes = bytes.to_vec();
        if is_in_head {
            bytes[0] ^= 0x55;
        } else {
            bytes.truncate(bytes.len() - 1);
        }
        self.db.insert(key, bytes).unwrap();
    }

    /// Whether another one is of the same files, and was not opened before or after it.
    pub(crate) fn is_same(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.is_damage_logged, &other.is_damage_logged)
    }

    /// Writes everything to the files.
    pub(crate) fn flush(&self) -> Result<(), StoreError> {
        self.db.flush()?;
        Ok(())
    }

    /// Hands everything to the system's cache, and closes the files.
    pub(crate) fn close(self) -> Result<(), StoreError> {
        self.flush()?;
        panics::forget(&self.directory);
        Ok(())
    }
}

/// Whether another instance has the files open.
fn is_locked(error: &StoreError) -> bool {
    let StoreError::Sled(sled::Error::Io(error)) = error else { return false };
    error.kind() == io::ErrorKind::WouldBlock || error.to_string().contains("acquire lock")
}

/// What is wrong with files that are moved aside.
fn what_is_wrong(error: &StoreError) -> &'static str {
    let is_old =
        matches!(error, StoreError::Block(BlockError::Format(format)) if *format < VERSION);
    if is_old { "the history has an older format" } else { "the history is damaged" }
}

/// Whether the files are to blame, and not the disk or the one who runs the server.
pub(crate) fn is_damage(error: &StoreError) -> bool {
    match error {
        StoreError::Block(_) | StoreError::Panicked(_) => true,
        StoreError::Batch | StoreError::MoveAside { .. } | StoreError::Prepare { .. } => false,
        StoreError::Sled(error) => match error {
            sled::Error::Corruption { .. }
            | sled::Error::Unsupported(_)
            | sled::Error::CollectionNotFound(_)
            | sled::Error::ReportableBug(_) => true,
            sled::Error::Io(error) => matches!(
                error.kind(),
                io::ErrorKind::InvalidData
                    | io::ErrorKind::UnexpectedEof
                    | io::ErrorKind::InvalidInput
            ),
        },
    }
}

#[cfg(test)]
mod tests;
