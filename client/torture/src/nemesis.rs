//! Hurts the servers, one after the other, on a thread that may block.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep, timeout};

use crate::context::RunContext;
use crate::plan::Fault;
use crate::servers::{ServerFault, Servers};

/// The kind of fault that a leader's kill is when it comes right at a grant.
const LEADER_KILLED: &str = "leader killed at a grant";
/// How long the kill of a leader waits for a grant.
const GRANT_MAX: Duration = Duration::from_secs(3);
/// How many faults wait for the one before them.
const FAULTS_MAX: usize = 256;

/// What could not be done, and the servers.
pub(crate) type Ended = (Vec<String>, Option<Box<dyn Servers>>);

/// The task.
#[derive(Debug)]
pub(crate) struct Nemesis {
    faults: mpsc::Sender<Fault>,
    /// Only [`finish`](Self::finish) takes it.
    task: Option<JoinHandle<Ended>>,
}

impl Drop for Nemesis {
    /// Ends a fault that is under way: the servers are dropped, and their owner mends them.
    fn drop(&mut self) {
        if let Some(task) = &self.task {
            task.abort();
        }
    }
}

impl Nemesis {
    pub(crate) fn start(servers: Option<Box<dyn Servers>>, context: &Arc<RunContext>) -> Self {
        let (faults, waiting) = mpsc::channel(FAULTS_MAX);
        let context = Arc::clone(context);
        let task = tokio::spawn(async move {
            match servers {
                Some(servers) => nemesis(servers, waiting, &context).await,
                None => (Vec::new(), None),
            }
        });
        Self { faults, task: Some(task) }
    }

    /// A fault of a server; it begins when the one before it is over.
    pub(crate) fn strike(&self, fault: Fault) {
        // A plan that is too dense for the servers loses faults here.
        let _ = self.faults.try_send(fault);
    }

    /// Waits for the last fault to be over.
    pub(crate) async fn finish(mut self) -> Ended {
        // Without a sender the task ends when it has injected all faults.
        let (none, _) = mpsc::channel(1);
        self.faults = none;
        let failed = |error| (vec![format!("the servers' faults: {error}")], None);
        match &mut self.task {
            Some(task) => task.await.unwrap_or_else(failed),
            None => (Vec::new(), None),
        }
    }
}

async fn nemesis(
    mut servers: Box<dyn Servers>,
    mut waiting: mpsc::Receiver<Fault>,
    context: &RunContext,
) -> Ended {
    let mut failures = Vec::new();
    while let Some(fault) = waiting.recv().await {
        let (server, kind, long, name) = match fault {
            Fault::Server(server, kind, long) => (Some(server), kind, long, kind.kind()),
            Fault::KillLeaderAtGrant(long) => {
                let (leader, back) = blocking(servers, |servers| servers.leader()).await;
                servers = back;
                let mut grants = context.recorder.grants();
                grants.mark_unchanged();
                let name = match timeout(GRANT_MAX, grants.changed()).await {
                    Ok(_) => LEADER_KILLED,
                    Err(_) => ServerFault::Kill.kind(),
                };
                (leader, ServerFault::Kill, long, name)
            }
            Fault::Holder(..)
            | Fault::Anywhere(..)
            | Fault::LoseReply(..)
            | Fault::LoseDeleteReply(..)
            | Fault::LoseTransactionReply(..)
            | Fault::LoseRequest(..)
            | Fault::DeleteWaiter(_)
            | Fault::ExpireAll(_)
            | Fault::Reap(_) => continue,
        };
        let Some(server) = server else { continue };
        let since = Instant::now();
        let (struck, back) = blocking(servers, move |servers| servers.strike(server, kind)).await;
        servers = back;
        if struck.is_ok() {
            context.recorder.struck(name);
        }
        sleep(long).await;
        let (mended, back) = blocking(servers, move |servers| servers.mend(server, kind)).await;
        servers = back;
        context.recorder.disturbed_between(None, since, Instant::now());
        for outcome in [struck, mended] {
            if let Err(error) = outcome {
                failures.push(format!("{kind:?} of server {server}: {error}"));
            }
        }
    }
    (failures, Some(servers))
}

/// Injects it on a thread that may block, and gives the servers back.
async fn blocking<T: Send + 'static>(
    mut servers: Box<dyn Servers>,
    work: impl FnOnce(&mut dyn Servers) -> T + Send + 'static,
) -> (T, Box<dyn Servers>) {
    let done = tokio::task::spawn_blocking(move || {
        let done = work(&mut *servers);
        (done, servers)
    });
    match done.await {
        Ok(done) => done,
        Err(error) => std::panic::resume_unwind(error.into_panic()),
    }
}
