//! One embedded server: a thread with a runtime of its own.

use std::future::Future;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::mpsc as blocking;
use std::thread::{Builder, JoinHandle};
use std::time::Duration;
use std::{io, mem};

use tokio::sync::mpsc::error::TrySendError;
use tokio::sync::{mpsc, oneshot, watch};
use tracing::{error, warn};
use zoolet_replica::Role;
use zoolet_tls::Insiders;

use crate::config::ServerConfig;
use crate::node::{Controls, Node, Reports, Seams, StartError};

/// The orders that wait.
const ORDERS_MAX: usize = 8;

/// Whether a server runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Standing {
    Running,
    Paused,
    Stopped,
    /// It has ended by itself.
    Failed,
}

impl Standing {
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Running => "running",
            Self::Paused => "paused",
            Self::Stopped => "stopped",
            Self::Failed => "failed",
        }
    }
}

/// An order to a server's thread.
#[derive(Debug)]
enum Order {
    /// Report that it is paused, and block until the gate's sender is dropped.
    Pause { paused: blocking::Sender<()>, gate: blocking::Receiver<()> },
    /// Report that the thread has come to this order.
    Respond(oneshot::Sender<()>),
    /// End in good order.
    Stop,
    /// End at once.
    Kill,
}

/// A server that has started.
#[derive(Clone, Debug)]
pub(super) struct Running {
    pub(super) role: watch::Receiver<Role>,
    /// Why it has ended by itself. Closed when its thread has ended.
    pub(super) failure: watch::Receiver<Option<String>>,
    pub(super) clients: watch::Receiver<SocketAddr>,
    pub(super) reports: Reports,
    pub(super) controls: Controls,
    pub(super) insiders: Insiders,
}

/// A server on a thread of its own, which may run or not.
#[derive(Debug)]
pub(super) struct ServerThread {
    config: ServerConfig,
    seams: Seams,
    thread: Option<JoinHandle<()>>,
    orders: Option<mpsc::Sender<Order>>,
    running: Option<Running>,
    /// Dropped to resume.
    pause: Option<blocking::Sender<()>>,
}

impl ServerThread {
    pub(super) fn new(config: ServerConfig, seams: Seams) -> Self {
        Self { config, seams, thread: None, orders: None, running: None, pause: None }
    }

    /// Starts the thread; what it answers goes to [`ServerThread::launched`].
    pub(super) fn launch(&mut self) -> io::Result<oneshot::Receiver<Result<Running, StartError>>> {
        // One that has failed ends by itself.
        self.join();
        // One thread for all that a write passes: to wake another thread from one task to the next
        // costs more than their work (decision 0016).
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let (orders, received) = mpsc::channel(ORDERS_MAX);
        let (started, answer) = oneshot::channel();
        let (config, seams) = (self.config.clone(), self.seams.clone());
        let name = format!("zoolet-{}", config.server_id);
        let thread = Builder::new().name(name).spawn(move || {
            runtime.block_on(live(config, seams, started, received));
            // Whatever still runs is dropped where it stands, as the end of a process does it.
            runtime.shutdown_timeout(Duration::from_secs(5));
        })?;
        self.thread = Some(thread);
        self.orders = Some(orders);
        Ok(answer)
    }

    pub(super) fn launched(&mut self, running: Running) {
        self.running = Some(running);
    }

    pub(super) fn client_addr(&self) -> SocketAddr {
        let running = self.running.as_ref();
        let port =
            running.map_or(self.config.client_bind.port, |running| running.clients.borrow().port());
        SocketAddr::from((Ipv4Addr::LOCALHOST, port))
    }

    pub(super) fn role(&self) -> Role {
        match self.standing() {
            Standing::Running | Standing::Paused => {
                self.running.as_ref().map_or(Role::Looking, |running| *running.role.borrow())
            }
            Standing::Stopped | Standing::Failed => Role::Looking,
        }
    }

    pub(super) fn standing(&self) -> Standing {
        match (&self.running, &self.pause) {
            (None, _) => Standing::Stopped,
            (Some(_), _) if self.failure().is_some() => Standing::Failed,
            (Some(_), Some(_)) => Standing::Paused,
            (Some(_), None) => Standing::Running,
        }
    }

    pub(super) fn controls(&self) -> Option<Controls> {
        self.running.as_ref().map(|running| running.controls.clone())
    }

    /// Returns why the server has ended by itself, if it has.
    pub(super) fn failure(&self) -> Option<String> {
        let running = self.running.as_ref()?;
        let reported = running.failure.borrow().clone();
        let has_ended = self.thread.as_ref().is_none_or(JoinHandle::is_finished);
        reported.or_else(|| has_ended.then(|| "its thread has ended".to_owned()))
    }

    /// Returns once it is paused. Nothing that it waits for is done by the caller's thread.
    pub(super) fn pause(&mut self) {
        if self.pause.is_some() {
            return;
        }
        let (open, gate) = blocking::channel();
        let (paused, is_paused) = blocking::channel();
        self.order(Order::Pause { paused, gate });
        self.pause = Some(open);
        // An error means that the server has ended by itself: it does nothing more, too.
        let _ = is_paused.recv();
    }

    /// Returns whether the thread has come to an order; waits until it does. What it does for
    /// clients takes its turns on the same thread.
    pub(super) fn responds(&self) -> impl Future<Output = bool> + Send + use<> {
        let (done, answer) = oneshot::channel();
        let is_ordered =
            self.orders.as_ref().is_some_and(|it| it.try_send(Order::Respond(done)).is_ok());
        async move { is_ordered && answer.await.is_ok() }
    }

    pub(super) fn resume(&mut self) {
        self.pause = None;
    }

    pub(super) fn kill(&mut self) {
        self.order(Order::Kill);
        self.pause = None;
        self.running = None;
        self.join();
    }

    /// Kills it without waiting for its end.
    pub(super) fn abandon(&mut self) {
        self.order(Order::Kill);
        self.pause = None;
        self.thread = None;
    }

    pub(super) fn ask_to_stop(&mut self) {
        self.order(Order::Stop);
    }

    /// Stops in good order, and waits for it.
    pub(super) async fn stop(&mut self) {
        self.ask_to_stop();
        self.running = None;
        let Some(thread) = self.thread.take() else { return };
        match tokio::task::spawn_blocking(move || thread.join()).await {
            Ok(Ok(())) => {}
            Ok(Err(_)) => warn!("an embedded server has panicked"),
            Err(_) => warn!("an embedded server's thread cannot be waited for"),
        }
        self.orders = None;
    }

    fn order(&mut self, order: Order) {
        // A pause waits for its answer, so a full queue holds words to end: one more is the same.
        if let Some(orders) = &self.orders
            && matches!(orders.try_send(order), Err(TrySendError::Closed(_)))
        {
            // It has ended by itself: there is nothing left to order.
            self.orders = None;
        }
    }

    fn join(&mut self) {
        self.orders = None;
        if let Some(thread) = mem::take(&mut self.thread)
            && thread.join().is_err()
        {
            warn!("an embedded server has panicked");
        }
    }
}

impl Drop for ServerThread {
    fn drop(&mut self) {
        if self.thread.is_some() {
            self.kill();
        }
    }
}

/// What the thread does.
async fn live(
    config: ServerConfig,
    seams: Seams,
    mut started: oneshot::Sender<Result<Running, StartError>>,
    mut orders: mpsc::Receiver<Order>,
) {
    let (report, failure) = watch::channel(None);
    let start = tokio::select! {
        start = Node::start(config, seams) => start,
        // The caller no longer waits for it.
        () = started.closed() => return,
    };
    let node = match start {
        Ok(node) => {
            // The receiver is gone if the ensemble was dropped; the orders end, too, then.
            let running = Running {
                role: node.role(),
                clients: node.client_addrs(),
                reports: node.reports(),
                controls: node.controls(),
                insiders: node.insiders(),
                failure,
            };
            let _ = started.send(Ok(running));
            node
        }
        Err(error) => {
            let _ = started.send(Err(error));
            return;
        }
    };
    let mut fatal = Box::pin(node.fatal());
    loop {
        let order = tokio::select! {
            order = orders.recv() => order.unwrap_or(Order::Kill),
            why = &mut fatal => {
                error!(why, "an embedded server has failed");
                report.send_replace(Some(why));
                return node.kill().await;
            }
        };
        match order {
            Order::Pause { paused, gate } => {
                // The caller may have gone.
                let _ = paused.send(());
                // Blocking the runtime's only thread is the point: nothing moves, no timer either.
                let _ = gate.recv();
            }
            // The caller may no longer wait.
            Order::Respond(done) => drop(done.send(())),
            Order::Stop => return node.shutdown().await,
            Order::Kill => return node.kill().await,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use zoolet_client::ClientOptions;
    use zoolet_storage::{Fault, MemoryDisk};

    use super::*;
    use crate::config::LoopbackPorts;
    use crate::node::Readiness;
    use crate::transport::ReservedPort;

    /// A server that had ended by itself was shown as running, in its last role.
    #[tokio::test]
    async fn a_server_that_has_failed_says_why_and_can_be_started_again() {
        let ports = [0, 1].map(|_| ReservedPort::take("127.0.0.1", 0).unwrap());
        let pair = LoopbackPorts { client: ports[0].port(), peer: ports[1].port() };
        let config =
            ServerConfig::loopback_ensemble(&[pair], "/failed".as_ref()).unwrap().remove(0);
        let disk = MemoryDisk::with_faults();
        let seams = Seams { disk: Arc::new(disk.clone()), ..Seams::real() };
        let mut server = ServerThread::new(config, seams);
        let running = server.launch().unwrap().await.unwrap().unwrap();
        let reports = running.reports.clone();
        server.launched(running);
        assert_eq!((server.standing(), server.failure()), (Standing::Running, None));
        let mut failure = server.running.as_ref().unwrap().failure.clone();
        disk.fail_change(1, Fault::Io);
        // Its session has to be written.
        let servers = format!("127.0.0.1:{}", pair.client);
        let client =
            tokio::spawn(async move { ClientOptions::new().connect(&servers).await.map(drop) });
        let why = failure.wait_for(Option::is_some).await.unwrap().clone().unwrap();
        client.abort();
        assert!(why.contains("injected fault"), "{why}");
        assert_eq!((server.standing(), server.role()), (Standing::Failed, Role::Looking));
        assert_eq!(reports.readiness(), Readiness::Failed(why.clone()));
        assert_eq!(server.failure(), Some(why));

        let running = server.launch().unwrap().await.unwrap().unwrap();
        let reports = running.reports.clone();
        server.launched(running);
        assert_eq!((server.standing(), server.failure()), (Standing::Running, None));
        assert!(server.responds().await);
        server.pause();
        let mut response = Box::pin(server.responds());
        let early = tokio::time::timeout(Duration::from_millis(300), &mut response).await;
        assert!(early.is_err(), "a thread that is blocked responds");
        server.resume();
        assert!(response.await);
        server.stop().await;
        assert!(!server.responds().await);
        assert_eq!(reports.readiness(), Readiness::NotReady("the server stops"));
    }
}
