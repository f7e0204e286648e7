//! The signals that ask this program to end, or that are meant for the command it runs.

use std::sync::OnceLock;

use rustix::process::{Signal, getpid, kill_process};
use tokio::signal::unix::{self, SignalKind, signal};

use crate::error::CtlError;

/// The first signal that asked this program to end.
static FIRST_END: OnceLock<Signal> = OnceLock::new();

/// Returns the first signal that asked this program to end: a thread that waits for something looks
/// here, because it cannot wait for signals too.
pub(crate) fn first_end() -> Option<Signal> {
    FIRST_END.get().copied()
}

/// Keeps a signal that asks this program to end, unless there was one before.
pub(crate) fn remember_end(signal: Signal) {
    // The first one counts.
    let _ = FIRST_END.set(signal);
}

/// Receives them, instead of dying of them.
#[derive(Debug)]
pub(crate) struct Signals {
    interrupt: unix::Signal,
    terminate: unix::Signal,
    hang_up: unix::Signal,
    quit: unix::Signal,
    stop: unix::Signal,
    user1: unix::Signal,
    user2: unix::Signal,
}

impl Signals {
    /// Begins to receive them. A separate task sees them too: the command that reads them here may be
    /// blocked in a write.
    pub(crate) fn receive() -> Result<Self, CtlError> {
        let mut seen = Self::new()?;
        tokio::spawn(async move { remember_end(seen.ending().await) });
        Self::new()
    }

    fn new() -> Result<Self, CtlError> {
        Ok(Self {
            interrupt: signal(SignalKind::interrupt())?,
            terminate: signal(SignalKind::terminate())?,
            hang_up: signal(SignalKind::hangup())?,
            quit: signal(SignalKind::quit())?,
            stop: signal(SignalKind::from_raw(Signal::TSTP.as_raw()))?,
            user1: signal(SignalKind::user_defined1())?,
            user2: signal(SignalKind::user_defined2())?,
        })
    }

    /// The next one.
    pub(crate) async fn next(&mut self) -> Signal {
        tokio::select! {
            _ = self.interrupt.recv() => Signal::INT,
            _ = self.terminate.recv() => Signal::TERM,
            _ = self.hang_up.recv() => Signal::HUP,
            _ = self.quit.recv() => Signal::QUIT,
            _ = self.stop.recv() => Signal::TSTP,
            _ = self.user1.recv() => Signal::USR1,
            _ = self.user2.recv() => Signal::USR2,
        }
    }

    /// Waits for the next signal that asks this program to end. SIGTSTP does not stop it here.
    async fn ending(&mut self) -> Signal {
        loop {
            let signal = self.next().await;
            if !matches!(signal, Signal::TSTP | Signal::USR1 | Signal::USR2) {
                return signal;
            }
        }
    }

    /// The next one that asks this program to end.
    pub(crate) async fn end(&mut self) -> Signal {
        loop {
            match self.next().await {
                Signal::TSTP => stop_process(),
                Signal::USR1 | Signal::USR2 => {}
                signal => return signal,
            }
        }
    }
}

/// Stops this program, as Ctrl-Z does where it is not received, until it is continued. To be
/// called by the main thread: the system has that one take the signal, before the call returns.
pub(crate) fn stop_process() {
    // A process may always stop itself.
    let _ = kill_process(getpid(), Signal::STOP);
}
