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
use tokio::task::JoinHandle;
use tokio::time::{sleep, timeout};
use tracing::{debug, warn};
use zoolet_tls::TlsError;

use crate::connections::{Connections, Room};
use crate::console::{Caller, Console};
use crate::idle_stream::{Activity, IdleStream};
use crate::opening::{Opened, Opener, PortTls};
use crate::options::ConsoleOptions;
use crate::refusals::{Malformed, Pause, Refusals};

/// The most connections at a time; one more takes the place of the longest idle one.
const CONNECTIONS_MAX: usize = 256;

/// The longest head of a request, in bytes and in headers, and how long it may take.
const HEAD_BYTES_MAX: usize = 16 << 10;
const HEADERS_MAX: usize = 64;
const HEAD_TIME_MAX: Duration = Duration::from_secs(30);

/// A connection is closed after this time, whatever it is in the middle of: the certificate that it was
/// opened with may be revoked meanwhile. A page asks again on another.
const LIFE_MAX: Duration = Duration::from_mins(10);

/// The pause when the system is out of file descriptors or memory.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// The port could not be opened.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum ConsolePortError {
    /// It cannot listen.
    #[error("cannot listen for the console on {address}: {source}")]
    Listen {
        /// Where it was to listen.
        address: String,
        /// What the system says.
        source: io::Error,
    },
    /// TLS cannot be set up.
    #[error("cannot set up TLS for the console: {0}")]
    Tls(#[from] TlsError),
}

/// An open port; dropping it closes it and its connections.
#[derive(Debug)]
pub struct ConsolePort {
    local_addr: SocketAddr,
    tasks: [JoinHandle<()>; 2],
}

impl ConsolePort {
    /// Opens the port, on the runtime of the caller; with port 0 the system chooses.
    pub async fn open(
        address: &str,
        options: ConsoleOptions,
        tls: Option<PortTls>,
    ) -> Result<Self, ConsolePortError> {
        let (opener, reloads) = Opener::load(tls, "of the console").await?;
        let listening = TcpListener::bind(address).await;
        let opened = listening.and_then(|listener| Ok((listener.local_addr()?, listener)));
        let (local_addr, listener) = opened
            .map_err(|source| ConsolePortError::Listen { address: address.to_owned(), source })?;
        let console = Console::new(options, &local_addr.port().to_string());
        let accepting = tokio::spawn(accept_all(listener, console, opener));
        let reloading = tokio::spawn(async move {
            if let Some(reloads) = reloads {
                reloads.follow().await;
            }
        });
        Ok(Self { local_addr, tasks: [accepting, reloading] })
    }

    /// Where it listens, with the port that the system chose.
    pub fn local_addr(&self) -> SocketAddr {
        self.local_addr
    }
}

impl Drop for ConsolePort {
    fn drop(&mut self) {
        for task in &self.tasks {
            task.abort();
        }
    }
}

async fn accept_all(listener: TcpListener, console: Console, opener: Opener) {
    let mut connections = Connections::new(CONNECTIONS_MAX);
    let (refusals, mut full, mut failing) =
        (Arc::new(Refusals::default()), Pause::default(), Pause::default());
    loop {
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            () = connections.next_ended() => continue,
        };
        match accepted {
            Ok((stream, peer)) => {
                let room = connections.make_room();
                if room != Room::Free && full.is_over() {
                    warn!(
                        max = CONNECTIONS_MAX,
                        "too many connections to the console: the longest idle ones are closed, or \
                         new ones if none is idle"
                    );
                }
                if room == Room::None {
                    continue;
                }
                let (console, opener) = (console.clone(), opener.clone());
                let refusals = Arc::clone(&refusals);
                connections.add(|activity| async move {
                    let serving = serve((stream, peer), console, opener, activity);
                    match timeout(LIFE_MAX, serving).await {
                        Ok(Ok(())) => {}
                        Ok(Err(refused)) => refusals.log(peer, &refused),
                        Err(_) => debug!(%peer, "old console connection closed"),
                    }
                });
            }
            Err(error) if error.kind() == io::ErrorKind::ConnectionAborted => {}
            Err(error) => {
                if failing.is_over() {
                    warn!(%error, "cannot accept connections to the console; trying again");
                }
                sleep(ACCEPT_PAUSE).await;
            }
        }
    }
}

/// Serves a connection to its end. Returns what was wrong with its last request, if something was.
async fn serve(
    (stream, peer): (TcpStream, SocketAddr),
    console: Console,
    opener: Opener,
    activity: Arc<Activity>,
) -> Result<(), Malformed> {
    let Ok(local) = stream.local_addr() else { return Ok(()) };
    let opened = match timeout(HEAD_TIME_MAX, opener.open(stream, peer.ip())).await {
        Ok(Ok(Some(opened))) => opened,
        Ok(Ok(None)) | Err(_) => return Ok(()),
        Ok(Err(refused)) => return Err(Malformed::NotOpened(refused)),
    };
    let Opened { stream, is_secure, certificate } = opened;
    let caller =
        Arc::new(Caller { peer, local, is_secure, certificate: certificate.map(Arc::new) });
    let stream = IdleStream { stream, notes: Arc::clone(&activity) };
    let service = service_fn(move |request| {
        let (console, caller) = (console.clone(), Arc::clone(&caller));
        let busy = activity.answering();
        async move {
            let answer = console.answer(request, &caller).await;
            drop(busy);
            Ok::<_, Infallible>(answer)
        }
    });
    let mut http = http1::Builder::new();
    http.timer(TokioTimer::new())
        .header_read_timeout(HEAD_TIME_MAX)
        .max_headers(HEADERS_MAX)
        .max_buf_size(HEAD_BYTES_MAX);
    match http.serve_connection(TokioIo::new(stream), service).await {
        // hyper has answered it with 400 or 431 and no text.
        Err(error) if error.is_parse() => return Err(Malformed::Request(error)),
        Err(error) => debug!(%peer, %error, "console connection closed"),
        Ok(()) => {}
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tracing::span::{Attributes, Id, Record};
    use tracing::{Event, Level, Metadata, Subscriber};

    use super::*;

    /// Counts the lines that a log without debug lines has.
    #[derive(Clone, Default)]
    struct Lines(Arc<AtomicUsize>);

    impl Subscriber for Lines {
        fn enabled(&self, metadata: &Metadata<'_>) -> bool {
            *metadata.level() <= Level::INFO
        }

        fn new_span(&self, _: &Attributes<'_>) -> Id {
            Id::from_u64(1)
        }

        fn record(&self, _: &Id, _: &Record<'_>) {}

        fn record_follows_from(&self, _: &Id, _: &Id) {}

        fn event(&self, _: &Event<'_>) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }

        fn enter(&self, _: &Id) {}

        fn exit(&self, _: &Id) {}
    }

    /// Further connections waited until one of these had ended.
    #[tokio::test]
    async fn silent_connections_keep_no_browser_out() {
        let options = ConsoleOptions::new("127.0.0.1:1".parse().unwrap());
        let port = ConsolePort::open("127.0.0.1:0", options, None).await.unwrap();
        let mut silent = Vec::new();
        for _ in 0..CONNECTIONS_MAX + 9 {
            silent.push(TcpStream::connect(port.local_addr()).await.unwrap());
        }
        let mut stream = TcpStream::connect(port.local_addr()).await.unwrap();
        stream.write_all(b"GET / HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n").await.unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await.unwrap();
        assert!(answer.starts_with("HTTP/1.1 "), "{answer}");
    }

    #[tokio::test]
    async fn refused_connections_do_not_fill_the_log() {
        let lines = Lines::default();
        let _logged = tracing::subscriber::set_default(lines.clone());
        let options = ConsoleOptions::new("127.0.0.1:1".parse().unwrap());
        let port = ConsolePort::open("127.0.0.1:0", options, None).await.unwrap();
        let before = lines.0.load(Ordering::Relaxed);
        for _ in 0..5 {
            let mut stream = TcpStream::connect(port.local_addr()).await.unwrap();
            stream.write_all(b"\0\0\0\x2d").await.unwrap();
            let mut answer = String::new();
            stream.read_to_string(&mut answer).await.unwrap();
            assert!(answer.contains("this is not HTTP"), "{answer}");
        }
        // The line is behind the end of the connection.
        sleep(Duration::from_millis(100)).await;
        assert_eq!(lines.0.load(Ordering::Relaxed) - before, 1);
    }
}
