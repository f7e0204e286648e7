//! The handshake of a connection, or a four-letter word in its place.

use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::time::{sleep, timeout};
use zoolet_jute::{ConnectRequest, Decode, frame};
use zoolet_replica::ConnectionId;
use zoolet_tls::is_hello;

use super::super::error::ConnectionError;
use super::super::four_letter;
use super::Connection;
use crate::host::Admission;

/// The longest handshake frame: clients send 45 bytes, and later versions may send more.
const HANDSHAKE_BYTES_MAX: usize = 4 << 10;

/// The pause before a full queue of proposals is offered a handshake again.
const BUSY_PAUSE: Duration = Duration::from_millis(20);

impl Connection {
    /// Takes the handshake, and hands it to the host; `None` if a four-letter word came instead.
    pub(super) async fn open(&mut self) -> Result<Option<ConnectionId>, ConnectionError> {
        let limit_ms = self.context.options.handshake_timeout_ms;
        let gives_way = self.permit.take_gives_way();
        let handshake = timeout(Duration::from_millis(limit_ms), self.handshake());
        let handshake = tokio::select! {
            biased;
            () = gives_way => return Err(ConnectionError::GaveWay),
            handshake = handshake => handshake,
        };
        let Ok(request) = handshake else {
            self.context.registry.count_late();
            return Err(ConnectionError::HandshakeTimeout(limit_ms));
        };
        let request = match request {
            Ok(Some(request)) if self.permit.admitted() => request,
            Ok(Some(_)) => return Err(ConnectionError::GaveWay),
            Ok(None) => return Ok(None),
            Err(error) => return Err(self.end(error).await),
        };
        let connection = self.context.host.number_connection();
        let admitted = timeout(Duration::from_millis(limit_ms), self.admit(connection, &request));
        if admitted.await.is_err() {
            return Err(self.end(ConnectionError::Busy(limit_ms)).await);
        }
        self.permit.shaken();
        Ok(Some(connection))
    }

    /// Hands the handshake to the host, once its queue has room.
    async fn admit(&mut self, connection: ConnectionId, request: &ConnectRequest) {
        let (host, peer) = (Arc::clone(&self.context.host), self.peer.ip());
        while host.connect(connection, &self.outbox, (peer, &self.proved), request)
            == Admission::Busy
        {
            sleep(BUSY_PAUSE).await;
        }
    }

    /// Reads the handshake, or replies to a four-letter word.
    async fn handshake(&mut self) -> Result<Option<ConnectRequest>, ConnectionError> {
        while self.incoming.len() < frame::LENGTH_BYTES {
            if self.stream.read_buf(&mut self.incoming).await? == 0 {
                return Err(io::Error::from(io::ErrorKind::UnexpectedEof).into());
            }
            self.permit.sent();
        }
        if let Some(word) = self.incoming.first_chunk().and_then(four_letter::Word::of) {
            if word == four_letter::Word::Stmk {
                self.read_trace_mask().await?;
            }
            let context = Arc::clone(&self.context);
            let answer = four_letter::answer(word, &context).await;
            let written = self.stream.write_all(answer.text.as_bytes());
            timeout(four_letter::READ_TIME, written).await.map_err(io::Error::from)??;
            self.finish().await?;
            return Ok(None);
        }
        if self.incoming.first().copied().is_some_and(is_hello) {
            return Err(ConnectionError::TlsHello);
        }
        if !self.context.host.serving() {
            return Err(ConnectionError::NotServing);
        }
        loop {
            if let Some(mut payload) = frame::split(&mut self.incoming, HANDSHAKE_BYTES_MAX)? {
                return Ok(Some(ConnectRequest::decode(&mut payload, "connect")?));
            }
            if self.stream.read_buf(&mut self.incoming).await? == 0 {
                return Err(io::Error::from(io::ErrorKind::UnexpectedEof).into());
            }
        }
    }

    /// Reads the mask that follows `stmk`.
    async fn read_trace_mask(&mut self) -> Result<(), ConnectionError> {
        const MASK: std::ops::Range<usize> = 4..12;
        loop {
            if let Some(mask) = self.incoming.get(MASK).and_then(|mask| mask.first_chunk()) {
                let mask = u64::from_be_bytes(*mask);
                if self.context.options.server_info.words.allow("stmk") {
                    self.context.trace_mask.store(mask, Ordering::Relaxed);
                }
                return Ok(());
            }
            if self.stream.read_buf(&mut self.incoming).await? == 0 {
                return Err(io::Error::from(io::ErrorKind::UnexpectedEof).into());
            }
        }
    }
}
