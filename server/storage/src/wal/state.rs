//! What the log holds, without the entries themselves, and the rules by which it changes. The
//! caller's calls and recovery go through the same rules.

use std::ops::Range;

use bytes::Bytes;

use super::format::Record;
use crate::LogIndex;

/// The place of an entry: the index counts from the log's beginning, term and node say which
/// leader wrote it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct LogPosition {
    pub term: u64,
    pub node: u64,
    pub index: LogIndex,
}

/// One entry of the log. `kind` and `body` mean something to the caller only.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    pub position: LogPosition,
    pub kind: u8,
    pub body: Bytes,
}

/// What the log holds at one moment.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LogState {
    /// The last vote that was saved.
    pub vote: Option<Bytes>,
    /// The last committed position that was saved. It may lag behind, because it is not worth a
    /// sync of its own.
    pub committed: Option<LogPosition>,
    /// The last entry that was purged.
    pub purged: Option<LogPosition>,
    /// The indices of the entries that are there.
    // Invariant: an empty range starts behind `last`.
    pub entries: Range<LogIndex>,
    /// The last entry, whether it is there or purged.
    pub last: Option<LogPosition>,
}

impl LogState {
    /// Takes over what a record says. An error when it does not fit to what is there.
    pub(super) fn apply(&mut self, record: &Record) -> Result<(), String> {
        match record {
            Record::State(state) if **state == *self => Ok(()),
            Record::State(_) => Err("it does not go on where the log stopped".to_owned()),
            Record::Entry(entry) => self.append(entry.position),
            Record::Vote(vote) => {
                self.vote = Some(vote.clone());
                Ok(())
            }
            Record::Committed(committed) => {
                self.committed = *committed;
                Ok(())
            }
            Record::Truncate { from, last } => self.truncate(*from, *last),
            Record::Purge(position) => self.purge(*position).map(|_| ()),
        }
    }

    /// Adds one entry at the end. A log that never had an entry may begin anywhere.
    pub(super) fn append(&mut self, position: LogPosition) -> Result<(), String> {
        let Some(end) = position.index.next() else {
            return Err("the index of an entry is too large".to_owned());
        };
        match self.last {
            Some(_) if position.index != self.entries.end => {
                return Err(format!(
                    "entry {} does not follow entry {}",
                    position.index,
                    self.entries.end.0.saturating_sub(1)
                ));
            }
            Some(_) => self.entries.end = end,
            None => self.entries = position.index..end,
        }
        self.last = Some(position);
        Ok(())
    }

    /// Drops the entries from index `from` on; `last` is the one that is the last now.
    pub(super) fn truncate(
        &mut self,
        from: LogIndex,
        last: Option<LogPosition>,
    ) -> Result<(), String> {
        if !(self.entries.start..self.entries.end).contains(&from) {
            return Err(format!(
                "cannot cut the log at {from}: it holds {} to {}",
                self.entries.start, self.entries.end
            ));
        }
        if last.is_some_and(|last| last.index.next() != Some(from)) {
            return Err(format!("the entry before {from} is not the one that was named"));
        }
        self.entries.end = from;
        self.last = last;
        Ok(())
    }

    /// Drops the entries up to `position`, also when the log does not reach that far: then it
    /// goes on behind it. False when they were dropped before.
    pub(super) fn purge(&mut self, position: LogPosition) -> Result<bool, String> {
        let Some(start) = position.index.next() else {
            return Err("the index of an entry is too large".to_owned());
        };
        if self.purged.is_some_and(|purged| purged.index >= position.index) {
            return Ok(false);
        }
        self.purged = Some(position);
        if start >= self.entries.end || self.last.is_none() {
            self.entries = start..start;
            self.last = Some(position);
        } else {
            self.entries.start = self.entries.start.max(start);
        }
        Ok(true)
    }
}
