//! The signals that ask this program to end, or that are meant for the command it runs.

use rustix::process::{Signal, getpid, kill_process};
use tokio::signal::unix::{self, SignalKind, signal};

use crate::error::CtlError;

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
    pub(crate) fn receive() -> Result<Self, CtlError> {
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
