//! What the client logs.

use std::io::{self, Write};
use std::sync::{Arc, Mutex, OnceLock};

use tracing::subscriber::{DefaultGuard, set_default};
use tracing::{Dispatch, Level};

/// While there is only one subscriber, tracing asks the thread that comes first to a log line whether
/// the line is wanted, and that may be another test's thread. With two it asks the subscribers.
static SECOND: OnceLock<Dispatch> = OnceLock::new();

/// The lines of one thread; clones share them.
#[derive(Clone, Default)]
pub(crate) struct Log(Arc<Mutex<Vec<u8>>>);

impl Log {
    /// Records until the guard is dropped.
    pub(crate) fn begin() -> (Self, DefaultGuard) {
        SECOND.get_or_init(|| {
            Dispatch::new(tracing_subscriber::fmt().with_writer(io::sink).finish())
        });
        let log = Self::default();
        let writer = log.clone();
        let subscriber = tracing_subscriber::fmt()
            .with_ansi(false)
            .with_max_level(Level::DEBUG)
            .with_writer(move || writer.clone());
        (log, set_default(subscriber.finish()))
    }

    /// The lines of level WARN.
    pub(crate) fn warnings(&self) -> Vec<String> {
        let text = String::from_utf8(self.0.lock().unwrap().clone()).unwrap();
        text.lines().filter(|line| line.contains(" WARN ")).map(str::to_owned).collect()
    }
}

impl Write for Log {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
