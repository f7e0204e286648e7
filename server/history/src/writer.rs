//! The history of a server, and the thread that writes it.

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, channel, sync_channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock, RwLockWriteGuard};
use std::thread::{Builder, JoinHandle};
use std::time::{Duration, Instant};
use std::{fmt, io};

use tracing::{debug, error, info, warn};
use zoolet_jute::Zxid;
use zoolet_replica::HistoryItem;

use crate::batch::Packer;
use crate::counts::HistoryCounts;
use crate::entries::Reader;
use crate::entry::GapReason;
use crate::handover::{Handover, Message};
use crate::panics;
use crate::query::{End, Found, Query, QueryError};
use crate::store::{self, Place, Store, StoreError};
use crate::tail::Tail;

/// After an error the files are opened again after this pause, and each time after twice the one
/// before. It begins anew when there was no error for as long as the longest one.
const RETRY_PAUSE_MIN: Duration = Duration::from_millis(500);
const RETRY_PAUSE_MAX: Duration = Duration::from_mins(1);

/// How many batches' memory is kept for the next ones.
const SPARE_MAX: usize = 4;

/// A block that is not full is written when nothing has come for this time.
const PAUSE: Duration = Duration::from_secs(1);

/// The number of blocks after which the bytes of the files are looked at.
const BLOCKS_PER_LOOK: u32 = 64;

/// Where a history is, and how much of it is kept.
#[derive(Clone, Debug)]
pub struct HistoryOptions {
    /// Its directory.
    pub directory: PathBuf,
    /// The bytes of its files, about.
    pub bytes_max: u64,
    /// What is older than this is removed; in milliseconds.
    pub age_ms_max: u64,
}

/// The history of a server. Clones are of the same one.
#[derive(Clone)]
pub struct History {
    shared: Arc<Shared>,
    handover: Arc<Mutex<Handover>>,
    thread: Arc<Mutex<Option<JoinHandle<()>>>>,
}

impl fmt::Debug for History {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("History").field("shared", &self.shared).finish_non_exhaustive()
    }
}

/// What the thread and those who ask share.
#[derive(Debug)]
struct Shared {
    queued_bytes: AtomicUsize,
    counts: Arc<HistoryCounts>,
    files: RwLock<Files>,
}

#[derive(Debug)]
enum Files {
    Opening,
    Open { store: Store, tail: Box<Tail> },
    Failed(String),
}

impl History {
    /// Starts the thread, which opens the files. A server does not wait for that.
    pub fn open(options: HistoryOptions, counts: Arc<HistoryCounts>) -> io::Result<Self> {
        let shared = Arc::new(Shared {
            queued_bytes: AtomicUsize::new(0),
            counts,
            files: RwLock::new(Files::Opening),
        });
        let (messages, received) = channel();
        let (used, spare) = sync_channel(SPARE_MAX);
        let mut writer = Writer::new(options, Arc::clone(&shared), used);
        let handover = Handover {
            packer: Packer::default(),
            messages,
            spare,
            is_block_wanted: Arc::clone(&writer.is_block_wanted),
            trimmed_ms: None,
        };
        let thread = Builder::new()
            .name(panics::THREAD.to_owned())
            .spawn(move || writer.run_guarded(&received))?;
        Ok(Self {
            shared,
            handover: Arc::new(Mutex::new(handover)),
            thread: Arc::new(Mutex::new(Some(thread))),
        })
    }

    /// The server has this state, and will hand over what comes behind it: what the history does not
    /// have of it is missing.
    pub fn began(&self, at: Zxid) {
        self.handover().packer.gap(at, GapReason::Snapshot);
    }

    /// Takes what was applied, in order. Never waits: what is too much is lost, and counted. The
    /// thread receives it with the next [`Self::tick`], or once there is much of it.
    pub fn record(&self, items: impl IntoIterator<Item = HistoryItem>) {
        let mut handover = self.handover();
        for item in items {
            handover.packer.item(&item);
            if handover.packer.is_full() {
                handover.hand_over(&self.shared.queued_bytes, &self.shared.counts);
            }
        }
    }

    /// Hands over to the thread what was recorded. Once a minute, what is too old by the wall clock,
    /// in milliseconds since 1970, is removed.
    pub fn tick(&self, wall_ms: i64) {
        self.hand_over();
        self.handover().trim_if_due(wall_ms);
    }

    fn hand_over(&self) {
        let mut handover = self.handover();
        if !handover.packer.is_empty() {
            handover.hand_over(&self.shared.queued_bytes, &self.shared.counts);
        }
    }

    fn handover(&self) -> MutexGuard<'_, Handover> {
        self.handover.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Looks through what was recorded. Blocks, for as long as it takes to read the files.
    pub fn find(&self, query: &Query) -> Result<Found, QueryError> {
        let (store, end) = match &*self.shared.files.read().unwrap_or_else(PoisonError::into_inner)
        {
            Files::Opening => return Err(QueryError::Opening),
            Files::Failed(why) => return Err(QueryError::Failed(why.clone())),
            Files::Open { store, tail } => (store.clone(), End::of(tail)),
        };
        let found = panics::catch(&self.shared.counts, || query.run(&store, &end));
        found.map_err(|error| {
            let failed = QueryError::Failed(error.to_string());
            if store::is_damage(&error) {
                self.handover().send(Message::Damaged(store, error));
            }
            failed
        })
    }

    /// Writes what is queued, and closes the files. Blocks.
    pub fn close(&self) {
        self.hand_over();
        self.handover().send(Message::Close);
        let thread = self.thread.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(thread) = thread {
            // If it has panicked, that was logged.
            let _ = thread.join();
        }
    }
}

/// What the thread has.
struct Writer {
    options: HistoryOptions,
    shared: Arc<Shared>,
    /// Where the memory of batches goes.
    used: SyncSender<Vec<u8>>,
    reader: Reader,
    /// Whether the block at the end has all entries of the one that is being read, and no others: the
    /// next entry is a copy then.
    is_copying: bool,
    /// Whether a batch could not be read: the next block can be.
    is_skipping: bool,
    /// Has a block begin.
    is_block_wanted: Arc<AtomicBool>,
    /// Where the block at the end is written; none before the files are open.
    place: Option<Place>,
    /// Blocks that were written since the bytes of the files were looked at.
    unlooked: u32,
    /// The time of the latest entry that was written.
    written_ms: i64,
    /// The next attempt to open the files; none if they are open.
    retry: Option<Instant>,
    /// The last pause after an error, and its end.
    paused: Option<(Instant, Duration)>,
    /// The last transaction that was handed over while they were not.
    missed: Option<Zxid>,
}

impl Writer {
    fn new(options: HistoryOptions, shared: Arc<Shared>, used: SyncSender<Vec<u8>>) -> Self {
        Self {
            options,
            shared,
            used,
            reader: Reader::default(),
            is_copying: false,
            is_skipping: false,
            is_block_wanted: Arc::default(),
            place: None,
            unlooked: 0,
            written_ms: 0,
            retry: None,
            paused: None,
            missed: None,
        }
    }

    /// Takes what comes, until the history is closed; also after a panic that is not about the
    /// files, behind which nothing is recorded any more.
    fn run_guarded(&mut self, messages: &Receiver<Message>) {
        let counts = Arc::clone(&self.shared.counts);
        let ended = panics::catch(&counts, || {
            self.run(messages);
            Ok(())
        });
        let Err(error) = ended else { return };
        let directory = self.options.directory.display();
        error!(%directory, %error, "the history has a defect: nothing is recorded until the server starts again");
        counts.set_failing(true);
        self.replace_files(Files::Failed(error.to_string()));
        while let Ok(message) = messages.recv() {
            match message {
                Message::Batch(batch, bytes) => {
                    counts.add_lost(batch.events);
                    self.shared.queued_bytes.fetch_sub(bytes, Ordering::Relaxed);
                }
                Message::Trim(_) | Message::Damaged(..) => {}
                Message::Close => break,
                #[cfg(test)]
                Message::Panic => {}
            }
        }
    }

    /// Takes what comes, until the history is closed.
    fn run(&mut self, messages: &Receiver<Message>) {
        self.open();
        while let Some(message) = self.next(messages) {
            match message {
                Message::Batch(mut batch, bytes) => {
                    self.take(&batch);
                    self.shared.queued_bytes.fetch_sub(bytes, Ordering::Relaxed);
                    batch.bytes.clear();
                    // If there is enough memory already, this is freed.
                    let _ = self.used.try_send(batch.bytes);
                }
                Message::Trim(now_ms) => {
                    self.work(|writer, store, _| writer.trim_age(store, now_ms));
                }
                Message::Damaged(damaged, error) => {
                    // If the files were opened again since then, they are others.
                    let check = |store: &Store| {
                        if store.is_same(&damaged) { Err(error) } else { Ok(()) }
                    };
                    self.work(|_, store, _| check(store));
                }
                Message::Close => break,
                #[cfg(test)]
                Message::Panic => panic!("a test has the thread panic"),
            }
        }
        self.work(Self::write);
        self.close();
    }

    fn close(&self) {
        let mut files = self.lock_files();
        let stopped = Files::Failed("the server stops".to_owned());
        let Files::Open { store, .. } = std::mem::replace(&mut *files, stopped) else { return };
        drop(files);
        if let Err(error) = panics::catch(&self.shared.counts, || store.close()) {
            warn!(%error, "the history cannot be closed: its end may be missing");
        }
    }

    /// Opens the files, and notes what was missed.
    fn open(&mut self) {
        let opened = panics::catch(&self.shared.counts, || {
            let store = Store::open(&self.options.directory)?;
            let tail = Box::new(Tail::behind(store.last()?.as_ref()));
            Ok(Files::Open { store, tail })
        });
        let files = match opened {
            Ok(files) => files,
            Err(error) => return self.fail(&error),
        };
        self.replace_files(files);
        (self.place, self.is_copying) = (None, false);
        let missed = self.missed.take();
        let is_open = self.work(|writer, store, tail| {
            if let Some(through) = missed.filter(|it| tail.lacks(*it, GapReason::Disk)) {
                tail.gap(through, GapReason::Disk);
            }
            writer.write(store, tail)?;
            if writer.retry.is_some() {
                // What was written may have come to memory alone.
                store.flush()?;
            }
            writer.trim_bytes(store)
        });
        if is_open && self.retry.take().is_some() {
            self.shared.counts.set_failing(false);
            info!("the history is recorded again: it has a gap for what was missed");
        }
    }

    /// Opens the files again, if it is time.
    fn retry_if_due(&mut self) {
        if self.retry.is_some_and(|at| now() >= at) {
            self.open();
        }
    }

    /// Waits for the next message. When there is none for a while, what is there is written, and
    /// then the thread sleeps: an idle server is not woken up.
    fn next(&mut self, messages: &Receiver<Message>) -> Option<Message> {
        let mut is_idle = false;
        loop {
            self.retry_if_due();
            let pause = match self.retry {
                Some(at) => at.saturating_duration_since(now()),
                None if is_idle => return messages.recv().ok(),
                None => PAUSE,
            };
            match messages.recv_timeout(pause) {
                Ok(message) => return Some(message),
                Err(RecvTimeoutError::Timeout) => is_idle = self.work(Self::write),
                Err(RecvTimeoutError::Disconnected) => return None,
            }
        }
    }

    /// Writes the block at the end, and begins the next one.
    fn begin_block(&mut self, store: &Store, tail: &mut Tail) -> Result<(), StoreError> {
        self.is_copying = false;
        if tail.block().is_empty() {
            return Ok(());
        }
        self.write(store, tail)?;
        self.place = self.place.map(|place| store.behind(place)).transpose()?;
        tail.begin_block();
        self.unlooked += 1;
        if self.unlooked >= BLOCKS_PER_LOOK {
            self.trim_bytes(store)?;
        }
        Ok(())
    }

    /// Does something with the files, if they are open; after an error they are not. Returns whether
    /// it was done.
    fn work(
        &mut self,
        work: impl FnOnce(&mut Self, &Store, &mut Tail) -> Result<(), StoreError>,
    ) -> bool {
        let shared = Arc::clone(&self.shared);
        let mut files = shared.files.write().unwrap_or_else(PoisonError::into_inner);
        let Files::Open { store, tail } = &mut *files else { return false };
        let worked = panics::catch(&shared.counts, || work(self, store, tail));
        let (last, unwritten) = (tail.last_zxid(), tail.unwritten_events());
        drop(files);
        if let Err(error) = &worked {
            self.shared.counts.add_lost(unwritten);
            self.missed = self.missed.max(Some(last));
            self.fail(error);
        }
        worked.is_ok()
    }

    /// Writes the last block, if there is something new in it.
    fn write(&mut self, store: &Store, tail: &mut Tail) -> Result<(), StoreError> {
        if !tail.is_unwritten() {
            return Ok(());
        }
        let head = *tail.block().head();
        let place = match self.place {
            Some(place) => place,
            None => store.end()?,
        };
        self.place = Some(place);
        store.put(place, tail.bytes())?;
        self.written_ms = head.last_ms;
        tail.written();
        Ok(())
    }

    /// Removes the blocks that are too old.
    fn trim_age(&mut self, store: &Store, now_ms: i64) -> Result<(), StoreError> {
        let age_ms_max = i64::try_from(self.options.age_ms_max).unwrap_or(i64::MAX);
        let older = store.count_older(now_ms.saturating_sub(age_ms_max), now_ms)?;
        store.remove_first(older)?;
        self.shared.counts.set_bytes(store.file_bytes()?);
        Ok(())
    }

    /// Removes some of the earliest blocks, if the files have too many bytes. They shrink a while
    /// after the blocks are gone.
    fn trim_bytes(&mut self, store: &Store) -> Result<(), StoreError> {
        self.unlooked = 0;
        let bytes = store.file_bytes()?;
        self.shared.counts.set_bytes(bytes);
        if bytes > self.options.bytes_max {
            store.remove_first(2 * BLOCKS_PER_LOOK as usize)?;
        }
        Ok(())
    }

    fn lock_files(&self) -> RwLockWriteGuard<'_, Files> {
        self.shared.files.write().unwrap_or_else(PoisonError::into_inner)
    }

    /// Has other files in the place of those before, which are closed.
    fn replace_files(&self, files: Files) {
        let before = std::mem::replace(&mut *self.lock_files(), files);
        // sled writes when it is dropped, and so may panic over what has made it panic before.
        let closed = panics::catch(&self.shared.counts, || {
            drop(before);
            Ok(())
        });
        if let Err(error) = closed {
            debug!(%error, "the history's files cannot be closed");
        }
    }

    fn fail(&mut self, error: &StoreError) {
        if store::is_damage(error) {
            panics::mark(&self.options.directory);
        }
        let directory = self.options.directory.display();
        // Opened files may fail at the next write again, as on a disk that is nearly full.
        let pause = match self.paused {
            Some((end, pause)) if now() < end + RETRY_PAUSE_MAX => RETRY_PAUSE_MAX.min(2 * pause),
            _ => RETRY_PAUSE_MIN,
        };
        let pause_ms = pause.as_millis();
        if self.retry.is_none() {
            warn!(%directory, %error, "the history cannot be used: nothing is recorded until it can be");
        } else {
            debug!(%directory, %error, pause_ms, "the history cannot be used still");
        }
        self.shared.counts.set_failing(true);
        // The lock on the directory goes with them, and the pause begins behind it.
        self.replace_files(Files::Failed(error.to_string()));
        let end = now() + pause;
        (self.retry, self.paused) = (Some(end), Some((end, pause)));
    }
}

#[allow(clippy::disallowed_methods, reason = "for pauses between attempts alone, on a real disk")]
fn now() -> Instant {
    Instant::now()
}

mod take;

#[cfg(test)]
mod tests;
