//! Read-only mode (protocol §7.9): a server that has lost its ensemble goes on serving reads, from
//! what it knows, to clients that have said that they can live with old data.
//!
//! Its sessions are this server's own. They are never in the log nor in the state, so they own
//! nothing and no other server knows them; their ids come from the same counter as those of other
//! sessions, so none of them is ever another session's. When a leader is known again all of them
//! end, and the clients come back for a session that counts.

use std::collections::BTreeSet;
use std::net::IpAddr;

use zoolet_jute::{ConnectRequest, ConnectResponse, ErrorCode, Id, Reply, Request, SessionId};

use super::client::{Client, Ready, RequestState};
use super::handshake::refuse;
use super::identity::first_identities;
use super::password::password_of;
use crate::{ConnectionId, Limit, Output, Replica};

impl Replica {
    /// Without a leader for too long: from now on only reads are served.
    pub(super) fn begin_read_only(&mut self) {
        self.read_only = self.options.read_only_mode;
        self.read_only_from = self.session_next;
    }

    /// There is a leader again.
    pub(super) fn end_read_only(&mut self, out: &mut Vec<Output>) {
        if std::mem::take(&mut self.read_only) {
            self.close_all(out);
        }
    }

    /// Begins a session that only this server knows. A session of the ensemble cannot be resumed
    /// here: it is unknown whether it has ended, and its client would lose what it owns.
    pub(super) fn connect_read_only(
        &mut self,
        connection: ConnectionId,
        (peer, proved): (IpAddr, &[Id]),
        request: &ConnectRequest,
        out: &mut Vec<Output>,
    ) {
        if self.began_here(request.session_id) {
            // It ended with its connection. The client gets another one at once.
            return refuse(connection, request.read_only, out);
        }
        let is_new = request.session_id == SessionId::NONE;
        let is_ahead = request.last_zxid_seen > self.state.last_zxid();
        let is_full = self.sessions.len() >= self.options.sessions_max;
        if is_full {
            self.refuse_session(Limit::Sessions, peer);
        }
        if request.read_only != Some(true) || !is_new || is_ahead || is_full {
            out.push(Output::Close { connection });
            return;
        }
        let timeout_ms = self.granted(request.timeout_ms);
        let session = self.next_session();
        let identities = first_identities(peer, proved);
        let mut opened = Client::with_session(session, timeout_ms, peer, identities);
        opened.touch_mark = self.now.mono_ms;
        self.connections.insert(connection, Box::new(opened));
        self.sessions.insert(session, connection);
        let response = ConnectResponse {
            protocol_version: 0,
            timeout_ms,
            session_id: session,
            password: Some(password_of(session)),
            read_only: Some(true),
        };
        out.push(Output::Accept { connection, response });
    }

    /// Whether a session began here since the leader is missing.
    fn began_here(&self, session: SessionId) -> bool {
        let count = self.session_next.0.wrapping_sub(self.read_only_from.0);
        (0..count).contains(&session.0.wrapping_sub(self.read_only_from.0))
    }

    /// What a request that needs the ensemble is answered with.
    pub(super) fn refuse_write(
        &mut self,
        connection: ConnectionId,
        request: &Request,
    ) -> RequestState {
        if matches!(request, Request::CloseSession) {
            self.ignore_input(connection);
            return RequestState::Ready(Ready {
                result: Ok(Reply::Empty),
                zxid: None,
                close: true,
            });
        }
        RequestState::error(ErrorCode::NotReadOnly)
    }

    /// Ends the sessions of clients that gave no sign of life for their whole timeout.
    pub(super) fn expire_read_only(&mut self, out: &mut Vec<Output>) {
        let now_ms = self.now.mono_ms;
        let is_silent = |known: &Client| {
            let timeout_ms = u64::try_from(known.timeout_ms).unwrap_or(0);
            now_ms.saturating_sub(known.touch_mark) > timeout_ms
        };
        let silent = self.connections.iter().filter(|(_, known)| is_silent(known));
        for connection in silent.map(|(connection, _)| *connection).collect::<Vec<_>>() {
            self.close_soon(connection, out);
        }
    }

    pub(crate) fn close_all(&mut self, out: &mut Vec<Output>) {
        self.close_all_but(&BTreeSet::new(), out);
    }
}
