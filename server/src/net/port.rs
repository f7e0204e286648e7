//! The listener.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use tokio::task::{JoinHandle, JoinSet};
use tokio::time::{Instant, sleep};
use tracing::{debug, error, warn};

use super::connection::Connection;
use super::context::PortContext;
use super::movable_listener::{MovableListener, Mover};
use super::options::PortOptions;
use super::registry::RegisteredConnection;
use super::reports::PortReports;
use crate::fatal::{Fatal, caught};
use crate::host::Host;
use crate::outbox::Outbox;
use crate::transport::{Net, Stream};

/// How long the listener waits when the system is out of file descriptors or memory: a closed
/// connection frees what it needs.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// The pause between two warnings that no client can be accepted.
const ACCEPT_WARN_INTERVAL: Duration = Duration::from_secs(10);

/// An open client port; dropping it closes the port and all its connections.
#[derive(Debug)]
pub(crate) struct ClientPort {
    bound: watch::Receiver<SocketAddr>,
    reports: PortReports,
    task: JoinHandle<()>,
}

/// Opens the port. It moves to each `host:port` that `wanted` comes to hold; the connections that
/// are there stay. `fatal` receives the reason if it can no longer accept.
pub(crate) async fn listen(
    options: PortOptions,
    host: Arc<Host>,
    net: Arc<dyn Net>,
    wanted: watch::Receiver<String>,
    fatal: &Fatal,
) -> io::Result<ClientPort> {
    let listener = MovableListener::open(net, &options).await?;
    let bound = listener.bound();
    let context = Arc::new(PortContext::new(options, host, bound.clone()));
    let reports = PortReports(Arc::clone(&context));
    let accepting = accept_all(listener, wanted, context);
    let task = tokio::spawn(fatal.clone().endless("client port", accepting));
    Ok(ClientPort { bound, reports, task })
}

impl ClientPort {
    /// Where it listens now, with the port that the system chose.
    pub(crate) fn local_addr(&self) -> SocketAddr {
        *self.bound.borrow()
    }

    /// The same, as it changes.
    pub(crate) fn bound(&self) -> watch::Receiver<SocketAddr> {
        self.bound.clone()
    }

    /// Reads what the port knows.
    pub(crate) fn reports(&self) -> PortReports {
        self.reports.clone()
    }

    /// Closes the port and all its connections.
    pub(crate) fn close(&self) {
        self.task.abort();
    }
}

impl Drop for ClientPort {
    fn drop(&mut self) {
        self.close();
    }
}

async fn accept_all(
    mut listener: MovableListener,
    wanted: watch::Receiver<String>,
    context: Arc<PortContext>,
) {
    // The tasks end with the set.
    let mut tasks = JoinSet::new();
    let mut warned_at: Option<Instant> = None;
    let mut mover = Mover::new(&listener, wanted);
    loop {
        tokio::select! {
            (address, opened) = mover.next() => {
                let moved = listener.move_to(&address, opened).await;
                mover.note(&listener, &address, moved);
            }
            accepted = listener.accept() => match accepted {
                Ok((stream, peer)) => {
                    tasks.spawn(serve_caught(stream, peer, Arc::clone(&context)));
                }
                // The client took its own connection back; the next one need not wait for that.
                Err(error) if error.kind() == io::ErrorKind::ConnectionAborted => {}
                Err(error) => {
                    if warned_at.is_none_or(|at| at.elapsed() >= ACCEPT_WARN_INTERVAL) {
                        warned_at = Some(Instant::now());
                        warn!(%error, "cannot accept clients; trying again until it works");
                    }
                    sleep(ACCEPT_PAUSE).await;
                }
            },
            Some(_) = tasks.join_next() => {}
        }
    }
}

/// A client's connection must not end the server.
async fn serve_caught(stream: Box<dyn Stream>, peer: SocketAddr, context: Arc<PortContext>) {
    if let Err(panic) = caught(serve(stream, peer, context)).await {
        error!(%peer, panic, "a client's connection has panicked");
    }
}

async fn serve(stream: Box<dyn Stream>, peer: SocketAddr, context: Arc<PortContext>) {
    let outbox = Arc::new(Outbox::new(context.options.outbox_bytes_max));
    let since_ms = context.host.now().wall_ms;
    let entry = RegisteredConnection { peer, outbox: Arc::clone(&outbox), since_ms };
    let Some(permit) = context.registry.enter(entry) else {
        debug!(%peer, "refused: too many connections");
        return;
    };
    let mut connection = Connection::new(stream, peer, outbox, permit, context);
    if let Err(error) = connection.run().await {
        debug!(%peer, %error, "connection closed");
    }
}
