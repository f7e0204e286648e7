//! What the client does on a connection, and what it knows of the session: the part that decides.
//!
//! It does no I/O and reads no clock. Bytes come in by [`receive`](Core::receive) and go out by
//! [`outgoing`](Core::outgoing), the time comes as an argument, and [`deadline`](Core::deadline)
//! tells when to [`wake`](Core::wake) it.

use std::collections::VecDeque;
use std::io;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use tokio::sync::{oneshot, watch};
use tokio::time::Instant;
use zoolet_jute::{
    AuthPacket, ConnectRequest, ConnectResponse, Decode, ErrorCode, OpCode, PASSWORD_BYTES, Reply,
    ReplyHeader, Request, SessionId, WatcherEvent, WatcherType, WatchesRequest, Xid, frame,
};

use super::calls::Operation;
use super::lease::Lease;
use super::pending::{Answer, Effect, Pending, PendingQueue};
use super::timeouts::Timeouts;
use super::watches::{Registration, Watches};
use super::{SessionInfo, SessionState};
use crate::{ClientOptions, Error, ErrorKind};

/// The most requests that are sent and not yet answered; further calls wait.
const PENDING_MAX: usize = 4096;

/// The most bytes that wait to be written before further calls wait.
const OUT_BYTES_MAX: usize = 4 * 1024 * 1024;

/// The longest reply that is accepted, in bytes: servers do not bound theirs.
pub(crate) const REPLY_BYTES_MAX: usize = 64 * 1024 * 1024;

/// Why a connection ended.
#[derive(Debug)]
pub(crate) enum End {
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

/// What the handles read and the core writes.
#[derive(Clone, Debug)]
pub(crate) struct Published {
    pub(crate) state: watch::Sender<SessionState>,
    pub(crate) info: Arc<Mutex<SessionInfo>>,
    pub(crate) lease: Lease,
}

/// What every connection is asked for.
#[derive(Clone, Copy, Debug)]
struct Wishes {
    timeout_ms: i32,
    read_only_will_do: bool,
}

/// An identity that every connection gets.
#[derive(Debug)]
struct Identity {
    packet: AuthPacket,
    /// Who waits to hear that a server has accepted it. A connection that breaks does not disturb
    /// the wait: the next one gets the identity as well.
    waiting: Option<oneshot::Sender<Answer>>,
}

/// The state of a session and of its connection.
#[derive(Debug)]
pub(crate) struct Core {
    wishes: Wishes,
    published: Published,
    session: SessionInfo,
    /// Whether the session is known to the ensemble. One that a read-only server has made up is
    /// not (protocol §7.9).
    is_real: bool,
    is_read_only: bool,
    closing: bool,
    xid: i32,
    pending: PendingQueue,
    watches: Watches,
    identities: Vec<Identity>,
    /// Which identities were sent and not yet answered. Apache answers them ahead of others.
    auth_pending: VecDeque<usize>,
    /// When the pings went out that are not answered yet.
    pings: VecDeque<Instant>,
    /// When the last ping was sent, or the session granted.
    pinged_at: Instant,
    outgoing: BytesMut,
    received_at: Instant,
}

impl Core {
    pub(crate) fn new(options: &ClientOptions, published: Published, now: Instant) -> Self {
        let session = published.info.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let timeout_ms = i32::try_from(options.session_timeout.as_millis()).unwrap_or(i32::MAX);
        Self {
            wishes: Wishes { timeout_ms, read_only_will_do: options.read_only },
            published,
            is_real: session.id != SessionId::NONE,
            session,
            is_read_only: false,
            closing: false,
            xid: 0,
            pending: PendingQueue::default(),
            watches: Watches::default(),
            identities: Vec::new(),
            auth_pending: VecDeque::new(),
            pings: VecDeque::new(),
            pinged_at: now,
            outgoing: BytesMut::new(),
            received_at: now,
        }
    }

    pub(crate) fn session_id(&self) -> SessionId {
        self.session.id
    }

    pub(crate) fn timeouts(&self) -> Timeouts {
        Timeouts::new(Duration::from_millis(self.session.timeout_ms))
    }

    /// What to say to a server.
    pub(crate) fn connect_request(&self) -> ConnectRequest {
        let (session_id, password) = if self.is_real {
            (self.session.id, self.session.password.clone())
        } else {
            (SessionId::NONE, Bytes::from_static(&[0; PASSWORD_BYTES]))
        };
        ConnectRequest {
            protocol_version: 0,
            last_zxid_seen: self.session.last_zxid,
            timeout_ms: self.wishes.timeout_ms,
            session_id,
            password: Some(password),
            read_only: Some(self.wishes.read_only_will_do),
        }
    }

    /// Takes over what a server granted that was asked at `asked_at`, and begins to serve the
    /// connection. A timeout of zero, or another session than that which was to be resumed, tells
    /// that the session has ended.
    pub(crate) fn greet(
        &mut self,
        response: ConnectResponse,
        asked_at: Instant,
        now: Instant,
    ) -> Result<(), End> {
        let Ok(timeout_ms @ 1..) = u64::try_from(response.timeout_ms) else {
            return Err(End::Over(SessionState::Expired));
        };
        if self.is_real && response.session_id != self.session.id {
            return Err(End::Over(SessionState::Expired));
        }
        self.is_read_only = response.read_only == Some(true);
        if self.is_read_only && !self.wishes.read_only_will_do {
            return Err(protocol("a read-only server has accepted a client that writes"));
        }
        self.is_real |= !self.is_read_only;
        self.session.id = response.session_id;
        self.session.password = response.password.unwrap_or_default();
        self.session.timeout_ms = timeout_ms;
        self.publish();
        if !self.is_read_only {
            self.published.lease.grant(asked_at, self.timeouts().lease());
        }
        (self.pinged_at, self.received_at) = (now, now);
        self.restore();
        let state =
            if self.is_read_only { SessionState::ReadOnly } else { SessionState::Connected };
        self.published.state.send_replace(state);
        Ok(())
    }

    /// Whether the connection is to a server that only reads.
    pub(crate) fn is_read_only(&self) -> bool {
        self.is_read_only
    }

    /// Whether the end of the session has been asked for on this connection.
    pub(crate) fn is_closing(&self) -> bool {
        self.closing
    }

    /// Whether another call may be sent.
    pub(crate) fn has_room(&self) -> bool {
        self.pending.len() < PENDING_MAX && self.outgoing.len() < OUT_BYTES_MAX
    }

    /// The bytes that wait to be written.
    pub(crate) fn outgoing(&mut self) -> &mut BytesMut {
        &mut self.outgoing
    }

    /// When to wake this if nothing else happens.
    pub(crate) fn deadline(&self) -> Instant {
        self.give_up_at().min(self.ping_at())
    }

    /// Sends a ping or gives the connection up, when it is time.
    pub(crate) fn wake(&mut self, now: Instant) -> Result<(), End> {
        if now >= self.give_up_at() {
            return Err(io::Error::from(io::ErrorKind::TimedOut).into());
        }
        if now >= self.ping_at() {
            frame::put(&mut self.outgoing, |out| Request::Ping.encode_with(Xid::PING, out));
            self.pings.push_back(now);
            self.pinged_at = now;
        }
        Ok(())
    }

    /// A busy connection pings as well: other answers do not prove that the leader counts the
    /// session.
    fn ping_at(&self) -> Instant {
        self.pinged_at + self.timeouts().ping()
    }

    /// A server that says something and does not answer is given up as well, before the session
    /// may have ended.
    fn give_up_at(&self) -> Instant {
        let silent_at = self.received_at + self.timeouts().read();
        if self.is_read_only { silent_at } else { silent_at.min(self.published.lease.end()) }
    }

    /// Sends a call.
    #[allow(clippy::wildcard_enum_match_arm, reason = "all others are numbered alike")]
    pub(crate) fn ask(&mut self, operation: Operation) {
        let Operation { request, effect, answer } = operation;
        match request {
            Request::Auth(packet) => self.authenticate(packet, answer),
            Request::CloseSession => self.close(Some(answer)),
            request => self.send(&request, effect, Some(answer)),
        }
    }

    /// Asks for the end of the session.
    pub(crate) fn close(&mut self, answer: Option<oneshot::Sender<Answer>>) {
        self.closing = true;
        self.send(&Request::CloseSession, None, answer);
    }

    /// Has the server remove a watch if nobody waits for it any more. A request that is under way
    /// may leave the same watch: then it stays.
    pub(crate) fn forget(&mut self, kind: WatcherType, path: String) {
        if self.watches.forget(kind, &path) {
            self.end_watch(kind, path);
        }
    }

    /// Like [`forget`](Self::forget), without a connection: the next server is not told of the watch.
    pub(crate) fn forget_unserved(&mut self, kind: WatcherType, path: &str) {
        self.watches.forget(kind, path);
    }

    /// Has the server remove a watch for which nobody waits, unless a request under way leaves it.
    fn end_watch(&mut self, kind: WatcherType, path: String) {
        if !self.pending.registers(kind, &path) && !self.closing {
            let body = WatchesRequest { path, watcher_type: kind };
            self.send(&Request::RemoveWatches(body), None, None);
        }
    }

    fn authenticate(&mut self, packet: AuthPacket, answer: oneshot::Sender<Answer>) {
        let known = self
            .identities
            .iter()
            .position(|identity| identity.packet == packet && identity.waiting.is_none());
        let index = known.unwrap_or(self.identities.len());
        if known.is_none() {
            self.identities.push(Identity { packet, waiting: None });
        }
        if let Some(identity) = self.identities.get_mut(index) {
            identity.waiting = Some(answer);
        }
        self.send_identity(index);
    }

    fn send_identity(&mut self, index: usize) {
        if let Some(identity) = self.identities.get(index) {
            let request = Request::Auth(identity.packet.clone());
            frame::put(&mut self.outgoing, |out| request.encode_with(Xid::AUTH, out));
            self.auth_pending.push_back(index);
        }
    }

    fn send(
        &mut self,
        request: &Request,
        effect: Option<Effect>,
        answer: Option<oneshot::Sender<Answer>>,
    ) {
        // Special xids are negative, so numbers go round from the largest int to 1.
        self.xid = self.xid.checked_add(1).unwrap_or(1);
        self.send_as(Xid(self.xid), request, effect, answer);
    }

    fn send_as(
        &mut self,
        xid: Xid,
        request: &Request,
        effect: Option<Effect>,
        answer: Option<oneshot::Sender<Answer>>,
    ) {
        frame::put(&mut self.outgoing, |out| request.encode_with(xid, out));
        let op = request.op_code();
        self.pending.push(Pending { xid, op, effect, answer });
    }

    /// Sends identities and watches again: they belong to the connection that is gone.
    fn restore(&mut self) {
        for index in 0..self.identities.len() {
            self.send_identity(index);
        }
        for (lasting, request) in self.watches.restore(self.session.last_zxid) {
            let effect = Some(Effect::Restore { lasting });
            self.send_as(Xid::SET_WATCHES, &request, effect, None);
        }
    }

    /// Handles every whole frame that has come in.
    pub(crate) fn receive(&mut self, incoming: &mut BytesMut, now: Instant) -> Result<(), End> {
        self.received_at = now;
        while let Some(mut payload) =
            frame::split(incoming, REPLY_BYTES_MAX).map_err(Error::from)?
        {
            let header = ReplyHeader::decode(&mut payload, "header").map_err(Error::from)?;
            match header.xid {
                Xid::NOTIFICATION => {
                    let event = WatcherEvent::decode(&mut payload, "event").map_err(Error::from)?;
                    for (kind, path) in self.watches.fire(&event, header.zxid) {
                        self.end_watch(kind, path);
                    }
                }
                Xid::PING => {
                    let Some(sent_at) = self.pings.pop_front() else {
                        return Err(protocol("nobody has sent a ping"));
                    };
                    self.renew(sent_at);
                }
                Xid::AUTH => self.receive_auth(header)?,
                _ => self.receive_reply(header, &mut payload)?,
            }
        }
        Ok(())
    }

    fn receive_auth(&mut self, header: ReplyHeader) -> Result<(), End> {
        let Some(index) = self.auth_pending.pop_front() else {
            return Err(protocol("nobody has sent credentials"));
        };
        let waiting = self.identities.get_mut(index).and_then(|identity| identity.waiting.take());
        let refused = header.err.is_some();
        if let Some(waiting) = waiting {
            let accepted = Ok((header.zxid, Reply::Empty));
            // Nobody waits if the caller has dropped its future.
            let _ =
                waiting.send(if refused { Err(ErrorKind::AuthFailed.into()) } else { accepted });
        }
        if refused { Err(End::Over(SessionState::AuthFailed)) } else { Ok(()) }
    }

    fn receive_reply(&mut self, header: ReplyHeader, payload: &mut Bytes) -> Result<(), End> {
        let mut pending = self.pending.take(&header)?;
        // The server does not serve the session any more: find out what has become of it.
        let is_elsewhere =
            matches!(header.err, Some(ErrorCode::SessionExpired | ErrorCode::SessionMoved));
        if header.zxid.0 > 0 {
            self.session.last_zxid = self.session.last_zxid.max(header.zxid);
            self.publish();
        }
        let op = pending.op;
        if let Some(effect) = pending.effect.take() {
            self.take_effect(effect, op, header.err);
        }
        pending.answer(match header.err {
            None => {
                Reply::decode(op, payload).map(|reply| (header.zxid, reply)).map_err(Error::from)
            }
            Some(code) => Err(code.into()),
        });
        match header.err {
            None if op == OpCode::CloseSession => Err(End::Over(SessionState::Closed)),
            Some(code) if is_elsewhere => Err(End::Lost(code.into())),
            None | Some(_) => Ok(()),
        }
    }

    /// Does to the watches what a request did to those of the server.
    fn take_effect(&mut self, effect: Effect, op: OpCode, err: Option<ErrorCode>) {
        match effect {
            Effect::Register(registration) => {
                let node_exists = err.is_none();
                let absent_is_watched = op == OpCode::Exists && err == Some(ErrorCode::NoNode);
                if node_exists || absent_is_watched {
                    self.register(registration, node_exists);
                }
            }
            Effect::Remove(kind, path) if err.is_none() => self.watches.remove(kind, &path),
            Effect::Restore { lasting } if err.is_some() => self.watches.end(lasting),
            Effect::Remove(..) | Effect::Restore { .. } => {}
        }
    }

    fn register(&mut self, registration: Registration, node_exists: bool) {
        let (kind, path) = registration.watched();
        let dropped = registration.is_forgotten().then(|| (kind, path.to_owned()));
        self.watches.register(registration, node_exists);
        if let Some((kind, path)) = dropped {
            self.forget(kind, path);
        }
    }

    /// The connection is gone, and everything that was under way on it.
    pub(crate) fn disconnected(&mut self) {
        self.published.state.send_replace(SessionState::Disconnected);
        for pending in self.pending.drain() {
            pending.answer(Err(ErrorKind::ConnectionLoss.into()));
        }
        self.pings.clear();
        self.auth_pending.clear();
        self.outgoing.clear();
        (self.closing, self.is_read_only) = (false, false);
    }

    /// When the session may have ended, if it is served no more and that was not told yet.
    pub(crate) fn lost_at(&self) -> Option<Instant> {
        let is_open = *self.published.state.borrow() == SessionState::Disconnected;
        (is_open && self.published.lease.was_granted()).then(|| self.published.lease.end())
    }

    /// Tells that the session may have ended.
    pub(crate) fn lose(&mut self) {
        self.published.state.send_replace(SessionState::Lost);
    }

    /// The session is over. The watches end with the core.
    pub(crate) fn over(mut self, state: SessionState) {
        self.published.state.send_replace(state);
        // They were sent: whatever has ended the session, a write among them may have happened.
        for pending in self.pending.drain() {
            pending.answer(Err(Error::unanswered(state.end())));
        }
        for waiting in self.identities.iter_mut().filter_map(|identity| identity.waiting.take()) {
            // Nobody waits if the caller has dropped its future.
            let _ = waiting.send(Err(state.end().into()));
        }
    }

    /// A ping that was sent at this moment was answered. A read-only server answers without keeping
    /// the session alive.
    fn renew(&self, sent_at: Instant) {
        if !self.is_read_only {
            self.published.lease.renew(sent_at, self.timeouts().lease());
        }
    }

    fn publish(&self) {
        let mut info = self.published.info.lock().unwrap_or_else(PoisonError::into_inner);
        info.clone_from(&self.session);
    }
}

fn protocol(why: &str) -> End {
    End::Lost(ErrorKind::Protocol(why.to_owned()).into())
}
