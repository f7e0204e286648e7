//! What the history of a server receives of each command that is applied: every change, from any
//! server, so that each server has the whole history.

use std::sync::Arc;

use bytes::Bytes;
use zoolet_jute::{Id, SessionId, Xid, Zxid};

use super::state::{Change, State};
use super::{Command, Op, Replica, ServerId, Stamp};

/// Something for the history, in the order of the log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HistoryItem {
    /// A change.
    Event(HistoryEvent),
    /// Everything up to this transaction was handed over, also if the last ones have changed nothing.
    Through(Zxid),
    /// The state was replaced by that of a snapshot: what has happened in between is unknown.
    Skipped {
        /// The last transaction before.
        after: Zxid,
        /// The last transaction of the snapshot.
        through: Zxid,
    },
}

/// One change, and who has made it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HistoryEvent {
    /// The transaction. Those of a multi, and of the end of a session, have several events.
    pub zxid: Zxid,
    /// The leader's wall clock, milliseconds since 1970.
    pub time_ms: i64,
    /// The server that has proposed it: that of the client, or the leader.
    pub server: ServerId,
    /// The session that asked, or that has ended; [`SessionId::NONE`] for what the leader has decided.
    pub session: SessionId,
    /// The xid of the request.
    pub cxid: Xid,
    /// Whom the connection had proved to be, its address among it; none for what the leader has
    /// decided.
    pub identities: Arc<[Id]>,
    /// Why it was done.
    pub cause: HistoryCause,
    /// What was done.
    pub change: HistoryChange,
}

/// Why something was done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HistoryCause {
    /// A client has asked for it.
    Request,
    /// A client has closed its session.
    SessionClosed,
    /// A session has expired.
    SessionExpired,
    /// A container was empty, or the time to live of a znode was over.
    Reaped,
    /// The ensemble has changed.
    Ensemble,
}

/// What was done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HistoryChange {
    /// A znode was created.
    Created {
        /// Its path.
        path: String,
        /// Its session, if it is ephemeral, or [`SessionId::NONE`].
        owner: SessionId,
        /// Its data, if data is kept.
        data: Option<Bytes>,
    },
    /// A znode was deleted.
    Deleted {
        /// Its path.
        path: String,
        /// Its session, if it was ephemeral, or [`SessionId::NONE`].
        owner: SessionId,
        /// Its last version.
        version: i32,
    },
    /// Data was written.
    DataChanged {
        /// The path of the znode.
        path: String,
        /// The version before.
        old_version: i32,
        /// The version of the data.
        version: i32,
        /// The data, if it is kept.
        data: Option<Bytes>,
    },
    /// An ACL was written.
    AclChanged {
        /// The path of the znode.
        path: String,
        /// The version of the ACL before.
        old_version: i32,
        /// The version of the ACL.
        version: i32,
    },
    /// A session began.
    SessionOpened,
    /// A session was resumed, at the server of the event.
    SessionResumed,
    /// A session ended. The deletions of its ephemeral znodes precede it.
    SessionEnded,
}

impl HistoryChange {
    /// The path of the znode; none of a session.
    pub fn path(&self) -> Option<&str> {
        match self {
            Self::Created { path, .. }
            | Self::Deleted { path, .. }
            | Self::DataChanged { path, .. }
            | Self::AclChanged { path, .. } => Some(path),
            Self::SessionOpened | Self::SessionResumed | Self::SessionEnded => None,
        }
    }

    /// The session that owns the znode, or did; [`SessionId::NONE`] if there is none.
    pub fn owner(&self) -> SessionId {
        match self {
            Self::Created { owner, .. } | Self::Deleted { owner, .. } => *owner,
            Self::DataChanged { .. }
            | Self::AclChanged { .. }
            | Self::SessionOpened
            | Self::SessionResumed
            | Self::SessionEnded => SessionId::NONE,
        }
    }

    /// `data` returns what a znode has as its data of a version.
    fn of(change: Change, data: impl FnOnce(&str, i32) -> Option<Bytes>) -> Self {
        match change {
            Change::Created { path, owner, .. } => {
                let data = data(&path, 0);
                Self::Created { path, owner, data }
            }
            Change::Deleted { path, owner, version, .. } => Self::Deleted { path, owner, version },
            Change::DataChanged { path, old_version, version, .. } => {
                let data = data(&path, version);
                Self::DataChanged { path, old_version, version, data }
            }
            Change::AclChanged { path, old_version, version } => {
                Self::AclChanged { path, old_version, version }
            }
            Change::SessionOpened(_) => Self::SessionOpened,
            Change::SessionResumed { .. } => Self::SessionResumed,
            Change::SessionClosed(_) => Self::SessionEnded,
        }
    }
}

/// What the events of a command have in common.
#[derive(Clone, Debug)]
pub(crate) struct HistoryHead {
    time_ms: i64,
    server: ServerId,
    session: SessionId,
    cxid: Xid,
    identities: Arc<[Id]>,
    cause: HistoryCause,
}

impl HistoryHead {
    pub(crate) fn of(stamp: Stamp, server: ServerId, command: &Command) -> Self {
        let cause = match &command.op {
            Op::CreateSession { .. }
            | Op::ResumeSession { .. }
            | Op::Write(_)
            | Op::WriteX509(_)
            | Op::WriteSasl(_) => HistoryCause::Request,
            #[cfg(feature = "made_up")]
            Op::MadeUp(_) => HistoryCause::Request,
            Op::CloseSession => HistoryCause::SessionClosed,
            Op::ExpireSession { .. } => HistoryCause::SessionExpired,
            Op::DeleteContainer { .. } => HistoryCause::Reaped,
            Op::SetConfig { .. } | Op::SetLevel { .. } => HistoryCause::Ensemble,
        };
        let Command { session, cxid, .. } = *command;
        let identities = Arc::clone(&command.identities);
        Self { time_ms: stamp.now_ms, server, session, cxid, identities, cause }
    }

    fn event(&self, zxid: Zxid, change: HistoryChange) -> HistoryEvent {
        let Self { time_ms, server, session, cxid, cause, .. } = *self;
        let identities = Arc::clone(&self.identities);
        HistoryEvent { zxid, time_ms, server, session, cxid, identities, cause, change }
    }
}

/// The room for items that stays when they are taken: as much as is taken at once, and more.
const ITEMS_KEPT_MAX: usize = 4096;

/// The items that were not taken yet.
#[derive(Debug, Default)]
pub(crate) struct HistoryItems {
    items: Vec<HistoryItem>,
    /// The last transaction that is done, if it is not handed over.
    through: Option<Zxid>,
}

impl HistoryItems {
    /// Notes a change.
    pub(crate) fn note(
        &mut self,
        (head, state): (&HistoryHead, &State),
        data_bytes_max: usize,
        change: Change,
    ) {
        // A later part of the same multi may have written other data.
        let data = |path: &str, version| {
            let stat = (data_bytes_max > 0).then(|| state.stat(path))??;
            let data = state.data(path).filter(|_| stat.version == version)?;
            // A part of a buffer would keep all of it.
            Some(Bytes::copy_from_slice(data.get(..data.len().min(data_bytes_max))?))
        };
        let change = HistoryChange::of(change, data);
        self.items.push(HistoryItem::Event(head.event(state.pending_zxid(), change)));
    }

    /// Notes that a transaction is done.
    pub(crate) fn end(&mut self, zxid: Zxid) {
        self.through = Some(zxid);
    }

    /// Notes that the state was replaced.
    pub(crate) fn skip(&mut self, after: Zxid, through: Zxid) {
        self.items.push(HistoryItem::Skipped { after, through });
    }

    /// Takes the items; after very many of them, their room is given back.
    fn drain(&mut self) -> impl Iterator<Item = HistoryItem> {
        let Self { items, through } = self;
        let is_large = items.capacity() > ITEMS_KEPT_MAX;
        let large = if is_large { std::mem::take(items) } else { Vec::new() };
        large.into_iter().chain(items.drain(..)).chain(through.take().map(HistoryItem::Through))
    }
}

impl Replica {
    /// How many items [`Replica::drain_history`] returns.
    pub fn history_len(&self) -> usize {
        self.history.items.len() + usize::from(self.history.through.is_some())
    }

    /// Takes what the history is to receive. It is for the caller to do so before there is too much.
    pub fn drain_history(&mut self) -> impl Iterator<Item = HistoryItem> {
        self.history.drain()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The end of a session with a million ephemerals left its hundred megabytes behind.
    #[test]
    fn room_for_a_large_transaction_is_given_back() {
        let mut items = HistoryItems::default();
        let skipped = |zxid| HistoryItem::Skipped { after: Zxid(zxid - 1), through: Zxid(zxid) };
        for count in [100_000, 100] {
            for zxid in 1..=count {
                items.skip(Zxid(zxid - 1), Zxid(zxid));
            }
            items.end(Zxid(count));
            let drained: Vec<_> = items.drain().collect();
            let through = HistoryItem::Through(Zxid(count));
            let expected: Vec<_> = (1..=count).map(skipped).chain([through]).collect();
            assert_eq!(drained, expected);
            assert!(items.items.capacity() <= ITEMS_KEPT_MAX);
        }
        assert!(items.items.capacity() >= 100, "the usual room is kept");
    }
}
