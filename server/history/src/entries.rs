//! The bytes of entries: what each of them has that the one before it has not.
//!
//! The thread that applies commands writes them, once, and the history's thread copies them into
//! blocks. Sessions and identities are numbered in the order in which the block first names them.

mod read;
mod write;

use std::sync::Arc;

use zoolet_jute::{Id, SessionId};
use zoolet_replica::HistoryCause;

pub(crate) use self::read::{Outline, Reader};
pub(crate) use self::write::Writer;

/// What the lower half of the first byte of an entry says.
pub(crate) mod tag {
    pub(crate) const CREATED: u8 = 0;
    pub(crate) const DELETED: u8 = 1;
    pub(crate) const DATA_CHANGED: u8 = 2;
    pub(crate) const ACL_CHANGED: u8 = 3;
    pub(crate) const SESSION_OPENED: u8 = 4;
    pub(crate) const SESSION_RESUMED: u8 = 5;
    pub(crate) const SESSION_ENDED: u8 = 6;
    pub(crate) const GAP: u8 = 7;
}

/// What the upper half says of an event, in its lower three bits. With the highest bit a byte of
/// [`flag`]s follows.
const CAUSES: [HistoryCause; 5] = [
    HistoryCause::Request,
    HistoryCause::SessionClosed,
    HistoryCause::SessionExpired,
    HistoryCause::Reaped,
    HistoryCause::Ensemble,
];

/// What is not as expected in an event.
mod flag {
    /// The highest bit of the first byte.
    pub(super) const ANY: u8 = 0x80;
    /// The transaction is not the next one.
    pub(super) const ZXID: u8 = 1;
    /// The time is not that of the entry before.
    pub(super) const TIME: u8 = 2;
    /// The server is not that of the session's event before.
    pub(super) const SERVER: u8 = 4;
    /// The xid is not the next one of the session.
    pub(super) const CXID: u8 = 8;
    /// The identities are not those of the session's event before.
    pub(super) const IDENTITIES: u8 = 0x10;
    /// The path is not as long as the one before.
    pub(super) const LENGTH: u8 = 0x20;
    /// The version is not the next one.
    pub(super) const VERSIONS: u8 = 0x40;
    /// There is data.
    pub(super) const DATA: u8 = 0x80;
}

/// A session that the block has named, and what its last event had.
#[derive(Clone, Copy, Debug)]
struct Known {
    session: SessionId,
    server: u8,
    cxid: i32,
    /// The place of its identities; out of range at first.
    identities: usize,
}

impl Known {
    fn new(session: SessionId) -> Self {
        Self { session, server: 0, cxid: 0, identities: usize::MAX }
    }
}

/// What an entry is written or read against: the one before it, and what the block has named.
#[derive(Debug, Default)]
struct Context {
    zxid: i64,
    time_ms: i64,
    path: Vec<u8>,
    sessions: Vec<Known>,
    identities: Vec<Arc<[Id]>>,
}

impl Context {
    /// Forgets everything, as a new block does.
    fn clear(&mut self) {
        let Self { zxid, time_ms, path, sessions, identities } = self;
        (*zxid, *time_ms) = (0, 0);
        path.clear();
        sessions.clear();
        identities.clear();
    }
}

#[cfg(test)]
mod tests;
