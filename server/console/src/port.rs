//! A console at an address of its own.

use std::convert::Infallible;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use thiserror::Error;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio::task::{JoinHandle, JoinSet};
use tokio::time::{sleep, timeout};
use tracing::{debug, warn};

use crate::console::{Caller, Console};
use crate::options::ConsoleOptions;

/// The most connections at a time; further ones wait.
const CONNECTIONS_MAX: usize = 256;

/// The longest head of a request, in bytes and in headers, and how long it may take.
const HEAD_BYTES_MAX: usize = 16 << 10;
const HEADERS_MAX: usize = 64;
const HEAD_TIME_MAX: Duration = Duration::from_secs(30);

/// A connection is closed after this time; a page asks again on another.
const LIFE_MAX: Duration = Duration::from_hours(1);

/// The pause when the system is out of file descriptors or memory.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// The port could not be opened.
#[derive(Debug, Error)]
#[error("cannot listen for the console on {address}: {source}")]
pub struct ConsolePortError {
    /// Where it was to listen.
    pub address: String,
    /// What the system says.
    pub source: io::Error,
}

/// An open port; dropping it closes it and its connections.
#[derive(Debug)]
pub struct ConsolePort {
    local_addr: SocketAddr,
    task: JoinHandle<()>,
}

impl ConsolePort {
    /// Opens the port, on the runtime of the caller; with port 0 the system chooses.
    pub async fn open(address: &str, options: ConsoleOptions) -> Result<Self, ConsolePortError> {
        let listening = TcpListener::bind(address).await;
        let opened = listening.and_then(|listener| Ok((listener.local_addr()?, listener)));
        let (local_addr, listener) =
            opened.map_err(|source| ConsolePortError { address: address.to_owned(), source })?;
        let console = Console::new(options, &local_addr.port().to_string());
        let task = tokio::spawn(accept_all(listener, console));
        Ok(Self { local_addr, task })
    }

    /// Where it listens, with the port that the system chose.
    pub fn local_addr(&self) -> SocketAddr {
        self.local_addr
    }
}

impl Drop for ConsolePort {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn accept_all(listener: TcpListener, console: Console) {
    let places = Arc::new(Semaphore::new(CONNECTIONS_MAX));
    let mut connections = JoinSet::new();
    loop {
        // It is never closed.
        let Ok(place) = Arc::clone(&places).acquire_owned().await else { return };
        match listener.accept().await {
            Ok((stream, peer)) => {
                let console = console.clone();
                connections.spawn(async move {
                    if timeout(LIFE_MAX, serve(stream, console)).await.is_err() {
                        debug!(%peer, "old console connection closed");
                    }
                    drop(place);
                });
            }
            Err(error) if error.kind() == io::ErrorKind::ConnectionAborted => {}
            Err(error) => {
                warn!(%error, "cannot accept connections to the console; trying again");
                sleep(ACCEPT_PAUSE).await;
            }
        }
        while connections.try_join_next().is_some() {}
    }
}

async fn serve(stream: TcpStream, console: Console) {
    let Ok(local) = stream.local_addr() else { return };
    let service = service_fn(move |request| {
        let console = console.clone();
        async move { Ok::<_, Infallible>(console.answer(request, Caller { local }).await) }
    });
    let mut http = http1::Builder::new();
    http.timer(TokioTimer::new())
        .header_read_timeout(HEAD_TIME_MAX)
        .max_headers(HEADERS_MAX)
        .max_buf_size(HEAD_BYTES_MAX);
    if let Err(error) = http.serve_connection(TokioIo::new(stream), service).await {
        debug!(%error, "console connection closed");
    }
}
