//! Sessions as this server's clients live them: handshakes, the order of requests, identities, and
//! the end for want of a sign of life.

mod acls;
mod client;
mod commit;
mod expiry;
mod first_session;
mod handshake;
mod holders;
mod identity;
mod leader;
mod level;
mod liveness;
mod login;
mod password;
mod ping;
mod read_only;
mod reply_to;
mod request;
mod silence;
mod silent_sessions;

pub(crate) use client::{Client, PendingRequest, RequestState};
pub(crate) use expiry::Expiry;
pub(crate) use first_session::first_session;
pub(crate) use holders::SessionHolders;
pub(crate) use identity::Schemes;
pub(crate) use leader::Reaper;
pub use reply_to::{InFlight, ReplyTo};
pub use silence::{Silence, Silences};
pub(crate) use silent_sessions::SilentSessions;
