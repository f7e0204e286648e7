//! The queue in front of the history, and the thread behind it.

use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, SyncSender, channel, sync_channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};
use std::thread::{Builder, JoinHandle};
use std::time::Duration;
use std::{fmt, io};

use tracing::warn;
use zoolet_jute::Zxid;
use zoolet_replica::HistoryItem;

use crate::batch::{Batch, Packer, Part};
use crate::block::{BlockError, Head};
use crate::counts::HistoryCounts;
use crate::entries::Reader;
use crate::entry::GapReason;
use crate::panics;
use crate::query::{End, Found, Query, QueryError};
use crate::store::{self, Place, Store, StoreError};
use crate::tail::Tail;

/// The bytes of the events that may wait for the thread, as much as a start applies again at most
/// while the files are being opened.
const QUEUED_BYTES_MAX: usize = 64 << 20;

/// How many batches' memory is kept for the next ones.
const SPARE_MAX: usize = 4;

/// What was handed over cannot be read, which means a defect.
const BATCH_DAMAGED: BlockError = BlockError("a batch is damaged");

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

enum Message {
    /// With the bytes that they take in memory.
    Batch(Batch, usize),
    Close,
}

/// What the one who hands over has.
struct Handover {
    packer: Packer,
    messages: Sender<Message>,
    /// The memory of batches that the thread is done with.
    spare: Receiver<Vec<u8>>,
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
        let thread =
            Builder::new().name(panics::THREAD.to_owned()).spawn(move || writer.run(&received))?;
        let handover = Handover { packer: Packer::default(), messages, spare };
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
                handover.hand_over(&self.shared);
            }
        }
    }

    /// Hands over to the thread what was recorded.
    pub fn tick(&self) {
        let mut handover = self.handover();
        if !handover.packer.is_empty() {
            handover.hand_over(&self.shared);
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
        query.run(&store, &end)
    }

    /// Writes what is queued, and closes the files. Blocks.
    pub fn close(&self) {
        self.tick();
        self.handover().send(Message::Close);
        let thread = self.thread.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(thread) = thread {
            // If it has panicked, that was logged.
            let _ = thread.join();
        }
    }
}

impl Handover {
    /// Hands the batch over, or loses it: more may not wait.
    fn hand_over(&mut self, shared: &Shared) {
        let Self { packer, spare, .. } = self;
        let bytes = packer.memory_bytes();
        let queued_bytes = shared.queued_bytes.load(Ordering::Relaxed);
        if queued_bytes.saturating_add(bytes) > QUEUED_BYTES_MAX {
            // Without an event, it may wait here.
            if packer.has_events() {
                shared.counts.add_lost(packer.lose());
            }
            return;
        }
        shared.queued_bytes.fetch_add(bytes, Ordering::Relaxed);
        let batch = packer.take(|| spare.try_recv().unwrap_or_default());
        self.send(Message::Batch(batch, bytes));
    }

    fn send(&self, message: Message) {
        // The thread ends when the history is closed; what comes later has no place.
        let _ = self.messages.send(message);
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
    /// Where the block at the end is written; none before the files are open.
    place: Option<Place>,
    /// Blocks that were written since the bytes of the files were looked at.
    unlooked: u32,
    /// The time of the latest entry that was written.
    written_ms: i64,
}

impl Writer {
    fn new(options: HistoryOptions, shared: Arc<Shared>, used: SyncSender<Vec<u8>>) -> Self {
        Self {
            options,
            shared,
            used,
            reader: Reader::default(),
            is_copying: false,
            place: None,
            unlooked: 0,
            written_ms: 0,
        }
    }

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
                Message::Batch(mut batch, bytes) => {
                    self.take(&batch);
                    self.shared.queued_bytes.fetch_sub(bytes, Ordering::Relaxed);
                    batch.bytes.clear();
                    // If there is enough memory already, this is freed.
                    let _ = self.used.try_send(batch.bytes);
                }
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

    fn take(&mut self, batch: &Batch) {
        let mut recorded = 0;
        self.work(|writer, store, tail| {
            let mut input = batch.bytes.as_slice();
            while !input.is_empty() {
                recorded += u64::from(writer.take_part(store, tail, &mut input)?);
            }
            if tail.block().head().last_ms - writer.written_ms >= WRITE_INTERVAL_MS {
                writer.write(store, tail)?;
            }
            Ok(())
        });
        self.shared.counts.add_recorded(recorded);
    }

    /// Takes what comes next in a batch; returns whether it was an event that the history did not
    /// have.
    fn take_part(
        &mut self,
        store: &Store,
        tail: &mut Tail,
        input: &mut &[u8],
    ) -> Result<bool, StoreError> {
        let part = Part::next(input).ok_or(BATCH_DAMAGED)?;
        match part {
            Part::Block => {
                self.begin_block(store, tail)?;
                self.reader.clear();
                self.is_copying = true;
            }
            Part::Through(through) => tail.reach(through),
            Part::Gap(through, reason) => {
                if tail.lacks(through, reason) {
                    self.stop_copying(store, tail)?;
                    tail.gap(through, reason);
                }
            }
            Part::Event => return self.take_event(store, tail, input),
        }
        Ok(false)
    }

    fn take_event(
        &mut self,
        store: &Store,
        tail: &mut Tail,
        input: &mut &[u8],
    ) -> Result<bool, StoreError> {
        let zxid = self.reader.peek_zxid(input).ok_or(BATCH_DAMAGED)?;
        if !tail.admits(zxid) {
            self.reader.outline(input).ok_or(BATCH_DAMAGED)?;
            self.stop_copying(store, tail)?;
            return Ok(false);
        }
        if self.is_copying {
            let before = *input;
            let outline = self.reader.outline(input).ok_or(BATCH_DAMAGED)?;
            let length = before.len() - input.len();
            tail.copy(before.get(..length).unwrap_or_default(), &self.reader, &outline);
        } else {
            tail.event(&self.reader.event(input).ok_or(BATCH_DAMAGED)?);
        }
        if tail.block().is_full() {
            self.begin_block(store, tail)?;
        }
        Ok(true)
    }

    /// What comes next is not in the block as it was handed over: another block begins.
    fn stop_copying(&mut self, store: &Store, tail: &mut Tail) -> Result<(), StoreError> {
        if self.is_copying {
            self.begin_block(store, tail)?;
        }
        Ok(())
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
            self.trim(store, tail)?;
        }
        Ok(())
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

    /// Removes the earliest blocks, until age and bytes are within their limits.
    fn trim(&mut self, store: &Store, tail: &Tail) -> Result<(), StoreError> {
        self.unlooked = 0;
        let latest = store.last()?.map_or(0, |head| head.last_ms).max(tail.block().head().last_ms);
        let age_ms_max = i64::try_from(self.options.age_ms_max).unwrap_or(i64::MAX);
        let mut removed = 0;
        let is_due = |first: Result<Option<Head>, StoreError>| match first {
            // It does not say how old it is.
            Err(StoreError::Block(_)) => Ok(true),
            first => first
                .map(|head| head.is_some_and(|it| it.last_ms < latest.saturating_sub(age_ms_max))),
        };
        while is_due(store.first())? {
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
