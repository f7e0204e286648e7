//! Between the callers and the writer: what waits to be written, and who wants to know.

use std::collections::VecDeque;
use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

use super::format::Record;
use super::segment_preparer::SegmentPreparer;
use super::view::LogView;
use super::writer::{EntryLocations, Writer};
use super::{WalMode, WalOptions};
use crate::StorageError;

/// Called once: with `Ok` when the job is durable, with an error when it never will be.
pub type OnDurable = Box<dyn FnOnce(Result<(), StorageError>) + Send>;

/// Receives the reason why the log has failed, once.
pub type FailureHook = Box<dyn FnOnce(&StorageError) + Send>;

/// Something to write, in one piece.
pub(super) struct Job {
    records: Vec<Record>,
    /// The serial number of the first entry in it.
    first_serial: u64,
    bytes: usize,
    /// `None`: no caller waits, so it can be written together with the next job.
    on_durable: Option<OnDurable>,
}

impl Job {
    pub(super) fn new(records: Vec<Record>, on_durable: OnDurable) -> Self {
        let bytes = records.iter().map(Record::encoded_bytes).sum();
        Self { records, first_serial: 0, bytes, on_durable: Some(on_durable) }
    }

    /// Entries, the first of which the view gave this serial number.
    pub(super) fn entries(records: Vec<Record>, first_serial: u64, on_durable: OnDurable) -> Self {
        Self { first_serial, ..Self::new(records, on_durable) }
    }

    pub(super) fn lazy(record: Record) -> Self {
        let bytes = record.encoded_bytes();
        Self { records: vec![record], first_serial: 0, bytes, on_durable: None }
    }

    fn is_lazy(&self) -> bool {
        self.on_durable.is_none()
    }

    fn answer(self, result: Result<(), StorageError>) {
        if let Some(on_durable) = self.on_durable {
            on_durable(result);
        }
    }
}

/// The log's shared state.
pub(super) struct JobQueue {
    front: Mutex<Front>,
    /// Signaled when an eager job comes, and when the log is closed.
    work: Condvar,
    /// Held by the thread that writes, for a whole batch; `front` is never held while waiting for
    /// it.
    writer: Mutex<Writer>,
    options: WalOptions,
    /// Whether callers of [`JobQueue::write_one_batch`] write although the mode is another one.
    by_hand: AtomicBool,
}

struct Front {
    view: LogView,
    waiting: VecDeque<Job>,
    /// How many of them somebody waits for.
    eager: usize,
    /// Somebody is writing, and will see what comes in the meantime.
    is_writing: bool,
    /// How many batches were written since the log was opened.
    batches: u64,
    is_closing: bool,
    failure: Option<StorageError>,
    hook: Option<FailureHook>,
}

impl fmt::Debug for JobQueue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("JobQueue").field("options", &self.options).finish_non_exhaustive()
    }
}

impl JobQueue {
    pub(super) fn new(view: LogView, writer: Writer, options: WalOptions) -> Self {
        let front = Front {
            view,
            waiting: VecDeque::new(),
            eager: 0,
            is_writing: false,
            batches: 0,
            is_closing: false,
            failure: None,
            hook: None,
        };
        Self {
            front: Mutex::new(front),
            work: Condvar::new(),
            writer: Mutex::new(writer),
            options,
            by_hand: AtomicBool::new(false),
        }
    }

    /// A thread that panicked with the lock held has reported it. The view is changed in whole
    /// steps only, so what it left behind is sound.
    fn front(&self) -> MutexGuard<'_, Front> {
        self.front.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn writer(&self) -> MutexGuard<'_, Writer> {
        self.writer.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Stops replacing the record of the end.
    pub(super) fn keep_end_record(&self) {
        self.writer().keeps_end_record = true;
    }

    /// Replaces the record of the end, now and later.
    pub(super) fn replace_end_record(&self) -> Result<(), StorageError> {
        self.writer().replace_end_record()
    }

    pub(super) fn set_preparer(&self, preparer: SegmentPreparer) {
        self.writer().set_preparer(preparer);
    }

    pub(super) fn view<T>(&self, look: impl FnOnce(&LogView) -> T) -> T {
        look(&self.front().view)
    }

    pub(super) fn batches_before_waiting(&self) -> Option<u64> {
        let front = self.front();
        let waits = front.failure.is_none() && (front.is_writing || front.eager > 0);
        waits.then_some(front.batches)
    }

    pub(super) fn failure(&self) -> Option<StorageError> {
        self.front().failure.clone()
    }

    pub(super) fn check_open(&self) -> Result<(), StorageError> {
        self.front().check_open()
    }

    pub(super) fn on_failure(&self, hook: FailureHook) {
        let mut front = self.front();
        match front.failure.clone() {
            None => front.hook = Some(hook),
            Some(failure) => {
                drop(front);
                hook(&failure);
            }
        }
    }

    /// Changes the view, and hands the job that does the same on the disk to the writer.
    pub(super) fn submit(
        &self,
        change: impl FnOnce(&mut LogView) -> Result<Job, StorageError>,
    ) -> Result<(), StorageError> {
        self.enqueue(change)?;
        self.start_writing();
        Ok(())
    }

    /// Changes the view and queues the job that does the same on the disk, in one step. The writer
    /// is not woken for it.
    pub(super) fn enqueue(
        &self,
        change: impl FnOnce(&mut LogView) -> Result<Job, StorageError>,
    ) -> Result<(), StorageError> {
        let mut front = self.front();
        front.check_open()?;
        let job = change(&mut front.view)?;
        front.push(job);
        Ok(())
    }

    /// From now on nothing is written but by [`JobQueue::write_one_batch`].
    pub(super) fn write_by_hand(&self) {
        self.by_hand.store(true, Ordering::Relaxed);
    }

    /// Whether a caller waits for something.
    pub(super) fn is_waited_for(&self) -> bool {
        self.front().eager > 0
    }

    /// Wakes the writer if a caller waits for something.
    pub(super) fn start_writing(&self) {
        let has_work = self.is_waited_for();
        match self.options.mode {
            WalMode::Threads if has_work => self.work.notify_one(),
            WalMode::Inline if has_work && !self.by_hand.load(Ordering::Relaxed) => {
                while self.write_one_batch() {}
            }
            WalMode::Threads | WalMode::Inline | WalMode::Manual => {}
        }
    }

    /// The writer thread.
    pub(super) fn run(&self) {
        loop {
            let mut front = self.front();
            while front.eager == 0 && !front.is_closing && front.failure.is_none() {
                front = self.work.wait(front).unwrap_or_else(PoisonError::into_inner);
            }
            let is_done = front.eager == 0;
            drop(front);
            if is_done {
                return self.finish();
            }
            self.write_one_batch();
        }
    }

    /// Writes one batch of what waits and answers; false when nothing waits or when it is being
    /// written already.
    pub(super) fn write_one_batch(&self) -> bool {
        let mut front = self.front();
        if front.is_writing || front.waiting.is_empty() || front.failure.is_some() {
            return false;
        }
        front.is_writing = true;
        let jobs = front.take_batch(self.options.batch_bytes_max);
        drop(front);

        let mut writer = self.writer();
        let written = writer.write(jobs.iter().flat_map(|job| &job.records));
        match written {
            Ok(locations) => {
                let result = self.front().written(&jobs, locations);
                for job in jobs {
                    job.answer(result.clone());
                }
                if let Err(error) = writer.tidy() {
                    self.fail(&error, Vec::new());
                }
            }
            Err(error) => self.fail(&error, jobs),
        }
        drop(writer);
        let mut front = self.front();
        front.is_writing = false;
        front.batches += 1;
        true
    }

    /// Fails the log: nothing more is acknowledged. `jobs` are those that were being written.
    pub(super) fn fail(&self, error: &StorageError, jobs: Vec<Job>) {
        let mut front = self.front();
        front.eager = 0;
        let (waiting, hook) = (std::mem::take(&mut front.waiting), front.hook.take());
        let first = front.failure.get_or_insert_with(|| error.clone()).clone();
        if planted!("failed-log-goes-on") {
            front.failure = None;
        }
        drop(front);
        self.work.notify_one();
        if let Some(hook) = hook {
            hook(&first);
        }
        for job in jobs.into_iter().chain(waiting) {
            job.answer(Err(first.clone()));
        }
    }

    pub(super) fn close(&self) {
        self.front().is_closing = true;
        self.work.notify_one();
    }

    /// Writes the jobs that no caller waits for, and the end mark.
    pub(super) fn finish(&self) {
        while self.write_one_batch() {}
        if self.failure().is_none()
            && let Err(error) = self.writer().finish()
        {
            self.fail(&error, Vec::new());
        }
    }
}

impl Front {
    fn check_open(&self) -> Result<(), StorageError> {
        match &self.failure {
            Some(failure) => Err(failure.clone()),
            None if self.is_closing => Err(StorageError::Closed),
            None => Ok(()),
        }
    }

    fn push(&mut self, job: Job) {
        if job.is_lazy() {
            // Of several committed positions in a row only the last is worth writing.
            if self.waiting.back().is_some_and(Job::is_lazy) {
                self.waiting.pop_back();
            }
        } else {
            self.eager += 1;
        }
        self.waiting.push_back(job);
    }

    fn take_batch(&mut self, bytes_max: usize) -> Vec<Job> {
        let mut bytes = 0;
        let mut count = 0;
        for job in &self.waiting {
            bytes += job.bytes;
            if bytes > bytes_max && count > 0 {
                break;
            }
            count += 1;
        }
        let jobs: Vec<Job> = self.waiting.drain(..count).collect();
        self.eager -= jobs.iter().filter(|job| !job.is_lazy()).count();
        jobs
    }

    /// Notes where the jobs' entries are. An error if the log has failed in the meantime.
    fn written(&mut self, jobs: &[Job], locations: EntryLocations) -> Result<(), StorageError> {
        let mut locations = locations.into_iter();
        for job in jobs {
            let entries = job.records.iter().filter(|record| matches!(record, Record::Entry(_)));
            for (serial, _) in (job.first_serial..).zip(entries) {
                if let Some((index, place)) = locations.next() {
                    self.view.written(index, serial, place);
                }
            }
        }
        self.view.evict();
        self.failure.clone().map_or(Ok(()), Err)
    }
}
