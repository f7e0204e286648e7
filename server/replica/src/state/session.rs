//! The session table: who has a lease on the service, and at which server (protocol §7).
//!
//! How long a session was silent is not here: only the leader's clock decides that, and what it
//! decides comes back as a command.

use std::collections::BTreeMap;
use std::sync::Arc;

use zoolet_jute::{ErrorCode, SessionId};

use super::digest::Hasher;
use crate::{Boot, Origin, ProposalNumber, ServerId};

/// One start of one server.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Owner {
    /// The server.
    pub server: ServerId,
    /// Its start.
    pub boot: Boot,
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
    /// The number of the owner's command that began or last resumed it. Writes of connections that
    /// another one has replaced are refused.
    pub attachment: ProposalNumber,
}

/// How many parts the table has. A snapshot holds on to them while the table goes on: a part is
/// copied when it is changed while a snapshot shares it, and not otherwise. Sessions of one server
/// have neighboring ids, which go to all parts alike.
const PARTS: u64 = 256;

/// All sessions.
#[derive(Clone, Debug)]
pub(super) struct Sessions {
    parts: Vec<Arc<BTreeMap<SessionId, Session>>>,
    count: usize,
    /// The sum of all sessions' digests, modulo 2⁶⁴.
    digest: u64,
}

fn digest(id: SessionId, session: &Session) -> u64 {
    Hasher::new(4)
        .signed(id.0)
        .signed(i64::from(session.timeout_ms))
        .word(session.generation)
        .word(u64::from(session.owner.server.0))
        .word(session.owner.boot.0)
        .word(session.attachment.0)
        .finish()
}

impl Default for Sessions {
    fn default() -> Self {
        Self { parts: (0..PARTS).map(|_| Arc::default()).collect(), count: 0, digest: 0 }
    }
}

fn part_of(id: SessionId) -> usize {
    usize::try_from(id.0.cast_unsigned() % PARTS).expect("there are few parts")
}

impl Sessions {
    pub(super) fn get(&self, id: SessionId) -> Option<&Session> {
        self.parts.get(part_of(id))?.get(&id)
    }

    /// All sessions, in the order of their ids.
    pub(super) fn iter(&self) -> impl Iterator<Item = (SessionId, &Session)> {
        let mut all = Vec::with_capacity(self.count);
        all.extend(self.parts.iter().flat_map(|part| part.iter()).map(|(id, one)| (*id, one)));
        all.sort_unstable_by_key(|(id, _)| *id);
        all.into_iter()
    }

    /// The sessions of one part of the table; `None` behind the last part.
    pub(super) fn part(&self, part: usize) -> Option<impl Iterator<Item = (SessionId, &Session)>> {
        Some(self.parts.get(part)?.iter().map(|(id, one)| (*id, one)))
    }

    pub(super) fn len(&self) -> usize {
        self.count
    }

    /// Refuses a write unless it comes from the session's newest connection.
    pub(super) fn check(
        &self,
        id: SessionId,
        origin: Origin,
        attachment: ProposalNumber,
    ) -> Result<(), ErrorCode> {
        let session = self.get(id).ok_or(ErrorCode::SessionExpired)?;
        let is_newest = session.owner == Owner::from(origin) && session.attachment == attachment;
        if is_newest { Ok(()) } else { Err(ErrorCode::SessionMoved) }
    }

    pub(super) fn insert(&mut self, id: SessionId, session: Session) {
        self.remove(id);
        self.digest = self.digest.wrapping_add(digest(id, &session));
        if let Some(part) = self.parts.get_mut(part_of(id)) {
            Arc::make_mut(part).insert(id, session);
            self.count += 1;
        }
    }

    pub(super) fn remove(&mut self, id: SessionId) {
        let Some(part) = self.parts.get_mut(part_of(id)) else { return };
        if part.contains_key(&id)
            && let Some(session) = Arc::make_mut(part).remove(&id)
        {
            self.digest = self.digest.wrapping_sub(digest(id, &session));
            invariant!(self.count > 0, "session {id} was not counted");
            self.count -= 1;
        }
    }

    pub(super) fn digest(&self) -> u64 {
        self.digest
    }
}
