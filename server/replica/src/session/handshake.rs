//! Beginning and resuming sessions (protocol §1.4, §7.1 to §7.6).
//!
//! Both go through the log, so the answer comes when everything before is applied here: a new
//! session sees no ephemeral znode of a session that has ended before, and a resumed one sees
//! everything that was committed before it came.

use std::net::IpAddr;
use std::sync::Arc;

use zoolet_jute::{ConnectRequest, ConnectResponse, ErrorCode, Id, SessionId, Xid};

use super::client::{Client, CommandReply, PendingRequest, RequestState};
use super::first_session::is_begun_at;
use super::identity::first_identities;
use super::password::{is_password_of, password_of};
use super::reply_to::{InFlight, ReplyTo};
use crate::proposals::{CommandDraft, ProposalOwner};
use crate::{ConnectionId, Limit, Op, Output, ProposalNumber, Refusal, Refused, Replica};

/// The number that a handshake's command carries in place of a request's.
const NO_XID: Xid = Xid(0);

impl Replica {
    pub(crate) fn on_connect(
        &mut self,
        connection: ConnectionId,
        (peer, proved): (IpAddr, &[Id]),
        request: &ConnectRequest,
        out: &mut Vec<Output>,
    ) {
        if self.read_only {
            return self.connect_read_only(connection, (peer, proved), request, out);
        }
        let new = request.session_id == SessionId::NONE;
        let reached = self.reached_session_limit(peer, proved).filter(|_| new);
        // A resume is held against the client's zxid when its command is applied here.
        let ahead = request.last_zxid_seen > self.state.last_zxid();
        if let Some(limit) = reached.filter(|_| self.serving) {
            self.refuse_session(limit, peer);
        }
        if !self.serving || reached.is_some() || new && ahead {
            out.push(Output::Close { connection });
            return;
        }
        if !new && !is_password_of(request.session_id, request.password.as_ref()) {
            refuse(connection, request.read_only, out);
            return;
        }
        let timeout_ms = self.granted(request.timeout_ms);
        let (session, op, waiting) = if new {
            let session = self.next_session();
            (session, Op::CreateSession { timeout_ms }, ProposalOwner::Connection(connection))
        } else {
            self.ignore_old_connection(request.session_id);
            let session = request.session_id;
            (
                session,
                Op::ResumeSession { timeout_ms },
                ProposalOwner::Resume { connection, session },
            )
        };
        if is_begun_at(session, &self.options) {
            self.holders.hold(session, (peer, proved), self.now.mono_ms);
        }
        let identities = first_identities(peer, proved);
        let answer = CommandReply::Handshake {
            response: ConnectResponse {
                protocol_version: 0,
                timeout_ms,
                session_id: session,
                password: Some(password_of(session)),
                read_only: request.read_only.map(|_| false),
            },
            last_zxid_seen: request.last_zxid_seen,
        };
        let draft = CommandDraft {
            session,
            attachment: ProposalNumber::NONE,
            cxid: NO_XID,
            identities: Arc::clone(&identities),
            op,
        };
        let number = self.propose(waiting, draft, out);
        let handshake = PendingRequest {
            reply_to: ReplyTo {
                connection,
                xid: NO_XID,
                since_ms: self.now.mono_ms,
                in_flight: InFlight::default(),
            },
            wait: RequestState::Proposed { number, answer },
        };
        let mut opened = Client::new(session, timeout_ms, peer, identities, handshake);
        opened.attachment = number;
        opened.active_ms = self.silent.now_ms();
        self.connections.insert(connection, Box::new(opened));
    }

    /// The handshake's command is applied.
    pub(super) fn finish_handshake(
        &mut self,
        connection: ConnectionId,
        response: ConnectResponse,
        behind: bool,
        refused: Option<ErrorCode>,
        out: &mut Vec<Output>,
    ) {
        let session = response.session_id;
        if let Some(client) = self.connections.get_mut(&connection) {
            // The session begins now, however long its command was on its way.
            client.active_ms = self.silent.now_ms();
        }
        match refused {
            // This server is behind what the client has seen: it must try another.
            None if behind => self.close(connection, out),
            None => {
                self.sessions.insert(session, connection);
                out.push(Output::Accept { connection, response });
            }
            Some(ErrorCode::SessionExpired) => {
                self.holders.forget(session);
                self.forget(connection);
                refuse(connection, response.read_only, out);
            }
            // The id of a new session is taken: the client tries again and gets the next.
            Some(_) => self.close(connection, out),
        }
    }

    /// Returns the limit that a new session of this client would exceed.
    fn reached_session_limit(&self, peer: IpAddr, proved: &[Id]) -> Option<Limit> {
        if self.state.session_count() >= self.options.sessions_max {
            return Some(Limit::Sessions);
        }
        self.holders.reached(peer, proved, &self.options)
    }

    /// Notes that a limit has refused a new session.
    pub(super) fn refuse_session(&mut self, limit: Limit, peer: IpAddr) {
        let (session, refused) = (SessionId::NONE, Refused::Session);
        self.refusals.push(Refusal { limit, peer, session, refused });
    }

    /// Ignores from now on what the old connection of a session sends: the session is being resumed
    /// here. When the resume is applied or lost, the old connection is closed. What it had sent
    /// before and is proposed later, and what other connections send that wait for a resume of
    /// their own, is refused when it is applied, by its attachment.
    fn ignore_old_connection(&mut self, session: SessionId) {
        let old = self.sessions.get(&session);
        if let Some(old) = old.and_then(|old| self.connections.get_mut(old)) {
            old.ignores_input = true;
        }
    }

    /// The session timeout that a client gets when it asks for this one (§7.3).
    pub(super) fn granted(&self, asked_ms: i32) -> i32 {
        asked_ms.min(self.options.session_timeout_ms_max).max(self.options.session_timeout_ms_min)
    }

    /// The next session id: the first one of this start, counted up.
    pub(super) fn next_session(&mut self) -> SessionId {
        loop {
            let session = self.session_next;
            self.session_next = SessionId(session.0.wrapping_add(1));
            // The two ids that mean something else (§7.1).
            if session.0 != 0 && session.0 != i64::MIN {
                return session;
            }
        }
    }
}

/// Tells a client that its session has ended, and ends the connection.
pub(super) fn refuse(connection: ConnectionId, read_only: Option<bool>, out: &mut Vec<Output>) {
    out.push(Output::Accept { connection, response: ConnectResponse::expired(read_only) });
    out.push(Output::Close { connection });
}
