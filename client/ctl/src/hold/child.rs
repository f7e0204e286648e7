//! The command that runs while a lock is held.

use std::ffi::OsString;
use std::io::{self, IsTerminal};
use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process, kill_process_group};
use tokio::process::{Child, Command};
use tokio::time::{sleep, timeout};

use super::descendants::Descendants;
use crate::error::{CtlError, Exit};
use crate::signals::{self, Signals};

/// How often those that are to end are looked for again.
const LOOK_AGAIN: Duration = Duration::from_millis(10);

/// How often they are looked for after they were killed. A process of another user cannot be killed,
/// and one that waits for a broken disk does not die of it.
const LOOKS_MAX: u32 = 200;

/// How often in a row none must be found: while the processes are read, one that has just lost its
/// parent may be missed.
const LOOKS_WITHOUT: u32 = 2;

/// A command that runs.
///
/// Unless stdin is a terminal it has a process group of its own. With a terminal it stays in this
/// one's, so that the terminal remains its own; the terminal tells both of Ctrl-C then. What it has
/// started is killed with it in both cases: the group, and all its descendants.
#[derive(Debug)]
pub(crate) struct RunningCommand {
    child: Child,
    pid: Pid,
    has_group: bool,
    descendants: Descendants,
}

impl RunningCommand {
    /// Starts it with these variables in its environment, and without those that have no value: they
    /// would come from a lock around this one.
    pub(crate) fn start(
        words: &[OsString],
        environment: [(&str, Option<String>); 2],
    ) -> Result<Self, CtlError> {
        let (program, arguments) =
            words.split_first().ok_or_else(|| CtlError::new(Exit::Usage, "no command"))?;
        let has_group = !io::stdin().is_terminal();
        let mut command = Command::new(program);
        command.args(arguments).kill_on_drop(true);
        for (name, value) in environment {
            match value {
                Some(value) => command.env(name, value),
                None => command.env_remove(name),
            };
        }
        if has_group {
            command.process_group(0);
        }
        let cannot = |error: io::Error| {
            let is_missing = error.kind() == io::ErrorKind::NotFound;
            let exit = if is_missing { Exit::NotFound } else { Exit::CannotExecute };
            CtlError::new(exit, format!("{}: {error}", program.display()))
        };
        let descendants = Descendants::adopt()?;
        let child = command.spawn().map_err(cannot)?;
        let pid = child.id().and_then(|id| Pid::from_raw(i32::try_from(id).ok()?));
        let pid = pid.ok_or_else(|| CtlError::new(Exit::Io, "the command has no process"))?;
        Ok(Self { child, pid, has_group, descendants })
    }

    /// Waits until it ends, and hands signals on to it.
    pub(crate) async fn wait(
        &mut self,
        signals: &mut Signals,
        is_held: impl AsyncFn() -> bool,
    ) -> Result<Exit, CtlError> {
        loop {
            tokio::select! {
                status = self.child.wait() => return Ok(exit_of(status?)),
                () = self.descendants.child_ended() => Descendants::reap(self.pid),
                signal = signals.next() => {
                    if signal == Signal::TSTP {
                        self.stop_and_continue(&is_held).await;
                        continue;
                    }
                    // What the terminal sends it has sent to the command too.
                    let from_terminal = matches!(signal, Signal::INT | Signal::QUIT);
                    if self.has_group || !from_terminal {
                        self.send(signal);
                    }
                }
            }
        }
    }

    /// Stops with this program, and goes on with it if the lock is still held: its loss is not
    /// seen meanwhile. On a terminal that has stopped it, and continues both.
    async fn stop_and_continue(&self, is_held: impl AsyncFn() -> bool) {
        if self.has_group {
            self.descendants.stop();
        }
        signals::stop_process();
        // The code that finds out that the lock is lost drops this.
        while !is_held().await {
            sleep(LOOK_AGAIN).await;
        }
        if self.has_group {
            self.descendants.send(Signal::CONT);
        }
    }

    /// Has it end, and all that it has started: SIGTERM, and SIGKILL for what is left after the
    /// grace. Returns whether nothing is left.
    pub(crate) async fn end(&mut self, grace: Duration) -> bool {
        self.descendants.terminate(self.pid, self.has_group);
        self.send(Signal::TERM);
        let all = async {
            let _ = self.child.wait().await;
            while self.descendants.is_any_left() {
                sleep(LOOK_AGAIN).await;
            }
        };
        // What is left is killed.
        let _ = timeout(grace, all).await;
        if self.has_group || self.child.id().is_some() {
            self.send(Signal::KILL);
        }
        let is_all = self.kill_descendants().await;
        // It is killed; there is nothing else to wait for.
        let _ = self.child.wait().await;
        is_all
    }

    /// Kills what the command has started, and looks again until there is none: they may start
    /// others meanwhile. Returns whether none is left.
    async fn kill_descendants(&self) -> bool {
        let mut looks_without = 0;
        for _ in 0..LOOKS_MAX {
            if self.descendants.is_any_left() {
                looks_without = 0;
                self.descendants.send(Signal::KILL);
            } else {
                looks_without += 1;
                if looks_without == LOOKS_WITHOUT {
                    Descendants::reap(self.pid);
                    return true;
                }
            }
            sleep(LOOK_AGAIN).await;
        }
        false
    }

    fn send(&self, signal: Signal) {
        // A process that is gone needs no signal.
        let _ = match self.has_group {
            true => kill_process_group(self.pid, signal),
            false if self.child.id().is_some() => kill_process(self.pid, signal),
            false => Ok(()),
        };
    }
}

/// The exit code that a shell would give: 128 and the signal when one has ended the command.
fn exit_of(status: ExitStatus) -> Exit {
    let code = status.code().or_else(|| status.signal().map(|signal| 128 + signal));
    Exit::Of(code.and_then(|code| u8::try_from(code).ok()).unwrap_or(u8::MAX))
}
