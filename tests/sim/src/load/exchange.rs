//! What is under way on one connection: the calls that have no reply yet, and a note of each frame.

use std::collections::VecDeque;
use std::error::Error;

use bytes::Bytes;
use tokio::sync::oneshot;
use tokio::time::Instant;
use zoolet_jute::{
    ConnectRequest, ConnectResponse, Decode as _, ErrorCode, OpCode, Reply, ReplyHeader, Request,
    WatcherEvent, Xid, Zxid,
};
use zoolet_replica::ServerId;

use super::watches::Effect;
use crate::history::{CallNumber, ClientNumber, Connection, Recorder, What};

/// What the protocol rules out.
pub(super) type Breach = Box<dyn Error + Send + Sync>;

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

/// The frames of a connection, as they come and go. Dropping it notes that the connection has ended.
#[derive(Debug)]
pub(super) struct Exchange {
    recorder: Recorder,
    client: ClientNumber,
    number: Connection,
    in_flight: VecDeque<Asked>,
    pings: VecDeque<Asked>,
    /// Whether the history knows this connection.
    is_noted: bool,
}

impl Exchange {
    /// Of a new connection, on which nothing was sent yet.
    pub(super) fn new(recorder: &Recorder, client: ClientNumber) -> Self {
        Self {
            recorder: recorder.clone(),
            client,
            number: recorder.connection(),
            in_flight: VecDeque::new(),
            pings: VecDeque::new(),
            is_noted: false,
        }
    }

    /// The number of requests without a reply, pings aside.
    pub(super) fn in_flight(&self) -> usize {
        self.in_flight.len()
    }

    /// Notes a request that is sent now. Its frame must not be on its way yet.
    pub(super) fn called(
        &mut self,
        xid: Xid,
        request: Request,
        answer: Option<oneshot::Sender<Outcome>>,
    ) {
        let (op, effect) = (request.op_code(), Effect::of(&request));
        self.is_noted = true;
        let call = self.recorder.call(self.number, xid, request);
        let asked = Asked { call, xid, op, effect, answer, sent_at: Instant::now() };
        let queue = if op == OpCode::Ping { &mut self.pings } else { &mut self.in_flight };
        queue.push_back(asked);
    }

    /// Notes what a server has answered to a handshake.
    pub(super) fn connected(
        &mut self,
        server: ServerId,
        asked: &ConnectRequest,
        mut payload: Bytes,
    ) -> Result<ConnectResponse, Breach> {
        self.is_noted = true;
        let response = ConnectResponse::decode(&mut payload, "connect")?;
        self.recorder.note(What::Connected {
            client: self.client,
            connection: self.number,
            server,
            asked: asked.session_id,
            session: response.session_id,
            timeout_ms: u32::try_from(response.timeout_ms).unwrap_or(0),
            last_seen: asked.last_zxid_seen,
        });
        Ok(response)
    }

    /// Notes a frame that has arrived.
    pub(super) fn arrived(&mut self, mut payload: Bytes) -> Result<Incoming, Breach> {
        let header = ReplyHeader::decode(&mut payload, "header")?;
        if header.xid == Xid::NOTIFICATION {
            let event = WatcherEvent::decode(&mut payload, "event")?;
            let (connection, zxid) = (self.number, header.zxid);
            self.recorder.note(What::Notified { connection, zxid, event: event.clone() });
            return Ok(Incoming::Event(event));
        }
        let asked = self.take_asked(header.xid)?;
        let result = match header.err {
            None => Ok(Reply::decode(asked.op, &mut payload)?),
            Some(code) => Err(code),
        };
        if !payload.is_empty() {
            return Err(format!("{} bytes behind the reply to {}", payload.len(), asked.op).into());
        }
        let zxid = header.zxid;
        self.recorder.note(What::Returned { call: asked.call, zxid, result: result.clone() });
        let Asked { op, effect, answer, sent_at, .. } = asked;
        Ok(Incoming::Reply(Answered { op, zxid, effect, result, answer, sent_at }))
    }

    /// Takes the request that the next reply is for. Replies come in the order of the requests, but for
    /// those to pings: a server that does not lead holds a ping back until the leader has counted it
    /// (decision 0009), and answers what is behind it meanwhile.
    fn take_asked(&mut self, answered: Xid) -> Result<Asked, Breach> {
        let is_ping = answered == Xid::PING;
        let queue = if is_ping { &mut self.pings } else { &mut self.in_flight };
        let asked =
            queue.pop_front().ok_or_else(|| format!("a reply to no request: {answered}"))?;
        let oldest = self.in_flight.front().map(|oldest| oldest.call);
        if is_ping && oldest.is_some_and(|oldest| oldest < asked.call) {
            return Err("a reply to a ping before those to earlier requests".into());
        }
        if asked.xid == answered {
            Ok(asked)
        } else {
            Err(format!("a reply to {answered} before that to {}", asked.xid).into())
        }
    }

    /// Notes a breach of the protocol; the connection is of no use behind it.
    pub(super) fn complain(&self, why: &Breach) -> String {
        let why = format!("connection {}: {why}", self.number.0);
        self.recorder.note(What::Complained { client: self.client, why: why.clone() });
        why
    }
}

impl Drop for Exchange {
    fn drop(&mut self) {
        if self.is_noted {
            self.recorder.note(What::Disconnected { connection: self.number });
        }
    }
}
