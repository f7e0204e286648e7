//! The queue in front of the history, and the thread behind it.

use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::thread::{Builder, JoinHandle};
use std::time::Duration;
use std::{fmt, io};

use tracing::warn;
use zoolet_jute::Zxid;
use zoolet_replica::HistoryItem;

use crate::counts::HistoryCounts;
use crate::entry::GapReason;
use crate::panics;
use crate::query::{End, Found, Query, QueryError};
use crate::store::{self, Store, StoreError};
use crate::tail::Tail;

/// The bytes of the events that may wait for the thread, as much as a start applies again at most
/// while the files are being opened.
const QUEUED_BYTES_MAX: usize = 64 << 20;

/// A block that is not full is written when nothing has come for this time.
const PAUSE: Duration = Duration::from_secs(1);

/// While something comes all the time, a block that is not full is written this often, by the time of
/// the entries.
const WRITE_INTERVAL_MS: i64 = 1000;

/// The number of blocks after which the bytes of the files are looked at.
const BLOCKS_PER_LOOK: u32 = 64;

/// Where a history is, and how much of it is kept.
#[derive(Clone, Debug)]
pub struct HistoryOptions {
    /// Its directory.
    pub directory: PathBuf,
    /// The bytes of its files, about.
    pub bytes_max: u64,
    /// What is older than this, against the latest event, is removed; in milliseconds.
    pub age_ms_max: u64,
}

/// The history of a server. Clones are of the same one.
#[derive(Clone)]
pub struct History {
    shared: Arc<Shared>,
    messages: Sender<Message>,
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

enum Message {
    Began(Zxid),
    /// With the bytes that they take in memory.
    Items(Vec<HistoryItem>, usize),
    /// What was handed over up to this transaction is lost.
    Lost(Zxid),
    Close,
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
        let mut writer =
            Writer { options, shared: Arc::clone(&shared), unlooked: 0, written_ms: 0 };
        let thread =
            Builder::new().name(panics::THREAD.to_owned()).spawn(move || writer.run(&received))?;
        Ok(Self { shared, messages, thread: Arc::new(Mutex::new(Some(thread))) })
    }

    /// The server has this state, and will hand over what comes behind it: what the history does not
    /// have of it is missing.
    pub fn began(&self, at: Zxid) {
        self.send(Message::Began(at));
    }

    /// Takes what was applied, in order. Never waits: what is too much is lost, and counted.
    pub fn record(&self, items: Vec<HistoryItem>) {
        let bytes = items.iter().map(memory_bytes).sum::<usize>();
        let queued = self.shared.queued_bytes.fetch_add(bytes, Ordering::Relaxed);
        if queued + bytes > QUEUED_BYTES_MAX {
            self.shared.queued_bytes.fetch_sub(bytes, Ordering::Relaxed);
            self.shared.counts.add_lost(items.len() as u64);
            if let Some(last) = items.last() {
                self.send(Message::Lost(zxid_of(last)));
            }
            return;
        }
        self.send(Message::Items(items, bytes));
    }

    /// Looks through what was recorded. Blocks, for as long as it takes to read the files.
    pub fn find(&self, query: &Query) -> Result<Found, QueryError> {
        let (store, end) = match &*self.shared.files.read().unwrap_or_else(PoisonError::into_inner)
        {
            Files::Opening => return Err(QueryError::Opening),
            Files::Failed(why) => return Err(QueryError::Failed(why.clone())),
            Files::Open { store, tail } => (store.clone(), End::of(tail)),
        };
        query.run(&store, &end)
    }

    /// Writes what is queued, and closes the files. Blocks.
    pub fn close(&self) {
        self.send(Message::Close);
        let thread = self.thread.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(thread) = thread {
            // If it has panicked, that was logged.
            let _ = thread.join();
        }
    }

    fn send(&self, message: Message) {
        // The thread ends when the history is closed; what comes later has no place.
        let _ = self.messages.send(message);
    }
}

fn zxid_of(item: &HistoryItem) -> Zxid {
    match item {
        HistoryItem::Event(event) => event.zxid,
        HistoryItem::Skipped { through, .. } | HistoryItem::Through(through) => *through,
    }
}

/// About what an item takes in memory.
fn memory_bytes(item: &HistoryItem) -> usize {
    let texts = match item {
        HistoryItem::Event(event) => event.change.texts_bytes(),
        HistoryItem::Skipped { .. } | HistoryItem::Through(_) => 0,
    };
    size_of::<HistoryItem>() + texts
}

/// What the thread has.
struct Writer {
    options: HistoryOptions,
    shared: Arc<Shared>,
    /// Blocks that were written since the bytes of the files were looked at.
    unlooked: u32,
    /// The time of the latest entry that was written.
    written_ms: i64,
}

impl Writer {
    /// Takes what comes, until the history is closed.
    fn run(&mut self, messages: &Receiver<Message>) {
        let opened = Store::open(&self.options.directory).and_then(|store| {
            let tail = Box::new(Tail::behind(store.last()?.as_ref()));
            Ok(Files::Open { store, tail })
        });
        match opened {
            Ok(files) => drop(self.replace_files(files)),
            Err(error) => self.fail(&error),
        }
        self.work(|writer, store, tail| writer.trim(store, tail));
        while let Some(message) = self.next(messages) {
            match message {
                Message::Began(at) => self.work(|_, _, tail| {
                    tail.gap(at, GapReason::Snapshot);
                    Ok(())
                }),
                Message::Items(items, bytes) => {
                    self.take(items);
                    self.shared.queued_bytes.fetch_sub(bytes, Ordering::Relaxed);
                }
                Message::Lost(through) => self.work(|_, _, tail| {
                    tail.gap(through, GapReason::Overload);
                    Ok(())
                }),
                Message::Close => break,
            }
        }
        self.work(Self::write);
        if let Files::Open { store, .. } =
            self.replace_files(Files::Failed("the server stops".to_owned()))
            && let Err(error) = store.close()
        {
            warn!(%error, "the history cannot be closed: its end may be missing");
        }
    }

    /// Waits for the next message. When there is none for a while, what is there is written, and
    /// then the thread sleeps: an idle server is not woken up.
    fn next(&mut self, messages: &Receiver<Message>) -> Option<Message> {
        match messages.recv_timeout(PAUSE) {
            Ok(message) => Some(message),
            Err(RecvTimeoutError::Timeout) => {
                self.work(Self::write);
                messages.recv().ok()
            }
            Err(RecvTimeoutError::Disconnected) => None,
        }
    }

    fn take(&mut self, items: Vec<HistoryItem>) {
        let mut recorded = 0;
        self.work(|writer, store, tail| {
            for item in items {
                match item {
                    HistoryItem::Event(event) => recorded += u64::from(tail.event(&event)),
                    HistoryItem::Skipped { through, .. } => tail.gap(through, GapReason::Snapshot),
                    HistoryItem::Through(through) => tail.reach(through),
                }
                if tail.block().is_full() {
                    writer.write(store, tail)?;
                }
            }
            if tail.block().head().last_ms - writer.written_ms >= WRITE_INTERVAL_MS {
                writer.write(store, tail)?;
            }
            Ok(())
        });
        self.shared.counts.add_recorded(recorded);
    }

    /// Does something with the files, if they are open. After an error nothing more is done with
    /// them.
    fn work(&mut self, work: impl FnOnce(&mut Self, &Store, &mut Tail) -> Result<(), StoreError>) {
        let shared = Arc::clone(&self.shared);
        let mut files = shared.files.write().unwrap_or_else(PoisonError::into_inner);
        let Files::Open { store, tail } = &mut *files else { return };
        let worked = work(self, store, tail);
        drop(files);
        if let Err(error) = worked {
            self.fail(&error);
        }
    }

    /// Writes the last block, if there is something new in it.
    fn write(&mut self, store: &Store, tail: &mut Tail) -> Result<(), StoreError> {
        if !tail.is_unwritten() {
            return Ok(());
        }
        let head = *tail.block().head();
        store.put(head.first, &tail.block().bytes())?;
        self.written_ms = head.last_ms;
        self.unlooked += u32::from(tail.block().is_full());
        tail.written();
        if self.unlooked >= BLOCKS_PER_LOOK {
            self.trim(store, tail)?;
        }
        Ok(())
    }

    /// Removes the earliest blocks, until age and bytes are within their limits.
    fn trim(&mut self, store: &Store, tail: &Tail) -> Result<(), StoreError> {
        self.unlooked = 0;
        let latest = store.last()?.map_or(0, |head| head.last_ms).max(tail.block().head().last_ms);
        let age_ms_max = i64::try_from(self.options.age_ms_max).unwrap_or(i64::MAX);
        let mut removed = 0;
        while store.first()?.is_some_and(|head| head.last_ms < latest.saturating_sub(age_ms_max)) {
            store.remove_first()?;
            removed += 1;
        }
        let bytes = store.file_bytes()?;
        self.shared.counts.set_bytes(bytes);
        if bytes > self.options.bytes_max && removed == 0 {
            // The files shrink a while after the blocks are gone.
            for _ in 0..2 * BLOCKS_PER_LOOK {
                store.remove_first()?;
            }
        }
        Ok(())
    }

    fn replace_files(&self, files: Files) -> Files {
        let mut now = self.shared.files.write().unwrap_or_else(PoisonError::into_inner);
        std::mem::replace(&mut *now, files)
    }

    fn fail(&self, error: &StoreError) {
        if store::is_damage(error) {
            panics::mark(&self.options.directory);
        }
        let directory = self.options.directory.display();
        warn!(
            %directory,
            %error,
            "the history cannot be used: nothing more is recorded until the server is started again"
        );
        drop(self.replace_files(Files::Failed(error.to_string())));
    }
}

#[cfg(test)]
mod tests;
