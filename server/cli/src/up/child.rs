//! One server process.

use std::io;
use std::path::PathBuf;
use std::process::Stdio;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader, Lines};
use tokio::net::TcpStream;
use tokio::process::{self, ChildStderr, ChildStdin, ChildStdout};
use tokio::task::JoinHandle;
use tokio::time::{Instant, timeout};
use tracing::warn;

use super::UpError;
use super::plan::{Plan, PlannedServer};
use crate::logging::Log;
use crate::supervised::{DONE, Numbered, Order, answer_to};

/// How long after its last start a server that exited is restarted. Each start after which it did
/// not serve doubles this, up to the maximum.
const RESTART_INTERVAL: Duration = Duration::from_secs(1);
const RESTART_INTERVAL_MAX: Duration = Duration::from_mins(1);

/// The prefix of the last line of a server that cannot start, or cannot go on.
const ERROR_PREFIX: &str = "zoolet: ";

/// How long a server may take to answer an order.
const ORDER_LIMIT: Duration = Duration::from_secs(10);

/// How long a server may take to stop before it is killed.
const STOP_LIMIT: Duration = Duration::from_secs(15);

/// How long a server may take to answer a four-letter word.
const ANSWER_LIMIT: Duration = Duration::from_secs(2);

/// A server process and what it was started for.
#[derive(Debug)]
pub(super) struct Child {
    pub(super) server: PlannedServer,
    process: process::Child,
    started_at: Instant,
    pid: u32,
    /// Its role in the ensemble when it was last asked, once it has served.
    mode: Option<String>,
    /// How it ended, if it has.
    end: Option<String>,
    /// Reads what it logs.
    log: Option<JoinHandle<()>>,
    /// The error that it logged last.
    last_error: Arc<Mutex<Option<String>>>,
    /// Starts in a row after which it has not served.
    failures: u32,
    answers: Option<Lines<BufReader<ChildStdout>>>,
    orders: u64,
    /// Whether it was stopped or killed by an order, and is not to be restarted.
    is_unwanted: bool,
    is_paused: bool,
    /// Whether it is cut off from the other servers or its clients.
    is_cut: bool,
}

impl Child {
    pub(super) fn start(plan: &Plan, server: &PlannedServer) -> Result<Self, UpError> {
        let mut process =
            spawn(plan, server).map_err(|source| UpError::Spawn { server: server.id, source })?;
        let last_error = Arc::default();
        let log = process.stderr.take().map(|log| {
            tokio::spawn(pass_on(server.id, log, plan.log.to.clone(), Arc::clone(&last_error)))
        });
        Ok(Self {
            log,
            answers: process.stdout.take().map(|output| BufReader::new(output).lines()),
            server: server.clone(),
            pid: process.id().unwrap_or(0),
            process,
            started_at: Instant::now(),
            mode: None,
            end: None,
            last_error,
            failures: 0,
            orders: 0,
            is_unwanted: false,
            is_paused: false,
            is_cut: false,
        })
    }

    pub(super) fn restart(&mut self, plan: &Plan) -> Result<(), UpError> {
        let served = self.mode.is_some() || self.is_unwanted;
        let failures = if served { 0 } else { self.failures.saturating_add(1) };
        let server = self.server.clone();
        match Self::start(plan, &server) {
            Ok(started) => *self = Self { failures, ..started },
            Err(error) => {
                (self.failures, self.started_at) = (failures, Instant::now());
                return Err(error);
            }
        }
        Ok(())
    }

    /// Returns how long to wait until it may be restarted: zero when its last start was long enough
    /// ago.
    pub(super) fn restart_delay(&self) -> Duration {
        let interval = RESTART_INTERVAL * 2_u32.saturating_pow(self.failures);
        interval.min(RESTART_INTERVAL_MAX).saturating_sub(self.started_at.elapsed())
    }

    pub(super) fn pid(&self) -> u32 {
        self.pid
    }

    /// Returns whether it has exited since the last call.
    pub(super) fn has_just_ended(&mut self) -> bool {
        if self.end.is_some() {
            return false;
        }
        self.end = match self.process.try_wait() {
            Ok(None) => None,
            Ok(Some(status)) => Some(status.to_string()),
            Err(error) => Some(error.to_string()),
        };
        self.end.is_some()
    }

    /// Waits until the last line of one that has exited is read: it may say why.
    pub(super) async fn read_last_words(&mut self) {
        if let Some(log) = self.log.take() {
            // A program that it started may hold the pipe.
            let _ = timeout(ANSWER_LIMIT, log).await;
        }
    }

    /// Returns its exit status with the error that it logged, if it has exited.
    pub(super) fn end(&self) -> Option<String> {
        let status = self.end.as_ref()?;
        let last_error = self.last_error.lock().unwrap_or_else(PoisonError::into_inner);
        Some(last_error.as_ref().map_or_else(|| status.clone(), |why| format!("{why} ({status})")))
    }

    /// Asks for its role in the ensemble, which it has once it serves.
    pub(super) async fn ask_mode(&mut self) {
        match ask(&self.server.client.to_string()).await {
            Answer::Serves(mode) => self.mode = Some(mode),
            Answer::NoLeader => self.mode = None,
            Answer::Silent => {}
        }
    }

    /// Takes the role that it has now; returns whether it is another one.
    pub(super) fn take_mode(&mut self, mode: &str) -> bool {
        let is_another = self.mode.as_deref() != Some(mode);
        self.mode = Some(mode.to_owned());
        is_another
    }

    /// Whether it runs and has served, so that its role may change.
    pub(super) fn can_have_a_role(&self) -> bool {
        self.end.is_none() && self.mode.is_some() && !self.is_paused
    }

    /// Returns the role that it reported.
    pub(super) fn mode(&self) -> Option<&str> {
        self.mode.as_deref()
    }

    /// Closes its standard input, on which it stops; it logs the reason.
    pub(super) async fn ask_to_stop(&mut self, reason: &str) {
        if self.is_paused {
            // An error means that it has ended by itself.
            let _ = self.set_paused(false);
        }
        if let Some(mut input) = self.process.stdin.take() {
            // It may have ended by itself. The pipe is empty, so that there is room for a line.
            let _ = input.write_all(format!("zoolet up: {reason}\n").as_bytes()).await;
        }
    }

    /// Waits until it has stopped, and kills it if it does not.
    pub(super) async fn wait(&mut self) {
        if timeout(STOP_LIMIT, self.process.wait()).await.is_err() {
            warn!(server = self.server.id, "does not stop, killing it");
            // An error means that it has ended by itself.
            let _ = self.process.kill().await;
        }
        self.read_last_words().await;
    }

    /// Stops it in good order. It stays down until it is restarted.
    pub(super) async fn stop_for_good(&mut self, reason: &str) {
        self.is_unwanted = true;
        self.ask_to_stop(reason).await;
        self.wait().await;
        self.ended_by("stopped");
    }

    /// Kills it. It stays down until it is restarted.
    pub(super) async fn kill_for_good(&mut self) {
        self.is_unwanted = true;
        // An error means that it has ended by itself.
        let _ = self.process.kill().await;
        self.ended_by("killed");
    }

    fn ended_by(&mut self, how: &str) {
        (self.end, self.mode) = (Some(format!("{how} by zoolet ctl")), None);
        (self.is_paused, self.is_cut) = (false, false);
    }

    /// Whether it is to be restarted when it exits.
    pub(super) fn is_wanted(&self) -> bool {
        !self.is_unwanted
    }

    /// Whether it runs, and has not served so far.
    pub(super) fn is_starting(&self) -> bool {
        self.end.is_none() && self.mode.is_none() && !self.is_paused && !self.is_cut
    }

    /// Returns whether it runs, in a word.
    pub(super) fn state(&self) -> &'static str {
        match (&self.end, self.is_paused) {
            (Some(_), _) if self.is_unwanted => "stopped",
            (Some(_), _) => "ended",
            (None, true) => "paused",
            (None, false) => "running",
        }
    }

    pub(super) fn is_paused(&self) -> bool {
        self.is_paused
    }

    pub(super) fn is_cut(&self) -> bool {
        self.is_cut
    }

    /// Freezes it, or has it go on.
    pub(super) fn set_paused(&mut self, is_paused: bool) -> io::Result<()> {
        let signal = if is_paused { Signal::STOP } else { Signal::CONT };
        // It is a child that no one has waited for, so the number is still its own.
        let pid = self.process.id().and_then(|pid| Pid::from_raw(pid.cast_signed()));
        kill_process(pid.ok_or(io::ErrorKind::NotFound)?, signal)?;
        self.is_paused = is_paused;
        Ok(())
    }

    /// Has the server do something, and waits until it is done.
    pub(super) async fn order(&mut self, order: Order) -> Result<(), String> {
        self.orders += 1;
        let numbered = Numbered { number: self.orders, order };
        let asking = give(self.process.stdin.as_mut(), self.answers.as_mut(), numbered);
        timeout(ORDER_LIMIT, asking)
            .await
            .unwrap_or_else(|_| Err(format!("no answer within {} s", ORDER_LIMIT.as_secs())))?;
        match order {
            Order::CutPeers | Order::CutClients => self.is_cut = true,
            Order::Heal => self.is_cut = false,
            Order::Expire(_) => {}
        }
        Ok(())
    }
}

/// Gives it an order, and waits until it is carried out.
async fn give(
    input: Option<&mut ChildStdin>,
    answers: Option<&mut Lines<BufReader<ChildStdout>>>,
    order: Numbered,
) -> Result<(), String> {
    let has_ended = || "it has ended".to_owned();
    let (Some(input), Some(answers)) = (input, answers) else { return Err(has_ended()) };
    input.write_all(order.to_line().as_bytes()).await.map_err(|_| has_ended())?;
    while let Ok(Some(line)) = answers.next_line().await {
        // Others are late answers to orders that are no longer waited for.
        match answer_to(order.number, &line) {
            Some(DONE) => return Ok(()),
            Some(why) => return Err(why.to_owned()),
            None => {}
        }
    }
    Err(has_ended())
}

/// The program that runs here: by its name, or, where an upgrade has put another file in its place,
/// the one that is in memory.
fn program() -> io::Result<PathBuf> {
    let named = std::env::current_exe()?;
    if named.exists() || !cfg!(target_os = "linux") {
        return Ok(named);
    }
    Ok(PathBuf::from("/proc/self/exe"))
}

fn spawn(plan: &Plan, server: &PlannedServer) -> io::Result<process::Child> {
    let mut command = process::Command::new(program()?);
    if let Some(filter) = &plan.log.filter {
        command.arg("--log").arg(filter);
    }
    command
        // What a service manager expects of this process is not what its servers report.
        .env_remove("NOTIFY_SOCKET")
        .arg("serve")
        .arg("--config")
        .arg(&plan.config)
        .arg("--id")
        .arg(server.id.to_string())
        .arg("--until-stdin-ends")
        .args(plan.must_join(server).then_some("--join"))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .kill_on_drop(true)
        .spawn()
}

/// Makes one log of all servers', each line with its server's number in front, and remembers why
/// this one ended.
async fn pass_on(server: u8, from: ChildStderr, to: Log, last_error: Arc<Mutex<Option<String>>>) {
    let mut lines = BufReader::new(from).split(b'\n');
    while let Ok(Some(line)) = lines.next_segment().await {
        if let Some(why) = line.strip_prefix(ERROR_PREFIX.as_bytes()) {
            let why = String::from_utf8_lossy(why).into_owned();
            *last_error.lock().unwrap_or_else(PoisonError::into_inner) = Some(why);
        }
        to.pass_on(&[format!("{server} | ").as_bytes(), &line, b"\n"].concat());
    }
}

/// What a server says about its role.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Answer {
    /// It serves, in this role.
    Serves(String),
    /// It answers, and has no leader: perhaps it serves reads alone.
    NoLeader,
    /// It does not answer.
    Silent,
}

/// Asks a server for its role.
pub(super) async fn ask(address: &str) -> Answer {
    let Ok(Ok(answer)) = timeout(ANSWER_LIMIT, ask_srvr(address)).await else {
        return Answer::Silent;
    };
    let mode = answer.lines().find_map(|line| line.strip_prefix("Mode: "));
    mode.filter(|mode| *mode != "read-only")
        .map_or(Answer::NoLeader, |mode| Answer::Serves(mode.to_owned()))
}

async fn ask_srvr(address: &str) -> io::Result<String> {
    let mut stream = TcpStream::connect(address).await?;
    stream.write_all(b"srvr").await?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await?;
    Ok(answer)
}
