//! The handshake, from both sides.
//!
//! Its cryptography takes about a millisecond, in which a thread that serves others would serve
//! none. So each step is computed on a thread for blocking work, a few at a time; a handshake that
//! waits for the network in between holds none of these threads.
//!
//! More clients may call than the processor can shake hands with. Then the handshakes that were
//! started are finished before others are started, in the order of their start, and no step is
//! computed for a client that has disconnected, or has waited for so long that it soon will.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use rustls::Connection;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::task::spawn_blocking;
use tokio::time::timeout;

use super::stream::TlsStream;
use crate::error::HandshakeError;
use crate::hello::is_hello;

/// The room for each read.
const READ_BYTES: usize = 4 << 10;

/// The number of steps that are computed at a time.
const STEPS_MAX: usize = 2;

/// The longest wait of a client's first message for a thread. A client of three servers with a
/// session timeout of 10 s disconnects after 3.3 s.
const FIRST_STEP_WAIT_MAX: Duration = Duration::from_secs(3);

/// The bytes that a client may send before its turn.
const AHEAD_BYTES_MAX: usize = 16 << 10;

/// The threads that compute handshakes. Clones share them.
#[derive(Clone, Debug)]
pub struct HandshakeThreads {
    /// The turns of all steps. Invariant: at most [`STEPS_MAX`] first steps hold or await one.
    turns: Arc<Semaphore>,
    /// First steps queue here before they queue for a turn, so that later steps never queue for
    /// more than a few of them.
    starts: Arc<Semaphore>,
}

/// The right to compute a step.
struct Turn {
    _turn: OwnedSemaphorePermit,
    _start: Option<OwnedSemaphorePermit>,
}

impl Default for HandshakeThreads {
    /// Two threads of the runtime's pool for blocking work.
    fn default() -> Self {
        let [turns, starts] = [(); 2].map(|()| Arc::new(Semaphore::new(STEPS_MAX)));
        Self { turns, starts }
    }
}

impl HandshakeThreads {
    /// Waits for a turn. Dropping the future leaves the queue.
    async fn turn(&self, is_first: bool) -> Result<Turn, HandshakeError> {
        let closed = |_| io::Error::other("the server is stopping");
        let both = async {
            let start = if is_first {
                Some(Arc::clone(&self.starts).acquire_owned().await.map_err(closed)?)
            } else {
                None
            };
            let turn = Arc::clone(&self.turns).acquire_owned().await.map_err(closed)?;
            Ok(Turn { _turn: turn, _start: start })
        };
        if !is_first {
            return both.await;
        }
        timeout(FIRST_STEP_WAIT_MAX, both).await.unwrap_or(Err(HandshakeError::Queue))
    }

    /// Computes a step in its turn. Bytes that arrive before the turn of a first step are appended to
    /// `ahead`, and the end of the connection ends the wait. Before a later step the client may have
    /// closed its side after its last request.
    async fn step<S: AsyncRead + Unpin>(
        &self,
        mut session: Box<Connection>,
        is_first: bool,
        (io, ahead): (&mut S, &mut Vec<u8>),
    ) -> Result<(Box<Connection>, Result<(), rustls::Error>), HandshakeError> {
        let turn = tokio::select! {
            // The end of a connection that has become known in the meantime counts.
            biased;
            error = read_until_end(io, ahead), if is_first => return Err(error.into()),
            turn = self.turn(is_first) => turn?,
        };
        let stepping = spawn_blocking(move || {
            let stepped = session.process_new_packets().map(|_| ());
            drop(turn);
            (session, stepped)
        });
        Ok(stepping.await.map_err(io::Error::other)?)
    }
}

/// Reads bytes until the connection ends, and returns how. Dropping the future loses none.
async fn read_until_end<S: AsyncRead + Unpin>(io: &mut S, ahead: &mut Vec<u8>) -> io::Error {
    let mut buffer = [0; 512];
    while ahead.len() < AHEAD_BYTES_MAX {
        match io.read(&mut buffer).await {
            Ok(0) => return io::ErrorKind::UnexpectedEof.into(),
            Ok(bytes) => ahead.extend_from_slice(buffer.get(..bytes).unwrap_or_default()),
            Err(error) => return error,
        }
    }
    std::future::pending().await
}

/// Carries out a handshake; `read` was read from the stream before.
pub(crate) async fn shake_hands<S: AsyncRead + AsyncWrite + Unpin>(
    mut io: S,
    session: Connection,
    read: &[u8],
    threads: Option<&HandshakeThreads>,
) -> Result<TlsStream<S>, HandshakeError> {
    let is_server = matches!(session, Connection::Server(_));
    let mut session = Box::new(session);
    let mut input = read.to_vec();
    let mut is_first_read = true;
    // A caller has started with its hello.
    let mut is_first_step = is_server;
    loop {
        TlsStream::send_all(&mut io, &mut session).await?;
        // Bytes that follow the handshake are for the session as well.
        if !session.is_handshaking() && input.is_empty() {
            return Ok(TlsStream::new(io, session));
        }
        if input.is_empty() {
            input.resize(READ_BYTES, 0);
            let bytes = io.read(&mut input).await?;
            input.truncate(bytes);
        }
        let Some(first) = input.first() else {
            return Err(io::Error::from(io::ErrorKind::UnexpectedEof).into());
        };
        // An alert is also TLS, and says more.
        if is_first_read && is_server && !is_hello(*first) {
            return Err(HandshakeError::Plaintext);
        }
        is_first_read = false;
        let mut rest = input.as_slice();
        session.read_tls(&mut rest)?;
        let taken = input.len() - rest.len();
        input.drain(..taken);
        let stepped = match threads {
            Some(threads) => {
                let step = threads.step(session, is_first_step, (&mut io, &mut input));
                let (back, stepped) = step.await?;
                session = back;
                stepped
            }
            None => session.process_new_packets().map(|_| ()),
        };
        // A hello may arrive in pieces: the first step ends with an answer.
        is_first_step &= !session.wants_write();
        if let Err(error) = stepped {
            // The alert is a courtesy: the other side may be gone.
            let _ = TlsStream::send_all(&mut io, &mut session).await;
            return Err(error.into());
        }
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::AsyncWriteExt;
    use tokio::time::sleep;

    use super::*;

    /// Takes all turns, as two long steps do.
    async fn occupy(threads: &HandshakeThreads) -> [Turn; STEPS_MAX] {
        [threads.turn(false).await.unwrap(), threads.turn(false).await.unwrap()]
    }

    #[tokio::test(start_paused = true)]
    async fn started_handshakes_are_finished_before_others_are_started() {
        let threads = HandshakeThreads::default();
        let busy = occupy(&threads).await;
        let (order, mut done) = tokio::sync::mpsc::unbounded_channel();
        let wait = |name: u32, is_first: bool| {
            let (threads, order) = (threads.clone(), order.clone());
            tokio::spawn(async move {
                let turn = threads.turn(is_first).await.unwrap();
                order.send(name).unwrap();
                sleep(Duration::from_millis(1)).await;
                drop(turn);
            });
        };
        for name in 0..100 {
            wait(name, true);
            tokio::task::yield_now().await;
        }
        wait(1000, false);
        tokio::task::yield_now().await;
        drop(busy);
        drop(order);
        let mut all = Vec::new();
        while let Some(name) = done.recv().await {
            all.push(name);
        }
        let late = all.iter().position(|name| *name == 1000).unwrap();
        assert!(late <= STEPS_MAX, "{all:?}");
        all.remove(late);
        assert!(all.is_sorted() && all.len() == 100, "{all:?}");
    }

    #[tokio::test(start_paused = true)]
    async fn a_client_that_leaves_or_waits_too_long_costs_no_step() {
        let threads = HandshakeThreads::default();
        let busy = occupy(&threads).await;
        let (mut near, far) = tokio::io::duplex(64);
        let mut ahead = Vec::new();
        let leaves = async {
            near.write_all(b"more").await.unwrap();
            sleep(Duration::from_millis(5)).await;
            drop(near);
        };
        let mut far = far;
        let (ended, ()) = tokio::join!(read_until_end(&mut far, &mut ahead), leaves);
        assert_eq!(ended.kind(), io::ErrorKind::UnexpectedEof);
        assert_eq!(ahead, b"more", "bytes before the end are kept");
        let late = threads.turn(true).await;
        assert!(matches!(late, Err(HandshakeError::Queue)));
        drop(busy);
        assert!(threads.turn(true).await.is_ok());
    }
}
