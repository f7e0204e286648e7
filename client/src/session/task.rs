//! The one task that owns the socket: it connects, resumes, sends, receives and reconnects.

use std::collections::VecDeque;
use std::io;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::{mpsc, oneshot, watch};
use tokio::time::{Instant, sleep, sleep_until, timeout};
use tracing::debug;
use zoolet_jute::{
    ConnectRequest, ConnectResponse, Decode, Encode, ErrorCode, OpCode, Reply, ReplyHeader,
    Request, SessionId, WatcherEvent, WatcherType, WatchesRequest, Xid, frame,
};

use super::lease::Lease;
use super::pending::{Answer, Pending, PendingQueue};
use super::timeouts::Timeouts;
use super::watches::{Registration, Watches};
use super::{SessionInfo, SessionState};
use crate::hosts::Hosts;
use crate::{ClientOptions, Error, ErrorKind};

/// The most requests that are sent and not yet answered; further calls wait.
const PENDING_MAX: usize = 4096;

/// The most bytes that wait to be written before further calls wait.
const OUT_BYTES_MAX: usize = 4 * 1024 * 1024;

/// The longest reply that is accepted, in bytes: servers do not bound theirs.
const REPLY_BYTES_MAX: usize = 64 * 1024 * 1024;

/// The bytes to make room for before each read.
const READ_BYTES: usize = 64 * 1024;

/// A call on its way to the task.
#[derive(Debug)]
pub(crate) struct Operation {
    pub(crate) request: Request,
    pub(crate) registration: Option<Registration>,
    pub(crate) answer: oneshot::Sender<Answer>,
}

/// What is asked of the task.
#[derive(Debug)]
pub(crate) enum Call {
    /// A request.
    Operation(Operation),
    /// A watcher of this kind and path was dropped.
    Forget(WatcherType, String),
    /// The server has removed all watches of this kind and path.
    Removed(WatcherType, String),
}

/// Why a connection ended.
enum End {
    /// It broke: find another server.
    Lost(Error),
    /// The session is over.
    Over(SessionState),
}

impl From<Error> for End {
    fn from(error: Error) -> Self {
        Self::Lost(error)
    }
}

impl From<io::Error> for End {
    fn from(error: io::Error) -> Self {
        Self::Lost(error.into())
    }
}

/// One connection's buffers and clocks.
struct Wire {
    stream: TcpStream,
    incoming: BytesMut,
    outgoing: BytesMut,
    sent_at: Instant,
    received_at: Instant,
}

/// The task's state.
#[derive(Debug)]
pub(crate) struct Task {
    hosts: Hosts,
    options: ClientOptions,
    calls: mpsc::Receiver<Call>,
    state: watch::Sender<SessionState>,
    info: Arc<Mutex<SessionInfo>>,
    lease: Lease,
    /// When the pings went out that are not answered yet.
    pings: VecDeque<Instant>,
    session: SessionInfo,
    pending: PendingQueue,
    auth_pending: VecDeque<Option<oneshot::Sender<Answer>>>,
    auths: Vec<Request>,
    watches: Watches,
    /// Watches that servers are still to be told to remove.
    forgotten: Vec<WatchesRequest>,
    xid: i32,
    closing: bool,
}

impl Task {
    pub(crate) fn new(
        hosts: Hosts,
        options: ClientOptions,
        calls: mpsc::Receiver<Call>,
        state: watch::Sender<SessionState>,
        (info, lease): (Arc<Mutex<SessionInfo>>, Lease),
    ) -> Self {
        let session = info.lock().unwrap_or_else(PoisonError::into_inner).clone();
        Self {
            hosts,
            options,
            calls,
            state,
            info,
            lease,
            pings: VecDeque::new(),
            session,
            pending: PendingQueue::default(),
            auth_pending: VecDeque::new(),
            auths: Vec::new(),
            watches: Watches::default(),
            forgotten: Vec::new(),
            xid: 0,
            closing: false,
        }
    }

    /// Runs until the session is over or nobody holds the client any more.
    pub(crate) async fn run(mut self) {
        let over = loop {
            let end = match self.connect().await {
                Ok(wire) => self.serve(wire).await,
                Err(end) => end,
            };
            self.fail_pending(&ErrorKind::ConnectionLoss);
            match end {
                End::Over(state) => break state,
                End::Lost(error) => {
                    debug!(session = %self.session.id, %error, "connection lost");
                    self.state.send_replace(SessionState::Disconnected);
                }
            }
        };
        self.state.send_replace(over);
    }

    fn timeouts(&self) -> Timeouts {
        Timeouts::new(Duration::from_millis(self.session.timeout_ms))
    }

    /// Tries the servers in turn, with a growing wait after each fruitless round.
    async fn connect(&mut self) -> Result<Wire, End> {
        let mut rounds = 0;
        loop {
            if self.calls.is_closed() && self.calls.is_empty() {
                return Err(End::Over(SessionState::Closed));
            }
            let (address, round_ends) = self.hosts.next();
            let limit = self.timeouts().connect(self.hosts.count());
            match timeout(limit, self.handshake(&address)).await {
                Ok(Ok(wire)) => return Ok(wire),
                Ok(Err(End::Over(state))) => return Err(End::Over(state)),
                Ok(Err(End::Lost(error))) => debug!(address, %error, "no session here"),
                Err(_) => debug!(address, limit_ms = limit.as_millis(), "no answer in time"),
            }
            if round_ends {
                sleep(self.timeouts().backoff(rounds)).await;
                rounds = rounds.saturating_add(1);
            }
        }
    }

    async fn handshake(&mut self, address: &str) -> Result<Wire, End> {
        let mut stream = TcpStream::connect(address).await?;
        stream.set_nodelay(true)?;
        let request = ConnectRequest {
            protocol_version: 0,
            last_zxid_seen: self.session.last_zxid,
            timeout_ms: i32::try_from(self.options.session_timeout.as_millis()).unwrap_or(i32::MAX),
            session_id: self.session.id,
            password: Some(match self.session.id {
                SessionId::NONE => Bytes::from_static(&[0; zoolet_jute::PASSWORD_BYTES]),
                _ => self.session.password.clone(),
            }),
            read_only: Some(false),
        };
        let asked_at = Instant::now();
        let mut outgoing = BytesMut::new();
        frame::put(&mut outgoing, |out| request.encode(out));
        stream.write_all_buf(&mut outgoing).await?;
        let mut incoming = BytesMut::with_capacity(READ_BYTES);
        let mut payload = loop {
            if let Some(payload) =
                frame::split(&mut incoming, REPLY_BYTES_MAX).map_err(Error::from)?
            {
                break payload;
            }
            if stream.read_buf(&mut incoming).await? == 0 {
                return Err(io::Error::from(io::ErrorKind::UnexpectedEof).into());
            }
        };
        let response = ConnectResponse::decode(&mut payload, "connect").map_err(Error::from)?;
        self.accept(response)?;
        self.lease.renew(asked_at, self.timeouts().lease());
        let now = Instant::now();
        let mut wire = Wire { stream, incoming, outgoing, sent_at: now, received_at: now };
        self.restore(&mut wire);
        self.state.send_replace(SessionState::Connected);
        Ok(wire)
    }

    /// Takes over what the server granted; a timeout of zero tells that the session is over.
    fn accept(&mut self, response: ConnectResponse) -> Result<(), End> {
        let Ok(timeout_ms @ 1..) = u64::try_from(response.timeout_ms) else {
            return Err(End::Over(SessionState::Expired));
        };
        self.session.id = response.session_id;
        self.session.password = response.password.unwrap_or_default();
        self.session.timeout_ms = timeout_ms;
        self.publish();
        Ok(())
    }

    fn publish(&self) {
        *self.info.lock().unwrap_or_else(PoisonError::into_inner) = self.session.clone();
    }

    /// Sends identities and watches again: they belong to the connection that is gone.
    fn restore(&mut self, wire: &mut Wire) {
        for auth in &self.auths {
            frame::put(&mut wire.outgoing, |out| auth.encode_with(Xid::AUTH, out));
            self.auth_pending.push_back(None);
        }
        for request in self.watches.set_watches(self.session.last_zxid) {
            frame::put(&mut wire.outgoing, |out| request.encode_with(Xid::SET_WATCHES, out));
        }
    }

    /// Serves one connection until it ends.
    async fn serve(&mut self, mut wire: Wire) -> End {
        loop {
            if let Err(end) = self.turn(&mut wire).await {
                return end;
            }
        }
    }

    /// Waits for the next thing to happen on the connection, and handles it.
    async fn turn(&mut self, wire: &mut Wire) -> Result<(), End> {
        self.send_removals(&mut wire.outgoing);
        let timeouts = self.timeouts();
        let ping_at = wire.sent_at + timeouts.ping();
        let give_up_at = wire.received_at + timeouts.read();
        let has_room = self.pending.len() < PENDING_MAX && wire.outgoing.len() < OUT_BYTES_MAX;
        wire.incoming.reserve(READ_BYTES);
        let (mut reader, mut writer) = wire.stream.split();
        tokio::select! {
            read = reader.read_buf(&mut wire.incoming) => {
                if read? == 0 {
                    return Err(io::Error::from(io::ErrorKind::UnexpectedEof).into());
                }
                wire.received_at = Instant::now();
                self.receive(&mut wire.incoming)
            }
            written = writer.write_buf(&mut wire.outgoing), if !wire.outgoing.is_empty() => {
                written?;
                wire.sent_at = Instant::now();
                Ok(())
            }
            call = self.calls.recv(), if has_room && !self.closing => {
                match call {
                    Some(Call::Operation(operation)) => self.send(operation, &mut wire.outgoing),
                    Some(Call::Forget(kind, path)) => self.forget(kind, path),
                    Some(Call::Removed(kind, path)) => self.watches.remove(kind, &path),
                    None => self.send_close(None, &mut wire.outgoing),
                }
                Ok(())
            }
            () = sleep_until(ping_at), if wire.outgoing.is_empty() => {
                frame::put(&mut wire.outgoing, |out| Request::Ping.encode_with(Xid::PING, out));
                self.pings.push_back(Instant::now());
                Ok(())
            }
            () = sleep_until(give_up_at) => {
                Err(io::Error::from(io::ErrorKind::TimedOut).into())
            }
        }
    }

    #[allow(clippy::wildcard_enum_match_arm, reason = "all others are numbered alike")]
    fn send(&mut self, operation: Operation, outgoing: &mut BytesMut) {
        let Operation { request, registration, answer } = operation;
        match request {
            Request::Auth(_) => {
                frame::put(outgoing, |out| request.encode_with(Xid::AUTH, out));
                self.auth_pending.push_back(Some(answer));
                self.auths.push(request);
            }
            Request::CloseSession => self.send_close(Some(answer), outgoing),
            request => self.send_numbered(&request, registration, Some(answer), outgoing),
        }
    }

    /// Has the server remove the watches for which nobody waits any more.
    fn send_removals(&mut self, outgoing: &mut BytesMut) {
        for body in std::mem::take(&mut self.forgotten) {
            if !self.closing {
                let request = Request::RemoveWatches(body);
                self.send_numbered(&request, None, None, outgoing);
            }
        }
    }

    fn send_close(&mut self, answer: Option<oneshot::Sender<Answer>>, outgoing: &mut BytesMut) {
        self.closing = true;
        self.send_numbered(&Request::CloseSession, None, answer, outgoing);
    }

    fn send_numbered(
        &mut self,
        request: &Request,
        registration: Option<Registration>,
        answer: Option<oneshot::Sender<Answer>>,
        outgoing: &mut BytesMut,
    ) {
        // Special xids are negative, so numbers go round from the largest int to 1.
        self.xid = self.xid.checked_add(1).unwrap_or(1);
        let xid = Xid(self.xid);
        frame::put(outgoing, |out| request.encode_with(xid, out));
        let (op, sent_at) = (request.op_code(), Instant::now());
        self.pending.push(Pending { xid, op, sent_at, registration, answer });
    }

    /// Handles every whole frame that has come in.
    fn receive(&mut self, incoming: &mut BytesMut) -> Result<(), End> {
        while let Some(mut payload) =
            frame::split(incoming, REPLY_BYTES_MAX).map_err(Error::from)?
        {
            let header = ReplyHeader::decode(&mut payload, "header").map_err(Error::from)?;
            match header.xid {
                Xid::NOTIFICATION => {
                    let event = WatcherEvent::decode(&mut payload, "event").map_err(Error::from)?;
                    self.watches.fire(&event, header.zxid);
                }
                Xid::PING => {
                    if let Some(sent_at) = self.pings.pop_front() {
                        self.lease.renew(sent_at, self.timeouts().lease());
                    }
                }
                Xid::SET_WATCHES => {}
                Xid::AUTH => self.receive_auth(header)?,
                _ => self.receive_reply(header, &mut payload)?,
            }
        }
        Ok(())
    }

    fn receive_auth(&mut self, header: ReplyHeader) -> Result<(), End> {
        let waiting = self.auth_pending.pop_front().flatten();
        let failed = header.err.is_some();
        if let Some(waiting) = waiting {
            let answer: Answer = if failed {
                Err(ErrorKind::AuthFailed.into())
            } else {
                Ok((header.zxid, Reply::Empty))
            };
            // Nobody waits if the caller has dropped its future.
            let _ = waiting.send(answer);
        }
        if failed { Err(End::Over(SessionState::AuthFailed)) } else { Ok(()) }
    }

    fn receive_reply(&mut self, header: ReplyHeader, payload: &mut Bytes) -> Result<(), End> {
        let mut pending = self.pending.take(&header)?;
        if !matches!(header.err, Some(ErrorCode::SessionExpired | ErrorCode::SessionMoved)) {
            self.lease.renew(pending.sent_at, self.timeouts().lease());
        }
        if header.zxid.0 > 0 {
            self.session.last_zxid = header.zxid;
            self.publish();
        }
        let op = pending.op;
        let registration = pending.registration.take();
        let answer = match header.err {
            None => {
                Reply::decode(op, payload).map(|reply| (header.zxid, reply)).map_err(Error::from)
            }
            Some(code) => Err(code.into()),
        };
        if let Some(registration) = registration {
            let node_exists = answer.is_ok();
            let absent_is_watched = op == OpCode::Exists && header.err == Some(ErrorCode::NoNode);
            if node_exists || absent_is_watched {
                let (kind, path) = registration.watched();
                let dropped = registration.is_forgotten().then(|| (kind, path.to_owned()));
                self.watches.register(registration, node_exists);
                if let Some((kind, path)) = dropped {
                    self.forget(kind, path);
                }
            }
        }
        pending.answer(answer);
        if op == OpCode::CloseSession { Err(End::Over(SessionState::Closed)) } else { Ok(()) }
    }

    /// Has a watch removed for which nobody waits any more. A request that is under way may leave
    /// the same watch: then it stays.
    fn forget(&mut self, kind: WatcherType, path: String) {
        if self.watches.forget(kind, &path) && !self.pending.registers(kind, &path) {
            self.forgotten.push(WatchesRequest { path, watcher_type: kind });
        }
    }

    fn fail_pending(&mut self, kind: &ErrorKind) {
        self.pending.fail(kind);
        self.pings.clear();
        // The watches are gone with the connection.
        self.forgotten.clear();
        for waiting in self.auth_pending.drain(..).flatten() {
            // Nobody waits if the caller has dropped its future.
            let _ = waiting.send(Err(kind.clone().into()));
        }
        self.closing = false;
    }
}
