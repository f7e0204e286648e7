//! One server process.

use std::process::Stdio;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::process;
use tokio::time::{Instant, timeout};

use super::UpError;
use super::plan::{Plan, PlannedServer};

/// A server that has lived for less waits that long before it is started again.
const RESTART_INTERVAL: Duration = Duration::from_secs(1);

/// How long a server may take to answer a four-letter word.
const ANSWER_LIMIT: Duration = Duration::from_secs(2);

/// A server process and what it was started for.
#[derive(Debug)]
pub(super) struct Child {
    pub(super) server: PlannedServer,
    process: process::Child,
    started_at: Instant,
    pid: u32,
    mode: String,
}

impl Child {
    pub(super) fn start(plan: &Plan, server: &PlannedServer) -> Result<Self, UpError> {
        let process =
            spawn(plan, server).map_err(|source| UpError::Spawn { server: server.id, source })?;
        Ok(Self {
            server: server.clone(),
            pid: process.id().unwrap_or(0),
            process,
            started_at: Instant::now(),
            mode: "starting".to_owned(),
        })
    }

    pub(super) fn restart(&mut self, plan: &Plan) -> Result<(), UpError> {
        let server = self.server.clone();
        *self = Self::start(plan, &server)?;
        Ok(())
    }

    /// Whether it has lived long enough, or been dead long enough, to be started again.
    pub(super) fn may_restart(&self) -> bool {
        self.started_at.elapsed() >= RESTART_INTERVAL
    }

    pub(super) fn pid(&self) -> u32 {
        self.pid
    }

    /// How it ended, if it has.
    pub(super) fn ended(&mut self) -> Option<String> {
        match self.process.try_wait() {
            Ok(None) => None,
            Ok(Some(status)) => Some(status.to_string()),
            Err(error) => Some(error.to_string()),
        }
    }

    /// Its part in the ensemble, once it serves.
    pub(super) async fn mode(&mut self) -> Option<&str> {
        let address = self.server.client_address();
        let answer = timeout(ANSWER_LIMIT, ask_srvr(&address)).await.ok()?.ok()?;
        let mode = answer.lines().find_map(|line| line.strip_prefix("Mode: "))?;
        mode.clone_into(&mut self.mode);
        Some(&self.mode)
    }

    pub(super) fn last_mode(&self) -> &str {
        &self.mode
    }

    /// Ends its standard input, which it takes for the word to stop.
    pub(super) fn ask_to_stop(&mut self) {
        self.process.stdin = None;
    }

    pub(super) async fn wait(&mut self) {
        // An error means that there is nothing left to wait for.
        let _ = self.process.wait().await;
    }

    pub(super) async fn kill(&mut self) {
        // An error means that it has ended by itself.
        let _ = self.process.kill().await;
    }
}

fn spawn(plan: &Plan, server: &PlannedServer) -> std::io::Result<process::Child> {
    let mut command = process::Command::new(std::env::current_exe()?);
    if let Some(filter) = &plan.log {
        command.arg("--log").arg(filter);
    }
    command
        .arg("serve")
        .arg("--config")
        .arg(&plan.config)
        .arg("--id")
        .arg(server.id.to_string())
        .arg("--until-stdin-ends")
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .kill_on_drop(true)
        .spawn()
}

async fn ask_srvr(address: &str) -> std::io::Result<String> {
    let mut stream = TcpStream::connect(address).await?;
    stream.write_all(b"srvr").await?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await?;
    Ok(answer)
}
