//! What is typed, read beside other work.

use std::io::{self, Stdin, stdin};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use tokio::sync::mpsc;

/// How long a thread that is not needed any more may go on.
const POLL: Timespec = Timespec { tv_sec: 0, tv_nsec: 50_000_000 };

/// Bytes that wait to be taken.
const BYTES_MAX: usize = 64;

/// The bytes of standard input, which a thread reads. When this is dropped it reads no more, so what
/// is typed afterwards is for the next reader.
#[derive(Debug)]
pub(super) struct Keys {
    bytes: mpsc::Receiver<u8>,
    is_over: Arc<AtomicBool>,
}

impl Keys {
    pub(super) fn read() -> Self {
        let (sender, bytes) = mpsc::channel(BYTES_MAX);
        let is_over = Arc::new(AtomicBool::new(false));
        let over = Arc::clone(&is_over);
        thread::spawn(move || read_all(&stdin(), &sender, &over));
        Self { bytes, is_over }
    }

    /// The next byte; `None` when no more will come.
    pub(super) async fn next(&mut self) -> Option<u8> {
        self.bytes.recv().await
    }

    /// A line without its end.
    pub(super) async fn line(&mut self) -> String {
        let mut line = Vec::new();
        while let Some(byte) = self.next().await.filter(|byte| *byte != b'\n') {
            line.push(byte);
        }
        String::from_utf8_lossy(&line).into_owned()
    }
}

impl Drop for Keys {
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::Relaxed);
    }
}

fn read_all(input: &Stdin, sender: &mpsc::Sender<u8>, is_over: &AtomicBool) {
    while !is_over.load(Ordering::Relaxed) {
        match has_some(input) {
            Ok(false) => continue,
            Ok(true) => {}
            Err(_) => return,
        }
        let mut buffer = [0; BYTES_MAX];
        // Standard input's own buffer would keep what comes behind.
        let Ok(count) = rustix::io::read(input, &mut buffer) else { return };
        let bytes = buffer.get(..count).unwrap_or_default();
        if bytes.is_empty() || bytes.iter().any(|byte| sender.blocking_send(*byte).is_err()) {
            return;
        }
    }
}

fn has_some(input: &Stdin) -> io::Result<bool> {
    let mut fds = [PollFd::new(input, PollFlags::IN)];
    match poll(&mut fds, Some(&POLL)) {
        Ok(ready) => Ok(ready > 0),
        Err(rustix::io::Errno::INTR) => Ok(false),
        Err(error) => Err(error.into()),
    }
}
