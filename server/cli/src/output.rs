//! Standard error, standard output and log files, written so that no caller waits for their readers
//! (decision 0035).
//!
//! Callers put whole lines into a bounded queue; a thread writes them. When the queue is full because
//! the reader stalls, or when a write fails because the reader is gone or the disk is full, lines are
//! lost and counted. Nothing here panics, and nothing takes the locks of `std::io::stderr`.

use std::cell::Cell;
use std::fs::File;
use std::future::pending;
use std::io::{self, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;
use tokio::sync::oneshot;
use tracing::{info, warn};
use zoolet_server::embed;

/// The bytes of the lines that may wait to be written; as many may be on their way.
const QUEUED_BYTES_MAX: usize = 1 << 20;

/// How long [`Output::close`] waits for the last lines to be written.
const CLOSE_LIMIT: Duration = Duration::from_secs(2);

thread_local! {
    /// Set on a thread that writes an output. Its own lines are queued at once, because no other
    /// thread makes room for them.
    static IS_WRITER: Cell<bool> = const { Cell::new(false) };
}

/// The treatment of a line for which the queue has no room.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WhenFull {
    /// It is lost: for programs that serve others.
    Drop,
    /// Its caller waits: for commands that end by themselves.
    Wait,
}

/// The kind of the lines.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Content {
    /// A log, which reports lost lines itself and in a metric.
    Log,
    /// The output of a program.
    Results,
}

/// A queue of lines and the thread that writes them. Clones share both.
#[derive(Clone, Debug)]
pub(crate) struct Output {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    content: Content,
    when_full: WhenFull,
    /// The file that a request to open it again means.
    path: Option<PathBuf>,
    queue: Mutex<Queue>,
    /// Signaled when the thread has something to do.
    filled: Condvar,
    /// Signaled when the thread has taken lines, and when it has written them.
    drained: Condvar,
}

#[derive(Debug, Default)]
struct Queue {
    /// Whole lines.
    lines: Vec<u8>,
    /// The callers that wait for the result of writing them.
    printing: Vec<oneshot::Sender<Result<(), String>>>,
    /// The lines that had no room since the thread last took some.
    lost: u64,
    must_reopen: bool,
    /// Whether the thread has taken lines and not written all of them yet.
    is_writing: bool,
}

impl Queue {
    fn has_room_for(&self, line: &[u8]) -> bool {
        self.lines.is_empty() || self.lines.len() + line.len() <= QUEUED_BYTES_MAX
    }

    fn is_idle(&self) -> bool {
        self.lines.is_empty() && !self.must_reopen && !self.is_writing
    }
}

impl Output {
    /// Starts the log on standard error.
    pub(crate) fn log_on_stderr(when_full: WhenFull) -> io::Result<Self> {
        Self::start((duplicate(io::stderr().as_fd())?, None), Content::Log, when_full)
    }

    /// Starts the log in a file, at its end.
    pub(crate) fn log_in_file(path: &Path, when_full: WhenFull) -> io::Result<Self> {
        Self::start((append_to(path)?, Some(path.to_owned())), Content::Log, when_full)
    }

    /// Starts the output of results on standard output.
    pub(crate) fn results_on_stdout() -> io::Result<Self> {
        let file = duplicate(io::stdout().as_fd())?;
        Self::start((file, None), Content::Results, WhenFull::Drop)
    }

    fn start(
        (file, path): (File, Option<PathBuf>),
        content: Content,
        when_full: WhenFull,
    ) -> io::Result<Self> {
        let shared = Arc::new(Shared {
            content,
            when_full,
            path,
            queue: Mutex::default(),
            filled: Condvar::new(),
            drained: Condvar::new(),
        });
        let writer = Writer { shared: Arc::clone(&shared), file, is_torn: false, unreported: 0 };
        thread::Builder::new().name("output".to_owned()).spawn(move || writer.run())?;
        Ok(Self { shared })
    }

    /// Queues one line, with its end.
    pub(crate) fn put(&self, line: &[u8]) {
        self.shared.put(line, None);
    }

    /// Queues a text. The future resolves when it is written, or cannot be.
    pub(crate) fn print(&self, text: &[u8]) -> impl Future<Output = io::Result<()>> + use<> {
        let (printing, printed) = oneshot::channel();
        self.shared.put(text, Some(printing));
        async move {
            let written = printed.await.unwrap_or_else(|_| Err("its reader stalls".to_owned()));
            written.map_err(io::Error::other)
        }
    }

    /// Has the thread open the file of the same name, after the lines that are queued. The log reports
    /// the result. Returns the name; none if the lines do not go to a file.
    pub(crate) fn reopen(&self) -> Option<&Path> {
        let path = self.shared.path.as_deref()?;
        self.shared.lock().must_reopen = true;
        self.shared.filled.notify_one();
        Some(path)
    }

    /// Waits until all lines are written: for a limited time, unless callers wait for room too.
    pub(crate) fn close(&self) {
        let (drained, queue) = (&self.shared.drained, self.shared.lock());
        let is_busy = |queue: &mut Queue| !queue.is_idle();
        // A poisoned queue is as good as another one: it changes in single steps.
        match self.shared.when_full {
            WhenFull::Drop => drop(drained.wait_timeout_while(queue, CLOSE_LIMIT, is_busy)),
            WhenFull::Wait => drop(drained.wait_while(queue, is_busy)),
        }
    }
}

impl Write for Output {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        self.put(line);
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn put(&self, line: &[u8], printing: Option<oneshot::Sender<Result<(), String>>>) {
        let (mut queue, is_writer) = (self.lock(), IS_WRITER.get());
        if self.when_full == WhenFull::Wait && !is_writer {
            let is_full = |queue: &mut Queue| !queue.has_room_for(line);
            queue = self.drained.wait_while(queue, is_full).unwrap_or_else(PoisonError::into_inner);
        }
        if !is_writer && !queue.has_room_for(line) {
            queue.lost += 1;
            drop(queue);
            return self.count_lost(1);
        }
        queue.lines.extend_from_slice(line);
        queue.printing.extend(printing);
        drop(queue);
        self.filled.notify_one();
    }

    fn count_lost(&self, lines: u64) {
        if self.content == Content::Log {
            embed::count_lost_log_lines(lines);
        }
    }
}

/// State of the thread.
struct Writer {
    shared: Arc<Shared>,
    file: File,
    /// Whether a failed write has left the beginning of a line.
    is_torn: bool,
    /// The lines that failed writes have lost and that no line of the log reports yet.
    unreported: u64,
}

impl Writer {
    /// Writes lines for as long as the program runs.
    fn run(mut self) {
        IS_WRITER.set(true);
        loop {
            let taken = self.take();
            let written = self.write(&taken.lines);
            for printing in taken.printing {
                // The caller may not be interested any more.
                let _ = printing.send(written.clone());
            }
            match written {
                Ok(()) if self.unreported + taken.lost > 0 && !taken.lines.is_empty() => {
                    let lost = std::mem::take(&mut self.unreported) + taken.lost;
                    self.report_lost(lost);
                }
                Ok(()) => {}
                Err(_) => self.unreported += taken.lost,
            }
            if taken.must_reopen {
                self.reopen();
            }
            self.shared.lock().is_writing = false;
            self.shared.drained.notify_all();
        }
    }

    /// Waits for something to do and takes all of it.
    fn take(&self) -> Queue {
        let is_idle = |queue: &mut Queue| queue.is_idle();
        let waited = self.shared.filled.wait_while(self.shared.lock(), is_idle);
        let mut queue = waited.unwrap_or_else(PoisonError::into_inner);
        let taken = std::mem::take(&mut *queue);
        queue.is_writing = true;
        drop(queue);
        self.shared.drained.notify_all();
        taken
    }

    /// Writes lines. If that fails, the rest of them is lost.
    fn write(&mut self, lines: &[u8]) -> Result<(), String> {
        if self.is_torn && !lines.is_empty() {
            write_all(&mut self.file, b"\n").map_err(|(_, error)| self.lose(lines, &error))?;
            self.is_torn = false;
        }
        write_all(&mut self.file, lines).map_err(|(rest, error)| {
            let written = lines.get(..lines.len() - rest.len()).unwrap_or_default();
            self.is_torn = written.last().is_some_and(|last| *last != b'\n');
            self.lose(rest, &error)
        })
    }

    fn lose(&mut self, lines: &[u8], error: &io::Error) -> String {
        let lost = lines.split(|byte| *byte == b'\n').count().saturating_sub(1) as u64;
        self.unreported += lost;
        self.shared.count_lost(lost);
        error.to_string()
    }

    fn report_lost(&self, lost: u64) {
        if self.shared.content == Content::Log {
            warn!(
                lost,
                "lines of the log were lost: its reader did not keep up, or the disk failed"
            );
        }
    }

    fn reopen(&mut self) {
        let Some(path) = &self.shared.path else { return };
        let file = path.display();
        match append_to(path) {
            Ok(opened) => {
                (self.file, self.is_torn) = (opened, false);
                info!(%file, "SIGHUP: the log file was opened again");
            }
            Err(error) => warn!(
                %file,
                %error,
                "SIGHUP: the log file cannot be opened again, the old one stays in use"
            ),
        }
    }
}

/// Waits until something that is printed fails.
pub(crate) async fn failure_of(printing: impl Future<Output = io::Result<()>>) -> io::Error {
    match printing.await {
        Ok(()) => pending().await,
        Err(error) => error,
    }
}

/// Writes all of it; an error comes with the rest.
fn write_all<'a>(file: &mut File, mut bytes: &'a [u8]) -> Result<(), (&'a [u8], io::Error)> {
    while !bytes.is_empty() {
        let failed = match file.write(bytes) {
            Ok(0) => Err(io::ErrorKind::WriteZero.into()),
            Ok(written) => {
                bytes = bytes.get(written..).unwrap_or_default();
                Ok(())
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => Ok(()),
            // Another program that shares the pipe can have made it so.
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => wait_for_room(file),
            Err(error) => Err(error),
        };
        failed.map_err(|error| (bytes, error))?;
    }
    Ok(())
}

fn wait_for_room(file: &File) -> io::Result<()> {
    match poll(&mut [PollFd::new(file, PollFlags::OUT)], None) {
        Ok(_) | Err(Errno::INTR) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

fn duplicate(stream: BorrowedFd<'_>) -> io::Result<File> {
    Ok(stream.try_clone_to_owned()?.into())
}

fn append_to(path: &Path) -> io::Result<File> {
    File::options().create(true).append(true).open(path)
}

#[cfg(test)]
mod tests {
    use std::io::{BufRead, BufReader, PipeReader, Read};
    use std::os::fd::OwnedFd;

    use super::*;

    fn piped(when_full: WhenFull) -> (PipeReader, Output) {
        let (reader, writer) = io::pipe().unwrap();
        let file = File::from(OwnedFd::from(writer));
        (reader, Output::start((file, None), Content::Results, when_full).unwrap())
    }

    /// A line of 1 KiB.
    fn line(number: usize) -> Vec<u8> {
        format!("{number:01023}\n").into_bytes()
    }

    fn read_lines(mut reader: PipeReader, count: usize) -> Vec<Vec<u8>> {
        let mut bytes = vec![0; count * 1024];
        reader.read_exact(&mut bytes).unwrap();
        bytes.chunks(1024).map(<[u8]>::to_vec).collect()
    }

    /// Lines were written by the thread that logged them: it stopped until they were read.
    #[test]
    fn a_reader_that_stalls_costs_whole_lines_and_no_caller_waits() {
        let (reader, output) = piped(WhenFull::Drop);
        // A pipe holds 64 KiB, the thread and the queue a mebibyte each.
        for number in 0..4096 {
            output.put(&line(number));
        }
        let reading = thread::spawn(move || {
            let lines = BufReader::new(reader).lines().map(Result::unwrap);
            lines.take_while(|line| line != "end").collect::<Vec<_>>()
        });
        while !output.shared.lock().is_idle() {
            thread::yield_now();
        }
        output.put(b"end\n");
        let kept = reading.join().unwrap();
        assert!((1..4096).contains(&kept.len()), "{}", kept.len());
        assert!(kept.iter().all(|line| line.len() == 1023), "a line is not whole");
        assert!(kept.is_sorted_by(|one, next| one < next));
        output.close();
        assert!(output.shared.lock().is_idle());
    }

    #[test]
    fn an_output_that_waits_loses_nothing() {
        let (reader, output) = piped(WhenFull::Wait);
        let reading = thread::spawn(move || read_lines(reader, 4096));
        for number in 0..4096 {
            output.put(&line(number));
        }
        output.close();
        for (at, read) in reading.join().unwrap().iter().enumerate() {
            assert_eq!(*read, line(at), "line {at}");
        }
    }

    /// The thread that reported lost lines waited for the room that only it could make.
    #[test]
    fn a_writer_does_not_wait_for_itself() {
        let (reader, output) = piped(WhenFull::Wait);
        let writing = output.clone();
        let (queued, all_queued) = std::sync::mpsc::channel();
        thread::spawn(move || {
            IS_WRITER.set(true);
            for number in 0..4096 {
                writing.put(&line(number));
            }
            queued.send(()).unwrap();
        });
        all_queued.recv_timeout(Duration::from_mins(1)).expect("nothing reads what it queues");
        let read = read_lines(reader, 4096);
        assert_eq!(read.last(), Some(&line(4095)));
        output.close();
    }

    /// `eprintln!` panicked.
    #[tokio::test]
    async fn a_reader_that_is_gone_fails_what_is_printed_and_nothing_else() {
        let (reader, output) = piped(WhenFull::Drop);
        output.print(b"read\n").await.unwrap();
        drop(reader);
        for _ in 0..2 {
            let error = output.print(b"lost\n").await.unwrap_err().to_string();
            assert!(error.contains("Broken pipe"), "{error}");
        }
        output.put(b"lost as well\n");
        output.close();
        assert!(output.shared.lock().is_idle());
    }

    #[test]
    fn a_file_that_cannot_be_opened_again_stays_in_use() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("logs/zoolet.log");
        let parent = path.parent().unwrap();
        std::fs::create_dir(parent).unwrap();
        let output = Output::log_in_file(&path, WhenFull::Drop).unwrap();
        let away = directory.path().join("away");
        std::fs::rename(parent, &away).unwrap();
        output.reopen();
        output.close();
        output.put(b"one\n");
        output.close();
        std::fs::create_dir(parent).unwrap();
        output.reopen();
        output.close();
        output.put(b"two\n");
        output.close();
        assert_eq!(std::fs::read_to_string(away.join("zoolet.log")).unwrap(), "one\n");
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "two\n");
    }

    #[test]
    fn a_line_that_a_failed_write_has_torn_is_ended_by_the_next_one() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("log");
        let shared = piped(WhenFull::Drop).1.shared;
        let mut writer =
            Writer { shared, file: append_to(&path).unwrap(), is_torn: true, unreported: 0 };
        writer.write(b"").unwrap();
        writer.write(b"one\n").unwrap();
        writer.write(b"two\n").unwrap();
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "\none\ntwo\n");
        // Such a file takes nothing.
        writer.file = File::options().write(true).open("/dev/full").unwrap();
        let error = writer.write(b"three\nfour\n").unwrap_err();
        assert!(error.contains("No space left"), "{error}");
        assert_eq!(writer.unreported, 2);
    }
}
