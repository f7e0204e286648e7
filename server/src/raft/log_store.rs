//! The log, as openraft wants it, on our [`Wal`].

use std::fmt::Debug;
use std::io;
use std::ops::{Bound, RangeBounds};
use std::sync::Arc;

use openraft::storage::{IOFlushed, LogState, RaftLogStorage};
use openraft::{OptionalSend, RaftLogReader};
use tokio::sync::oneshot;
use tokio::task::yield_now;
use zoolet_storage::{Entry, LogIndex, OnDurable, StorageError, Wal};

use super::codec;
use super::types::{LogEntry, LogId, TypeConfig, Vote, log_id_of, position_of};
use crate::process::blocking;

/// How much of the log goes into one message to a follower, in bytes; at least one entry does.
const MESSAGE_BYTES_MAX: usize = 512 << 10;

/// The log. Clones are the same log.
#[derive(Clone, Debug)]
pub(super) struct LogStore {
    wal: Arc<Wal>,
}

impl LogStore {
    pub(super) fn new(wal: Arc<Wal>) -> Self {
        Self { wal }
    }

    async fn read(
        &self,
        start: LogIndex,
        end: LogIndex,
        bytes_max: usize,
    ) -> io::Result<Vec<LogEntry>> {
        if start >= end {
            return Ok(Vec::new());
        }
        let entries = if self.wal.is_cached(start) {
            self.wal.entries(start..end, bytes_max)?
        } else {
            let wal = Arc::clone(&self.wal);
            blocking(move || wal.entries(start..end, bytes_max)).await??
        };
        let decode =
            |entry: Entry| codec::decode_entry(log_id_of(entry.position), entry.kind, entry.body);
        entries.into_iter().map(decode).collect()
    }

    /// Runs `write`, and waits until what it has written is durable.
    async fn durably(
        &self,
        write: impl FnOnce(&Wal, OnDurable) -> Result<(), StorageError>,
    ) -> io::Result<()> {
        let (done, durable) = oneshot::channel();
        // The receiver is gone when the server is being stopped.
        write(&self.wal, Box::new(move |result| drop(done.send(result))))?;
        Ok(durable.await.unwrap_or(Err(StorageError::Closed))?)
    }
}

impl RaftLogReader<TypeConfig> for LogStore {
    async fn try_get_log_entries<RB: RangeBounds<u64> + Clone + Debug + OptionalSend>(
        &mut self,
        range: RB,
    ) -> io::Result<Vec<LogEntry>> {
        let start = match range.start_bound() {
            Bound::Included(start) => *start,
            Bound::Excluded(start) => start.saturating_add(1),
            Bound::Unbounded => 0,
        };
        let end = match range.end_bound() {
            Bound::Included(end) => end.saturating_add(1),
            Bound::Excluded(end) => *end,
            Bound::Unbounded => u64::MAX,
        };
        let there = self.wal.state().entries;
        self.read(LogIndex(start).max(there.start), LogIndex(end).min(there.end), usize::MAX).await
    }

    async fn limited_get_log_entries(&mut self, start: u64, end: u64) -> io::Result<Vec<LogEntry>> {
        let (start, end) = (LogIndex(start), LogIndex(end));
        let there = self.wal.state().entries;
        if start < there.start && !planted!("purged-entries-are-skipped") {
            // What follows a hole would be taken for what fills it.
            let what = format!("entry {start} is asked for, and purged: {} is first", there.start);
            return Err(io::Error::new(io::ErrorKind::NotFound, what));
        }
        self.read(start, end.min(there.end), MESSAGE_BYTES_MAX).await
    }

    async fn read_vote(&mut self) -> io::Result<Option<Vote>> {
        self.wal.state().vote.map(codec::decode_vote).transpose()
    }
}

impl RaftLogStorage<TypeConfig> for LogStore {
    type LogReader = Self;

    async fn get_log_state(&mut self) -> io::Result<LogState<TypeConfig>> {
        let state = self.wal.state();
        Ok(LogState {
            last_purged_log_id: state.purged.map(log_id_of),
            last_log_id: state.last.map(log_id_of),
        })
    }

    async fn get_log_reader(&mut self) -> Self {
        self.clone()
    }

    async fn save_vote(&mut self, vote: &Vote) -> io::Result<()> {
        if planted!("vote-not-saved") {
            return Ok(());
        }
        let vote = codec::encode_vote(vote);
        self.durably(|wal, done| wal.save_vote(vote, done)).await
    }

    async fn save_committed(&mut self, committed: Option<LogId>) -> io::Result<()> {
        Ok(self.wal.save_committed(committed.as_ref().map(position_of))?)
    }

    async fn read_committed(&mut self) -> io::Result<Option<LogId>> {
        Ok(self.wal.state().committed.map(log_id_of))
    }

    async fn append<I>(&mut self, entries: I, callback: IOFlushed<TypeConfig>) -> io::Result<()>
    where
        I: IntoIterator<Item = LogEntry> + OptionalSend,
        I::IntoIter: OptionalSend,
    {
        let encode = |entry: LogEntry| {
            let (kind, body) = codec::encode_payload(&entry.payload);
            Entry { position: position_of(&entry.log_id), kind, body }
        };
        let entries = entries.into_iter().map(encode).collect();
        let done = Box::new(move |result: Result<(), StorageError>| {
            callback.io_completed(result.map_err(io::Error::from));
        });
        self.wal.enqueue(entries, done)?;
        // Woken at once, the writer would take the core from the tasks that send the entries to the
        // followers, which is what the leader's clients wait for.
        let wal = Arc::clone(&self.wal);
        tokio::spawn(async move {
            yield_now().await;
            wal.start_writing();
        });
        Ok(())
    }

    async fn truncate_after(&mut self, last: Option<LogId>) -> io::Result<()> {
        let there = self.wal.state().entries;
        let from = LogIndex(last.map_or(0, |last| last.index.saturating_add(1))).max(there.start);
        if from >= there.end || planted!("truncated-entries-stay") {
            return Ok(());
        }
        let entries = there.end.0 - from.0;
        tracing::info!(from = from.0, entries, "cut off entries that were never committed");
        self.durably(|wal, done| wal.truncate_from(from, done)).await
    }

    async fn purge(&mut self, through: LogId) -> io::Result<()> {
        self.durably(|wal, done| wal.purge_to(position_of(&through), done)).await
    }
}
