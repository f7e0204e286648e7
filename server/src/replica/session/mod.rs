//! Sessions as this server's clients live them: handshakes, the order of requests, identities, and
//! the end for want of a sign of life.

mod commit;
mod connection;
mod expiry;
mod handshake;
mod identity;
mod leader;
mod password;
mod ping;
mod read_only;
mod request;

pub(in crate::replica) use connection::{Connection, PendingRequest, RequestState};
pub(in crate::replica) use expiry::Expiry;
pub(in crate::replica) use handshake::first_session;
pub(in crate::replica) use leader::Reaper;
pub(in crate::replica) use request::ReplyTo;
