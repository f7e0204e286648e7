//! The listener and its connections.

use std::convert::Infallible;
use std::io;
use std::net::SocketAddr;
use std::sync::atomic::Ordering;
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
use zoolet_console::{
    Activity, Caller, Connections, Console, IdleStream, Malformed, Opened, Opener, Pause, PortTls,
    Refusals, Reloads, Room,
};
use zoolet_server::embed::{
    self, DescriptorUse, Reports, has_descriptors, http_connections_max, probes_max,
};
use zoolet_tls::{ArrivingInsiders, Insider, Insiders, TlsError, insiders};

use crate::commands::SnapshotGate;
use crate::lane::{Lane, PortFigures};
use crate::routes::{self, Connection, Routes};

/// The longest head of a request, in bytes and in headers.
const HEAD_BYTES_MAX: usize = 16 << 10;
const HEADERS_MAX: usize = 64;

/// Connections that the system keeps waiting to be accepted.
const BACKLOG: u32 = 128;

/// How long a connection that can only probe may be idle.
const PROBE_IDLE_MAX: Duration = Duration::from_secs(5);

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
    /// The most connections, 100 by default; one more takes the place of the longest idle one. If none
    /// is idle, a few more can ask for `/health` and `/ready`.
    pub connections_max: usize,
    /// How long a connection may take for the head of a request, or be idle; 30 s by default.
    pub idle_timeout: Duration,
    /// Whether the command `snapshot` is there; it is by default.
    pub snapshots: bool,
    /// The pause between two snapshots; 5 min by default.
    pub snapshot_interval: Duration,
    /// TLS; none by default.
    pub tls: Option<PortTls>,
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
            tls: None,
        }
    }
}

/// The HTTP port could not be opened.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum HttpError {
    /// It cannot listen.
    #[error("cannot listen for HTTP on {address}: {source}")]
    Listen {
        /// Where it was to listen.
        address: String,
        /// What the system says.
        source: io::Error,
    },
    /// TLS cannot be set up.
    #[error("cannot set up TLS for HTTP: {0}")]
    Tls(#[from] TlsError),
}

/// An open HTTP port; dropping it closes it and its connections.
#[derive(Debug)]
pub struct HttpPort {
    local_addr: SocketAddr,
    reports: Arc<OnceLock<Reports>>,
    console: Arc<OnceLock<Console>>,
    insiders: Insiders,
    tasks: [JoinHandle<()>; 2],
}

impl HttpPort {
    /// Opens the port, on the runtime of the caller. Until [`HttpPort::show`] the server counts as
    /// starting.
    pub async fn open(options: HttpOptions) -> Result<Self, HttpError> {
        let address = options.address.clone();
        let (opener, reloads) = Opener::load(options.tls.clone(), "for HTTP").await?;
        let listening = embed::listen(&address, BACKLOG).await;
        let opened = listening.and_then(|listener| Ok((listener.local_addr()?, listener)));
        let (local_addr, listener) =
            opened.map_err(|source| HttpError::Listen { address, source })?;
        let reports = Arc::new(OnceLock::new());
        let snapshots = SnapshotGate::new(options.snapshots, options.snapshot_interval);
        let console = Arc::new(OnceLock::new());
        let certificates = reloads.as_ref().map(Reloads::certificates);
        let figures = Arc::new(PortFigures { certificates, ..PortFigures::default() });
        let routes = Routes::new(options.command_url.clone(), Arc::clone(&reports), snapshots)
            .with_console(Arc::clone(&console))
            .with_figures(Arc::clone(&figures));
        let (insiders, arriving) = insiders("HTTP port");
        let idle = options.idle_timeout;
        let serving = Arc::new(Serving { idle, opener, routes, local_addr, figures });
        let accepting = tokio::spawn(accept_all((listener, arriving), options, serving));
        let reloading = tokio::spawn(async move {
            if let Some(reloads) = reloads {
                reloads.follow().await;
            }
        });
        Ok(Self { local_addr, reports, console, insiders, tasks: [accepting, reloading] })
    }

    /// Shows a server from now on. Only the first call has an effect.
    pub fn show(&self, reports: Reports) {
        let _ = self.reports.set(reports);
    }

    /// Serves a console below `/console/` from now on. Only the first call has an effect.
    pub fn show_console(&self, console: Console) {
        let _ = self.console.set(console);
    }

    /// Makes connections within the program.
    pub fn insiders(&self) -> Insiders {
        self.insiders.clone()
    }

    /// Where it listens, with the port that the system chose.
    pub fn local_addr(&self) -> SocketAddr {
        self.local_addr
    }
}

impl Drop for HttpPort {
    fn drop(&mut self) {
        for task in &self.tasks {
            task.abort();
        }
    }
}

/// What the connections of a port share.
#[derive(Debug)]
struct Serving {
    idle: Duration,
    opener: Opener,
    routes: Routes,
    local_addr: SocketAddr,
    figures: Arc<PortFigures>,
}

impl Serving {
    /// Returns how long a connection may be idle.
    fn idle_of(&self, lane: Lane) -> Duration {
        match lane {
            Lane::All => self.idle,
            Lane::Probes => self.idle.min(PROBE_IDLE_MAX),
        }
    }
}

/// How a connection has come.
enum Arrival {
    Socket(TcpStream),
    /// From a part of this program.
    Inside(Insider),
}

async fn accept_all(
    (listener, mut arriving): (TcpListener, ArrivingInsiders),
    options: HttpOptions,
    serving: Arc<Serving>,
) {
    let connections_max = http_connections_max(options.connections_max);
    let mut connections = Connections::new(connections_max);
    let mut probes = Connections::new(probes_max());
    let refusals = Arc::new(Refusals::default());
    let (mut full, mut failing) = (Pause::default(), Pause::default());
    loop {
        let arrived = tokio::select! {
            accepted = listener.accept() => {
                accepted.map(|(stream, peer)| (Arrival::Socket(stream), peer))
            }
            insider = arriving.next() => {
                let peer = insider.peer;
                Ok((Arrival::Inside(insider), peer))
            }
            () = connections.next_ended() => continue,
            () = probes.next_ended() => continue,
        };
        match arrived {
            Ok((arrival, peer)) => {
                let room = if has_descriptors(DescriptorUse::Http) {
                    connections.make_room()
                } else {
                    // The newcomer takes the descriptor of the closed connection.
                    connections.close_idle()
                };
                if room != Room::Free {
                    serving.figures.crowded.fetch_add(1, Ordering::Relaxed);
                    if full.is_over() {
                        warn_full(connections_max);
                    }
                }
                let lane = if room == Room::None { Lane::Probes } else { Lane::All };
                let taking = match lane {
                    Lane::All => &mut connections,
                    Lane::Probes if !has_descriptors(DescriptorUse::Peers) => continue,
                    Lane::Probes if probes.make_room() == Room::None => continue,
                    Lane::Probes => &mut probes,
                };
                let (serving, refusals) = (Arc::clone(&serving), Arc::clone(&refusals));
                taking.add(|activity| async move {
                    let served = serve((arrival, peer), lane, &serving, activity).await;
                    if let Err(refused) = served {
                        refusals.log(peer, &refused);
                    }
                });
            }
            Err(error) if error.kind() == io::ErrorKind::ConnectionAborted => {}
            Err(error) => {
                if failing.is_over() {
                    warn!(%error, "cannot accept HTTP connections; trying again");
                }
                sleep(ACCEPT_PAUSE).await;
            }
        }
    }
}

fn warn_full(max: usize) {
    warn!(
        max,
        "too many HTTP connections (http.connections_max): the longest idle ones are closed; if none \
         is idle, new ones can ask for /health and /ready only"
    );
}

/// Serves a connection to its end. Returns what was wrong with its last request, if something was.
async fn serve(
    (arrival, peer): (Arrival, SocketAddr),
    lane: Lane,
    serving: &Arc<Serving>,
    activity: Arc<Activity>,
) -> Result<(), Malformed> {
    let idle = serving.idle_of(lane);
    let (opened, local) = match arrival {
        Arrival::Inside(insider) => (Opened::inside(insider), serving.local_addr),
        Arrival::Socket(stream) => {
            let Ok(local) = stream.local_addr() else { return Ok(()) };
            match timeout(idle, serving.opener.open(stream, peer.ip())).await {
                Ok(Ok(Some(opened))) => (opened, local),
                Ok(Ok(None)) => return Ok(()),
                Ok(Err(refused)) => return Err(Malformed::NotOpened(refused)),
                Err(_) => {
                    debug!(%peer, "idle HTTP connection closed");
                    return Ok(());
                }
            }
        }
    };
    serve_opened(opened, (local, peer), (lane, serving), activity).await
}

async fn serve_opened(
    Opened { stream, is_secure, certificate }: Opened,
    (local, peer): (SocketAddr, SocketAddr),
    (lane, serving): (Lane, &Arc<Serving>),
    activity: Arc<Activity>,
) -> Result<(), Malformed> {
    let idle = serving.idle_of(lane);
    let stream = IdleStream { stream, notes: Arc::clone(&activity) };
    let (serving, certificate) = (Arc::clone(serving), certificate.map(Arc::new));
    let answering = Arc::clone(&activity);
    let service = service_fn(move |request| {
        let (serving, activity) = (Arc::clone(&serving), Arc::clone(&answering));
        let certificate = certificate.clone();
        async move {
            let busy = activity.answering();
            let caller = Caller { peer, local, is_secure, certificate };
            let connection = Connection { caller: &caller, activity: &activity, lane };
            let response = routes::answer(&serving.routes, request, connection).await;
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
