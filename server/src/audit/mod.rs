//! The audit log: who has changed what, or was refused, as lines of JSON in a file of its own
//! (`docs/operating.md`).
//!
//! Events are queued under the host's lock; a thread writes them. The server never waits for it: when
//! the queue is full or the disk fails, events are lost, counted, and the log itself says how many as
//! soon as it can.

mod file;
mod record;

use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{Builder, JoinHandle};
use std::{fmt, io};

use thiserror::Error;
use tracing::{info, warn};
use zoolet_replica::AuditEvent;
use zoolet_storage::{Disk, caught_now, panicked};

use self::file::AuditFile;
use self::record::{Outcome, Record};
use crate::clock::Clock;
use crate::fatal::Fatal;
use crate::host::Audit;

/// The bytes of the events that may wait for the disk.
const QUEUED_BYTES_MAX: usize = 32 << 20;

/// The bytes that are written at once, if there are as many.
const WRITE_BYTES: usize = 64 << 10;

/// While lines cannot be written, the server's log says so at most this often.
const WARN_INTERVAL_MS: u64 = 60_000;

/// A renamed file is left at the first write at which its name can be opened; that is tried this
/// often at most.
const REOPEN_PAUSE_MS: u64 = 1000;

/// Where the log is, and how much of it is kept.
#[derive(Clone, Debug)]
pub(crate) struct AuditOptions {
    /// The file; its directory is made if need be.
    pub(crate) file: PathBuf,
    /// A file that would become longer is put aside.
    pub(crate) file_bytes_max: u64,
    /// How many such files are kept.
    pub(crate) files_retained: usize,
    /// The server, by its number.
    pub(crate) server: u8,
    /// Who does what the server does by itself.
    pub(crate) user: String,
}

/// Why the log cannot be opened.
#[derive(Debug, Error)]
#[error("cannot open the audit log {}: {source}", path.display())]
pub struct AuditError {
    path: PathBuf,
    source: io::Error,
}

/// What the log has taken.
#[derive(Debug, Default)]
pub(crate) struct AuditCounts {
    written: AtomicU64,
    lost: AtomicU64,
}

impl AuditCounts {
    /// Returns the lines that were written since the start.
    pub(crate) fn written(&self) -> u64 {
        self.written.load(Ordering::Relaxed)
    }

    /// Returns the events that were lost since the start.
    pub(crate) fn lost(&self) -> u64 {
        self.lost.load(Ordering::Relaxed)
    }
}

/// An open log. Clones are of the same one.
#[derive(Clone)]
pub(crate) struct AuditLog {
    messages: Sender<Message>,
    queue: Arc<Queue>,
    thread: Arc<Mutex<Option<JoinHandle<()>>>>,
    clock: Arc<dyn Clock>,
}

impl fmt::Debug for AuditLog {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AuditLog").field("queue", &self.queue).finish_non_exhaustive()
    }
}

#[derive(Debug)]
struct Queue {
    bytes: AtomicUsize,
    /// The events that were lost and that the log does not mention yet.
    unmentioned: AtomicU64,
    counts: Arc<AuditCounts>,
}

enum Message {
    Event { wall_ms: i64, event: AuditEvent, bytes: usize },
    Server { wall_ms: i64, operation: &'static str, outcome: Outcome },
    Reopen,
    Close,
}

impl AuditLog {
    /// Opens the log, and starts its thread.
    pub(crate) fn open(
        options: AuditOptions,
        (disk, clock): (Arc<dyn Disk>, Arc<dyn Clock>),
        counts: Arc<AuditCounts>,
        fatal: Fatal,
    ) -> Result<Self, AuditError> {
        let path = options.file.clone();
        let failed = |source| AuditError { path: path.clone(), source };
        if let Some(directory) = path.parent() {
            disk.create_dir_all(directory).map_err(failed)?;
        }
        let file = AuditFile::new(disk, path.clone(), &options);
        let mut writer = Writer {
            file,
            lines: Vec::new(),
            line_count: 0,
            server: options.server,
            user: options.user,
            clock: Arc::clone(&clock),
            queue: Arc::new(Queue {
                bytes: AtomicUsize::new(0),
                unmentioned: AtomicU64::new(0),
                counts,
            }),
            warned_ms: None,
            reopen_tried_ms: 0,
        };
        writer.file.open().map_err(failed)?;
        let queue = Arc::clone(&writer.queue);
        let (messages, received) = channel();
        let work = move || {
            if let Err(panic) = caught_now(|| writer.run(&received)) {
                fatal.report(panicked("audit log", &panic));
            }
        };
        let thread = Builder::new().name("audit".to_owned()).spawn(work).map_err(failed)?;
        let thread = Arc::new(Mutex::new(Some(thread)));
        Ok(Self { messages, queue, thread, clock })
    }

    /// Notes that the server has started.
    pub(crate) fn started(&self) {
        self.server("serverStart", Outcome::Success);
    }

    /// Notes that the server could not start.
    pub(crate) fn not_started(&self) {
        self.server("serverStart", Outcome::Failure);
    }

    /// Notes that the server is asked to stop.
    pub(crate) fn stops(&self) {
        self.server("serverStop", Outcome::Invoked);
    }

    /// Opens the file of the same name again, behind what is queued: the old one was renamed. The
    /// server's log says what has come of it. If it fails, the old one stays in use, and it is tried
    /// again with later lines.
    pub(crate) fn reopen(&self) {
        self.send(Message::Reopen);
    }

    /// Writes what is queued, and ends the thread. Blocks.
    pub(crate) fn close(&self) {
        self.send(Message::Close);
        let thread = self.thread.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(thread) = thread {
            // A panic of it is reported already.
            let _ = thread.join();
        }
    }

    fn server(&self, operation: &'static str, outcome: Outcome) {
        let wall_ms = self.clock.now().wall_ms;
        self.send(Message::Server { wall_ms, operation, outcome });
    }

    fn send(&self, message: Message) {
        // The thread ends when the log is closed; what comes later has no place.
        let _ = self.messages.send(message);
    }
}

impl Audit for AuditLog {
    fn record(&self, wall_ms: i64, event: AuditEvent) {
        let bytes = record::memory_bytes(&event);
        let queued = self.queue.bytes.fetch_add(bytes, Ordering::Relaxed);
        if queued + bytes > QUEUED_BYTES_MAX {
            self.queue.bytes.fetch_sub(bytes, Ordering::Relaxed);
            return self.queue.lost(event.changes.len() as u64);
        }
        self.send(Message::Event { wall_ms, event, bytes });
    }
}

impl Queue {
    fn lost(&self, count: u64) {
        self.unmentioned.fetch_add(count, Ordering::Relaxed);
        self.counts.lost.fetch_add(count, Ordering::Relaxed);
    }
}

/// What the thread has.
struct Writer {
    file: AuditFile,
    /// Whole lines that are not written yet.
    lines: Vec<u8>,
    line_count: u64,
    server: u8,
    user: String,
    clock: Arc<dyn Clock>,
    queue: Arc<Queue>,
    /// When a failure was last logged, on the monotonic clock.
    warned_ms: Option<u64>,
    /// When the file was last tried to be opened again, on the monotonic clock.
    reopen_tried_ms: u64,
}

impl Writer {
    /// Writes what is queued, until the log is closed or its server is gone.
    fn run(&mut self, messages: &Receiver<Message>) {
        while let Ok(first) = messages.recv() {
            let mut next = Some(first);
            while let Some(message) = next {
                if !self.take(message) {
                    self.write();
                    return self.file.close();
                }
                next = messages.try_recv().ok();
            }
            self.write();
        }
        self.file.close();
    }

    /// Takes a message; false if it is the last one.
    fn take(&mut self, message: Message) -> bool {
        match message {
            Message::Event { wall_ms, event, bytes } => {
                self.queue.bytes.fetch_sub(bytes, Ordering::Relaxed);
                for change in &event.changes {
                    let record = Record::of(&event, change, (wall_ms, self.server, &self.user));
                    self.line_count += u64::from(record.put(&mut self.lines));
                }
            }
            Message::Server { wall_ms, operation, outcome } => {
                let by = (wall_ms, self.server, self.user.as_str());
                let record = Record::of_server(operation, outcome, by);
                self.line_count += u64::from(record.put(&mut self.lines));
            }
            Message::Reopen => {
                self.write();
                self.reopen(true);
            }
            Message::Close => return false,
        }
        if self.lines.len() >= WRITE_BYTES {
            self.write();
        }
        true
    }

    /// Writes the lines, behind one that mentions what was lost, if anything was.
    fn write(&mut self) {
        if self.lines.is_empty() {
            return;
        }
        if self.file.is_renamed()
            && self.clock.now().mono_ms >= self.reopen_tried_ms + REOPEN_PAUSE_MS
        {
            self.reopen(false);
        }
        let lost = self.queue.unmentioned.swap(0, Ordering::Relaxed);
        let mut bytes = Vec::new();
        if lost > 0 {
            let by = (self.clock.now().wall_ms, self.server, self.user.as_str());
            Record::of_lost(lost, by).put(&mut bytes);
        }
        bytes.append(&mut self.lines);
        let count = std::mem::take(&mut self.line_count);
        match self.file.append(&bytes) {
            Ok(()) => {
                self.queue.counts.written.fetch_add(count, Ordering::Relaxed);
            }
            Err(error) => {
                self.queue.unmentioned.fetch_add(lost, Ordering::Relaxed);
                self.queue.lost(count);
                self.warn(&error, count);
            }
        }
    }

    /// Leaves a renamed file for one of its name. A failure is always logged if this was asked for.
    fn reopen(&mut self, is_asked: bool) {
        self.reopen_tried_ms = self.clock.now().mono_ms;
        let opened = self.file.reopen();
        let may_warn = opened.is_err() && (self.may_warn() || is_asked);
        let file = self.file.path().display();
        match opened {
            Ok(()) => info!(%file, "the audit log was opened again"),
            Err(error) if may_warn => warn!(
                %file,
                %error,
                "the audit log cannot be opened again: the old file stays in use, and it is tried \
                 again with the next lines"
            ),
            Err(_) => {}
        }
    }

    fn warn(&mut self, error: &io::Error, lost: u64) {
        if self.may_warn() {
            let file = self.file.path().display();
            warn!(%file, %error, lost, "the audit log cannot be written");
        }
    }

    /// Whether a failure may be logged again, and then from now on for a while no other.
    fn may_warn(&mut self) -> bool {
        let now_ms = self.clock.now().mono_ms;
        let is_due = self.warned_ms.is_none_or(|warned_ms| now_ms >= WARN_INTERVAL_MS + warned_ms);
        if is_due {
            self.warned_ms = Some(now_ms);
        }
        is_due
    }
}

#[cfg(test)]
mod tests;
