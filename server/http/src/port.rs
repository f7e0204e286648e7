//! The listener and its connections.

use std::convert::Infallible;
use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use thiserror::Error;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;
use tokio::time::{sleep, timeout};
use tracing::{debug, warn};
use zoolet_console::Console;
use zoolet_server::embed::{self, Reports};

use crate::commands::SnapshotGate;
use crate::connections::{Connections, Room};
use crate::idle_stream::{Activity, IdleStream};
use crate::not_http;
use crate::refusals::{Malformed, Pause, Refusals};
use crate::routes::{self, Caller, Routes};

/// The longest head of a request, in bytes and in headers.
const HEAD_BYTES_MAX: usize = 16 << 10;
const HEADERS_MAX: usize = 64;

/// Connections that the system keeps waiting to be accepted.
const BACKLOG: u32 = 128;

/// The pause when the system is out of file descriptors or memory.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// The settings of an HTTP port.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct HttpOptions {
    /// `host:port` to listen on; with port 0 the system chooses.
    pub address: String,
    /// The path of the commands, `/commands` by default; none serves metrics alone.
    pub command_url: Option<String>,
    /// The most connections, 100 by default; one more takes the place of the longest idle one.
    pub connections_max: usize,
    /// How long a connection may take for the head of a request, or be idle; 30 s by default.
    pub idle_timeout: Duration,
    /// Whether the command `snapshot` is there; it is by default.
    pub snapshots: bool,
    /// The pause between two snapshots; 5 min by default.
    pub snapshot_interval: Duration,
}

impl HttpOptions {
    /// The default settings, and an address.
    pub fn new(address: impl Into<String>) -> Self {
        Self {
            address: address.into(),
            command_url: Some("/commands".to_owned()),
            connections_max: 100,
            idle_timeout: Duration::from_secs(30),
            snapshots: true,
            snapshot_interval: Duration::from_mins(5),
        }
    }
}

/// The HTTP port could not be opened.
#[derive(Debug, Error)]
#[error("cannot listen for HTTP on {address}: {source}")]
pub struct HttpError {
    /// Where it was to listen.
    pub address: String,
    /// What the system says.
    pub source: io::Error,
}

/// An open HTTP port; dropping it closes it and its connections.
#[derive(Debug)]
pub struct HttpPort {
    local_addr: SocketAddr,
    reports: Arc<OnceLock<Reports>>,
    console: Arc<OnceLock<Console>>,
    task: JoinHandle<()>,
}

impl HttpPort {
    /// Opens the port, on the runtime of the caller. Until [`HttpPort::show`] the server counts as
    /// starting.
    pub async fn open(options: HttpOptions) -> Result<Self, HttpError> {
        let address = options.address.clone();
        let listening = embed::listen(&address, BACKLOG).await;
        let opened = listening.and_then(|listener| Ok((listener.local_addr()?, listener)));
        let (local_addr, listener) = opened.map_err(|source| HttpError { address, source })?;
        let reports = Arc::new(OnceLock::new());
        let snapshots = SnapshotGate::new(options.snapshots, options.snapshot_interval);
        let console = Arc::new(OnceLock::new());
        let routes = Routes::new(options.command_url.clone(), Arc::clone(&reports), snapshots)
            .with_console(Arc::clone(&console));
        let task = tokio::spawn(accept_all(listener, options, Arc::new(routes)));
        Ok(Self { local_addr, reports, console, task })
    }

    /// Shows a server from now on. Only the first call has an effect.
    pub fn show(&self, reports: Reports) {
        let _ = self.reports.set(reports);
    }

    /// Serves a console below `/console/` from now on. Only the first call has an effect.
    pub fn show_console(&self, console: Console) {
        let _ = self.console.set(console);
    }

    /// Where it listens, with the port that the system chose.
    pub fn local_addr(&self) -> SocketAddr {
        self.local_addr
    }
}

impl Drop for HttpPort {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn accept_all(listener: TcpListener, options: HttpOptions, routes: Arc<Routes>) {
    let mut connections = Connections::new(options.connections_max);
    let refusals = Arc::new(Refusals::default());
    let (mut full, mut failing) = (Pause::default(), Pause::default());
    loop {
        tokio::select! {
            accepted = listener.accept() => match accepted {
                Ok((stream, peer)) => {
                    let room = connections.make_room();
                    if room != Room::Free && full.is_over() {
                        warn_full(options.connections_max);
                    }
                    if room != Room::None {
                        let (routes, refusals) = (Arc::clone(&routes), Arc::clone(&refusals));
                        let idle = options.idle_timeout;
                        connections.add(|activity| async move {
                            let served = serve((stream, peer), routes, idle, activity).await;
                            if let Err(refused) = served {
                                refusals.log(peer, &refused);
                            }
                        });
                    }
                }
                Err(error) if error.kind() == io::ErrorKind::ConnectionAborted => {}
                Err(error) => {
                    if failing.is_over() {
                        warn!(%error, "cannot accept HTTP connections; trying again");
                    }
                    sleep(ACCEPT_PAUSE).await;
                }
            },
            () = connections.next_ended() => {}
        }
    }
}

fn warn_full(max: usize) {
    warn!(
        max,
        "too many HTTP connections: the longest idle ones are closed, or new ones if none is idle"
    );
}

/// Serves a connection to its end. Returns what was wrong with its last request, if something was.
async fn serve(
    (stream, peer): (TcpStream, SocketAddr),
    routes: Arc<Routes>,
    idle: Duration,
    activity: Arc<Activity>,
) -> Result<(), Malformed> {
    let stream = match timeout(idle, not_http::refuse(stream)).await {
        Ok(Ok(Some(stream))) => stream,
        Ok(Ok(None)) => return Ok(()),
        Ok(Err(refused)) => return Err(refused),
        Err(_) => {
            debug!(%peer, "idle HTTP connection closed");
            return Ok(());
        }
    };
    let Ok(local) = stream.local_addr() else { return Ok(()) };
    let stream = IdleStream { stream, activity: Arc::clone(&activity) };
    let answering = Arc::clone(&activity);
    let service = service_fn(move |request| {
        let (routes, activity) = (Arc::clone(&routes), Arc::clone(&answering));
        async move {
            let busy = activity.answering();
            let caller = Caller { peer: peer.ip(), local, activity: &activity };
            let response = routes::answer(&routes, request, caller).await;
            drop(busy);
            Ok::<_, Infallible>(response)
        }
    });
    let mut http = http1::Builder::new();
    http.timer(TokioTimer::new())
        .header_read_timeout(idle)
        .max_headers(HEADERS_MAX)
        .max_buf_size(HEAD_BYTES_MAX);
    let connection = http.serve_connection(TokioIo::new(stream), service);
    tokio::select! {
        ended = connection => match ended {
            // hyper has answered it with 400 or 431 and no text, and takes none.
            Err(error) if error.is_parse() => return Err(Malformed::Request(error)),
            Err(error) => debug!(%peer, %error, "HTTP connection closed"),
            Ok(()) => {}
        },
        () = activity.until_idle(idle) => debug!(%peer, "idle HTTP connection closed"),
        () = activity.until_old() => debug!(%peer, "old HTTP connection closed"),
    }
    Ok(())
}
