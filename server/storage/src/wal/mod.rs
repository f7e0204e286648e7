//! The log on the disk.
//!
//! Whatever is handed in is readable at once and is written in the order in which it came. One
//! thread takes everything that waits, writes it as one batch with one sync, and then calls back
//! each caller. After the first failed write or sync nothing is acknowledged any more.
//!
//! What is not here: what the entries mean, and when to cut or purge the log.

mod batch_reader;
mod changed_bit;
mod end_record;
mod format;
mod queue;
mod recovery;
mod segment;
mod segment_preparer;
mod state;
mod view;
mod writer;

use std::fmt;
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;
use std::thread::{self, JoinHandle};

use bytes::Bytes;

use self::format::Record;
use self::queue::{Job, JobQueue};
use self::recovery::Replay;
use self::segment::SegmentMaker;
use self::segment_preparer::SegmentPreparer;
use self::view::LogView;
use self::writer::{Chain, Writer};
use super::{Disk, LogIndex, StorageError};
use crate::panic::caught_now;

pub use self::queue::{FailureHook, OnDurable};
pub use self::recovery::TornTail;
pub use self::state::{Entry, LogPosition, LogState};

/// The longest job in bytes: what is appended in one call is one piece on the disk.
const JOB_BYTES_MAX: usize = 1 << 30;

/// Which thread writes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WalMode {
    /// One of the log's own; a second one prepares segments and removes old ones.
    Threads,
    /// The caller's, before its call returns: for simulations, where a run must be repeatable.
    Inline,
    /// The caller's, in [`Wal::write_waiting`].
    Manual,
}

/// How a log is kept.
#[derive(Debug, Clone, Copy)]
pub struct WalOptions {
    pub mode: WalMode,
    /// Length of a segment file in bytes.
    pub segment_bytes: u64,
    /// Bodies of the newest entries that are kept in memory, in bytes.
    pub cache_bytes_max: usize,
    /// A batch takes more jobs until it is this long, in bytes.
    pub batch_bytes_max: usize,
    /// Any number that clients cannot know; it keeps their data from looking like the log's own
    /// structure.
    pub salt: u64,
}

impl Default for WalOptions {
    fn default() -> Self {
        Self {
            mode: WalMode::Threads,
            segment_bytes: 16 << 20,
            cache_bytes_max: 8 << 20,
            batch_bytes_max: 4 << 20,
            salt: 0,
        }
    }
}

/// What was found when the log was opened.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Recovered {
    pub state: LogState,
    /// Where an unfinished write was cut off, which is normal after a power cut.
    pub torn: Option<TornTail>,
    /// The last batch, if the log was not closed cleanly after it: a disk that has lost pages may have
    /// lost later batches without a trace.
    pub last_in_doubt: Option<u64>,
    /// The damage at the end that [`Wal::salvage`] has tolerated.
    pub lost: Option<String>,
}

/// An open log. Dropping it writes what waits and ends it in good order.
pub struct Wal {
    queue: Arc<JobQueue>,
    thread: Option<JoinHandle<()>>,
}

impl fmt::Debug for Wal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Wal").field("state", &self.state()).finish_non_exhaustive()
    }
}

impl Wal {
    /// Opens the log in `directory`, which is created if need be. What it recovers is durable when
    /// this returns. A log that ends before a batch that is known to have been durable is refused.
    pub fn open(
        disk: Arc<dyn Disk>,
        directory: &Path,
        options: WalOptions,
    ) -> Result<(Self, Recovered), StorageError> {
        disk.create_dir_all(directory).map_err(StorageError::io("create", directory))?;
        let replay = recovery::replay(&*disk, directory)?;
        Self::start(disk, directory, options, replay)
    }

    /// Opens a log even if its end is lost. [`Wal::open`] keeps refusing that log until
    /// [`Wal::accept_loss`] has succeeded.
    pub fn salvage(
        disk: Arc<dyn Disk>,
        directory: &Path,
        options: WalOptions,
    ) -> Result<(Self, Recovered), StorageError> {
        disk.create_dir_all(directory).map_err(StorageError::io("create", directory))?;
        let replay = recovery::replay_what_is_left(&*disk, directory)?;
        let (wal, recovered) = Self::start(disk, directory, options, replay)?;
        wal.queue.keep_end_record();
        Ok((wal, recovered))
    }

    fn start(
        disk: Arc<dyn Disk>,
        directory: &Path,
        options: WalOptions,
        mut replay: Replay,
    ) -> Result<(Self, Recovered), StorageError> {
        let maker = SegmentMaker {
            disk,
            directory: directory.to_path_buf(),
            segment_bytes: options.segment_bytes,
            salt: options.salt,
        };
        let (mut chain, mut records) = (Chain::first(), Vec::new());
        let mut superseded = None;
        if let Some(mut last) = replay.last_batch.take() {
            if last.fills_segment() {
                replay.older.pop_back();
            }
            chain = last.chain.clone();
            records = std::mem::take(&mut last.records);
            superseded = Some(last).filter(|last| !last.fills_segment());
        }
        let (mut writer, places) = Writer::start(maker.clone(), chain, replay.older, &records)?;
        if let Some(last) = superseded {
            last.trim()?;
        }
        // The entries of the last batch stand somewhere else now.
        for (index, place) in places {
            let at = index.entries_since(replay.state.entries.start);
            if let Some(at) = at.and_then(|at| usize::try_from(at).ok())
                && let Some((_, old_place)) = replay.entries.get_mut(at)
            {
                *old_place = place;
            }
        }
        let recovered = Recovered {
            state: replay.state.clone(),
            torn: replay.torn.take(),
            last_in_doubt: replay.last_in_doubt,
            lost: replay.lost.take(),
        };
        writer.tidy()?;
        let view = LogView::recovered(replay.state, replay.entries, options.cache_bytes_max);
        let queue = Arc::new(JobQueue::new(view, writer, options));
        let thread = match options.mode {
            WalMode::Threads => Some(start_threads(&queue, maker)?),
            WalMode::Inline | WalMode::Manual => None,
        };
        Ok((Self { queue, thread }, recovered))
    }

    /// Has `hook` called once, by the thread that notices, when the log fails; it must neither
    /// block nor drop the log. If the log has failed already, that is now.
    pub fn on_failure(&self, hook: FailureHook) {
        self.queue.on_failure(hook);
    }

    /// Why the log has failed, if it has.
    pub fn failure(&self) -> Option<StorageError> {
        self.queue.failure()
    }

    /// While something waits to become durable: how many batches were written before it, since the
    /// log was opened. If that stays the same, the disk does not answer.
    pub fn batches_before_waiting(&self) -> Option<u64> {
        self.queue.batches_before_waiting()
    }

    /// What the log holds, counting what waits to be written.
    pub fn state(&self) -> LogState {
        self.queue.view(|view| view.state().clone())
    }

    /// The position of the entry with this index, if it is there. The disk is not touched.
    pub fn position(&self, index: LogIndex) -> Option<LogPosition> {
        self.queue.view(|view| view.position(index))
    }

    /// True when all entries from `index` on can be read without the disk.
    pub fn is_cached(&self, index: LogIndex) -> bool {
        self.queue.view(|view| view.is_cached(index))
    }

    /// The entries of `range` that are there, as many as fit into `bytes_max`, but at least one.
    /// Blocks for the disk when they are no longer cached.
    pub fn entries(
        &self,
        range: Range<LogIndex>,
        bytes_max: usize,
    ) -> Result<Vec<Entry>, StorageError> {
        self.queue.check_open()?;
        let planned = self.queue.view(|view| view.plan(range, bytes_max));
        planned.into_iter().map(view::Planned::fetch).collect()
    }

    /// Adds entries at the end. They are readable when this returns, and durable when
    /// `on_durable` is called. On an error it is not called and nothing was added.
    pub fn append(&self, entries: Vec<Entry>, on_durable: OnDurable) -> Result<(), StorageError> {
        self.enqueue(entries, on_durable)?;
        self.start_writing();
        Ok(())
    }

    /// Like [`Wal::append`], but does not wake the writer: it begins at the next
    /// [`Wal::start_writing`], or with the next thing that is handed in, or goes on with it if it is
    /// at work. A caller with something to do first does not have to share its core.
    pub fn enqueue(&self, entries: Vec<Entry>, on_durable: OnDurable) -> Result<(), StorageError> {
        self.queue.enqueue(|view| {
            // A record adds far less than a sector to its body.
            let bytes: usize =
                entries.iter().map(|entry| entry.body.len() + format::SECTOR_BYTES).sum();
            if bytes > JOB_BYTES_MAX {
                return Err(StorageError::refused("the entries are too long for one write"));
            }
            let records = entries.iter().cloned().map(Record::Entry).collect();
            let first_serial = view.append(entries)?;
            Ok(Job::entries(records, first_serial, on_durable))
        })
    }

    /// Wakes the writer if something waits that a caller waits for.
    pub fn start_writing(&self) {
        self.queue.start_writing();
    }

    /// Saves the vote; it must not be acted on before `on_durable` is called.
    pub fn save_vote(&self, vote: Bytes, on_durable: OnDurable) -> Result<(), StorageError> {
        self.queue.submit(|view| {
            view.save_vote(vote.clone());
            Ok(Job::new(vec![Record::Vote(vote)], on_durable))
        })
    }

    /// Saves the committed position, not urgently: it is written with the next batch.
    pub fn save_committed(&self, committed: Option<LogPosition>) -> Result<(), StorageError> {
        self.queue.submit(|view| {
            view.save_committed(committed);
            Ok(Job::lazy(Record::Committed(committed)))
        })
    }

    /// Drops the entries from index `from` on.
    pub fn truncate_from(&self, from: LogIndex, on_durable: OnDurable) -> Result<(), StorageError> {
        self.queue.submit(|view| {
            let record = view.truncate(from)?.filter(|_| !planted!("truncation-not-logged"));
            Ok(Job::new(record.into_iter().collect(), on_durable))
        })
    }

    /// Drops the entries up to `position`. A log that does not reach that far goes on behind it.
    pub fn purge_to(
        &self,
        position: LogPosition,
        on_durable: OnDurable,
    ) -> Result<(), StorageError> {
        self.queue.submit(|view| {
            let record = view.purge(position)?.then_some(Record::Purge(position));
            Ok(Job::new(record.into_iter().collect(), on_durable))
        })
    }

    /// Has `on_durable` called when everything that was handed in before is durable.
    pub fn flush(&self, on_durable: OnDurable) -> Result<(), StorageError> {
        self.queue.submit(|_| Ok(Job::new(Vec::new(), on_durable)))
    }

    /// Declares a salvaged log complete: replaces the record of its end. That is durable when this
    /// returns.
    pub fn accept_loss(&self) -> Result<(), StorageError> {
        self.queue.replace_end_record()
    }

    /// Makes a log of [`WalMode::Inline`] one of [`WalMode::Manual`].
    pub fn write_by_hand(&self) {
        self.queue.write_by_hand();
    }

    /// Whether something was handed in for which a caller waits.
    pub fn is_waited_for(&self) -> bool {
        self.queue.is_waited_for()
    }

    /// With [`WalMode::Manual`]: writes one batch of what waits; false when nothing did.
    pub fn write_waiting(&self) -> bool {
        self.queue.write_one_batch()
    }
}

fn start_threads(
    queue: &Arc<JobQueue>,
    maker: SegmentMaker,
) -> Result<JoinHandle<()>, StorageError> {
    let directory = maker.directory.clone();
    let weak = Arc::downgrade(queue);
    let fail = move |error| {
        if let Some(queue) = weak.upgrade() {
            queue.fail(&error, Vec::new());
        }
    };
    queue.set_preparer(SegmentPreparer::start(maker, Arc::new(fail))?);
    let queue = queue.clone();
    thread::Builder::new()
        .name("wal-writer".to_owned())
        .spawn(move || {
            if let Err(panic) = caught_now(|| queue.run()) {
                queue.fail(&StorageError::Panicked { thread: "log writer", panic }, Vec::new());
            }
        })
        .map_err(StorageError::io("start a thread for", &directory))
}

impl Drop for Wal {
    fn drop(&mut self) {
        self.queue.close();
        match self.thread.take() {
            // A callback may own the log's last handle; its thread ends by itself.
            Some(thread) if thread.thread().id() == thread::current().id() => {}
            Some(thread) => {
                // A panic there is a failure of the log, and was reported as one.
                let _ = thread.join();
            }
            None => self.queue.finish(),
        }
    }
}
