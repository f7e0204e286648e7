//! `watch PATH -- CMD`: a command runs each time that a znode changes.
//!
//! One runs at a time. What changes meanwhile causes one more run, however much it is.

use std::ffi::OsString;
use std::io::{self, IsTerminal};
use std::os::unix::process::ExitStatusExt;

use rustix::process::{Pid, Signal, kill_process_group};
use tokio::process::{Child, Command};
use zoolet_client::{AddWatchMode, PersistentWatcher, WatchedEvent, Zxid};

use crate::args::WatchRun;
use crate::context::Context;
use crate::error::{CtlError, Exit};
use crate::path;
use crate::signals::{Signals, stop_process};

/// What a run is for.
#[derive(Clone, Debug)]
struct Cause {
    path: String,
    event: String,
    zxid: Zxid,
}

impl From<WatchedEvent> for Cause {
    fn from(event: WatchedEvent) -> Self {
        let WatchedEvent { event_type, path, zxid, .. } = event;
        Self { path, event: format!("{event_type:?}"), zxid }
    }
}

/// `watch [-R] [--initial] [--fail] PATH -- CMD`.
pub(crate) async fn run(arguments: &WatchRun, context: &Context) -> Result<(), CtlError> {
    let path = arguments.path.as_str();
    path::check(path)?;
    let mut signals = Signals::receive()?;
    let mode = if arguments.recursive {
        AddWatchMode::PersistentRecursive
    } else {
        AddWatchMode::Persistent
    };
    let connection = &context.connection;
    let mut watcher = connection.ask(path, connection.client.add_watch(path, mode)).await?;
    let mut next = arguments.initial.then(|| Cause {
        path: path.to_owned(),
        event: "Initial".to_owned(),
        zxid: Zxid(0),
    });
    loop {
        let cause = match next.take() {
            Some(cause) => cause,
            None => idle(&mut watcher, &mut signals).await?,
        };
        let mut running = Running::start(&arguments.command, &cause)?;
        let ended = running.wait(&mut watcher, &mut signals).await?;
        if ended.code != 0 {
            let program = arguments
                .command
                .first()
                .map_or_else(String::new, |program| program.display().to_string());
            if arguments.fail {
                return Err(CtlError::new(Exit::Of(ended.code), ""));
            }
            context.output.note(&format!("{program} ended with {}", ended.code));
        }
        if ended.is_lost {
            return Err(lost());
        }
        next = ended.next;
    }
}

/// Waits for a change.
async fn idle(watcher: &mut PersistentWatcher, signals: &mut Signals) -> Result<Cause, CtlError> {
    tokio::select! {
        event = watcher.changed() => event.map(Cause::from).map_err(|_| lost()),
        signal = signals.end() => Err(CtlError::ended_by(signal)),
    }
}

fn lost() -> CtlError {
    let error =
        CtlError::new(Exit::Connection, "the watch has ended: changes may have been missed");
    error.hint("start it again; --initial runs the command for what is there then")
}

/// How a run has ended, and what came meanwhile.
struct Ended {
    code: u8,
    next: Option<Cause>,
    is_lost: bool,
}

/// A command that runs, in a process group of its own unless a terminal has to reach it.
struct Running {
    child: Child,
    pid: Option<Pid>,
    has_group: bool,
}

impl Running {
    fn start(words: &[OsString], cause: &Cause) -> Result<Self, CtlError> {
        let (program, arguments) =
            words.split_first().ok_or_else(|| CtlError::new(Exit::Usage, "no command"))?;
        let has_group = !io::stdin().is_terminal();
        let mut command = Command::new(program);
        command
            .args(arguments)
            .env("ZOOLET_WATCH_PATH", &cause.path)
            .env("ZOOLET_WATCH_EVENT", &cause.event)
            .env("ZOOLET_WATCH_ZXID", cause.zxid.to_string());
        if has_group {
            command.process_group(0);
        }
        let child = command.spawn().map_err(|error| {
            let is_missing = error.kind() == io::ErrorKind::NotFound;
            let exit = if is_missing { Exit::NotFound } else { Exit::CannotExecute };
            CtlError::new(exit, format!("{}: {error}", program.display()))
        })?;
        let pid = child.id().and_then(|id| Pid::from_raw(i32::try_from(id).ok()?));
        Ok(Self { child, pid, has_group })
    }

    /// Waits until it ends, and keeps the last change that comes meanwhile. A signal is handed on to
    /// it, and ends this program after it.
    async fn wait(
        &mut self,
        watcher: &mut PersistentWatcher,
        signals: &mut Signals,
    ) -> Result<Ended, CtlError> {
        let (mut next, mut is_lost, mut interrupted) = (None, false, None);
        loop {
            tokio::select! {
                status = self.child.wait() => {
                    if let Some(signal) = interrupted {
                        return Err(CtlError::ended_by(signal));
                    }
                    let status = status?;
                    let code = status.code().or_else(|| status.signal().map(|signal| 128 + signal));
                    let code = code.and_then(|code| u8::try_from(code).ok()).unwrap_or(u8::MAX);
                    return Ok(Ended { code, next, is_lost });
                }
                event = watcher.changed(), if !is_lost => match event {
                    Ok(event) => next = Some(Cause::from(event)),
                    Err(_) => is_lost = true,
                },
                signal = signals.next() => {
                    self.send(signal);
                    match signal {
                        Signal::TSTP => stop_process(),
                        Signal::USR1 | Signal::USR2 => {}
                        _ => interrupted = Some(signal),
                    }
                    if signal == Signal::TSTP {
                        self.send(Signal::CONT);
                    }
                }
            }
        }
    }

    /// A terminal sends its own signals to both.
    fn send(&self, signal: Signal) {
        if let Some(pid) = self.pid.filter(|_| self.has_group) {
            // A process that is gone needs no signal.
            let _ = kill_process_group(pid, signal);
        } else if !matches!(signal, Signal::INT | Signal::QUIT | Signal::TSTP)
            && let Some(pid) = self.pid.filter(|_| self.child.id().is_some())
        {
            let _ = rustix::process::kill_process(pid, signal);
        }
    }
}
