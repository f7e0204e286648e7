//! `zoolet up`: an ensemble of server processes on this machine, its children.
//!
//! A child that exits is restarted. No child outlives the supervisor: each ends when its
//! standard input does.

mod announce;
mod child;
mod control;
mod files;
mod http;
mod loopback;
mod orders;
mod plan;
mod ports;
mod roles;
mod temporary;
mod tls;

use std::fmt;
use std::future::Future;
use std::io;
use std::path::PathBuf;
use std::time::Duration;

use futures_util::future::join_all;
use thiserror::Error;
use tokio::io::{copy, sink, stdin};
use tokio::signal::unix::{SignalKind, signal};
use tokio::time::{sleep, timeout};
use tracing::{info, warn};

use crate::cli::UpArgs;
use crate::logging::Log;
use crate::output::{Output, failure_of};
use announce::announcement;
use child::Child;
use control::{Control, Given};
use plan::{Plan, ServersLog};
use roles::Roles;
use zoolet_server::embed::config::ConfigError;

/// How long the ensemble may take to serve; a big log takes its time to be read.
const READY_LIMIT: Duration = Duration::from_mins(2);

/// Between two looks at servers that run.
const WATCH_INTERVAL: Duration = Duration::from_millis(100);

/// Between two looks at a server that is starting.
const READY_POLL: Duration = Duration::from_millis(25);

/// Why an ensemble cannot be started.
#[derive(Debug, Error)]
pub(crate) enum UpError {
    /// The configuration is wrong.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// A file or directory cannot be used.
    #[error("cannot use {path}: {source}")]
    File { path: PathBuf, source: io::Error },
    /// A port is taken.
    #[error("server {server} cannot listen on {address}: {source}")]
    Port { server: u8, address: String, source: io::Error },
    /// No port is free.
    #[error("no free port: {0}")]
    NoPorts(io::Error),
    /// There are not enough ports above the first one.
    #[error("{servers} servers do not fit above client port {client_port}: ports end at 65535")]
    TooManyPorts { servers: usize, client_port: u16 },
    /// The file has fewer servers than were asked for.
    #[error("{} lists {listed} servers, not {asked}", path.display())]
    TooFewServers { path: PathBuf, listed: usize, asked: usize },
    /// A server has no port for plain text.
    #[error(
        "server {server} speaks only TLS with clients, and zoolet up asks its servers in plain text \
         whether they serve: add `client`, or start each server with zoolet serve"
    )]
    OnlyTls { server: u8 },
    /// Another `zoolet up` runs on the directory.
    #[error("another zoolet up is running on {}", .0.display())]
    InUse(PathBuf),
    /// The directory belongs to an ensemble of another size.
    #[error(
        "{} holds an ensemble of {servers} servers, not {asked}: start it with --servers {servers}, \
         and change it with reconfig, or take another directory", directory.display()
    )]
    OtherEnsemble { directory: PathBuf, servers: usize, asked: usize },
    /// An option is not what the directory was started with.
    #[error(
        "{} has {was}, and {option} asks for {asked}: leave {option} out, or add --change",
        file.display()
    )]
    Contradicts { file: PathBuf, option: &'static str, was: String, asked: String },
    /// The directory's file names files that are not in it.
    #[error(
        "server {server} keeps its files in {files}, outside of {directory}, as {file} says: if \
         the directory was copied or moved, write data_dir = \"{server}\" there"
    )]
    Outside { file: PathBuf, server: u8, files: PathBuf, directory: PathBuf },
    /// A server process cannot be started.
    #[error("cannot start server {server}: {source}")]
    Spawn { server: u8, source: io::Error },
    /// Too few servers run for a leader.
    #[error("no majority of the servers runs: {0}")]
    Ended(Ends),
    /// The ensemble does not serve.
    #[error("no majority serves after {limit_s} s: {silent}; the log above may say why")]
    NotReady { limit_s: u64, silent: Ends },
    /// Signals cannot be handled, or the result cannot be printed.
    #[error("cannot talk to the terminal: {0}")]
    Terminal(io::Error),
}

/// The servers that do not serve, each with the reason if it has ended.
#[derive(Debug)]
pub(crate) struct Ends(Vec<(u8, Option<String>)>);

impl fmt::Display for Ends {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, (server, why)) in self.0.iter().enumerate() {
            let separator = if at > 0 { "; " } else { "" };
            let why = why.as_deref().unwrap_or("does not serve");
            write!(f, "{separator}server {server}: {why}")?;
        }
        Ok(())
    }
}

/// Runs the ensemble until a signal ends it.
pub(crate) async fn up(args: UpArgs, filter: Option<String>, log: &Log) -> Result<(), UpError> {
    let stop = stop_requested(args.until_stdin_ends).map_err(UpError::Terminal)?;
    tokio::pin!(stop);
    let stdout = Output::results_on_stdout().map_err(UpError::Terminal)?;
    let log = ServersLog { filter, to: log.clone() };
    let mut plan = Plan::make(&args, log)?;
    let mut control = Control::open(plan.directory())?;
    plan.is_controlled_by(control.path());
    let mut children = Vec::new();
    for server in &plan.servers {
        children.push(Child::start(&plan, server)?);
    }
    plan.write_state(&children)?;
    let ready = tokio::select! {
        ready = wait_ready(&mut children) => ready,
        reason = &mut stop => {
            stop_all(children, reason).await;
            plan.forget_state();
            return Ok(());
        }
    };
    if let Err(error) = ready {
        stop_all(children, &error.to_string()).await;
        plan.forget_state();
        return Err(error);
    }
    // The servers serve, whether or not someone reads this.
    let announcing = failure_of(stdout.print(announcement(&plan, &children, args.json).as_bytes()));
    let roles = (!args.json).then(|| Roles::printed(&children, stdout.clone()));
    let (reason, done) = tokio::select! {
        error = announcing => {
            let error = UpError::Terminal(error);
            (error.to_string(), Err(error))
        }
        watched = keep_running(&plan, &mut children, &mut control, roles) => {
            let why = watched.as_ref().err().map(ToString::to_string);
            (why.unwrap_or_default(), watched)
        }
        reason = &mut stop => (reason.to_owned(), Ok(())),
    };
    stop_all(children, &reason).await;
    plan.forget_state();
    stdout.close();
    done
}

/// Becomes ready at a signal that ends the ensemble, and returns its name. SIGHUP is one: the
/// terminal is gone. The end of standard input is another reason if it is to be.
fn stop_requested(until_stdin_ends: bool) -> io::Result<impl Future<Output = &'static str>> {
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    let mut hangup = signal(SignalKind::hangup())?;
    Ok(async move {
        tokio::select! {
            _ = terminate.recv() => "SIGTERM",
            _ = interrupt.recv() => "SIGINT",
            _ = hangup.recv() => "SIGHUP",
            () = stdin_ends(), if until_stdin_ends => "standard input has ended",
        }
    })
}

async fn stdin_ends() {
    // What comes is not for this program; an error means that nothing comes any more.
    let _ = copy(&mut stdin(), &mut sink()).await;
}

/// Waits until every server serves that runs, and a majority does.
async fn wait_ready(children: &mut [Child]) -> Result<(), UpError> {
    let ready = async {
        loop {
            look_at(children, false).await;
            let ended = children.iter().filter(|child| child.end().is_some());
            if !is_majority(children, |child| child.end().is_none()) {
                return Err(UpError::Ended(Ends(ended.map(end_of).collect())));
            }
            if children.iter().all(|child| child.end().is_some() || child.mode().is_some()) {
                return Ok(());
            }
            sleep(READY_POLL).await;
        }
    };
    let ready = timeout(READY_LIMIT, ready).await;
    match ready {
        Ok(ready) => ready,
        Err(_) if is_majority(children, |child| child.mode().is_some()) => Ok(()),
        Err(_) => {
            let silent = children.iter().filter(|child| child.mode().is_none());
            let silent = Ends(silent.map(end_of).collect());
            Err(UpError::NotReady { limit_s: READY_LIMIT.as_secs(), silent })
        }
    }
}

/// Looks at all children at the same time: which have exited, and which serve by now. `restarts`
/// says whether those that have exited are restarted.
async fn look_at(children: &mut [Child], restarts: bool) {
    for child in children.iter_mut() {
        if child.has_just_ended() {
            child.read_last_words().await;
            log_exit(child, restarts && child.is_wanted());
        }
    }
    let starting = children.iter_mut().filter(|child| child.is_starting());
    join_all(starting.map(Child::ask_mode)).await;
}

/// Returns whether the voters that are like this can elect a leader.
fn is_majority(children: &[Child], is_like_this: impl Fn(&Child) -> bool) -> bool {
    let voters = || children.iter().filter(|child| child.server.is_voter);
    voters().filter(|child| is_like_this(child)).count() * 2 > voters().count()
}

fn end_of(child: &Child) -> (u8, Option<String>) {
    (child.server.id, child.end())
}

fn log_exit(child: &Child, restarts: bool) {
    let (server, why) = (child.server.id, child.end().unwrap_or_default());
    let delay_s = child.restart_delay().as_secs_f64().ceil();
    match (restarts, delay_s > 0.0) {
        (false, _) => warn!("server {server} exited: {why}"),
        (true, false) => warn!("server {server} exited: {why}; restarting"),
        (true, true) => warn!("server {server} exited: {why}; restarting in {delay_s:.0} s"),
    }
    if why.contains("is damaged") {
        warn!(server, "move its directory away, as docs/storage.md says: the others rebuild it");
    }
}

/// Restarts children that exit, carries out orders, and prints what roles change.
async fn keep_running(
    plan: &Plan,
    children: &mut [Child],
    control: &mut Control,
    mut roles: Option<Roles>,
) -> Result<(), UpError> {
    loop {
        let mut has_changed = false;
        look_at(children, true).await;
        for child in children.iter_mut() {
            if child.end().is_some() && child.is_wanted() && child.restart_delay().is_zero() {
                match child.restart(plan) {
                    Ok(()) => has_changed = true,
                    // The others serve. It may be memory or processes that are short for now.
                    Err(error) => warn!("{error}; it is tried again"),
                }
            }
        }
        if let Some(roles) = &mut roles {
            has_changed |= roles.look(children);
        }
        tokio::select! {
            () = sleep(WATCH_INTERVAL) => {}
            Some(Given { order, answer }) = control.next() => {
                let done = orders::carry_out(plan, children, order).await;
                plan.write_state(children)?;
                // The caller may be gone.
                let _ = answer.send(done);
            }
        }
        if has_changed {
            plan.write_state(children)?;
        }
    }
}

/// Stops all servers at once, in good order if they can.
async fn stop_all(mut children: Vec<Child>, reason: &str) {
    info!(reason, "stopping the ensemble");
    for child in &mut children {
        child.ask_to_stop(reason).await;
    }
    for child in &mut children {
        child.wait().await;
    }
}
