//! The replicated state: znodes, sessions, and what it takes to change them in log order.
//!
//! Everything here is a function of the log. Watches, connections and clocks are not here, and no
//! command can fail for a reason that another server would not have as well.

mod change;
mod digest;
mod sequence;
mod session;

pub use change::{Applied, Change};
pub use session::{Owner, Session};

use std::sync::Arc;

use zoolet_jute::{Acl, ErrorCode, Id, Reply, Request, SessionId, Stat, Zxid};

use self::sequence::Fence;
use self::session::Sessions;
use super::{Command, Op, Origin};

/// The state of the service at one position of the log.
#[derive(Clone, Debug, Default)]
pub struct State {
    sessions: Sessions,
    fence: Fence,
    last_zxid: Zxid,
}

impl State {
    /// The state before the first command: the built-in znodes (protocol §6.2).
    pub fn new() -> Self {
        Self::default()
    }

    /// Whether a batch of `count` commands, numbered from `first_number`, is to be applied. A
    /// batch that was applied before, or that an earlier one is missing in front of, is dropped
    /// as a whole and takes no zxid.
    pub fn admit(&mut self, origin: Origin, first_number: u64, count: u64) -> bool {
        self.fence.admit(origin, first_number, count)
    }

    /// Applies the next command of an admitted batch that was put into the log in `term`.
    pub fn apply(&mut self, term: u64, origin: Origin, command: Command) -> Applied {
        let zxid = sequence::next_zxid(self.last_zxid, term);
        self.last_zxid = zxid;
        let mut changes = Vec::new();
        let result = self.run(origin, &command, &mut changes);
        if result.is_err() {
            changes.clear();
        }
        Applied { zxid, result, changes }
    }

    fn run(
        &mut self,
        origin: Origin,
        command: &Command,
        changes: &mut Vec<Change>,
    ) -> Result<Reply, ErrorCode> {
        let session = command.session;
        match &command.op {
            Op::CreateSession { timeout_ms } => {
                if self.sessions.get(session).is_some() {
                    return Err(ErrorCode::NodeExists);
                }
                let owner = Owner::from(origin);
                let opened = Session { timeout_ms: *timeout_ms, generation: 0, owner };
                self.sessions.insert(session, opened);
                changes.push(Change::SessionOpened(session));
                Ok(Reply::Empty)
            }
            Op::ResumeSession { timeout_ms } => {
                let old = *self.sessions.get(session).ok_or(ErrorCode::SessionExpired)?;
                let owner = Owner::from(origin);
                let generation = old.generation.saturating_add(1);
                let resumed = Session { timeout_ms: *timeout_ms, generation, owner };
                self.sessions.insert(session, resumed);
                changes.push(Change::SessionResumed { session, owner });
                Ok(Reply::Empty)
            }
            Op::CloseSession => {
                self.sessions.check(session, origin)?;
                self.sessions.remove(session);
                changes.push(Change::SessionClosed(session));
                Ok(Reply::Empty)
            }
            Op::ExpireSession { generation } => {
                let old = *self.sessions.get(session).ok_or(ErrorCode::SessionExpired)?;
                if old.generation != *generation {
                    return Err(ErrorCode::BadVersion);
                }
                self.sessions.remove(session);
                changes.push(Change::SessionClosed(session));
                Ok(Reply::Empty)
            }
            Op::Write(_) => {
                self.sessions.check(session, origin)?;
                Err(ErrorCode::NoNode)
            }
            Op::DeleteContainer { .. } | Op::SetConfig { .. } => Err(ErrorCode::NoNode),
        }
    }

    /// Answers a request that changes nothing.
    pub fn read(
        &self,
        _request: &Request,
        _session: SessionId,
        _identities: &[Id],
        _skip_acl: bool,
    ) -> Result<Reply, ErrorCode> {
        Err(ErrorCode::NoNode)
    }

    /// The zxid of the last command.
    pub fn last_zxid(&self) -> Zxid {
        self.last_zxid
    }

    /// A session.
    pub fn session(&self, id: SessionId) -> Option<&Session> {
        self.sessions.get(id)
    }

    /// All sessions, in the order of their ids.
    pub fn sessions(&self) -> impl Iterator<Item = (SessionId, &Session)> {
        self.sessions.iter()
    }

    /// The number of sessions.
    pub fn session_count(&self) -> usize {
        self.sessions.len()
    }

    /// The Stat of a znode, whoever asks.
    pub fn stat(&self, _path: &str) -> Option<Stat> {
        None
    }

    /// The ACL of a znode, whoever asks.
    pub fn acl(&self, _path: &str) -> Option<Arc<[Acl]>> {
        None
    }
}
