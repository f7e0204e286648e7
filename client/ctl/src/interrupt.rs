//! SIGINT and SIGTERM while a command works: it makes no more requests, and says how far it has come.

use std::future::pending;
use std::process;
use std::time::Duration;

use rustix::process::Signal;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::watch;
use tokio::time::timeout;

use crate::error::CtlError;
use crate::output::report_at_end;
use crate::signals::remember_end;

/// How long a request that was sent before the signal may take to be answered, so that it is known
/// whether it has happened.
pub(crate) const ANSWER_MAX: Duration = Duration::from_secs(1);

/// How long the end of a session may take behind a signal.
pub(crate) const CLOSE_MAX: Duration = Duration::from_millis(500);

/// The longest time for a command to end. A command that takes longer is blocked in a read: a write
/// fails earlier, see `stream.rs`.
const END_MAX: Duration = Duration::from_secs(3);

/// Where a command looks whether a signal has come.
#[derive(Clone, Debug)]
pub(crate) struct Interrupt(watch::Receiver<Option<Signal>>);

impl Interrupt {
    /// None ever comes.
    pub(crate) fn never() -> Self {
        Self(watch::channel(None).1)
    }

    /// One that comes when the caller says so.
    pub(crate) fn channel() -> (watch::Sender<Option<Signal>>, Self) {
        let (sender, receiver) = watch::channel(None);
        (sender, Self(receiver))
    }

    /// Receives the signals instead of dying of them. A second one ends the program at once, and so
    /// does the first one if the command does not end.
    pub(crate) fn receive(json: bool) -> Result<Self, CtlError> {
        let mut interrupt = signal(SignalKind::interrupt())?;
        let mut terminate = signal(SignalKind::terminate())?;
        let mut next = async move || {
            tokio::select! {
                _ = interrupt.recv() => Signal::INT,
                _ = terminate.recv() => Signal::TERM,
            }
        };
        let (sender, receiver) = Self::channel();
        tokio::spawn(async move {
            let first = next().await;
            remember_end(first);
            sender.send_replace(Some(first));
            // A command that waits for nothing is gone by then, and this task with it.
            let last = timeout(END_MAX, next()).await.unwrap_or(first);
            let exit = report_at_end(&CtlError::interrupted(last), json);
            process::exit(exit.number().into());
        });
        Ok(receiver)
    }

    /// The failure of a command to which a signal has come.
    pub(crate) fn has_come(&self) -> Option<CtlError> {
        self.0.borrow().map(CtlError::interrupted)
    }

    /// Waits for a signal.
    pub(crate) async fn comes(&self) -> CtlError {
        let mut receiver = self.0.clone();
        loop {
            if let Some(error) = self.has_come() {
                return error;
            }
            if receiver.changed().await.is_err() {
                // No one is left who could send one.
                pending::<()>().await;
            }
        }
    }
}
