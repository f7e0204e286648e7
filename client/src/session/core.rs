//! What the client does on a connection, and what it knows of the session: the part that decides.
//!
//! It does no I/O and reads no clock. Bytes come in by [`receive`](Core::receive) and go out by
//! [`outgoing`](Core::outgoing), the time comes as an argument, and [`deadline`](Core::deadline)
//! tells when to [`wake`](Core::wake) it.

use std::io;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use tokio::sync::{oneshot, watch};
use tokio::time::Instant;
use zoolet_jute::{
    AuthPacket, ConnectRequest, ConnectResponse, Decode, DecodeError, ErrorCode, OpCode,
    PASSWORD_BYTES, Reply, ReplyHeader, Request, SessionId, WatcherEvent, WatcherType,
    WatchesRequest, Xid, frame,
};

use super::calls::Operation;
use super::end::End;
use super::identities::Identities;
use super::lease::Lease;
use super::outgoing::Outgoing;
use super::pending::{Answer, Effect, Pending, PendingQueue, Sent};
use super::pulse::Pulse;
use super::timeouts::Timeouts;
use super::watches::{Registration, Watches};
use super::window::{Windows, reply_bytes};
use super::{SessionInfo, SessionState};
use crate::error::Cause;
use crate::{ClientOptions, Error, ErrorKind};

/// The most requests that are sent and not yet answered; further calls wait.
const PENDING_MAX: usize = 4096;

/// The most bytes that wait to be written before further calls wait.
const OUT_BYTES_MAX: usize = 4 * 1024 * 1024;

/// The longest reply that is accepted, in bytes: servers do not bound theirs.
pub(crate) const REPLY_BYTES_MAX: usize = 64 * 1024 * 1024;

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
    request_bytes_max: usize,
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
    identities: Identities,
    pulse: Pulse,
    windows: Windows,
    outgoing: Outgoing,
}

impl Core {
    pub(crate) fn new(options: &ClientOptions, published: Published, now: Instant) -> Self {
        let session = published.info.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let timeout_ms = i32::try_from(options.session_timeout.as_millis()).unwrap_or(i32::MAX);
        let patience = Timeouts::new(options.session_timeout).patience();
        Self {
            wishes: Wishes {
                timeout_ms,
                read_only_will_do: options.read_only,
                request_bytes_max: options.request_bytes_max,
            },
            published,
            is_real: session.id != SessionId::NONE,
            session,
            is_read_only: false,
            closing: false,
            xid: 0,
            pending: PendingQueue::default(),
            watches: Watches::default(),
            identities: Identities::default(),
            pulse: Pulse::new(now, now),
            windows: Windows::new(patience),
            outgoing: Outgoing::default(),
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
            return Err(End::protocol("a read-only server has accepted a client that writes"));
        }
        self.is_real |= !self.is_read_only;
        self.session.id = response.session_id;
        self.session.password = response.password.unwrap_or_default();
        self.session.timeout_ms = timeout_ms;
        self.publish();
        if !self.is_read_only {
            self.published.lease.grant(asked_at, self.timeouts().lease());
        }
        self.pulse = Pulse::new(asked_at, now);
        self.windows = Windows::new(self.timeouts().patience());
        self.restore(now);
        if self.is_read_only {
            self.published.state.send_replace(SessionState::ReadOnly);
        } else if now < self.published.lease.end() {
            self.published.state.send_replace(SessionState::Connected);
        } else {
            // The answer took so long that it proves nothing any more.
            self.lose();
        }
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
        self.pending.len() < PENDING_MAX
            && self.outgoing.len() < OUT_BYTES_MAX
            && self.windows.has_room()
    }

    /// The bytes to write next.
    pub(crate) fn outgoing(&mut self) -> &mut BytesMut {
        self.outgoing.next()
    }

    /// When to wake this if nothing else happens.
    pub(crate) fn deadline(&self) -> Instant {
        let next = self.give_up_at().min(self.pulse.ping_at(self.timeouts()));
        self.lost_at().map_or(next, |lost_at| next.min(lost_at))
    }

    /// Sends a ping, reports the loss of the session or gives the connection up, when it is time.
    pub(crate) fn wake(&mut self, now: Instant) -> Result<(), End> {
        if now >= self.give_up_at() {
            let why = "the server does not answer in time";
            return Err(io::Error::new(io::ErrorKind::TimedOut, why).into());
        }
        if self.lost_at().is_some_and(|lost_at| now >= lost_at) {
            self.lose();
        }
        if now >= self.pulse.ping_at(self.timeouts()) {
            self.outgoing.put_first(|out| Request::Ping.encode_with(Xid::PING, out));
            self.pulse.ping(now);
        }
        Ok(())
    }

    fn give_up_at(&self) -> Instant {
        self.pulse.give_up_at(self.timeouts())
    }

    /// Sends a call.
    #[allow(clippy::wildcard_enum_match_arm, reason = "all others are numbered alike")]
    pub(crate) fn ask(&mut self, operation: Operation, now: Instant) {
        let Operation { request, effect, answer, sent: _ } = operation;
        match request {
            Request::Auth(packet) => self.authenticate(packet, answer),
            Request::CloseSession => self.close(Some(answer), now),
            request => self.send(&request, effect, Some(answer), now),
        }
    }

    /// Asks for the end of the session.
    pub(crate) fn close(&mut self, answer: Option<oneshot::Sender<Answer>>, now: Instant) {
        self.closing = true;
        self.send(&Request::CloseSession, None, answer, now);
    }

    /// Has the server remove a watch if no watcher waits for it any more. A request that is under way
    /// may leave the same watch: then it stays.
    pub(crate) fn forget(&mut self, kind: WatcherType, path: String, now: Instant) {
        if self.watches.forget(kind, &path) {
            self.end_watch(kind, path, now);
        }
    }

    /// Like [`forget`](Self::forget), without a connection: the watch is not registered at the next server.
    pub(crate) fn forget_unserved(&mut self, kind: WatcherType, path: &str) {
        self.watches.forget(kind, path);
    }

    /// Has the server remove a watch without watchers, unless a request under way leaves it.
    fn end_watch(&mut self, kind: WatcherType, path: String, now: Instant) {
        if !self.pending.registers(kind, &path) && !self.closing {
            let body = WatchesRequest { path, watcher_type: kind };
            self.send(&Request::RemoveWatches(body), None, None, now);
        }
    }

    fn authenticate(&mut self, packet: AuthPacket, answer: oneshot::Sender<Answer>) {
        let index = self.identities.add(packet, answer);
        self.send_identity(index);
    }

    fn send_identity(&mut self, index: usize) {
        if let Some(packet) = self.identities.send(index) {
            let request = Request::Auth(packet);
            self.outgoing.put(|out| request.encode_with(Xid::AUTH, out));
        }
    }

    fn send(
        &mut self,
        request: &Request,
        effect: Option<Effect>,
        answer: Option<oneshot::Sender<Answer>>,
        now: Instant,
    ) {
        // Special xids are negative, so numbers go round from the largest int to 1.
        self.xid = self.xid.checked_add(1).unwrap_or(1);
        self.send_as(Xid(self.xid), request, (effect, answer), now);
    }

    fn send_as(
        &mut self,
        xid: Xid,
        request: &Request,
        (effect, answer): (Option<Effect>, Option<oneshot::Sender<Answer>>),
        now: Instant,
    ) {
        let request_bytes = self.outgoing.put(|out| request.encode_with(xid, out));
        let op = request.op_code();
        let reply_bytes = reply_bytes(op);
        let behind_pings = self.pulse.sent();
        let sent = Sent { at: now, behind_pings, request_bytes, reply_bytes };
        self.windows.send(&sent, self.timeouts().patience());
        self.pending.push(Pending { xid, op, effect, answer, sent });
    }

    /// Sends identities and watches again: they belong to the connection that is gone.
    fn restore(&mut self, now: Instant) {
        for index in 0..self.identities.len() {
            self.send_identity(index);
        }
        for (lasting, request) in
            self.watches.restore(self.session.last_zxid, self.wishes.request_bytes_max)
        {
            if planted!("watches-not-restored") {
                break;
            }
            let effect = Some(Effect::Restore { lasting });
            self.send_as(Xid::SET_WATCHES, &request, (effect, None), now);
        }
    }

    /// Handles every whole frame that has come in.
    pub(crate) fn receive(&mut self, incoming: &mut BytesMut, now: Instant) -> Result<(), End> {
        let mut of_reply = false;
        while let Some(mut payload) = self.split(incoming)? {
            let header = ReplyHeader::decode(&mut payload, "header").map_err(Error::from)?;
            of_reply |= header.xid != Xid::NOTIFICATION;
            match header.xid {
                Xid::NOTIFICATION => {
                    let event = WatcherEvent::decode(&mut payload, "event").map_err(Error::from)?;
                    for (kind, path) in self.watches.fire(&event, header.zxid) {
                        self.end_watch(kind, path, now);
                    }
                }
                Xid::PING => {
                    let unsent = || End::protocol("a reply to a ping that was not sent");
                    let sent_at = self.pulse.pong().ok_or_else(unsent)?;
                    self.renew(sent_at, now);
                }
                Xid::AUTH => self.receive_auth(header)?,
                _ => self.receive_reply(header, &mut payload, now)?,
            }
        }
        self.pulse.receive(of_reply || begins_reply(incoming), now);
        Ok(())
    }

    /// Takes the next whole frame. The call whose reply is too long fails for good: asked again, it
    /// would end the next connection, too, and fail all other calls of the session each time.
    fn split(&mut self, incoming: &mut BytesMut) -> Result<Option<Bytes>, End> {
        let error = match frame::split(incoming, REPLY_BYTES_MAX) {
            Err(error @ DecodeError::TooLong { .. }) => error,
            result => return result.map_err(|error| Error::from(error).into()),
        };
        let Some(head) = incoming.get(frame::LENGTH_BYTES..).and_then(|rest| rest.get(..16)) else {
            return Ok(None);
        };
        let header = ReplyHeader::decode(&mut Bytes::copy_from_slice(head), "header");
        if let Ok(pending) =
            header.map_err(Error::from).and_then(|header| self.pending.take(&header))
        {
            pending.answer(Err(Error::unanswered(ErrorKind::ReplyTooLong {
                bytes_max: REPLY_BYTES_MAX,
            })));
        }
        Err(Error::from(error).into())
    }

    fn receive_auth(&mut self, header: ReplyHeader) -> Result<(), End> {
        let is_refused = header.err.is_some() && !planted!("refusal-ends-nothing");
        match self.identities.answer(header.zxid, is_refused) {
            None => Err(End::protocol("a reply to credentials that were not sent")),
            Some(()) if is_refused => Err(End::Over(SessionState::AuthFailed)),
            Some(()) => Ok(()),
        }
    }

    fn receive_reply(
        &mut self,
        header: ReplyHeader,
        payload: &mut Bytes,
        now: Instant,
    ) -> Result<(), End> {
        let mut pending = self.pending.take(&header)?;
        self.pulse.reply(pending.sent.behind_pings);
        self.windows.answer(&pending.sent, now, self.timeouts().patience());
        // The server does not serve the session any more: find out what has become of it.
        let is_elsewhere =
            matches!(header.err, Some(ErrorCode::SessionExpired | ErrorCode::SessionMoved));
        if header.zxid.0 > 0 && !planted!("newest-zxid-forgotten") {
            self.session.last_zxid = self.session.last_zxid.max(header.zxid);
            self.publish();
        }
        let op = pending.op;
        if let Some(effect) = pending.effect.take() {
            self.take_effect(effect, op, header.err, now);
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
    fn take_effect(&mut self, effect: Effect, op: OpCode, err: Option<ErrorCode>, now: Instant) {
        match effect {
            Effect::Register(registration) => {
                let node_exists = err.is_none();
                let absent_is_watched = op == OpCode::Exists && err == Some(ErrorCode::NoNode);
                if node_exists || absent_is_watched {
                    self.register(registration, node_exists, now);
                }
            }
            Effect::Remove(kind, path) if err.is_none() => self.watches.remove(kind, &path),
            Effect::Restore { lasting } if err.is_some() => self.watches.end(lasting),
            Effect::Remove(..) | Effect::Restore { .. } => {}
        }
    }

    fn register(&mut self, registration: Registration, node_exists: bool, now: Instant) {
        let (kind, path) = registration.watched();
        let dropped = registration.is_forgotten().then(|| (kind, path.to_owned()));
        self.watches.register(registration, node_exists);
        if let Some((kind, path)) = dropped {
            self.forget(kind, path, now);
        }
    }

    /// The connection is gone for this reason, and everything that was under way on it.
    pub(crate) fn disconnected(&mut self, why: &str, source: Option<&Cause>) {
        // A loss stays reported until a server counts the session again.
        self.published.state.send_if_modified(|state| {
            let was_served = state.is_served();
            if was_served {
                *state = SessionState::Disconnected;
            }
            was_served
        });
        let why: Arc<str> = why.into();
        for pending in self.pending.drain() {
            pending.answer(Err(Error::lost(Arc::clone(&why), source.cloned())));
        }
        self.identities.disconnected();
        self.outgoing.clear();
        (self.closing, self.is_read_only) = (false, false);
    }

    /// When the session may have ended, if no ping is answered until then and it was not reported
    /// yet.
    pub(crate) fn lost_at(&self) -> Option<Instant> {
        let state = *self.published.state.borrow();
        let is_open = matches!(state, SessionState::Connected | SessionState::Disconnected);
        (is_open && self.published.lease.was_granted()).then(|| self.published.lease.end())
    }

    /// Reports that the session may have ended.
    pub(crate) fn lose(&mut self) {
        if self.published.state.send_replace(SessionState::Lost) != SessionState::Lost {
            tracing::warn!("no server has answered in time: the session and its locks may be lost");
        }
    }

    /// The session is over. The watches end with the core.
    pub(crate) fn over(mut self, state: SessionState) {
        self.published.state.send_replace(state);
        // They were sent: whatever has ended the session, a write among them may have happened.
        for pending in self.pending.drain() {
            pending.answer(Err(Error::unanswered(state.end())));
        }
        self.identities.over(state);
    }

    /// A ping that was sent at this moment was answered. A read-only server answers without keeping
    /// the session alive.
    fn renew(&self, sent_at: Instant, now: Instant) {
        if self.is_read_only {
            return;
        }
        let sent_at = if planted!("lease-from-the-answer") { now } else { sent_at };
        self.published.lease.renew(sent_at, self.timeouts().lease());
        let is_kept = now < self.published.lease.end();
        self.published.state.send_if_modified(|state| {
            let is_back = is_kept && *state == SessionState::Lost;
            if is_back {
                *state = SessionState::Connected;
            }
            is_back
        });
    }

    fn publish(&self) {
        let mut info = self.published.info.lock().unwrap_or_else(PoisonError::into_inner);
        info.clone_from(&self.session);
    }
}

/// Returns whether the first bytes of a frame that has not come in as a whole are those of a reply.
fn begins_reply(incoming: &BytesMut) -> bool {
    let xid = incoming.get(frame::LENGTH_BYTES..).and_then(|rest| rest.first_chunk());
    xid.is_some_and(|xid| Xid(i32::from_be_bytes(*xid)) != Xid::NOTIFICATION)
}
