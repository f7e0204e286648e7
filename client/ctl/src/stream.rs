//! Standard output and standard error, each written by a separate thread: a reader that stalls does not
//! keep the program from ending at a signal.
//!
//! Not here: a queue. The caller continues when its text is written. So nothing is lost while the
//! program runs, and the texts of the two streams keep their order.

use std::fs::File;
use std::io::{self, Write};
use std::os::fd::AsFd;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{RecvTimeoutError, Sender, SyncSender, channel, sync_channel};
use std::thread;
use std::time::Duration;

use crate::error::CtlError;
use crate::signals::first_end;

/// The time between two looks for a signal while a text is written.
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// How many times a text is waited for after a signal: a quarter of a second. Its reader may only be
/// slow. With the report on the other stream and the end of the session, the program ends within a
/// second.
const LOOKS_MAX: u32 = 5;

pub(crate) static STDOUT: Stream = Stream::new(Kind::Output);

pub(crate) static STDERR: Stream = Stream::new(Kind::Error);

#[derive(Clone, Copy, Debug)]
enum Kind {
    Output,
    Error,
}

/// One of the streams.
#[derive(Debug)]
pub(crate) struct Stream {
    kind: Kind,
    /// The texts for the thread, which starts with the first of them; or the reason why it did not.
    texts: OnceLock<Result<Sender<Text>, String>>,
    /// Whether a caller has abandoned a text, which still blocks the thread.
    has_stalled: AtomicBool,
}

#[derive(Debug)]
struct Text {
    bytes: Vec<u8>,
    written: SyncSender<io::Result<()>>,
}

impl Stream {
    const fn new(kind: Kind) -> Self {
        Self { kind, texts: OnceLock::new(), has_stalled: AtomicBool::new(false) }
    }

    /// Writes a text. Fails if a signal has come and the reader takes nothing.
    pub(crate) fn write(&self, bytes: Vec<u8>) -> Result<(), CtlError> {
        let texts = self.texts.get_or_init(|| self.start().map_err(|error| error.to_string()));
        let texts = texts.as_ref().map_err(|error| io::Error::other(error.as_str()))?;
        let (written, result) = sync_channel(1);
        // Without its thread the wait fails.
        let _ = texts.send(Text { bytes, written });
        let mut looks = 0;
        loop {
            match result.recv_timeout(LOOK_EVERY) {
                Ok(written) => return Ok(written?),
                Err(RecvTimeoutError::Disconnected) => {
                    return Err(io::Error::other("nothing writes the output").into());
                }
                Err(RecvTimeoutError::Timeout) => {}
            }
            let Some(signal) = first_end() else { continue };
            looks += 1;
            if looks >= LOOKS_MAX || self.has_stalled.load(Ordering::Relaxed) {
                self.has_stalled.store(true, Ordering::Relaxed);
                let error = CtlError::interrupted(signal);
                let message = format!("{}; the reader of {} stalls", error.message, self.name());
                return Err(CtlError { message, ..error });
            }
        }
    }

    /// Starts the thread. It writes to a duplicate of the descriptor: otherwise it would hold the lock
    /// of the standard library's stream while its reader stalls.
    fn start(&self) -> io::Result<Sender<Text>> {
        let descriptor = match self.kind {
            Kind::Output => io::stdout().as_fd().try_clone_to_owned()?,
            Kind::Error => io::stderr().as_fd().try_clone_to_owned()?,
        };
        let mut file = File::from(descriptor);
        let (sender, texts) = channel::<Text>();
        thread::Builder::new().name(self.name().to_owned()).spawn(move || {
            for Text { bytes, written } in texts {
                // The caller may have abandoned the text.
                let _ = written.send(file.write_all(&bytes));
            }
        })?;
        Ok(sender)
    }

    fn name(&self) -> &'static str {
        match self.kind {
            Kind::Output => "standard output",
            Kind::Error => "standard error",
        }
    }
}
