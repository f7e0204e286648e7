//! A server process that never outlives its test.
//!
//! `Drop` ends the process when the test ends. When the test itself is killed no `Drop` runs, so a
//! small shell beside each server waits on a pipe from the test; the pipe breaks, and the shell
//! kills the server.

use std::fs;
use std::io::{self, Write};
use std::process::{Child, Command, ExitStatus, Stdio};

/// A running server and the shell that watches over it.
#[derive(Debug)]
pub struct ServerProcess {
    server: Child,
    watchdog: Child,
}

impl ServerProcess {
    /// Starts the server; its stdin is empty, and the caller chose where its output goes.
    pub fn spawn(command: &mut Command) -> io::Result<Self> {
        let mut server = command.stdin(Stdio::null()).spawn()?;
        let script = format!("read -r line || kill -9 {}", server.id());
        let watchdog = Command::new("sh")
            .args(["-c", &script])
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn();
        match watchdog {
            Ok(watchdog) => Ok(Self { server, watchdog }),
            Err(error) => {
                server.kill()?;
                server.wait()?;
                Err(error)
            }
        }
    }

    pub fn pid(&self) -> u32 {
        self.server.id()
    }

    /// The exit status, when the server has ended by itself.
    pub fn exited(&mut self) -> io::Result<Option<ExitStatus>> {
        self.server.try_wait()
    }

    /// `kill -9`, and waits for the end.
    pub fn kill(&mut self) -> io::Result<()> {
        self.server.kill()?;
        self.server.wait()?;
        Ok(())
    }

    /// Sends a signal by its name (`TERM`, `STOP`, `CONT`, …).
    pub fn signal(&self, name: &str) -> io::Result<()> {
        signal(self.server.id(), name)
    }
}

/// Sends a signal by its name to a process.
pub fn signal(pid: u32, name: &str) -> io::Result<()> {
    let status = Command::new("sh").args(["-c", &format!("kill -{name} {pid}")]).status()?;
    if status.success() { Ok(()) } else { Err(io::Error::other(format!("kill: {status}"))) }
}

/// Whether there is such a process. A zombie that its parent has not waited for is dead.
pub fn is_alive(pid: u32) -> bool {
    fs::read_to_string(format!("/proc/{pid}/stat")).is_ok_and(|stat| !stat.contains(") Z "))
}

impl Drop for ServerProcess {
    fn drop(&mut self) {
        // The server may have ended before; then there is nothing to kill.
        let _ = self.kill();
        // A line tells the watchdog that there is nothing left to watch.
        if let Some(pipe) = self.watchdog.stdin.as_mut() {
            let _ = pipe.write_all(b"done\n");
        }
        let _ = self.watchdog.wait();
    }
}
