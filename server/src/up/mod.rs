//! `zoolet up`: an ensemble of server processes on this machine, its children.
//!
//! A child that dies is started again. No child outlives the supervisor: each ends when its
//! standard input does.

mod child;
mod plan;

use std::future::Future;
use std::io::{self, Write};
use std::path::PathBuf;
use std::time::Duration;

use thiserror::Error;
use tokio::signal::unix::{SignalKind, signal};
use tokio::time::{sleep, timeout};
use tracing::{info, warn};

use crate::cli::UpArgs;
use crate::config::ConfigError;
use child::Child;
use plan::{Plan, PlannedServer};

/// How long the ensemble may take to serve; a big log takes its time to be read.
const READY_LIMIT: Duration = Duration::from_mins(2);

/// How long the servers may take to stop before they are killed.
const STOP_LIMIT: Duration = Duration::from_secs(15);

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
    #[error("server {server} cannot listen on 127.0.0.1:{port}: {source}")]
    Port { server: u8, port: u16, source: io::Error },
    /// There are not enough ports above the first one.
    #[error("{servers} servers do not fit above client port {client_port}: ports end at 65535")]
    TooManyPorts { servers: u8, client_port: u16 },
    /// Another `zoolet up` runs on the directory.
    #[error("another zoolet up is running on {}", .0.display())]
    InUse(PathBuf),
    /// The directory belongs to an ensemble of another size.
    #[error(
        "{} holds an ensemble of {servers} servers, not {asked}: start it with --servers {servers}, \
         and change it with reconfig, or take another directory", directory.display()
    )]
    OtherEnsemble { directory: PathBuf, servers: usize, asked: usize },
    /// A server process cannot be started.
    #[error("cannot start server {server}: {source}")]
    Spawn { server: u8, source: io::Error },
    /// A server process has ended before it served.
    #[error("server {server} ended before it was ready ({status}); its log above says why")]
    Ended { server: u8, status: String },
    /// The ensemble does not serve.
    #[error("server {server} does not serve after {} s; its log above says why", READY_LIMIT.as_secs())]
    NotReady { server: u8 },
    /// Signals cannot be handled, or the result cannot be printed.
    #[error("cannot talk to the terminal: {0}")]
    Terminal(io::Error),
}

/// Runs the ensemble until a signal ends it.
pub(crate) async fn up(args: UpArgs, log: Option<String>) -> Result<(), UpError> {
    let stop = stop_requested().map_err(UpError::Terminal)?;
    tokio::pin!(stop);
    let plan = Plan::make(&args, log)?;
    let mut children = Vec::new();
    for server in &plan.servers {
        children.push(Child::start(&plan, server)?);
    }
    plan.write_state(&children)?;
    let ready = tokio::select! {
        ready = wait_ready(&mut children) => ready,
        () = &mut stop => {
            stop_all(children).await;
            plan.forget_state();
            return Ok(());
        }
    };
    if let Err(error) = ready.and_then(|()| announce(&plan, &children).map_err(UpError::Terminal)) {
        stop_all(children).await;
        plan.forget_state();
        return Err(error);
    }
    let watched = tokio::select! {
        watched = keep_running(&plan, &mut children) => watched,
        () = &mut stop => Ok(()),
    };
    info!("stopping the ensemble");
    stop_all(children).await;
    plan.forget_state();
    watched
}

fn stop_requested() -> io::Result<impl Future<Output = ()>> {
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    Ok(async move {
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
        }
    })
}

/// Waits until every server says in what mode it serves.
async fn wait_ready(children: &mut [Child]) -> Result<(), UpError> {
    for child in children {
        let server = child.server.id;
        let ready = async {
            loop {
                if let Some(status) = child.ended() {
                    return Err(UpError::Ended { server, status });
                }
                if child.mode().await.is_some() {
                    return Ok(());
                }
                sleep(READY_POLL).await;
            }
        };
        timeout(READY_LIMIT, ready).await.unwrap_or(Err(UpError::NotReady { server }))?;
    }
    Ok(())
}

/// Prints the connect string, and each server's part.
fn announce(plan: &Plan, children: &[Child]) -> io::Result<()> {
    let mut out = io::stdout().lock();
    writeln!(out, "connect string: {}", plan.connect_string())?;
    for child in children {
        let PlannedServer { id, client_port, .. } = child.server;
        let mode = child.last_mode();
        writeln!(out, "server {id}: {mode}, client port {client_port}, pid {}", child.pid())?;
    }
    out.flush()
}

/// Starts again what dies.
async fn keep_running(plan: &Plan, children: &mut [Child]) -> Result<(), UpError> {
    loop {
        let mut restarted = false;
        for child in children.iter_mut() {
            if let Some(status) = child.ended()
                && child.may_restart()
            {
                warn!(server = child.server.id, status, "a server has ended, starting it again");
                child.restart(plan)?;
                restarted = true;
            }
        }
        if restarted {
            plan.write_state(children)?;
        }
        sleep(Duration::from_millis(100)).await;
    }
}

/// Stops all servers at once, in good order if they can.
async fn stop_all(mut children: Vec<Child>) {
    for child in &mut children {
        child.ask_to_stop();
    }
    for child in &mut children {
        if timeout(STOP_LIMIT, child.wait()).await.is_err() {
            warn!(server = child.server.id, "does not stop, killing it");
            child.kill().await;
        }
    }
}
