//! A second thread for what would stall the writer: filling the next segment with zeros, removing
//! old ones, and recording that a new one is durable.

use std::fmt;
use std::path::PathBuf;
use std::sync::mpsc::{self, Receiver, Sender};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use super::end_record::EndRecord;
use super::segment::{NEXT_NAME, Prepared, SegmentMaker};
use crate::StorageError;
use crate::panic::caught_now;

/// The pause between two pieces of a segment that the writer does not need yet, so that the log's
/// own syncs find the disk idle. A segment of 64 MiB takes two seconds then; a writer that needs it
/// sooner ends the pauses.
const PIECE_PAUSE: Duration = Duration::from_millis(10);

enum SegmentJob {
    Prepare(Sender<Result<Prepared, StorageError>>),
    Remove(PathBuf),
    RecordEnd(EndRecord),
}

/// Receives a failure of its thread.
pub(super) type OnFailure = Arc<dyn Fn(StorageError) + Send + Sync>;

/// Whether the writer waits for its next segment.
#[derive(Default)]
struct Urgency {
    is_on: Mutex<bool>,
    changed: Condvar,
}

impl Urgency {
    fn set(&self, is_on: bool) {
        *self.is_on.lock().unwrap_or_else(PoisonError::into_inner) = is_on;
        self.changed.notify_all();
    }

    /// Waits for `pause`, or until it is urgent.
    fn pause(&self, pause: Duration) {
        let is_on = self.is_on.lock().unwrap_or_else(PoisonError::into_inner);
        // Nothing depends on which of the two ended it.
        drop(self.changed.wait_timeout_while(is_on, pause, |is_on| !*is_on));
    }
}

/// The writer's end.
pub(super) struct SegmentPreparer {
    // `None` only while this is dropped.
    jobs: Option<Sender<SegmentJob>>,
    /// The segment that was asked for.
    next: Option<Receiver<Result<Prepared, StorageError>>>,
    urgency: Arc<Urgency>,
    thread: Option<JoinHandle<()>>,
}

impl fmt::Debug for SegmentPreparer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SegmentPreparer")
            .field("next", &self.next.is_some())
            .finish_non_exhaustive()
    }
}

impl SegmentPreparer {
    pub(super) fn start(maker: SegmentMaker, on_failure: OnFailure) -> Result<Self, StorageError> {
        let (jobs, waiting) = mpsc::channel();
        let directory = maker.directory.clone();
        let urgency = Arc::new(Urgency::default());
        let pace = Arc::clone(&urgency);
        let thread = thread::Builder::new()
            .name("wal-preparer".to_owned())
            .spawn(move || run(&maker, &waiting, &pace, &on_failure))
            .map_err(StorageError::io("start a thread for", &directory))?;
        Ok(Self { jobs: Some(jobs), next: None, urgency, thread: Some(thread) })
    }

    /// Has the next segment prepared, if it is not under way already.
    pub(super) fn prepare_next(&mut self) {
        if self.next.is_none() {
            let (done, next) = mpsc::channel();
            self.send(SegmentJob::Prepare(done));
            self.next = Some(next);
        }
    }

    /// The next segment, as soon as it is ready.
    pub(super) fn take_prepared(&mut self) -> Result<Prepared, StorageError> {
        self.prepare_next();
        self.urgency.set(true);
        let prepared = self.next.take().map(|next| next.recv());
        self.urgency.set(false);
        match prepared {
            Some(Ok(prepared)) => prepared,
            // The thread ends early only when it has failed.
            Some(Err(mpsc::RecvError)) | None => Err(StorageError::Closed),
        }
    }

    pub(super) fn remove(&self, path: PathBuf) {
        self.send(SegmentJob::Remove(path));
    }

    pub(super) fn record_end(&self, end: EndRecord) {
        self.send(SegmentJob::RecordEnd(end));
    }

    fn send(&self, job: SegmentJob) {
        if let Some(jobs) = &self.jobs {
            // A preparer that has failed has reported it, and the log is closed.
            let _ = jobs.send(job);
        }
    }
}

impl Drop for SegmentPreparer {
    fn drop(&mut self) {
        self.jobs = None;
        self.urgency.set(true);
        match self.thread.take() {
            // The report of a failure may have taken the log's last handle; its thread ends by itself.
            Some(thread) if thread.thread().id() == thread::current().id() => {}
            Some(thread) => {
                // Its panics are failures of the log, and were reported as such.
                let _ = thread.join();
            }
            None => {}
        }
    }
}

fn run(
    maker: &SegmentMaker,
    jobs: &Receiver<SegmentJob>,
    urgency: &Urgency,
    on_failure: &OnFailure,
) {
    while let Ok(job) = jobs.recv() {
        let failure = match job {
            SegmentJob::Prepare(done) => {
                let pause = || urgency.pause(PIECE_PAUSE);
                let prepare = || maker.prepare(NEXT_NAME, maker.bytes_for(0), Some(&pause));
                let prepared = reported(prepare);
                let failure = prepared.as_ref().err().cloned();
                // The writer may be gone by now.
                let _ = done.send(prepared);
                failure
            }
            SegmentJob::Remove(path) => reported(|| maker.remove(&path)).err(),
            SegmentJob::RecordEnd(end) => reported(|| maker.record_end(end)).err(),
        };
        if let Some(failure) = failure {
            on_failure(failure);
            return;
        }
    }
}

/// Makes an error of a panic: the writer waits for an answer.
fn reported<T>(work: impl FnOnce() -> Result<T, StorageError>) -> Result<T, StorageError> {
    let panicked = |panic| Err(StorageError::Panicked { thread: "log preparer", panic });
    caught_now(work).unwrap_or_else(panicked)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Disk, MemoryDisk};

    #[test]
    fn a_writer_that_waits_ends_the_pause() {
        let urgency = Arc::new(Urgency::default());
        urgency.pause(Duration::from_millis(1));
        let pausing = Arc::clone(&urgency);
        let paused = thread::spawn(move || pausing.pause(Duration::from_hours(1)));
        urgency.set(true);
        paused.join().unwrap();
    }

    /// A thread that waits for itself panics, or never ends.
    #[test]
    fn a_preparer_may_end_in_its_own_thread() {
        let disk = MemoryDisk::with_faults();
        let directory = PathBuf::from("/wal");
        disk.create_dir_all(&directory).unwrap();
        disk.fail_change(1, crate::Fault::Io);
        let maker = SegmentMaker { disk: Arc::new(disk), directory, segment_bytes: 4096, salt: 0 };
        let last = Arc::new(Mutex::new(None::<SegmentPreparer>));
        let (ended, end) = mpsc::channel();
        let owner = Arc::clone(&last);
        let on_failure = move |_| {
            drop(owner.lock().unwrap().take());
            ended.send(()).unwrap();
        };
        let ended = Mutex::new(on_failure);
        let on_failure: OnFailure = Arc::new(move |error| (ended.lock().unwrap())(error));
        let mut held = last.lock().unwrap();
        held.insert(SegmentPreparer::start(maker, on_failure).unwrap()).prepare_next();
        drop(held);
        end.recv_timeout(Duration::from_secs(20)).expect("it has ended");
    }

    /// The writer saw a log that was closed, and no reason.
    #[test]
    fn a_panic_in_the_helper_is_a_failure_with_its_message() {
        let disk = MemoryDisk::new();
        let directory = PathBuf::from("/wal");
        disk.create_dir_all(&directory).unwrap();
        disk.observe(|_| panic!("the test's panic"));
        let maker = SegmentMaker { disk: Arc::new(disk), directory, segment_bytes: 4096, salt: 0 };
        let (report, reported) = mpsc::channel();
        let report = Mutex::new(report);
        let on_failure: OnFailure =
            Arc::new(move |error| report.lock().unwrap().send(error).unwrap());
        let mut preparer = SegmentPreparer::start(maker, on_failure).unwrap();
        let seen = preparer.take_prepared().unwrap_err().to_string();
        assert!(
            seen.starts_with("the task \"log preparer\" has panicked: the test's panic"),
            "{seen}"
        );
        let reported = reported.recv_timeout(Duration::from_secs(20)).expect("it is reported");
        assert_eq!(reported.to_string(), seen);
    }

    #[test]
    fn a_segment_is_durable_piece_by_piece() {
        let disk = MemoryDisk::new();
        let directory = PathBuf::from("/wal");
        disk.create_dir_all(&directory).unwrap();
        let before = disk.changes();
        let segment_bytes = 1_200_000;
        let shared = Arc::new(disk.clone());
        let maker = SegmentMaker { disk: shared, directory, segment_bytes, salt: 0 };
        let pauses = Mutex::new(Vec::new());
        let pause = || pauses.lock().unwrap().push(disk.changes() - before);
        let prepared = maker.prepare(NEXT_NAME, segment_bytes, Some(&pause)).unwrap();
        // The file is made, and each of three pieces written and synced.
        assert_eq!((pauses.into_inner().unwrap(), disk.changes() - before), (vec![3, 5], 7));
        assert_eq!(prepared.segment_bytes, segment_bytes);
        let contents = disk.image().contents(&maker.directory.join(NEXT_NAME)).unwrap();
        assert_eq!(contents, vec![0; 1_200_000]);
    }
}
