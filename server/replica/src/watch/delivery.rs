//! The requests that read, register and remove watches, and what clients get for events that they
//! have missed (protocol §8.4 to §8.8).

use std::sync::Arc;

use zoolet_jute::{
    AddWatchMode, AddWatchRequest, ErrorCode, EventType, Id, KeeperState, PathWatchRequest, Reply,
    Request, WatcherEvent, WatchesRequest, Zxid, perms,
};

use super::watches_left::{WatchList, WatchesLeft};
use super::{Modes, WatchTable};
use crate::cost::{self, Meter};
use crate::session::{ReplyTo, RequestState};
use crate::state::{PartsLeft, ReadReply, State};
use crate::{ConnectionId, Output, Replica};

/// The memory of a connection's watches that are looked up at once after a snapshot, in bytes.
const CATCH_UP_BYTES: usize = 64 << 10;

/// How many bytes of watches are looked up in a unit of a step's budget.
const LOOKED_UP_BYTES: usize = 512;

/// How often the path of a watch is looked up when it is removed.
const REMOVE_LOOKUPS: usize = 3;

/// The work of each watch of a setWatches, in units of about a microsecond.
const SET_WATCH_WORK: usize = 2;

impl Replica {
    /// A read, and its watch in the same moment.
    pub(crate) fn read(
        &mut self,
        connection: ConnectionId,
        request: &Request,
        identities: &[Id],
        out: &mut Vec<Output>,
    ) -> Result<ReadReply, ErrorCode> {
        let watch = wanted_watch(request);
        if watch.is_some_and(|(path, _)| !self.make_room_for(connection, path, out)) {
            return Err(ErrorCode::ThrottledOp);
        }
        let (session, skip_acl) = (self.session_of(connection), self.options.policy.skip_acl);
        let meter = Meter::default();
        let result = self.state.read_metered(request, session, (identities, skip_acl), &meter);
        self.spend(meter.units());
        if let Some((path, modes)) = watch
            && (result.is_ok() || awaits_creation(request, &result))
        {
            self.watches.add(connection, path, modes);
        }
        result
    }

    /// Goes on with a multiRead within the budget of the step. Its parts are read at one moment
    /// unless they cost more than a step.
    pub(crate) fn read_parts(
        &mut self,
        reply_to: ReplyTo,
        mut left: Box<PartsLeft>,
        out: &mut Vec<Output>,
    ) {
        let (meter, skip_acl) = (Meter::default(), self.options.policy.skip_acl);
        let done = self.state.read_parts(&mut left, skip_acl, (self.budget.max(1), &meter));
        self.spend(meter.units().max(1));
        match done {
            None => self.put_back(reply_to, RequestState::Parts(left)),
            Some(Ok(body)) => self.reply_long(reply_to, body, out),
            Some(Err(code)) => self.reply(reply_to, Err(code), out),
        }
    }

    pub(crate) fn add_watch(
        &mut self,
        connection: ConnectionId,
        body: &AddWatchRequest,
        out: &mut Vec<Output>,
    ) -> Result<Reply, ErrorCode> {
        if !self.make_room_for(connection, &body.path, out) {
            return Err(ErrorCode::ThrottledOp);
        }
        let modes = match body.mode {
            AddWatchMode::Persistent => Modes::PERSISTENT,
            AddWatchMode::PersistentRecursive => Modes::RECURSIVE,
        };
        self.watches.add(connection, &body.path, modes);
        Ok(Reply::AddWatch(0))
    }

    pub(crate) fn check_watches(
        &mut self,
        connection: ConnectionId,
        body: &WatchesRequest,
    ) -> Result<Reply, ErrorCode> {
        self.spend(cost::units(cost::of_watch(&body.path)));
        let modes = Modes::of(body.watcher_type);
        let found = self.watches.contains(connection, &body.path, modes);
        if found { Ok(Reply::Empty) } else { Err(ErrorCode::NoWatcher) }
    }

    pub(crate) fn remove_watches(
        &mut self,
        connection: ConnectionId,
        body: &WatchesRequest,
    ) -> Result<Reply, ErrorCode> {
        self.spend(cost::units(REMOVE_LOOKUPS * cost::of_watch(&body.path)));
        let modes = Modes::of(body.watcher_type);
        let found = self.watches.remove(connection, &body.path, modes);
        if found { Ok(Reply::Empty) } else { Err(ErrorCode::NoWatcher) }
    }

    /// Registers watches anew after a reconnect, or makes up the events that have been missed
    /// (§8.6). No error says that there is not enough room for watches, so the client is closed.
    ///
    /// It may take several steps if it is long: each path is judged and watched in one moment.
    pub(crate) fn set_watches(
        &mut self,
        reply_to: ReplyTo,
        mut left: WatchesLeft,
        out: &mut Vec<Output>,
    ) {
        let connection = reply_to.connection;
        let skip_acl = self.options.policy.skip_acl;
        while self.budget > 0 || !left.is_long() {
            let Some((path, kind)) = left.next() else {
                return self.reply(reply_to, Ok(Reply::Empty), out);
            };
            self.spend(SET_WATCH_WORK + cost::units(cost::of_path(&path)));
            let missed = kind.missed(&self.state, &path, left.since());
            let Some(event) = missed.filter(|_| !planted!("missed-events-stay-missed")) else {
                if !self.make_room_for(connection, &path, out) {
                    self.close(connection, out);
                    return;
                }
                self.watches.add(connection, &path, kind.modes());
                continue;
            };
            let acl = self.state.acl(&path);
            let (may_read, cost) = acl.map_or((true, 0), |acl| {
                State::judge(&acl, perms::READ, left.identities(), skip_acl)
            });
            self.spend(cost::units(cost));
            if may_read {
                out.push(made_up(connection, event, &path));
            }
        }
        self.put_back(reply_to, RequestState::Watches(left));
    }

    /// The state has jumped over changes that were not seen. One-shot watches fire if what they wait
    /// for has happened in between, with several changes as one event. Connections with watches
    /// that promise every event are closed: their clients know that after a reconnect they must
    /// look for themselves.
    ///
    /// Looks after some watches; false if there is nothing left to do.
    pub(crate) fn catch_up_some(&mut self, out: &mut Vec<Output>) -> bool {
        let Some(mut jump) = self.jump.take() else { return false };
        while self.budget > 0 {
            self.spend(2);
            if let Some((connection, path, modes)) = jump.watches.pop() {
                // It may have hung up meanwhile.
                if !self.connections.contains_key(&connection) {
                    continue;
                }
                self.spend(cost::units(3 * cost::of_path(&path)));
                self.catch_up_on(connection, &path, modes, &jump.before, out);
                continue;
            }
            let Some(connection) = jump.at.or_else(|| jump.connections.next()) else {
                self.garbage.state = Some(jump.before);
                return true;
            };
            let some = self.watches.some_of(connection, jump.after.as_deref(), CATCH_UP_BYTES);
            let bytes: usize = some.iter().map(|(path, _)| WatchTable::bytes_of(path)).sum();
            self.spend(bytes / LOOKED_UP_BYTES);
            let lasting = Modes::PERSISTENT.with(Modes::RECURSIVE);
            if some.iter().any(|(_, modes)| modes.intersects(lasting)) {
                (jump.at, jump.after) = (None, None);
                self.close(connection, out);
                continue;
            }
            jump.after = some.last().map(|(path, _)| Arc::clone(path));
            jump.at = jump.after.as_ref().map(|_| connection);
            jump.watches =
                some.into_iter().map(|(path, modes)| (connection, path, modes)).collect();
            jump.watches.reverse();
        }
        self.jump = Some(jump);
        true
    }

    fn catch_up_on(
        &mut self,
        connection: ConnectionId,
        path: &str,
        modes: Modes,
        before: &State,
        out: &mut Vec<Output>,
    ) {
        let existed = before.stat(path).is_some();
        let data = if existed { WatchList::Data } else { WatchList::Exist };
        let missed = [(Modes::DATA, data), (Modes::CHILD, WatchList::Child)]
            .into_iter()
            .filter(|(mode, _)| modes.intersects(*mode))
            .filter_map(|(mode, kind)| {
                Some((mode, kind.missed(&self.state, path, before.last_zxid())?))
            });
        let mut sent = None;
        for (mode, event) in missed.collect::<Vec<_>>() {
            self.watches.remove(connection, path, mode);
            let (may_read, cost) = self.state.acl(path).map_or((true, 0), |acl| {
                let identities = self.identities(connection);
                State::judge(&acl, perms::READ, &identities, self.options.policy.skip_acl)
            });
            self.spend(cost::units(cost));
            if may_read && sent != Some(event) {
                out.push(made_up(connection, event, path));
            }
            sent = Some(event);
        }
    }
}

/// A newer state has taken the place of this one, and watches are being looked after.
#[derive(Debug)]
pub(crate) struct Jump {
    before: State,
    connections: std::vec::IntoIter<ConnectionId>,
    /// The connection at hand, if it has more watches, behind this path.
    at: Option<ConnectionId>,
    after: Option<Arc<str>>,
    // Some of the connection at hand, the first one last.
    watches: Vec<(ConnectionId, Arc<str>, Modes)>,
}

impl Jump {
    pub(crate) fn new(before: State, watches: &WatchTable) -> Self {
        let connections: Vec<_> = watches.connections().collect();
        Self {
            before,
            connections: connections.into_iter(),
            at: None,
            after: None,
            watches: Vec::new(),
        }
    }
}

/// An event that a client has missed.
fn made_up(connection: ConnectionId, event_type: EventType, path: &str) -> Output {
    let state = KeeperState::SyncConnected;
    let event = WatcherEvent { event_type, state, path: path.to_owned() };
    Output::Notify { connection, zxid: Zxid::NONE, event: Arc::new(event) }
}

/// The one-shot watch that a read asks for. A `multiRead` asks for none (§8.1).
#[allow(clippy::wildcard_enum_match_arm, reason = "only these four reads can watch")]
fn wanted_watch(request: &Request) -> Option<(&str, Modes)> {
    let (PathWatchRequest { path, watch }, modes) = match request {
        Request::Exists(body) | Request::GetData(body) => (body, Modes::DATA),
        Request::GetChildren(body) | Request::GetChildren2(body) => (body, Modes::CHILD),
        _ => return None,
    };
    watch.then_some((path.as_str(), modes))
}

/// Whether an `exists` has found nothing: its watch waits for the creation.
fn awaits_creation<T>(request: &Request, result: &Result<T, ErrorCode>) -> bool {
    matches!(request, Request::Exists(_)) && matches!(result, Err(ErrorCode::NoNode))
}
