//! The listener.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use tokio::sync::watch;
use tokio::task::{JoinHandle, JoinSet, yield_now};
use tokio::time::{Instant, sleep, timeout};
use tracing::{debug, error, warn};
use zoolet_replica::Limit;
use zoolet_tls::{ArrivingInsiders, HandshakeError, Insider, Insiders, insiders};

use super::connection::Connection;
use super::context::PortContext;
use super::error::ConnectionError;
use super::movable_listener::{MovableListener, Mover};
use super::options::PortOptions;
use super::registry::{ConnectionPermit, RegisteredConnection};
use super::reports::PortReports;
use super::tls::{Opened, Spoken};
use super::words_lane;
use crate::descriptors::{self, DescriptorUse};
use crate::fatal::{Fatal, caught};
use crate::host::Host;
use crate::outbox::Outbox;
use crate::transport::{Listener, Net, Stream};

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
    secure_at: Option<SocketAddr>,
    insiders: Insiders,
    task: JoinHandle<()>,
}

/// An address that cannot be listened on.
#[derive(Debug)]
pub(crate) struct ListenError {
    pub(crate) address: String,
    pub(crate) source: io::Error,
}

/// How a connection has come.
#[derive(Debug)]
enum Arrival {
    Socket(Box<dyn Stream>, Spoken),
    /// From a part of this program.
    Inside(Insider),
}

/// Opens the port. It moves to each `host:port` that `wanted` comes to hold; the connections that
/// are there stay. `fatal` receives the reason if it can no longer accept.
pub(crate) async fn listen(
    options: PortOptions,
    host: Arc<Host>,
    net: Arc<dyn Net>,
    wanted: watch::Receiver<String>,
    fatal: &Fatal,
) -> Result<ClientPort, ListenError> {
    let (mut secure, mut secure_at) = (None, None);
    if let Some(address) = &options.secure_address {
        let failed = |source| ListenError { address: address.clone(), source };
        let listener = net.listen(address, options.backlog).await.map_err(failed)?;
        secure_at = Some(listener.local_addr().map_err(failed)?);
        secure = Some(listener);
    }
    let failed = |source| ListenError { address: options.address.clone(), source };
    let listener = MovableListener::open(net, &options).await.map_err(failed)?;
    let bound = listener.bound();
    let context = Arc::new(PortContext::new(options, host, bound.clone(), secure_at));
    let reports = PortReports(Arc::clone(&context));
    let (insiders, arriving) = insiders("client port");
    let accepting = accept_all(listener, (secure, arriving), wanted, context);
    let task = tokio::spawn(fatal.clone().endless("client port", accepting));
    Ok(ClientPort { bound, reports, secure_at, insiders, task })
}

impl ClientPort {
    /// Where it listens now, with the port that the system chose.
    pub(crate) fn local_addr(&self) -> SocketAddr {
        *self.bound.borrow()
    }

    /// Where it listens for TLS alone.
    pub(crate) fn secure_addr(&self) -> Option<SocketAddr> {
        self.secure_at
    }

    /// The same as [`Self::local_addr`], as it changes.
    pub(crate) fn bound(&self) -> watch::Receiver<SocketAddr> {
        self.bound.clone()
    }

    /// Makes connections within the program.
    pub(crate) fn insiders(&self) -> Insiders {
        self.insiders.clone()
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
    (mut secure, mut arriving): (Option<Box<dyn Listener>>, ArrivingInsiders),
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
            (accepted, spoken) = accept(&mut listener, secure.as_mut(), context.options.spoken) => match accepted {
                Ok((stream, peer)) => {
                    let arrival = Arrival::Socket(stream, spoken);
                    tasks.spawn(serve_caught(arrival, peer, Arc::clone(&context)));
                    // Its task refuses it if there is no place. A burst of connections that were all
                    // accepted before that would take the last descriptors.
                    yield_now().await;
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
            insider = arriving.next() => {
                let peer = insider.peer;
                tasks.spawn(serve_caught(Arrival::Inside(insider), peer, Arc::clone(&context)));
            }
            Some(_) = tasks.join_next() => {}
        }
    }
}

/// Waits for the next connection to any of the two ports.
async fn accept(
    listener: &mut MovableListener,
    secure: Option<&mut Box<dyn Listener>>,
    spoken: Spoken,
) -> (io::Result<(Box<dyn Stream>, SocketAddr)>, Spoken) {
    let Some(secure) = secure else { return (listener.accept().await, spoken) };
    tokio::select! {
        accepted = listener.accept() => (accepted, spoken),
        accepted = secure.accept() => (accepted, Spoken::Tls),
    }
}

/// A client's connection must not end the server.
async fn serve_caught(arrival: Arrival, peer: SocketAddr, context: Arc<PortContext>) {
    if let Err(panic) = caught(serve(arrival, peer, context)).await {
        error!(%peer, panic, "a client's connection has panicked");
    }
}

async fn serve(arrival: Arrival, peer: SocketAddr, context: Arc<PortContext>) {
    let spoken = match &arrival {
        Arrival::Socket(_, spoken) => *spoken,
        Arrival::Inside(_) => Spoken::Plain,
    };
    let share = context.budget.share(peer.ip());
    let outbox = Arc::new(Outbox::sharing(context.options.outbox_bytes_max, share));
    let since_ms = context.host.now().wall_ms;
    let entry =
        RegisteredConnection { peer, outbox: Arc::clone(&outbox), since_ms, is_secure: false };
    let mut permit = match context.enter(entry, spoken) {
        Ok(permit) => permit,
        Err(limit) => return Box::pin(refuse(arrival, peer, limit, &context)).await,
    };
    let opened = match arrival {
        Arrival::Inside(insider) => Opened::inside(insider, &context.options),
        Arrival::Socket(stream, Spoken::Plain) => Ok(Opened::plain(stream)),
        // What is awaited once is boxed: an idle connection needs room for serving only.
        Arrival::Socket(stream, spoken) => {
            let has_sent = permit.has_sent();
            let opening = Box::pin(open(stream, peer, (spoken, has_sent), &context));
            tokio::select! {
                biased;
                () = permit.gives_way() => Err(ConnectionError::GaveWay),
                opened = opening => opened,
            }
        }
    };
    let served = match opened {
        Ok(opened) if permit.opened(opened.is_secure) => {
            let context = Arc::clone(&context);
            Connection::new(opened, peer, outbox, permit, context).run().await
        }
        Ok(_) => Err(ConnectionError::GaveWay),
        Err(error) => Err(error),
    };
    if let Err(error) = &served {
        context.count_error(error.reason());
    }
    match served {
        Ok(()) => {}
        Err(error) if error.warned_as().is_some_and(|kind| context.may_warn(kind)) => {
            warn!(%peer, %error, "connection closed; others like it may not be logged for 10 s");
        }
        Err(error) => debug!(%peer, %error, "connection closed"),
    }
}

impl PortContext {
    /// Returns a place for a connection, or the limit that keeps it out.
    fn enter(
        &self,
        entry: RegisteredConnection,
        spoken: Spoken,
    ) -> Result<ConnectionPermit, Limit> {
        if !descriptors::has_room(DescriptorUse::Clients) {
            return Err(Limit::OpenFiles);
        }
        self.registry.enter(entry, spoken)
    }
}

/// Turns a connection away, unless it asks a four-letter word.
async fn refuse(arrival: Arrival, peer: SocketAddr, limit: Limit, context: &PortContext) {
    let spoken = match arrival {
        Arrival::Socket(mut stream, spoken) => {
            let is_plain = spoken != Spoken::Tls;
            if is_plain && words_lane::answer(&mut *stream, peer.ip(), context).await {
                return;
            }
            spoken
        }
        Arrival::Inside(_) => Spoken::Plain,
    };
    context.registry.count_refused(limit, spoken);
    let (table, now_ms) = (context.host.limit_table(), context.host.now().mono_ms);
    table.refuse(limit, now_ms, format_args!("a connection of {peer} is refused"));
}

/// Carries out the handshake of TLS, if there is to be one.
async fn open(
    stream: Box<dyn Stream>,
    peer: SocketAddr,
    (spoken, has_sent): (Spoken, Arc<AtomicBool>),
    context: &PortContext,
) -> Result<Opened, ConnectionError> {
    let limit_ms = context.options.handshake_timeout_ms;
    let opening = Opened::of(stream, peer.ip(), (spoken, has_sent), &context.options);
    let opened = timeout(Duration::from_millis(limit_ms), opening).await;
    let opened = opened.unwrap_or_else(|_| {
        context.registry.count_late();
        Err(ConnectionError::HandshakeTimeout(limit_ms))
    });
    if let Err(ConnectionError::Tls(HandshakeError::Queue)) = &opened {
        context.registry.count_not_started();
        let (table, now_ms) = (context.host.limit_table(), context.host.now().mono_ms);
        table.refuse(
            Limit::TlsHandshakes,
            now_ms,
            format_args!("a late handshake of {peer} is refused"),
        );
    }
    opened
}
