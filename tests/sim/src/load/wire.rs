//! One connection: frames out, frames in.

use std::{fmt, io};

use bytes::{Bytes, BytesMut};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, ReadHalf, WriteHalf, split};
use tokio::sync::oneshot;
use tokio::time::Instant;
use zoolet_client::Transport;
use zoolet_jute::{ConnectRequest, ConnectResponse, Encode as _, OpCode, Request, Xid, frame};
use zoolet_replica::ServerId;

use super::exchange::{Breach, Exchange, Incoming, Outcome};
use crate::history::{ClientNumber, Recorder};

/// Replies are not bounded by the servers.
pub(super) const REPLY_BYTES_MAX: usize = 64 * 1024 * 1024;

/// A connection. Dropping it ends it; requests in flight then have an unknown outcome.
pub(super) struct Wire {
    exchange: Exchange,
    reader: ReadHalf<Box<dyn Transport>>,
    writer: WriteHalf<Box<dyn Transport>>,
    incoming: BytesMut,
    outgoing: BytesMut,
    /// When the last frame arrived, or the connection was made.
    pub(super) received_at: Instant,
    /// When the last ping was sent, or the handshake.
    pub(super) pinged_at: Instant,
}

impl fmt::Debug for Wire {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Wire").field("exchange", &self.exchange).finish_non_exhaustive()
    }
}

impl Wire {
    /// A new connection, on which nothing was sent yet.
    pub(super) fn new(
        recorder: &Recorder,
        client: ClientNumber,
        transport: Box<dyn Transport>,
    ) -> Self {
        let (reader, writer) = split(transport);
        let now = Instant::now();
        Self {
            exchange: Exchange::new(recorder, client),
            reader,
            writer,
            incoming: BytesMut::new(),
            outgoing: BytesMut::new(),
            received_at: now,
            pinged_at: now,
        }
    }

    /// The number of requests without a reply, pings aside.
    pub(super) fn in_flight(&self) -> usize {
        self.exchange.in_flight()
    }

    /// Sends the handshake; what is sent before its answer has arrived goes behind it.
    pub(super) fn put_handshake(&mut self, request: &ConnectRequest) {
        frame::put(&mut self.outgoing, |out| request.encode(out));
    }

    /// Waits for the answer to the handshake.
    pub(super) async fn handshake(
        &mut self,
        server: ServerId,
        asked: &ConnectRequest,
    ) -> io::Result<ConnectResponse> {
        let payload = self.payload().await?;
        let connected = self.exchange.connected(server, asked, payload);
        connected.map_err(|why| self.complain(&why))
    }

    /// Hands a request to the connection.
    pub(super) fn put(
        &mut self,
        xid: Xid,
        request: Request,
        answer: Option<oneshot::Sender<Outcome>>,
    ) {
        frame::put(&mut self.outgoing, |out| request.encode_with(xid, out));
        if request.op_code() == OpCode::Ping {
            self.pinged_at = Instant::now();
        }
        self.exchange.called(xid, request, answer);
    }

    /// Waits for the next frame, and notes it. Frames go out meanwhile. It may be dropped and called
    /// again.
    pub(super) async fn receive(&mut self) -> io::Result<Incoming> {
        let payload = self.payload().await?;
        self.received_at = Instant::now();
        self.exchange.arrived(payload).map_err(|why| self.complain(&why))
    }

    async fn payload(&mut self) -> io::Result<Bytes> {
        loop {
            match frame::split(&mut self.incoming, REPLY_BYTES_MAX) {
                Ok(Some(payload)) => return Ok(payload),
                Ok(None) => {}
                Err(error) => return Err(self.complain(&error.into())),
            }
            tokio::select! {
                biased;
                read = self.reader.read_buf(&mut self.incoming) => {
                    if read? == 0 {
                        return Err(io::ErrorKind::UnexpectedEof.into());
                    }
                }
                written = self.writer.write_buf(&mut self.outgoing), if !self.outgoing.is_empty() => {
                    written?;
                    if self.outgoing.is_empty() {
                        self.writer.flush().await?;
                    }
                }
            }
        }
    }

    /// Notes a breach of the protocol; the connection is of no use behind it.
    fn complain(&self, why: &Breach) -> io::Error {
        io::Error::new(io::ErrorKind::InvalidData, self.exchange.complain(why))
    }
}
