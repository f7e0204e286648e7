//! From changes to notifications, and the requests that register and remove watches
//! (protocol §8.3 to §8.7).

use zoolet_jute::{
    Acl, AddWatchMode, AddWatchRequest, ErrorCode, EventType, Id, KeeperState, PathWatchRequest,
    Reply, Request, SetWatches2Request, WatcherEvent, WatchesRequest, Zxid, perms,
};

use super::mode::Trigger;
use super::table::parent;
use super::{Modes, WatchTable};
use crate::replica::session::Turn;
use crate::replica::state::{Change, State};
use crate::replica::{ConnectionId, Output, Replica};

impl Replica {
    /// Tells the watchers of what a command has changed, in the order of the changes.
    pub(in crate::replica) fn notify(
        &mut self,
        zxid: Zxid,
        changes: &[Change],
        out: &mut Vec<Output>,
    ) {
        for change in changes {
            match change {
                Change::Created { path, acl, parent_acl } => {
                    let created = Event { kind: EventType::NodeCreated, path, acl };
                    self.trigger(zxid, created, Trigger::Data, out);
                    self.children_changed(zxid, path, parent_acl, out);
                }
                Change::Deleted { path, acl, parent_acl } => {
                    let deleted = Event { kind: EventType::NodeDeleted, path, acl };
                    self.trigger(zxid, deleted, Trigger::Both, out);
                    if !planted!("delete-leaves-the-parent-quiet") {
                        self.children_changed(zxid, path, parent_acl, out);
                    }
                }
                Change::DataChanged { path, acl } => {
                    let changed = Event { kind: EventType::NodeDataChanged, path, acl };
                    self.trigger(zxid, changed, Trigger::Data, out);
                }
                Change::SessionOpened(_)
                | Change::SessionResumed { .. }
                | Change::SessionClosed(_) => {}
            }
        }
    }

    fn children_changed(&mut self, zxid: Zxid, child: &str, acl: &[Acl], out: &mut Vec<Output>) {
        if let Some(path) = parent(child) {
            let changed = Event { kind: EventType::NodeChildrenChanged, path, acl };
            self.trigger(zxid, changed, Trigger::Child, out);
        }
    }

    fn trigger(&mut self, zxid: Zxid, event: Event<'_>, trigger: Trigger, out: &mut Vec<Output>) {
        let skip_acl = self.options.policy.skip_acl;
        for connection in self.watches.fire(event.path, trigger) {
            let Some(watching) = self.connections.get(&connection) else { continue };
            // Who may not read is not told; a one-shot watch is used up all the same (§8.7).
            if State::permits(event.acl, perms::READ, &watching.identities, skip_acl)
                || planted!("events-for-all-to-read")
            {
                out.push(event.notification(connection, zxid));
            }
        }
    }

    /// A read, and its watch in the same moment.
    pub(in crate::replica) fn read(
        &mut self,
        connection: ConnectionId,
        request: &Request,
        identities: &[Id],
    ) -> Result<Reply, ErrorCode> {
        let watch = wanted_watch(request);
        if watch.is_some_and(|(path, _)| !self.has_room_for(connection, path)) {
            return Err(ErrorCode::ThrottledOp);
        }
        let session = self.session_of(connection);
        let result = self.state.read(request, session, identities, self.options.policy.skip_acl);
        if let Some((path, modes)) = watch
            && (result.is_ok() || awaits_creation(request, &result))
        {
            self.watches.add(connection, path, modes);
        }
        result
    }

    pub(in crate::replica) fn add_watch(
        &mut self,
        connection: ConnectionId,
        body: &AddWatchRequest,
    ) -> Result<Reply, ErrorCode> {
        if !self.has_room_for(connection, &body.path) {
            return Err(ErrorCode::ThrottledOp);
        }
        let modes = match body.mode {
            AddWatchMode::Persistent => Modes::PERSISTENT,
            AddWatchMode::PersistentRecursive => Modes::RECURSIVE,
        };
        self.watches.add(connection, &body.path, modes);
        Ok(Reply::AddWatch(0))
    }

    pub(in crate::replica) fn check_watches(
        &self,
        connection: ConnectionId,
        body: &WatchesRequest,
    ) -> Result<Reply, ErrorCode> {
        let modes = Modes::of(body.watcher_type);
        let found = self.watches.contains(connection, &body.path, modes);
        if found { Ok(Reply::Empty) } else { Err(ErrorCode::NoWatcher) }
    }

    pub(in crate::replica) fn remove_watches(
        &mut self,
        connection: ConnectionId,
        body: &WatchesRequest,
    ) -> Result<Reply, ErrorCode> {
        let modes = Modes::of(body.watcher_type);
        let found = self.watches.remove(connection, &body.path, modes);
        if found { Ok(Reply::Empty) } else { Err(ErrorCode::NoWatcher) }
    }

    /// Registers watches anew after a reconnect, or makes up the events that have been missed
    /// (§8.6). A client cannot be told that there is no room for its watches, so it is closed.
    pub(in crate::replica) fn set_watches(
        &mut self,
        turn: Turn,
        body: &SetWatches2Request,
        identities: &[Id],
        out: &mut Vec<Output>,
    ) {
        let connection = turn.connection;
        let skip_acl = self.options.policy.skip_acl;
        for (path, kind) in wanted_watches(body) {
            let missed = kind.missed(&self.state, path, body.relative_zxid);
            let Some(event) = missed.filter(|_| !planted!("missed-events-stay-missed")) else {
                if !self.has_room_for(connection, path) {
                    self.close(connection, out);
                    return;
                }
                self.watches.add(connection, path, kind.modes());
                continue;
            };
            let acl = self.state.acl(path);
            if acl.is_none_or(|acl| State::permits(&acl, perms::READ, identities, skip_acl)) {
                out.push(
                    Event { kind: event, path, acl: &[] }.notification(connection, Zxid::NONE),
                );
            }
        }
        self.reply(turn, Ok(Reply::Empty), out);
    }

    /// Whether a connection may watch this path as well. A path need not exist to be watched, and can
    /// be as long as a frame, so watches are limited by their memory, too.
    fn has_room_for(&self, connection: ConnectionId, path: &str) -> bool {
        if !self.watches.modes(connection, path).is_empty() {
            return true;
        }
        let (watches, options) = (&self.watches, &self.options);
        let more = WatchTable::bytes_of(path);
        watches.len_of(connection) < options.watches_per_connection_max
            && watches.len() < options.watches_max
            && watches.bytes_of_connection(connection) + more
                <= options.watch_bytes_per_connection_max
            && watches.bytes() + more <= options.watch_bytes_max
    }

    /// The state has jumped over changes that nobody saw. One-shot watches fire if what they wait
    /// for has happened in between, with several changes as one event. Connections with watches
    /// that promise every event are closed: their clients know that after a reconnect they must
    /// look for themselves.
    pub(in crate::replica) fn catch_up(&mut self, before: &State, out: &mut Vec<Output>) {
        for connection in self.watches.connections().collect::<Vec<_>>() {
            let watches: Vec<_> = self
                .watches
                .of_connection(connection)
                .map(|(path, modes)| (path.clone(), modes))
                .collect();
            let lasting = Modes::PERSISTENT.with(Modes::RECURSIVE);
            if watches.iter().any(|(_, modes)| modes.intersects(lasting)) {
                self.close(connection, out);
                continue;
            }
            for (path, modes) in watches {
                self.catch_up_on(connection, &path, modes, before, out);
            }
        }
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
        let data = if existed { Kind::Data } else { Kind::Exist };
        let missed = [(Modes::DATA, data), (Modes::CHILD, Kind::Child)]
            .into_iter()
            .filter(|(mode, _)| modes.intersects(*mode))
            .filter_map(|(mode, kind)| {
                Some((mode, kind.missed(&self.state, path, before.last_zxid())?))
            });
        let mut told = None;
        for (mode, event) in missed.collect::<Vec<_>>() {
            self.watches.remove(connection, path, mode);
            let may_read = self.state.acl(path).is_none_or(|acl| {
                let identities = self.identities(connection);
                State::permits(&acl, perms::READ, &identities, self.options.policy.skip_acl)
            });
            if may_read && told != Some(event) {
                out.push(
                    Event { kind: event, path, acl: &[] }.notification(connection, Zxid::NONE),
                );
            }
            told = Some(event);
        }
    }
}

/// What happened to a path, and who may know it.
#[derive(Clone, Copy, Debug)]
struct Event<'a> {
    kind: EventType,
    path: &'a str,
    acl: &'a [Acl],
}

impl Event<'_> {
    fn notification(self, connection: ConnectionId, zxid: Zxid) -> Output {
        let event = WatcherEvent {
            event_type: self.kind,
            state: KeeperState::SyncConnected,
            path: self.path.to_owned(),
        };
        Output::Notify { connection, zxid, event }
    }
}

/// The lists of a `setWatches`.
#[derive(Clone, Copy, Debug)]
enum Kind {
    Data,
    Exist,
    Child,
    Persistent,
    Recursive,
}

impl Kind {
    const fn modes(self) -> Modes {
        match self {
            Self::Data | Self::Exist => Modes::DATA,
            Self::Child => Modes::CHILD,
            Self::Persistent => Modes::PERSISTENT,
            Self::Recursive => Modes::RECURSIVE,
        }
    }

    /// The event that a watch of this kind has missed since then, if any.
    fn missed(self, state: &State, path: &str, since: Zxid) -> Option<EventType> {
        match (self, state.stat(path)) {
            (Self::Data | Self::Child, None) => Some(EventType::NodeDeleted),
            (Self::Data, Some(stat)) => (stat.mzxid > since).then_some(EventType::NodeDataChanged),
            (Self::Child, Some(stat)) => {
                (stat.pzxid > since).then_some(EventType::NodeChildrenChanged)
            }
            (Self::Exist, Some(_)) => Some(EventType::NodeCreated),
            (Self::Exist, None) | (Self::Persistent | Self::Recursive, _) => None,
        }
    }
}

/// The watches that a `setWatches` asks for, in the order of their catch-up events.
fn wanted_watches(body: &SetWatches2Request) -> impl Iterator<Item = (&str, Kind)> {
    [
        (&body.data_watches, Kind::Data),
        (&body.exist_watches, Kind::Exist),
        (&body.child_watches, Kind::Child),
        (&body.persistent_watches, Kind::Persistent),
        (&body.persistent_recursive_watches, Kind::Recursive),
    ]
    .into_iter()
    .flat_map(|(paths, kind)| paths.iter().map(move |path| (path.as_str(), kind)))
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
fn awaits_creation(request: &Request, result: &Result<Reply, ErrorCode>) -> bool {
    matches!(request, Request::Exists(_)) && matches!(result, Err(ErrorCode::NoNode))
}
