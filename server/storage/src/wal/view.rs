//! The log as its readers see it: what was handed in counts at once, durable or not. Entries come
//! from a cache of the log's end, older ones from the segment files.

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::Arc;

use bytes::Bytes;

use super::format::Record;
use super::segment::Segment;
use super::state::{Entry, LogPosition, LogState};
use crate::{LogIndex, StorageError};

/// Where an entry's record stands.
#[derive(Debug, Clone)]
pub(super) struct EntryLocation {
    pub(super) segment: Arc<Segment>,
    pub(super) offset: u64,
    pub(super) bytes: u32,
}

impl EntryLocation {
    /// Reads the entry back, and makes sure that it is the one that was put there.
    fn read(&self, position: LogPosition) -> Result<Entry, StorageError> {
        let length = usize::try_from(self.bytes)
            .map_err(|_| StorageError::refused("the entry does not fit into memory"))?;
        let mut record = vec![0; length];
        let path = &self.segment.path;
        let read = self.segment.file.read_exact_at(&mut record, self.offset);
        read.map_err(StorageError::io("read", path))?;
        match Record::decode(&mut Bytes::from(record)) {
            Some(Record::Entry(entry)) if entry.position == position => Ok(entry),
            _ => Err(StorageError::corrupt(
                path,
                self.offset,
                format!("entry {} does not match its checksum", position.index),
            )),
        }
    }
}

#[derive(Debug)]
struct IndexedEntry {
    term: u64,
    node: u64,
    storage: EntryStorage,
}

#[derive(Debug)]
enum EntryStorage {
    /// Waiting to be written. The serial number tells the entry from one that had the same index
    /// and was truncated.
    Waiting {
        serial: u64,
    },
    Written(EntryLocation),
}

/// One entry of a read that was planned under the lock and is carried out without it.
#[derive(Debug)]
pub(super) enum Planned {
    Ready(Entry),
    OnDisk(LogPosition, EntryLocation),
}

impl Planned {
    pub(super) fn fetch(self) -> Result<Entry, StorageError> {
        match self {
            Self::Ready(entry) => Ok(entry),
            Self::OnDisk(position, location) => location.read(position),
        }
    }
}

#[derive(Debug)]
pub(super) struct LogView {
    state: LogState,
    /// One entry for each index of `state.entries`.
    entries: VecDeque<IndexedEntry>,
    /// The last entries. Invariant: at least all that wait to be written.
    recent: VecDeque<Entry>,
    recent_bytes: usize,
    recent_bytes_max: usize,
    next_serial: u64,
}

impl LogView {
    /// The view of a recovered log, all of which is on the disk. One location for each entry.
    pub(super) fn recovered(
        state: LogState,
        locations: VecDeque<(LogPosition, EntryLocation)>,
        recent_bytes_max: usize,
    ) -> Self {
        let entries = locations.into_iter().map(|(position, location)| IndexedEntry {
            term: position.term,
            node: position.node,
            storage: EntryStorage::Written(location),
        });
        Self {
            state,
            entries: entries.collect(),
            recent: VecDeque::new(),
            recent_bytes: 0,
            recent_bytes_max,
            next_serial: 0,
        }
    }

    pub(super) fn state(&self) -> &LogState {
        &self.state
    }

    pub(super) fn save_vote(&mut self, vote: Bytes) {
        self.state.vote = Some(vote);
    }

    pub(super) fn save_committed(&mut self, committed: Option<LogPosition>) {
        self.state.committed = committed;
    }

    /// Adds all entries or none. Gives the serial number of the first; the others count on.
    pub(super) fn append(&mut self, entries: Vec<Entry>) -> Result<u64, StorageError> {
        let mut state = self.state.clone();
        for entry in &entries {
            state.append(entry.position).map_err(StorageError::refused)?;
        }
        self.state = state;
        let first_serial = self.next_serial;
        for entry in entries {
            self.entries.push_back(IndexedEntry {
                term: entry.position.term,
                node: entry.position.node,
                storage: EntryStorage::Waiting { serial: self.next_serial },
            });
            self.next_serial += 1;
            self.recent_bytes += entry.body.len();
            self.recent.push_back(entry);
        }
        Ok(first_serial)
    }

    /// Drops the entries from index `from` on. What to write about it; `None` when there was
    /// nothing to drop.
    pub(super) fn truncate(&mut self, from: LogIndex) -> Result<Option<Record>, StorageError> {
        if from >= self.state.entries.end {
            return Ok(None);
        }
        let before = from.previous();
        let last = before
            .and_then(|index| self.position(index))
            .or_else(|| self.state.purged.filter(|purged| Some(purged.index) == before));
        self.state.truncate(from, last).map_err(StorageError::refused)?;
        self.keep_in_step();
        Ok(Some(Record::Truncate { from, last }))
    }

    /// Drops the entries up to `position`; false when they were dropped before.
    pub(super) fn purge(&mut self, position: LogPosition) -> Result<bool, StorageError> {
        let old_start = self.state.entries.start;
        let purged = self.state.purge(position).map_err(StorageError::refused)?;
        let dropped = self.state.entries.start.0.saturating_sub(old_start.0);
        let dropped = usize::try_from(dropped).unwrap_or(usize::MAX).min(self.entries.len());
        self.entries.drain(..dropped);
        self.keep_in_step();
        Ok(purged)
    }

    /// Shortens the entries and the cache at their ends to what the state says.
    fn keep_in_step(&mut self) {
        let Range { start, end } = self.state.entries;
        self.entries.truncate(usize::try_from(end.0 - start.0).unwrap_or(usize::MAX));
        while self.recent.back().is_some_and(|entry| entry.position.index >= end) {
            let dropped = self.recent.pop_back();
            self.recent_bytes -= dropped.map_or(0, |entry| entry.body.len());
        }
        while self.recent.front().is_some_and(|entry| entry.position.index < start) {
            self.forget_oldest();
        }
    }

    fn forget_oldest(&mut self) {
        let dropped = self.recent.pop_front();
        self.recent_bytes -= dropped.map_or(0, |entry| entry.body.len());
    }

    /// Notes where an entry was written, unless it was truncated or purged in the meantime.
    pub(super) fn written(&mut self, index: LogIndex, serial: u64, location: EntryLocation) {
        if let Some(entry) = self.entry_mut(index)
            && matches!(entry.storage, EntryStorage::Waiting { serial: waiting } if waiting == serial)
        {
            entry.storage = EntryStorage::Written(location);
        }
    }

    /// Shrinks the cache to its bound; entries that wait to be written stay.
    pub(super) fn evict(&mut self) {
        while self.recent_bytes > self.recent_bytes_max
            && let Some(oldest) = self.recent.front()
            && let Some(entry) = self.entry(oldest.position.index)
            && matches!(entry.storage, EntryStorage::Written(_))
        {
            self.forget_oldest();
        }
    }

    pub(super) fn position(&self, index: LogIndex) -> Option<LogPosition> {
        let entry = self.entry(index)?;
        Some(LogPosition { term: entry.term, node: entry.node, index })
    }

    /// True when everything from `index` on can be read without the disk.
    pub(super) fn is_cached(&self, index: LogIndex) -> bool {
        self.recent.front().is_some_and(|oldest| oldest.position.index <= index)
            || index >= self.state.entries.end
    }

    /// Plans to read the entries of `range`, as many as `bytes_max` of body and record bytes
    /// allow, at least one. Indices that are not there end the read.
    pub(super) fn plan(&self, range: Range<LogIndex>, bytes_max: usize) -> Vec<Planned> {
        let mut planned = Vec::new();
        let mut bytes = 0;
        for index in (range.start.0..range.end.0).map(LogIndex) {
            let Some((next, next_bytes)) = self.plan_one(index) else { break };
            bytes += next_bytes;
            if bytes > bytes_max && !planned.is_empty() {
                break;
            }
            planned.push(next);
        }
        planned
    }

    fn plan_one(&self, index: LogIndex) -> Option<(Planned, usize)> {
        if let Some(oldest) = self.recent.front()
            && let Some(at) = index.entries_since(oldest.position.index)
            && let Some(entry) = self.recent.get(usize::try_from(at).ok()?)
        {
            return Some((Planned::Ready(entry.clone()), entry.body.len()));
        }
        match &self.entry(index)?.storage {
            EntryStorage::Written(location) => {
                let bytes = usize::try_from(location.bytes).ok()?;
                Some((Planned::OnDisk(self.position(index)?, location.clone()), bytes))
            }
            EntryStorage::Waiting { .. } => None,
        }
    }

    fn entry(&self, index: LogIndex) -> Option<&IndexedEntry> {
        let at = index.entries_since(self.state.entries.start)?;
        self.entries.get(usize::try_from(at).ok()?)
    }

    fn entry_mut(&mut self, index: LogIndex) -> Option<&mut IndexedEntry> {
        let at = index.entries_since(self.state.entries.start)?;
        self.entries.get_mut(usize::try_from(at).ok()?)
    }
}
