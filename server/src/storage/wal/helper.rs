//! A second thread for what would stall the writer: filling the next segment with zeros and
//! removing old ones.

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::mpsc::{self, Receiver, Sender};
use std::thread::{self, JoinHandle};

use super::segment::{NEXT_NAME, Prepared, SegmentMaker};
use crate::storage::StorageError;

enum Chore {
    Prepare(Sender<Result<Prepared, StorageError>>),
    Remove(PathBuf),
}

/// Told of a failure in the helper's thread.
pub(super) type OnFailure = Arc<dyn Fn(StorageError) + Send + Sync>;

/// The writer's end.
pub(super) struct Helper {
    // `None` only while this is dropped.
    chores: Option<Sender<Chore>>,
    /// The segment that was asked for.
    next: Option<Receiver<Result<Prepared, StorageError>>>,
    thread: Option<JoinHandle<()>>,
}

impl fmt::Debug for Helper {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Helper").field("next", &self.next.is_some()).finish_non_exhaustive()
    }
}

impl Helper {
    pub(super) fn start(maker: SegmentMaker, on_failure: OnFailure) -> Result<Self, StorageError> {
        let (chores, waiting) = mpsc::channel();
        let directory = maker.directory.clone();
        let thread = thread::Builder::new()
            .name("wal-helper".to_owned())
            .spawn(move || run(&maker, &waiting, &on_failure))
            .map_err(StorageError::io("start a thread for", &directory))?;
        Ok(Self { chores: Some(chores), next: None, thread: Some(thread) })
    }

    /// Has the next segment prepared, if it is not under way already.
    pub(super) fn prepare_next(&mut self) {
        if self.next.is_none() {
            let (done, next) = mpsc::channel();
            self.send(Chore::Prepare(done));
            self.next = Some(next);
        }
    }

    /// The next segment, as soon as it is ready.
    pub(super) fn take_prepared(&mut self) -> Result<Prepared, StorageError> {
        self.prepare_next();
        match self.next.take().map(|next| next.recv()) {
            Some(Ok(prepared)) => prepared,
            // The thread ends early only when it has failed.
            Some(Err(mpsc::RecvError)) | None => Err(StorageError::Closed),
        }
    }

    pub(super) fn remove(&self, path: PathBuf) {
        self.send(Chore::Remove(path));
    }

    fn send(&self, chore: Chore) {
        if let Some(chores) = &self.chores {
            // A helper that has failed has said so, and the log is closed.
            let _ = chores.send(chore);
        }
    }
}

impl Drop for Helper {
    fn drop(&mut self) {
        self.chores = None;
        if let Some(thread) = self.thread.take() {
            // A panic there has been reported by that thread.
            let _ = thread.join();
        }
    }
}

fn run(maker: &SegmentMaker, chores: &Receiver<Chore>, on_failure: &OnFailure) {
    while let Ok(chore) = chores.recv() {
        let failure = match chore {
            Chore::Prepare(done) => {
                let prepared = maker.prepare(NEXT_NAME, maker.bytes_for(0));
                let failure = prepared.as_ref().err().cloned();
                // The writer may be gone by now.
                let _ = done.send(prepared);
                failure
            }
            Chore::Remove(path) => maker.remove(&path).err(),
        };
        if let Some(failure) = failure {
            on_failure(failure);
            return;
        }
    }
}
