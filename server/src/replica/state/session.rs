//! The session table: who has a lease on the service, and at which server (protocol §7).
//!
//! How long a session was silent is not here: only the leader's clock decides that, and what it
//! decides comes back as a command.

use std::collections::BTreeMap;

use zoolet_jute::{ErrorCode, SessionId};

use super::digest::Hasher;
use crate::replica::{Origin, ServerId};

/// One start of one server.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Owner {
    /// The server.
    pub server: ServerId,
    /// Its start.
    pub boot: u64,
}

impl From<Origin> for Owner {
    fn from(origin: Origin) -> Self {
        Self { server: origin.server, boot: origin.boot }
    }
}

/// A session, as every server knows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Session {
    /// The negotiated timeout in milliseconds.
    pub timeout_ms: i32,
    /// How often it was resumed. An expiry that was decided before the last time has no effect.
    pub generation: u64,
    /// Where its client is connected, or was last. Writes that come from elsewhere are refused
    /// (protocol §7.6).
    pub owner: Owner,
}

/// All sessions.
#[derive(Clone, Debug, Default)]
pub(super) struct Sessions {
    by_id: BTreeMap<SessionId, Session>,
    /// The sum of all sessions' digests, modulo 2⁶⁴.
    digest: u64,
}

fn digest(id: SessionId, session: &Session) -> u64 {
    Hasher::new(4)
        .signed(id.0)
        .signed(i64::from(session.timeout_ms))
        .word(session.generation)
        .word(u64::from(session.owner.server.0))
        .word(session.owner.boot)
        .finish()
}

impl Sessions {
    pub(super) fn get(&self, id: SessionId) -> Option<&Session> {
        self.by_id.get(&id)
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (SessionId, &Session)> {
        self.by_id.iter().map(|(&id, session)| (id, session))
    }

    pub(super) fn len(&self) -> usize {
        self.by_id.len()
    }

    /// Whether the session may write through `origin`.
    pub(super) fn check(&self, id: SessionId, origin: Origin) -> Result<(), ErrorCode> {
        let session = self.by_id.get(&id).ok_or(ErrorCode::SessionExpired)?;
        if session.owner == Owner::from(origin) { Ok(()) } else { Err(ErrorCode::SessionMoved) }
    }

    pub(super) fn insert(&mut self, id: SessionId, session: Session) {
        self.remove(id);
        self.digest = self.digest.wrapping_add(digest(id, &session));
        self.by_id.insert(id, session);
    }

    pub(super) fn remove(&mut self, id: SessionId) {
        if let Some(session) = self.by_id.remove(&id) {
            self.digest = self.digest.wrapping_sub(digest(id, &session));
        }
    }

    pub(super) fn digest(&self) -> u64 {
        self.digest
    }
}
