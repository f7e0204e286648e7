//! The handshake, from both sides.
//!
//! Its cryptography takes about a millisecond, in which a thread that serves others would serve
//! none. So each step is computed on a thread for what blocks, a few at a time; what waits for the
//! network in between holds none of these threads.

use std::io;
use std::sync::Arc;

use rustls::Connection;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite};
use tokio::sync::Semaphore;
use tokio::task::spawn_blocking;

use super::stream::TlsStream;
use crate::error::HandshakeError;
use crate::hello::is_hello;

/// The room for each read.
const READ_BYTES: usize = 4 << 10;

/// How many steps are computed at a time.
const STEPS_MAX: usize = 2;

/// The threads that compute handshakes. Clones share them.
#[derive(Clone, Debug)]
pub struct HandshakeThreads(Arc<Semaphore>);

impl Default for HandshakeThreads {
    /// Two threads of the runtime's for what blocks.
    fn default() -> Self {
        Self(Arc::new(Semaphore::new(STEPS_MAX)))
    }
}

impl HandshakeThreads {
    /// Computes a step when a thread is free.
    async fn step(
        &self,
        mut session: Box<Connection>,
    ) -> Result<(Box<Connection>, Result<(), rustls::Error>), HandshakeError> {
        let closed = |_| io::Error::other("the server is stopping");
        let permit = Arc::clone(&self.0).acquire_owned().await.map_err(closed)?;
        let stepping = spawn_blocking(move || {
            let stepped = session.process_new_packets().map(|_| ());
            drop(permit);
            (session, stepped)
        });
        Ok(stepping.await.map_err(io::Error::other)?)
    }
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
    let mut buffer = vec![0; READ_BYTES];
    let (mut input, mut is_first) = (read, true);
    loop {
        TlsStream::send_all(&mut io, &mut session).await?;
        // What came behind the handshake is for the session as well.
        if !session.is_handshaking() && input.is_empty() {
            return Ok(TlsStream::new(io, session));
        }
        if input.is_empty() {
            let bytes = io.read(&mut buffer).await?;
            input = buffer.get(..bytes).unwrap_or_default();
        }
        let Some(first) = input.first() else {
            return Err(io::Error::from(io::ErrorKind::UnexpectedEof).into());
        };
        // An alert is also TLS, and says more.
        if is_first && is_server && !is_hello(*first) {
            return Err(HandshakeError::Plaintext);
        }
        is_first = false;
        session.read_tls(&mut input)?;
        let stepped = match threads {
            Some(threads) => {
                let (back, stepped) = threads.step(session).await?;
                session = back;
                stepped
            }
            None => session.process_new_packets().map(|_| ()),
        };
        if let Err(error) = stepped {
            // The alert is a courtesy: the other side may be gone.
            let _ = TlsStream::send_all(&mut io, &mut session).await;
            return Err(error.into());
        }
    }
}
