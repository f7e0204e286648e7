//! What a connection proves to be, and what it must have proved before it is served (protocol §9.8).

use bytes::Bytes;
use zoolet_jute::{AuthPacket, ErrorCode, Id, OpCode, Reply, Request, Zxid};

use super::client::{Ready, RequestState};
use super::identity::Schemes;
use super::reply_to::ReplyTo;
use crate::{BadRequest, ConnectionId, Limit, Refused, Replica, SaslStep};

/// How many bytes of credentials are hashed in a unit of a step's budget.
const HASHED_BYTES: usize = 256;

impl Replica {
    /// Takes the credentials now: whatever comes behind them is judged with them.
    pub(super) fn authenticate(
        &mut self,
        connection: ConnectionId,
        packet: &AuthPacket,
    ) -> RequestState {
        self.spend(packet.auth.as_ref().map_or(0, Bytes::len) / HASHED_BYTES);
        let schemes = Schemes::of(&self.options);
        let proved = self
            .connections
            .get(&connection)
            .and_then(|asking| schemes.authenticate(packet, asking.peer, &asking.identities));
        if proved.is_some_and(|proved| self.add_identities(connection, proved)) {
            return RequestState::Ready(Ready::outside_of_time(Ok(Reply::Empty)));
        }
        self.reply_and_close(connection, ErrorCode::AuthFailed, Zxid(0))
    }

    /// Takes note of what a token of a login has led to. It holds for what comes behind it.
    pub(super) fn log_in(&mut self, connection: ConnectionId, step: SaslStep) -> RequestState {
        let reply = |token| RequestState::Ready(Ready::outside_of_time(Ok(Reply::Sasl(token))));
        match step {
            SaslStep::Token(token) => reply(token),
            SaslStep::LoggedIn { token, proved } => {
                if self.add_identities(connection, proved) {
                    reply(Some(token))
                } else {
                    self.reply_and_close(connection, ErrorCode::AuthFailed, Zxid(0))
                }
            }
            SaslStep::Refused(code) => self.reply_and_close(connection, code, Zxid(0)),
        }
    }

    /// Returns whether a connection must prove who it is before this request is looked at.
    pub(super) fn lacks_required_identity(
        &self,
        reply_to: ReplyTo,
        request: &Result<Request, BadRequest>,
    ) -> bool {
        let required = &self.options.required_schemes;
        let proves = matches!(request, Ok(Request::Auth(_) | Request::Sasl(_)))
            || matches!(reply_to.in_flight.op, Some(OpCode::Auth | OpCode::Sasl));
        if required.is_empty() || proves {
            return false;
        }
        let is_required = |id: &Id| {
            let mut required = required.iter();
            required.any(|scheme| id.scheme.as_deref() == Some(scheme.as_str()))
        };
        !self.identities(reply_to.connection).iter().any(is_required)
    }

    /// Adds what a connection has proved; false if that is too much. A connection that was refused
    /// has the identities of before until it is closed.
    fn add_identities(&mut self, connection: ConnectionId, proved: Vec<Id>) -> bool {
        let Some(asking) = self.connections.get_mut(&connection) else { return false };
        let mut identities = asking.identities.to_vec();
        let new = proved.into_iter().filter(|identity| !asking.identities.contains(identity));
        identities.extend(new);
        let bytes: usize = identities.iter().map(Id::encoded_bytes).sum();
        let exceeded = if identities.len() > self.options.identities_per_connection_max {
            Limit::SessionIdentities
        } else if bytes > self.options.identity_bytes_per_connection_max {
            Limit::SessionIdentityBytes
        } else {
            asking.identities = identities.into();
            return true;
        };
        self.refuse(exceeded, connection, Refused::Request);
        false
    }
}
