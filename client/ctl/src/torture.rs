//! `torture`: whether the locks of running servers keep their promises under faults.

use std::convert::Infallible;
use std::fs;
use std::future::pending;
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream, ToSocketAddrs};
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use tokio::time::sleep;
use zoolet_torture::{Recipe, ServerFault, Servers, Settings, TortureError};

use crate::args::{Options, Torture};
use crate::error::{CtlError, Exit};
use crate::output::Output;
use crate::progress::Progress;
use crate::signals::Signals;

/// How often the progress is shown.
const REFRESH_EVERY: Duration = Duration::from_millis(200);
/// How long a question to a server may take.
const ANSWER_MAX: Duration = Duration::from_secs(2);
/// How long a killed server may take to serve again.
const BACK_MAX: Duration = Duration::from_mins(1);
/// How often it is asked.
const ASK_AGAIN: Duration = Duration::from_millis(100);

/// `torture [--recipe …] [--seed …] [--up-dir …]`.
pub(crate) async fn run(arguments: &Torture, options: &Options) -> Result<(), CtlError> {
    let recipes = Recipe::parse_list(&arguments.recipe)
        .map_err(|error| CtlError::new(Exit::Usage, error.to_string()))?;
    let seed = match arguments.seed {
        Some(seed) => seed,
        None => random_seed()?,
    };
    let servers: Option<Box<dyn Servers>> = match &arguments.up_dir {
        Some(directory) => Some(Box::new(UpServers::find(directory)?)),
        None => None,
    };
    let settings = Settings {
        recipes,
        contenders: arguments.clients.get(),
        locks: arguments.locks.get(),
        duration: arguments.secs,
        session_timeout: arguments.session,
        ..Settings::new(options.connect_string(), seed)
    };
    let output = Output { json: options.json };
    output.note(&format!("seed {seed}: {} s of faults", arguments.secs.as_secs()));
    let received = OnceLock::new();
    // However this ends, no server may stay paused. Until the run has begun there
    // is none that could, and a signal ends the program by itself.
    let stop = async {
        match Signals::receive() {
            Ok(mut signals) => _ = received.set(signals.end().await),
            Err(_) => pending().await,
        }
    };
    let report = tokio::select! {
        report = zoolet_torture::run_until(&settings, servers, stop) => report,
        never = show_progress(arguments.secs) => match never {},
    };
    let report = report.map_err(|error| failed(&error, received.get()))?;
    if let Some(file) = &arguments.report {
        write(file, &format!("{:#}\n", report.json()))?;
    }
    if let Some(file) = &arguments.svg {
        write(file, report.svg())?;
    }
    output.result(|| report.to_string(), || report.json())?;
    if report.passed() {
        return Ok(());
    }
    let count = report.verdict.violations.len();
    Err(CtlError::new(
        Exit::Failed,
        format!("{count} violations; --seed {seed} makes the same plan"),
    ))
}

/// Shows how far the run is.
async fn show_progress(faults: Duration) -> Infallible {
    let ticks = faults.as_millis().div_ceil(REFRESH_EVERY.as_millis());
    let progress = Progress::steps("faults", usize::try_from(ticks).unwrap_or(usize::MAX));
    for _ in 0..ticks {
        sleep(REFRESH_EVERY).await;
        progress.advance(1);
    }
    drop(progress);
    let _progress = Progress::spinner("the last turns, and the checks");
    pending().await
}

fn failed(error: &TortureError, received: Option<&Signal>) -> CtlError {
    match error {
        TortureError::Stopped => CtlError::ended_by(received.copied().unwrap_or(Signal::TERM)),
        TortureError::Client(error) => CtlError::of_call(error),
        TortureError::Io(_) => CtlError::new(Exit::Io, error.to_string()),
        TortureError::Chroot(_) | TortureError::Nothing => {
            CtlError::new(Exit::Usage, error.to_string())
        }
    }
}

fn random_seed() -> Result<u64, CtlError> {
    let mut bytes = [0; 4];
    getrandom::fill(&mut bytes)
        .map_err(|error| CtlError::new(Exit::Io, format!("no random numbers: {error}")))?;
    Ok(u64::from(u32::from_be_bytes(bytes)))
}

fn write(file: &Path, text: &str) -> Result<(), CtlError> {
    fs::write(file, text)
        .map_err(|error| CtlError::new(Exit::Io, format!("{}: {error}", file.display())))
}

/// The servers of a running `zoolet up`, which starts those again that are killed.
#[derive(Debug)]
struct UpServers {
    directory: PathBuf,
    /// Of the servers, in the order of the file.
    addresses: Vec<SocketAddr>,
    /// The process that was struck last, and how, until it is mended.
    struck: Option<(i32, ServerFault)>,
}

impl Drop for UpServers {
    /// However the run ends, no server stays paused.
    fn drop(&mut self) {
        if let Some((pid, ServerFault::Pause)) = self.struck {
            // It may have been killed meanwhile.
            let _ = self.signal(pid, Signal::CONT);
        }
    }
}

impl UpServers {
    fn find(directory: &Path) -> Result<Self, CtlError> {
        let state = read_state(directory).map_err(|error| {
            let file = directory.join("up.json");
            CtlError::new(Exit::Io, format!("{}: {error}", file.display()))
                .hint("--up-dir must be the directory of a running `zoolet up`")
        })?;
        let text = state.get("connect_string").and_then(Value::as_str).unwrap_or_default();
        let mut addresses = Vec::new();
        for server in text.split(',') {
            let found = server.to_socket_addrs()?.next();
            addresses.extend(found);
        }
        Ok(Self { directory: directory.to_owned(), addresses, struck: None })
    }

    fn pid(&self, server: usize) -> io::Result<i32> {
        let state = read_state(&self.directory)?;
        let server_state = state.get("servers").and_then(|servers| servers.get(server));
        let pid = server_state.and_then(|server| server.get("pid")).and_then(Value::as_i64);
        pid.and_then(|pid| i32::try_from(pid).ok()).ok_or_else(|| {
            io::Error::other(format!("up.json names no process for server {server}"))
        })
    }

    fn mode(&self, server: usize) -> Option<String> {
        let answer = ask(*self.addresses.get(server)?).ok()?;
        answer.lines().find_map(|line| line.strip_prefix("Mode: ")).map(str::to_owned)
    }

    fn signal(&self, pid: i32, signal: Signal) -> io::Result<()> {
        let _ = self;
        let pid = Pid::from_raw(pid).ok_or(io::ErrorKind::NotFound)?;
        Ok(kill_process(pid, signal)?)
    }
}

impl Servers for UpServers {
    fn count(&self) -> usize {
        self.addresses.len()
    }

    fn can(&self, fault: ServerFault) -> bool {
        matches!(fault, ServerFault::Kill | ServerFault::Pause)
    }

    fn leader(&mut self) -> Option<usize> {
        (0..self.addresses.len()).find(|server| self.mode(*server).as_deref() == Some("leader"))
    }

    fn strike(&mut self, server: usize, fault: ServerFault) -> io::Result<()> {
        let pid = self.pid(server)?;
        self.struck = Some((pid, fault));
        self.signal(pid, if fault == ServerFault::Pause { Signal::STOP } else { Signal::KILL })
    }

    fn mend(&mut self, server: usize, fault: ServerFault) -> io::Result<()> {
        let Some((struck, _)) = self.struck.take() else { return Ok(()) };
        if fault == ServerFault::Pause {
            return self.signal(struck, Signal::CONT);
        }
        let mut waited = Duration::ZERO;
        while self.pid(server).is_ok_and(|pid| pid == struck) || self.mode(server).is_none() {
            if waited > BACK_MAX {
                return Err(io::Error::other("it was not started again"));
            }
            pause();
            waited += ASK_AGAIN;
        }
        Ok(())
    }
}

#[allow(clippy::disallowed_methods, reason = "servers are hurt on a thread that may block")]
fn pause() {
    std::thread::sleep(ASK_AGAIN);
}

fn read_state(directory: &Path) -> io::Result<Value> {
    let text = fs::read_to_string(directory.join("up.json"))?;
    serde_json::from_str(&text).map_err(io::Error::other)
}

/// What a server answers to `srvr`.
fn ask(server: SocketAddr) -> io::Result<String> {
    let mut stream = TcpStream::connect_timeout(&server, ANSWER_MAX)?;
    stream.set_read_timeout(Some(ANSWER_MAX))?;
    stream.write_all(b"srvr")?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    Ok(answer)
}
