//! A lock program that runs.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::process::{Child, ChildStdin, Command, ExitStatus, Stdio};
use std::sync::mpsc::SyncSender;
use std::thread::{self, JoinHandle};

use crate::process;

/// The lines of one process that may wait for the referee. A program says one line for each of its
/// contenders and waits.
pub(crate) const LINES_MAX: usize = 1024;

/// What a process did.
#[derive(Debug)]
pub(crate) enum Event {
    Said(String),
    Ended,
}

/// A process of contenders.
#[derive(Debug)]
pub(crate) struct Program {
    child: Child,
    stdin: Option<ChildStdin>,
    errors: Option<JoinHandle<String>>,
}

impl Program {
    /// Starts it; what it does arrives at `events` under its number.
    pub(crate) fn start(
        command: &mut Command,
        number: usize,
        events: SyncSender<(usize, Event)>,
    ) -> io::Result<Self> {
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn()?;
        let stdin = child.stdin.take();
        if let Some(stdout) = child.stdout.take() {
            thread::spawn(move || {
                for line in BufReader::new(stdout).lines().map_while(Result::ok) {
                    if events.send((number, Event::Said(line.trim_end().to_owned()))).is_err() {
                        return;
                    }
                }
                // The receiver is gone when the contest is over.
                let _ = events.send((number, Event::Ended));
            });
        }
        let errors = child.stderr.take().map(|mut stderr| {
            thread::spawn(move || {
                let mut bytes = Vec::new();
                // What was read before an error is still worth showing.
                let _ = stderr.read_to_end(&mut bytes);
                String::from_utf8_lossy(&bytes).into_owned()
            })
        });
        Ok(Self { child, stdin, errors })
    }

    pub(crate) fn send(&mut self, line: &str) -> io::Result<()> {
        let Some(stdin) = self.stdin.as_mut() else { return Ok(()) };
        stdin.write_all(format!("{line}\n").as_bytes())?;
        stdin.flush()
    }

    /// Sends a signal by its name, `STOP` and `CONT` for a pause.
    pub(crate) fn signal(&self, name: &str) -> io::Result<()> {
        process::signal(self.child.id(), name)
    }

    /// `kill -9`, and waits for the end.
    pub(crate) fn kill(&mut self) -> io::Result<ExitStatus> {
        self.child.kill()?;
        self.child.wait()
    }

    /// The exit status of a process that has closed its stdout.
    pub(crate) fn wait(&mut self) -> io::Result<ExitStatus> {
        self.stdin = None;
        self.child.wait()
    }

    /// Ends the process and gives what it wrote to stderr.
    pub(crate) fn errors(&mut self) -> String {
        // It may have ended by itself.
        let _ = self.kill();
        self.errors.take().and_then(|thread| thread.join().ok()).unwrap_or_default()
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.kill();
    }
}
