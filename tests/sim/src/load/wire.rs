//! One connection: frames out, frames in, and a note of each.

use std::collections::VecDeque;
use std::{fmt, io};

use bytes::{Bytes, BytesMut};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, ReadHalf, WriteHalf, split};
use tokio::sync::oneshot;
use tokio::time::Instant;
use zoolet_client::Transport;
use zoolet_jute::{
    ConnectRequest, ConnectResponse, Decode as _, DecodeError, Encode as _, ErrorCode, OpCode,
    Reply, ReplyHeader, Request, WatcherEvent, Xid, Zxid, frame,
};

use super::watches::Effect;
use crate::history::{CallNumber, ClientNumber, Connection, Recorder, What};

/// Replies are not bounded by the servers.
const REPLY_BYTES_MAX: usize = 64 * 1024 * 1024;

/// What became of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It was carried out.
    Done(Zxid, Reply),
    /// It was refused.
    Refused(ErrorCode),
    /// Its reply did not arrive: it may have been carried out, now or later.
    Unknown,
}

/// A frame that has arrived and was noted.
#[derive(Debug)]
pub(super) enum Incoming {
    /// A watch has fired.
    Event(WatcherEvent),
    /// A request was answered.
    Reply(Answered),
}

/// The reply to the oldest request in flight.
#[derive(Debug)]
pub(super) struct Answered {
    pub(super) op: OpCode,
    pub(super) zxid: Zxid,
    pub(super) effect: Option<Effect>,
    pub(super) result: Result<Reply, ErrorCode>,
    pub(super) answer: Option<oneshot::Sender<Outcome>>,
    pub(super) sent_at: Instant,
}

/// A request in flight.
#[derive(Debug)]
struct Asked {
    call: CallNumber,
    xid: Xid,
    op: OpCode,
    effect: Option<Effect>,
    answer: Option<oneshot::Sender<Outcome>>,
    sent_at: Instant,
}

/// A connection. Dropping it ends it; requests in flight then have an unknown outcome.
pub(super) struct Wire {
    recorder: Recorder,
    client: ClientNumber,
    number: Connection,
    reader: ReadHalf<Box<dyn Transport>>,
    writer: WriteHalf<Box<dyn Transport>>,
    incoming: BytesMut,
    outgoing: BytesMut,
    in_flight: VecDeque<Asked>,
    pings: VecDeque<Asked>,
    /// Whether the history knows this connection.
    is_noted: bool,
    /// When the last frame arrived, or the connection was made.
    pub(super) received_at: Instant,
    /// When the last ping was sent, or the handshake.
    pub(super) pinged_at: Instant,
}

impl fmt::Debug for Wire {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Wire").field("number", &self.number).finish_non_exhaustive()
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
            recorder: recorder.clone(),
            client,
            number: recorder.connection(),
            reader,
            writer,
            incoming: BytesMut::new(),
            outgoing: BytesMut::new(),
            in_flight: VecDeque::new(),
            pings: VecDeque::new(),
            is_noted: false,
            received_at: now,
            pinged_at: now,
        }
    }

    /// Its number in the history.
    pub(super) fn number(&self) -> Connection {
        self.number
    }

    /// The number of requests without a reply, pings aside.
    pub(super) fn in_flight(&self) -> usize {
        self.in_flight.len()
    }

    /// Sends the handshake; what is sent before its answer has arrived goes behind it.
    pub(super) fn put_handshake(&mut self, request: &ConnectRequest) {
        frame::put(&mut self.outgoing, |out| request.encode(out));
    }

    /// Waits for the answer to the handshake. The caller notes it, and so makes the connection known.
    pub(super) async fn handshake(&mut self) -> io::Result<ConnectResponse> {
        let mut payload = self.payload().await?;
        let response = ConnectResponse::decode(&mut payload, "connect");
        self.is_noted = true;
        response.map_err(|error| self.complain(&error.to_string()))
    }

    /// Hands a request to the connection.
    pub(super) fn put(
        &mut self,
        xid: Xid,
        request: Request,
        answer: Option<oneshot::Sender<Outcome>>,
    ) {
        frame::put(&mut self.outgoing, |out| request.encode_with(xid, out));
        let (op, effect) = (request.op_code(), Effect::of(&request));
        self.is_noted = true;
        let call = self.recorder.call(self.number, xid, request);
        let sent_at = Instant::now();
        let asked = Asked { call, xid, op, effect, answer, sent_at };
        if op == OpCode::Ping {
            self.pinged_at = sent_at;
            self.pings.push_back(asked);
        } else {
            self.in_flight.push_back(asked);
        }
    }

    /// Waits for the next frame, and notes it. Frames go out meanwhile. It may be dropped and called
    /// again.
    pub(super) async fn receive(&mut self) -> io::Result<Incoming> {
        let payload = self.payload().await?;
        self.received_at = Instant::now();
        self.read(payload).map_err(|why| self.complain(&why))
    }

    async fn payload(&mut self) -> io::Result<Bytes> {
        loop {
            match frame::split(&mut self.incoming, REPLY_BYTES_MAX) {
                Ok(Some(payload)) => return Ok(payload),
                Ok(None) => {}
                Err(error) => return Err(self.complain(&error.to_string())),
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

    fn read(&mut self, mut payload: Bytes) -> Result<Incoming, String> {
        let text = |error: DecodeError| error.to_string();
        let header = ReplyHeader::decode(&mut payload, "header").map_err(text)?;
        if header.xid == Xid::NOTIFICATION {
            let event = WatcherEvent::decode(&mut payload, "event").map_err(text)?;
            let (connection, zxid) = (self.number, header.zxid);
            self.recorder.note(What::Notified { connection, zxid, event: event.clone() });
            return Ok(Incoming::Event(event));
        }
        let asked = self.take_asked(header.xid)?;
        let result = match header.err {
            None => Ok(Reply::decode(asked.op, &mut payload).map_err(text)?),
            Some(code) => Err(code),
        };
        if !payload.is_empty() {
            return Err(format!("{} bytes behind the reply to {}", payload.len(), asked.op));
        }
        let zxid = header.zxid;
        self.recorder.note(What::Returned { call: asked.call, zxid, result: result.clone() });
        let Asked { op, effect, answer, sent_at, .. } = asked;
        Ok(Incoming::Reply(Answered { op, zxid, effect, result, answer, sent_at }))
    }

    /// Takes the request that the next reply is for. Replies come in the order of the requests, but for
    /// those to pings: a server that does not lead holds a ping back until the leader has counted it
    /// (decision 0009), and answers what is behind it meanwhile.
    fn take_asked(&mut self, answered: Xid) -> Result<Asked, String> {
        let is_ping = answered == Xid::PING;
        let queue = if is_ping { &mut self.pings } else { &mut self.in_flight };
        let asked =
            queue.pop_front().ok_or_else(|| format!("a reply to no request: {answered}"))?;
        let oldest = self.in_flight.front().map(|oldest| oldest.call);
        if is_ping && oldest.is_some_and(|oldest| oldest < asked.call) {
            return Err("a reply to a ping before those to earlier requests".to_owned());
        }
        if asked.xid == answered {
            Ok(asked)
        } else {
            Err(format!("a reply to {answered} before that to {}", asked.xid))
        }
    }

    /// Notes a breach of the protocol; the connection is of no use behind it.
    fn complain(&self, why: &str) -> io::Error {
        let why = format!("connection {}: {why}", self.number.0);
        self.recorder.note(What::Complained { client: self.client, why: why.clone() });
        io::Error::new(io::ErrorKind::InvalidData, why)
    }
}

impl Drop for Wire {
    fn drop(&mut self) {
        if self.is_noted {
            self.recorder.note(What::Disconnected { connection: self.number });
        }
    }
}
