//! The called side: the peer port.

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use tokio::io::{AsyncWriteExt, ReadHalf, WriteHalf};
use tokio::sync::{Semaphore, mpsc, watch};
use tokio::task::{AbortHandle, Id, JoinHandle};
use tokio::time::{sleep, timeout};

use super::Lane;
use super::frame::{ANSWER, Frame, FrameError, FrameReader};
use super::handshake::{Identity, receive};
use crate::transport::{BoxFuture, Listener, Net, Stream};

/// Connections whose handshake is not done; more wait in the backlog.
const HANDSHAKES_MAX: usize = 64;

/// How much is gathered for one write, in bytes.
const WRITE_BYTES: usize = 256 * 1024;

/// The pause after a failure to accept, for example because no file descriptor is left.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// One call from a peer.
#[derive(Debug)]
pub struct Call {
    /// Who calls.
    pub from: Identity,
    /// What the connection is for.
    pub lane: Lane,
    /// What the caller wants; never 0.
    pub kind: u8,
    /// The caller's bytes.
    pub body: Bytes,
}

/// What comes of a call.
pub enum Answer {
    /// Nothing.
    None,
    /// These bytes.
    Now(Bytes),
    /// What the future gives; later calls do not wait for it.
    Later(BoxFuture<'static, Option<Bytes>>),
}

impl Debug for Answer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::None => "None",
            Self::Now(_) => "Now",
            Self::Later(_) => "Later",
        })
    }
}

/// Who answers the calls.
pub trait Service: Debug + Send + Sync + 'static {
    /// Takes one call. A connection's calls come one after the other, each when this has returned
    /// for the one before.
    fn call(&self, call: Call) -> BoxFuture<'_, Answer>;
}

/// What the peer port needs to know.
#[derive(Clone, Debug)]
pub struct PeerPortOptions {
    /// Who is called.
    pub ours: Identity,
    /// Whether callers of other clusters are let in: nobody has named this one.
    pub any_cluster: bool,
    /// `host:port` to listen on.
    pub address: String,
    /// The largest frame, in bytes.
    pub frame_bytes_max: usize,
    /// The most answers of one connection that are not ready.
    pub answers_max: usize,
    /// How long a handshake may take.
    pub handshake_timeout: Duration,
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
        let accepting = tokio::spawn(accept(listener, options, service, Arc::clone(&connections)));
        Ok(Self { address, accepting, connections })
    }

    /// The address that it really listens on.
    pub fn local_addr(&self) -> SocketAddr {
        self.address
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

    /// Takes out a connection that has ended, unless a newer one has its place.
    fn forget(&self, peer: u64, lane: Lane, task: Id) {
        let mut tasks = self.tasks.lock().unwrap_or_else(PoisonError::into_inner);
        if tasks.get(&(peer, lane)).is_some_and(|newest| newest.id() == task) {
            tasks.remove(&(peer, lane));
        }
    }
}

async fn accept(
    mut listener: Box<dyn Listener>,
    options: PeerPortOptions,
    service: Arc<dyn Service>,
    connections: Arc<Connections>,
) {
    let handshakes = Arc::new(Semaphore::new(HANDSHAKES_MAX));
    // Dropped with this future, which ends the handshakes that are under way.
    let (_open, closed) = watch::channel(());
    loop {
        let Ok(permit) = Arc::clone(&handshakes).acquire_owned().await else { return };
        let (mut stream, address) = match listener.accept().await {
            Ok(accepted) => accepted,
            Err(error) => {
                tracing::warn!(%error, "cannot accept a peer's connection");
                sleep(ACCEPT_PAUSE).await;
                continue;
            }
        };
        let (options, service) = (options.clone(), Arc::clone(&service));
        let (connections, mut closed) = (Arc::clone(&connections), closed.clone());
        tokio::spawn(async move {
            let greeting = timeout(
                options.handshake_timeout,
                receive(&mut *stream, options.ours, options.any_cluster),
            );
            let greeted = tokio::select! {
                greeted = greeting => greeted,
                _ = closed.changed() => return,
            };
            drop(permit);
            match greeted {
                Ok(Ok((from, lane))) => {
                    let serving = tokio::spawn(serve(stream, from, lane, options, service));
                    let task = serving.id();
                    connections.replace(from.server, lane, serving.abort_handle());
                    // However it ends, the place in the list is given up.
                    let _ = serving.await;
                    connections.forget(from.server, lane, task);
                }
                Ok(Err(error)) => tracing::warn!(%address, %error, "refused on the peer port"),
                Err(_) => tracing::debug!(%address, "no handshake in time on the peer port"),
            }
        });
    }
}

async fn serve(
    stream: Box<dyn Stream>,
    from: Identity,
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
        Err(error) => tracing::debug!(peer = from.server, %lane, %error, "peer's connection ends"),
    }
}

async fn read_calls(
    options: &PeerPortOptions,
    input: ReadHalf<Box<dyn Stream>>,
    (from, lane): (Identity, Lane),
    service: &dyn Service,
    answers: mpsc::Sender<(u64, Bytes)>,
) -> Result<(), FrameError> {
    let mut frames = FrameReader::new(input, options.frame_bytes_max);
    let mut later = FuturesUnordered::new();
    loop {
        tokio::select! {
            Some((id, answer)) = later.next(), if !later.is_empty() => {
                if let Some(body) = answer
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
                let call = Call { from, lane, kind: frame.kind, body: frame.body };
                match service.call(call).await {
                    Answer::None => {}
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
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::peer::handshake::greet;
    use crate::transport::RealNet;

    #[derive(Debug)]
    struct Silent;

    impl Service for Silent {
        fn call(&self, _: Call) -> BoxFuture<'_, Answer> {
            Box::pin(async { Answer::None })
        }
    }

    async fn until_open(port: &PeerPort, count: usize) {
        let reached = async {
            while port.connections.tasks.lock().unwrap().len() != count {
                sleep(Duration::from_millis(5)).await;
            }
        };
        timeout(Duration::from_secs(20), reached).await.expect("the list follows");
    }

    #[tokio::test]
    async fn a_connection_that_has_ended_leaves_the_list() {
        let ours = Identity { cluster: 7, server: 2, boot: 1 };
        let options = PeerPortOptions {
            ours,
            any_cluster: false,
            address: "127.0.0.1:0".to_owned(),
            frame_bytes_max: 1000,
            answers_max: 8,
            handshake_timeout: Duration::from_secs(20),
        };
        let port = PeerPort::listen(&RealNet, options, Arc::new(Silent)).await.unwrap();
        let address = port.local_addr().to_string();
        let mut streams = Vec::new();
        for (server, lane) in [(1, Lane::Control), (1, Lane::Append), (254, Lane::Control)] {
            let mut stream = RealNet.connect(&address).await.unwrap();
            greet(&mut *stream, Identity { server, ..ours }, 2, lane).await.unwrap();
            streams.push(stream);
        }
        until_open(&port, 3).await;
        // The newer one takes the older one's place, and keeps it when that has ended.
        let mut newer = RealNet.connect(&address).await.unwrap();
        greet(&mut *newer, Identity { server: 254, ..ours }, 2, Lane::Control).await.unwrap();
        streams.clear();
        until_open(&port, 1).await;
        drop(newer);
        until_open(&port, 0).await;
    }
}
