//! The replicated state: znodes, sessions, and what it takes to change them in log order.
//!
//! Everything here is a function of the log. Watches, connections and clocks are not here, and no
//! command can fail for a reason that another server would not have as well. Whatever a committed
//! entry or a snapshot holds, nothing here panics, and nothing recurses on the tree's depth.

mod access;
mod apply;
mod arena;
mod change;
mod check;
mod chunk;
mod digest;
mod exchange;
mod ip;
mod lock_name;
mod lock_place;
mod locks;
mod long;
mod names;
mod path;
mod quota;
mod read;
mod sequence;
mod session;
mod snapshot;
#[cfg(test)]
mod tests;
mod tree;
mod znode;

pub(crate) use access::is_authenticated;
pub use access::is_principal;
pub(crate) use change::Step;
pub use change::{Applied, Change};
pub use chunk::SHARED_BYTES_MIN;
pub use digest::DIGEST_VERSION;
pub use exchange::{AclNumber, BuildError, StateBuilder, ZnodeNumber, ZnodeNumbers, ZnodeRecord};
pub(crate) use ip::normalized as normalized_network;
pub use lock_name::LockName;
pub use lock_place::{ChildNames, LockPlace};
pub use locks::{LockEvent, LockFigures};
pub use long::LongReply;
pub(crate) use long::PartsLeft;
pub use names::PathList;
pub use quota::QuotaExceeded;
pub use sequence::Admitted;
pub use session::{Owner, Session};
pub use snapshot::{RestoreError, SnapshotView};
pub use znode::Kind;

use std::sync::Arc;

use bytes::Bytes;
use zoolet_jute::{Acl, ErrorCode, Id, Reply, Request, SessionId, Stat, Zxid};

use self::digest::Hasher;
use self::names::Names;
use self::read::StateReader;
use self::sequence::ReplayFilter;
use self::session::Sessions;
use self::tree::Tree;
use super::{Command, FeatureLevel, Op, Origin, ProposalNumber, ServerId, Stamp};
use crate::cost::Meter;

/// A read's reply.
#[derive(Debug)]
pub(crate) enum ReadReply {
    Short(Reply),
    Long(LongReply),
}

/// The state of the service at one position of the log.
#[derive(Clone, Debug)]
pub struct State {
    tree: Tree,
    sessions: Sessions,
    filter: ReplayFilter,
    last_zxid: Zxid,
    level: FeatureLevel,
    /// The command that is half done.
    pending: Option<Box<apply::Pending>>,
}

impl Default for State {
    fn default() -> Self {
        Self::new()
    }
}

/// What the reaper of containers and znodes with a time to live goes by (protocol §11).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ReapLimits {
    /// How many may be found at once.
    pub found_max: usize,
    /// How many are looked at, at once: the clients wait meanwhile.
    pub looks_max: usize,
    /// How long a container may wait for its first child, in milliseconds; 0 for ever.
    pub never_used_ms: i64,
}

/// Where a look for what is due goes on; the default is the beginning. Local to a server.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct ReapPlace(u32);

/// What a look has found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Reapable {
    /// The paths.
    pub due: Vec<String>,
    /// Where to go on; `None` at the end.
    pub next: Option<ReapPlace>,
}

impl State {
    /// The state before the first command: the built-in znodes (protocol §6.2).
    pub fn new() -> Self {
        Self {
            tree: Tree::new(),
            sessions: Sessions::default(),
            filter: ReplayFilter::default(),
            last_zxid: Zxid(0),
            level: FeatureLevel::FIRST,
            pending: None,
        }
    }

    /// Whether a batch of `count` commands, numbered from `first_number`, is to be applied. A
    /// batch that was applied before, or that an earlier one is missing in front of, is dropped
    /// as a whole and takes no zxid. Between this and the last of the commands the state is no
    /// whole: no snapshot may be taken there.
    pub fn admit(&mut self, origin: Origin, first_number: ProposalNumber, count: u64) -> bool {
        self.filter.admit(origin, first_number, count)
    }

    /// How far a server's commands were admitted.
    pub fn admitted(&self, server: ServerId) -> Admitted {
        self.filter.admitted(server)
    }

    /// Applies the next command of an admitted batch that its leader put into the log with `stamp`.
    pub fn apply(&mut self, stamp: Stamp, origin: Origin, command: Command) -> Applied {
        let Step { mut changes, mut done, .. } = self.begin(stamp, origin, command);
        loop {
            if let Some(result) = done {
                return Applied { zxid: self.last_zxid, result, changes };
            }
            let step = self.go_on(usize::MAX);
            changes.extend(step.changes);
            done = step.done;
        }
    }

    /// Begins to apply the next command; see [`State::apply`]. Most are done at once. Until one is
    /// done, the state is whole neither as before it nor as behind it: nothing may be read from it,
    /// and no snapshot taken.
    pub(crate) fn begin(&mut self, stamp: Stamp, origin: Origin, command: Command) -> Step {
        let is_first = matches!(command.op, Op::SetConfig { is_first: true, .. });
        let zxid = if is_first && self.last_zxid == Zxid(0) {
            sequence::first_zxid(stamp.term)
        } else {
            sequence::next_zxid(self.last_zxid, stamp.term)
        };
        apply::begin(self, (stamp, zxid), origin, command)
    }

    /// Goes on with a command that is half done, for about `changes_max` changes of znodes.
    pub(crate) fn go_on(&mut self, changes_max: usize) -> Step {
        apply::go_on(self, changes_max)
    }

    /// The zxid of the command that is half done, or of the last one.
    pub(crate) fn pending_zxid(&self) -> Zxid {
        self.pending.as_ref().map_or(self.last_zxid, |pending| pending.zxid())
    }

    /// The quota that the last command went past, or would have. Not part of the state.
    pub(crate) fn take_quota_exceeded(&mut self) -> Option<QuotaExceeded> {
        self.tree.quotas_mut().take_exceeded()
    }

    /// How many locks are held and waited for. Not part of the state: it follows from it.
    pub fn locks(&self) -> LockFigures {
        self.tree.locks().figures()
    }

    /// What has happened to locks since this was called last.
    pub(crate) fn take_lock_events(&mut self) -> Vec<LockEvent> {
        self.tree.locks_mut().take_events()
    }

    /// Returns the data of at least [`SHARED_BYTES_MIN`] bytes that was replaced or deleted since the
    /// last call while something else, a reply or a snapshot, referred to it.
    pub fn take_replaced(&mut self) -> Vec<Bytes> {
        self.tree.take_replaced()
    }

    /// Returns the reply to a request that changes nothing. Watches are the caller's business.
    pub fn read(
        &self,
        request: &Request,
        session: SessionId,
        identities: &[Id],
        skip_acl: bool,
    ) -> Result<Reply, ErrorCode> {
        let meter = &Meter::default();
        StateReader { tree: &self.tree, session, identities, skip_acl, meter }.read(request)
    }

    /// The same, with a long reply if the reply is too long to be written at once. `meter` gets what
    /// it costs.
    pub(crate) fn read_metered(
        &self,
        request: &Request,
        session: SessionId,
        (identities, skip_acl): (&[Id], bool),
        meter: &Meter,
    ) -> Result<ReadReply, ErrorCode> {
        let reader = StateReader { tree: &self.tree, session, identities, skip_acl, meter };
        match reader.read_long(request)? {
            Some(long) => Ok(ReadReply::Long(long)),
            None => reader.read(request).map(ReadReply::Short),
        }
    }

    /// Goes on with a multiRead for about `units` of work; `None` if parts are left then.
    pub(crate) fn read_parts(
        &self,
        left: &mut PartsLeft,
        skip_acl: bool,
        (units, meter): (usize, &Meter),
    ) -> Option<Result<LongReply, ErrorCode>> {
        let identities = &*left.identities();
        let session = SessionId::NONE;
        let reader = StateReader { tree: &self.tree, session, identities, skip_acl, meter };
        reader.some_parts(left, units)
    }

    /// Returns the result of [`State::permits`], and the cost of the check in nanoseconds.
    pub(crate) fn judge(
        acl: &[Acl],
        wanted: i32,
        identities: &[Id],
        skip_acl: bool,
    ) -> (bool, usize) {
        access::judge(acl, wanted, identities, skip_acl)
    }

    /// Whether an ACL gives one of `identities` one of the permissions `wanted` (protocol §9.3).
    pub(crate) fn permits(acl: &[Acl], wanted: i32, identities: &[Id], skip_acl: bool) -> bool {
        access::permits(acl, wanted, identities, skip_acl)
    }

    /// The zxid of the last command.
    pub fn last_zxid(&self) -> Zxid {
        self.last_zxid
    }

    /// The feature level that all servers have agreed on.
    pub fn level(&self) -> FeatureLevel {
        self.level
    }

    /// A number that two servers share if their states are the same. It means nothing between the
    /// commands of a batch.
    pub fn digest(&self) -> u64 {
        self.digest_with(self.tree.digest())
    }

    /// The same, computed from the whole state instead of kept up to date.
    pub fn digest_recomputed(&self) -> u64 {
        self.digest_with(self.tree.digest_recomputed())
    }

    fn digest_with(&self, tree: u64) -> u64 {
        let mut hash = Hasher::new(3).word(tree).word(self.sessions.digest());
        for (server, admitted) in self.filter.iter() {
            hash = hash.word(u64::from(server.0)).word(admitted.boot.0);
            hash = hash.word(admitted.stream).word(admitted.last.0);
        }
        hash.word(u64::from(self.level.0)).signed(self.last_zxid.0).finish()
    }

    /// A session.
    pub fn session(&self, id: SessionId) -> Option<&Session> {
        self.sessions.get(id)
    }

    /// All sessions, in the order of their ids.
    pub fn sessions(&self) -> impl Iterator<Item = (SessionId, &Session)> {
        self.sessions.iter()
    }

    /// One of 256 parts of the sessions, for those who must not look at all of them at once; `None`
    /// behind the last part. The first is 0.
    pub(crate) fn sessions_of_part(
        &self,
        part: usize,
    ) -> Option<impl Iterator<Item = (SessionId, &Session)>> {
        self.sessions.part(part)
    }

    /// The number of sessions.
    pub fn session_count(&self) -> usize {
        self.sessions.len()
    }

    /// The paths of a session's ephemeral znodes, in order.
    pub fn ephemerals(&self, session: SessionId) -> Vec<String> {
        let paths = self.tree.ephemerals(session).into_iter().flat_map(Names::iter);
        paths.map(|(path, _)| path.to_owned()).collect()
    }

    /// The same, to be looked at later.
    pub(crate) fn ephemeral_list(&self, session: SessionId) -> PathList {
        PathList::of(self.tree.ephemerals(session))
    }

    /// The sessions behind `after` that own ephemeral znodes, in order.
    pub(crate) fn ephemeral_owners(
        &self,
        after: Option<SessionId>,
    ) -> impl Iterator<Item = SessionId> {
        self.tree.ephemeral_owners(after)
    }

    /// The number of all ephemeral znodes.
    pub fn ephemerals_count(&self) -> usize {
        self.tree.ephemerals_count()
    }

    /// The Stat of a znode, without a look at its ACL.
    pub fn stat(&self, path: &str) -> Option<Stat> {
        self.tree.find(path).map(|id| self.tree.stat(id))
    }

    /// The ACL of a znode, without a look at who may read it.
    pub fn acl(&self, path: &str) -> Option<Arc<[Acl]>> {
        self.tree.find(path).map(|id| Arc::clone(self.tree.acl(id)))
    }

    /// The data of a znode, without a look at its ACL.
    pub fn data(&self, path: &str) -> Option<Bytes> {
        self.tree.find(path).and_then(|id| self.tree.data(id))
    }

    /// The number of znodes, the root and the built-in ones included. Apache's `srvr` counts the
    /// root twice (protocol §6.2).
    pub fn node_count(&self) -> usize {
        self.tree.len()
    }

    /// The bytes of all data.
    pub fn data_bytes(&self) -> u64 {
        self.tree.data_bytes()
    }

    /// The containers and znodes with a time to live that are due at `now_ms` (protocol §11), as
    /// many as the limits admit, from this place on.
    pub(crate) fn reapable(&self, now_ms: i64, limits: ReapLimits, from: ReapPlace) -> Reapable {
        let is_due = |&id: &znode::ZnodeId| {
            let node = self.tree.node(id);
            let idle_ms = now_ms.saturating_sub(node.mtime);
            let is_due = match node.kind {
                Kind::Container => {
                    node.created > 0 || limits.never_used_ms > 0 && idle_ms > limits.never_used_ms
                }
                Kind::Ttl(ttl_ms) => idle_ms > ttl_ms,
                Kind::Persistent | Kind::Ephemeral(_) => false,
            };
            is_due && self.tree.child_count(id) == 0
        };
        let mut found = Reapable::default();
        for (looks, id) in self.tree.reapable(znode::ZnodeId(from.0)).enumerate() {
            if looks == limits.looks_max || found.due.len() == limits.found_max {
                found.next = Some(ReapPlace(id.0));
                break;
            }
            if is_due(&id) {
                found.due.push(self.tree.path_of(id));
            }
        }
        found
    }

    /// The state as it is now, to be written while it goes on. It costs a copy of pointers, of
    /// the sessions and of the list of ACLs.
    pub fn snapshot(&self) -> SnapshotView {
        SnapshotView::of(self)
    }

    /// Reads what [`SnapshotView`] has written, however it is cut into pieces.
    pub fn restore<E: std::fmt::Display>(
        pieces: impl Iterator<Item = Result<Bytes, E>>,
    ) -> Result<Self, RestoreError> {
        snapshot::restore(pieces)
    }
}
