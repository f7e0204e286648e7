//! The listener.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::Duration;

use tokio::sync::watch;
use tokio::task::{JoinHandle, JoinSet};
use tokio::time::{Instant, sleep};
use tracing::{debug, error, warn};

use super::connection::Connection;
use super::four_letter::TRACE_MASK;
use super::movable_listener::{MovableListener, Mover};
use super::registry::{Entry, Registry};
use super::server_info::ServerInfo;
use crate::fatal::{Fatal, caught};
use crate::host::Host;
use crate::outbox::Outbox;
use crate::transport::{Net, Stream};

/// How long the listener waits when the system is out of file descriptors or memory: a closed
/// connection frees what it needs.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// The pause between two warnings that no client can be accepted.
const ACCEPT_WARN_INTERVAL: Duration = Duration::from_secs(10);

/// The settings of a client port.
#[derive(Clone, Debug)]
pub struct PortOptions {
    /// `host:port` to listen on; with port 0 the system chooses.
    pub address: String,
    /// The most connections that wait to be accepted.
    pub backlog: u32,
    /// The longest frame of a client in bytes (`jute.maxbuffer`).
    pub frame_bytes_max: usize,
    /// How long a connection may take for its handshake, in milliseconds.
    pub handshake_timeout_ms: u64,
    /// The most connections whose handshake is not done; zero for no limit.
    pub handshakes_max: usize,
    /// The most connections from one address; zero for no limit (`maxClientCnxns`).
    pub connections_per_address_max: usize,
    /// The most connections; zero for no limit (`maxCnxns`).
    pub connections_max: usize,
    /// The most bytes that wait for one client to read them.
    pub outbox_bytes_max: usize,
    /// What four-letter words say about the configuration.
    pub server_info: ServerInfo,
}

/// What all connections of a port share.
#[derive(Debug)]
pub(super) struct Shared {
    pub(super) options: PortOptions,
    pub(super) host: Arc<Host>,
    pub(super) registry: Arc<Registry>,
    /// What `stmk` sets and `gtmk` shows, and nothing reads.
    pub(super) trace_mask: AtomicU64,
    /// When the port was opened.
    pub(super) opened: Instant,
    /// Where the port listens now.
    pub(super) bound_at: watch::Receiver<SocketAddr>,
}

/// An open client port; dropping it closes the port and all its connections.
#[derive(Debug)]
pub struct ClientPort {
    bound: watch::Receiver<SocketAddr>,
    task: JoinHandle<()>,
}

/// Opens the port. It moves to each `host:port` that `wanted` comes to hold; the connections that
/// are there stay. `fatal` receives the reason if it can no longer accept.
pub async fn listen(
    options: PortOptions,
    host: Arc<Host>,
    net: Arc<dyn Net>,
    wanted: watch::Receiver<String>,
    fatal: &Fatal,
) -> io::Result<ClientPort> {
    let listener = MovableListener::open(net, &options).await?;
    let bound = listener.bound();
    let registry = Registry::new(&options);
    let trace_mask = AtomicU64::new(TRACE_MASK);
    let opened = Instant::now();
    let bound_at = bound.clone();
    let shared = Arc::new(Shared { options, host, registry, trace_mask, opened, bound_at });
    let accepting = accept_all(listener, wanted, shared);
    let task = tokio::spawn(fatal.clone().endless("client port", accepting));
    Ok(ClientPort { bound, task })
}

impl ClientPort {
    /// Where it listens now, with the port that the system chose.
    pub fn local_addr(&self) -> SocketAddr {
        *self.bound.borrow()
    }

    /// The same, as it changes.
    pub fn bound(&self) -> watch::Receiver<SocketAddr> {
        self.bound.clone()
    }

    /// Closes the port and all its connections.
    pub fn close(&self) {
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
    shared: Arc<Shared>,
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
                    tasks.spawn(serve_caught(stream, peer, Arc::clone(&shared)));
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
async fn serve_caught(stream: Box<dyn Stream>, peer: SocketAddr, shared: Arc<Shared>) {
    if let Err(panic) = caught(serve(stream, peer, shared)).await {
        error!(%peer, panic, "a client's connection has panicked");
    }
}

async fn serve(stream: Box<dyn Stream>, peer: SocketAddr, shared: Arc<Shared>) {
    let outbox = Arc::new(Outbox::new(shared.options.outbox_bytes_max));
    let since_ms = shared.host.now().wall_ms;
    let entry = Entry { peer, outbox: Arc::clone(&outbox), since_ms };
    let Some(permit) = shared.registry.enter(entry) else {
        debug!(%peer, "refused: too many connections");
        return;
    };
    let connection = Connection::new(stream, peer, outbox, permit, shared);
    if let Err(error) = connection.run().await {
        debug!(%peer, %error, "connection closed");
    }
}
