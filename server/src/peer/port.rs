//! The called side: the peer port.

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use tokio::io::{AsyncWriteExt, ReadHalf, WriteHalf};
use tokio::sync::{mpsc, oneshot, watch};
use tokio::task::{AbortHandle, Id, JoinHandle};
use tokio::time::{Instant, sleep, timeout};

use super::frame::{ANSWER, Frame, FrameError, FrameReader, UNANSWERED_ID};
use super::handshake::{HandshakeError, PeerIdentity, receive};
use super::refusals::{Refusals, Refused};
use super::secret::Secret;
use super::tls::PeerTls;
use super::{FrameLimits, Lane};
use crate::arrivals::Arrivals;
use crate::descriptors::{self, DescriptorUse};
use crate::fatal::{Fatal, caught};
use crate::transport::{BoxFuture, Listener, Net, Stream};

/// How much is gathered for one write, in bytes.
const WRITE_BYTES: usize = 256 * 1024;

/// The pause after a failure to accept, for example because no file descriptor is left.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// The pause between two warnings that a connection cannot be taken.
const WARN_PAUSE: Duration = Duration::from_secs(10);

/// One call from a peer.
#[derive(Debug)]
pub struct Call {
    /// Who calls.
    pub from: PeerIdentity,
    /// What the caller wants; never 0.
    pub kind: u8,
    /// The caller's bytes.
    pub body: Bytes,
}

/// What comes of a call.
pub enum Answer {
    /// Nothing, and the connection ends: what the caller says makes no sense, or cannot be done.
    Close,
    /// These bytes.
    Now(Bytes),
    /// What the future gives; later calls do not wait for it.
    Later(BoxFuture<'static, Option<Bytes>>),
}

impl Debug for Answer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Close => "Close",
            Self::Now(_) => "Now",
            Self::Later(_) => "Later",
        })
    }
}

/// The service that handles the calls.
pub trait Service: Debug + Send + Sync + 'static {
    /// Takes one call. A connection's calls come one after the other, each when this has returned
    /// for the one before.
    fn call(&self, call: Call) -> BoxFuture<'_, Answer>;
}

/// What the peer port needs to know.
#[derive(Clone, Debug)]
pub struct PeerPortOptions {
    /// Who is called. Its founding is the one of `founding`.
    pub ours: PeerIdentity,
    /// The founding that this server belongs to, which an empty one learns at run time.
    pub founding: Arc<AtomicU64>,
    /// Whether callers of other clusters are accepted: this one has no name.
    pub any_cluster: bool,
    /// What both sides must know.
    pub secret: Option<Secret>,
    /// Whether TLS is below that.
    pub tls: PeerTls,
    /// `host:port` to listen on.
    pub address: String,
    /// The longest frames.
    pub frames: FrameLimits,
    /// The most answers of one connection that are not ready.
    pub answers_max: usize,
    /// How long a handshake may take.
    pub handshake_timeout: Duration,
    /// Receives the number of a server whose connection has ended, unless another took its place. One
    /// that does not fit in is dropped.
    pub hung_up: mpsc::Sender<u64>,
    /// Receives the reason if the port can no longer accept.
    pub fatal: Fatal,
}

/// The peer port. Dropping it closes the port and all connections.
#[derive(Debug)]
pub struct PeerPort {
    address: SocketAddr,
    accepting: JoinHandle<()>,
    connections: Arc<Connections>,
}

/// The newest connection of each peer and lane, while it is open. An older one is closed: its peer
/// has given it up.
#[derive(Debug, Default)]
struct Connections {
    tasks: Mutex<BTreeMap<(u64, Lane), AbortHandle>>,
}

impl PeerPort {
    /// Listens, and answers calls by `service`.
    pub async fn listen(
        net: &dyn Net,
        options: PeerPortOptions,
        service: Arc<dyn Service>,
    ) -> io::Result<Self> {
        let listener = net.listen(&options.address, 1024).await?;
        let address = listener.local_addr()?;
        let connections = Arc::new(Connections::default());
        let accepting = accepting(listener, options, service, Arc::clone(&connections));
        let accepting = tokio::spawn(accepting);
        Ok(Self { address, accepting, connections })
    }

    /// The address that it really listens on.
    pub fn local_addr(&self) -> SocketAddr {
        self.address
    }

    /// Closes it and all its connections. When this returns, unlike after a drop, its address is free.
    pub async fn close(mut self) {
        self.accepting.abort();
        let _ = (&mut self.accepting).await;
    }
}

impl Drop for PeerPort {
    fn drop(&mut self) {
        self.accepting.abort();
        let mut tasks = self.connections.tasks.lock().unwrap_or_else(PoisonError::into_inner);
        for (_, task) in std::mem::take(&mut *tasks) {
            task.abort();
        }
    }
}

impl Connections {
    fn replace(&self, peer: u64, lane: Lane, task: AbortHandle) {
        let mut tasks = self.tasks.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(older) = tasks.insert((peer, lane), task) {
            older.abort();
        }
    }

    /// Takes out a connection that has ended; false if a newer one has its place.
    fn forget(&self, peer: u64, lane: Lane, task: Id) -> bool {
        let mut tasks = self.tasks.lock().unwrap_or_else(PoisonError::into_inner);
        let is_newest = tasks.get(&(peer, lane)).is_some_and(|newest| newest.id() == task);
        if is_newest {
            tasks.remove(&(peer, lane));
        }
        is_newest
    }
}

fn accepting(
    listener: Box<dyn Listener>,
    options: PeerPortOptions,
    service: Arc<dyn Service>,
    connections: Arc<Connections>,
) -> impl Future<Output = ()> + Send {
    let fatal = options.fatal.clone();
    fatal.endless("peer port", accept(listener, options, service, connections))
}

async fn accept(
    mut listener: Box<dyn Listener>,
    options: PeerPortOptions,
    service: Arc<dyn Service>,
    connections: Arc<Connections>,
) {
    let handshakes = Arc::new(Arrivals::new(descriptors::peer_handshakes_max()));
    let refusals = Arc::default();
    let port = Shared { options, service, connections, handshakes, refusals };
    let mut warned_at = None;
    // Dropped with this future, which ends the handshakes that are under way.
    let (_open, closed) = watch::channel(());
    loop {
        let (stream, address) = match listener.accept().await {
            Ok(accepted) => accepted,
            Err(error) => {
                if warn_again(&mut warned_at) {
                    tracing::warn!(%error, "cannot accept a peer's connection");
                }
                sleep(ACCEPT_PAUSE).await;
                continue;
            }
        };
        if !descriptors::has_room(DescriptorUse::Peers) {
            if warn_again(&mut warned_at) {
                tracing::warn!(
                    %address,
                    "a connection to the peer port was closed: the last file descriptors of the \
                     process are for its log (raise ulimit -n)"
                );
            }
            continue;
        }
        let (port, closed) = (port.clone(), closed.clone());
        let (number, pushed_out) = port.handshakes.begin(address.ip());
        tokio::spawn(async move {
            let taking = port.take(stream, address, number, (pushed_out, closed));
            if let Err(panic) = caught(taking).await {
                tracing::error!(%address, panic, "a connection to the peer port has panicked");
            }
        });
    }
}

/// Returns whether a warning is due again, and begins the next pause if so.
fn warn_again(warned_at: &mut Option<Instant>) -> bool {
    let is_due = warned_at.is_none_or(|at| at.elapsed() >= WARN_PAUSE);
    if is_due {
        *warned_at = Some(Instant::now());
    }
    is_due
}

/// What the connections of a port share.
#[derive(Clone, Debug)]
struct Shared {
    options: PeerPortOptions,
    service: Arc<dyn Service>,
    connections: Arc<Connections>,
    handshakes: Arc<Arrivals>,
    refusals: Arc<Refusals>,
}

impl Shared {
    /// Takes a connection in, and serves it to its end. It ends early if it is pushed out of the
    /// handshakes, or if the port is closed during its own.
    async fn take(
        self,
        stream: Box<dyn Stream>,
        address: SocketAddr,
        number: u64,
        (pushed_out, mut closed): (oneshot::Receiver<()>, watch::Receiver<()>),
    ) {
        let Self { options, service, connections, handshakes, refusals } = self;
        let founding = options.founding.load(Ordering::Relaxed);
        let ours = PeerIdentity { founding, ..options.ours };
        let receiving = async {
            let accepted = options.tls.accept(stream, address.ip()).await;
            let mut stream = accepted.map_err(|error| Refused { server: None, error })?;
            let secret = options.secret.as_ref();
            let (from, lane) = receive(&mut *stream, ours, options.any_cluster, secret).await?;
            Ok((stream, from, lane))
        };
        let greeting = timeout(options.handshake_timeout, receiving);
        let greeted = tokio::select! {
            greeted = greeting => greeted,
            _ = pushed_out => {
                tracing::debug!(%address, "too many wait for their handshake on the peer port");
                return;
            }
            _ = closed.changed() => return,
        };
        handshakes.end(number);
        match greeted {
            Ok(Ok((stream, from, lane))) => {
                let hung_up = options.hung_up.clone();
                let serving = caught(serve(stream, from, lane, options, service));
                let serving = tokio::spawn(serving);
                let task = serving.id();
                connections.replace(from.server, lane, serving.abort_handle());
                // However it ends, the place in the list is given up.
                let ended = serving.await;
                if connections.forget(from.server, lane, task) {
                    // The channel may be full or closed: a later end of another lane is enough.
                    let _ = hung_up.try_send(from.server);
                }
                if let Ok(Err(panic)) = ended {
                    let peer = from.server;
                    tracing::error!(peer, %lane, %address, panic, "a peer's connection has panicked");
                }
            }
            // A follower looks whether a process listens here, or a peer has waited for too long.
            Ok(Err(Refused { server, error })) if error.is_hang_up() => {
                tracing::debug!(%address, server, %error, "hung up on the peer port before its handshake");
            }
            // Its peers keep asking for the old directory until the new one is a member.
            Ok(Err(Refused { server, error: error @ HandshakeError::Directory { .. } })) => {
                tracing::debug!(%address, server, %error, "refused on the peer port");
            }
            Ok(Err(refused)) => refusals.warn(address, &refused),
            Err(_) => tracing::debug!(%address, "no handshake in time on the peer port"),
        }
    }
}

async fn serve(
    stream: Box<dyn Stream>,
    from: PeerIdentity,
    lane: Lane,
    options: PeerPortOptions,
    service: Arc<dyn Service>,
) {
    let (input, output) = tokio::io::split(stream);
    let (answers, ready) = mpsc::channel(options.answers_max);
    let ended = tokio::select! {
        ended = read_calls(&options, input, (from, lane), &*service, answers) => ended,
        ended = write_answers(output, ready) => ended.map_err(FrameError::Io),
    };
    match ended {
        Ok(()) => tracing::debug!(peer = from.server, %lane, "peer has hung up"),
        Err(error @ FrameError::Length { .. }) => tracing::warn!(
            peer = from.server,
            %lane,
            %error,
            "a peer sends more than this server takes: limits.peer_frame_bytes_max must be the \
             same on all servers"
        ),
        Err(error) => tracing::debug!(peer = from.server, %lane, %error, "peer's connection ends"),
    }
}

async fn read_calls(
    options: &PeerPortOptions,
    input: ReadHalf<Box<dyn Stream>>,
    (from, lane): (PeerIdentity, Lane),
    service: &dyn Service,
    answers: mpsc::Sender<(u64, Bytes)>,
) -> Result<(), FrameError> {
    let mut frames = FrameReader::new(input, options.frames.of(lane));
    let mut later = FuturesUnordered::new();
    loop {
        tokio::select! {
            Some((id, answer)) = later.next(), if !later.is_empty() => {
                if let Some(body) = answer
                    && id != UNANSWERED_ID
                    && answers.send((id, body)).await.is_err()
                {
                    return Ok(());
                }
            }
            frame = frames.next(), if later.len() < options.answers_max => {
                let Some(frame) = frame? else { return Ok(()) };
                if frame.kind == ANSWER {
                    return Err(FrameError::Io(io::ErrorKind::InvalidData.into()));
                }
                let call = Call { from, kind: frame.kind, body: frame.body };
                match service.call(call).await {
                    Answer::Close => return Err(FrameError::Io(io::ErrorKind::InvalidData.into())),
                    Answer::Now(_) if frame.id == UNANSWERED_ID => {}
                    Answer::Now(body) => {
                        if answers.send((frame.id, body)).await.is_err() {
                            return Ok(());
                        }
                    }
                    Answer::Later(answer) => {
                        let id = frame.id;
                        later.push(async move { (id, answer.await) });
                    }
                }
            }
        }
    }
}

async fn write_answers(
    mut output: WriteHalf<Box<dyn Stream>>,
    mut ready: mpsc::Receiver<(u64, Bytes)>,
) -> io::Result<()> {
    let mut buffer = BytesMut::new();
    while let Some((id, body)) = ready.recv().await {
        Frame { kind: ANSWER, id, body }.encode(&mut buffer);
        while buffer.len() < WRITE_BYTES
            && let Ok((id, body)) = ready.try_recv()
        {
            Frame { kind: ANSWER, id, body }.encode(&mut buffer);
        }
        output.write_all_buf(&mut buffer).await?;
        output.flush().await?;
    }
    Ok(())
}

#[cfg(test)]
mod tests;
