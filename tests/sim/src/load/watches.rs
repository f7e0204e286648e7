//! What a client remembers of its watches and identities, to register them anew after a reconnect.

use std::collections::BTreeSet;

use zoolet_jute::{
    AddWatchMode, AuthPacket, ErrorCode, EventType, Reply, Request, SetWatches2Request,
    SetWatchesRequest, WatcherEvent, WatcherType, Zxid,
};

/// In which frames a client registers its watches anew.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Restore {
    /// One `setWatches2`, or one `setWatches` if no watch is persistent: Apache's Java client.
    Together,
    /// A `setWatches` for those that fire once and a `setWatches2` for the others: zoolet's client.
    Apart,
}

/// What a request changes in a client's memory if it succeeds.
#[derive(Clone, Debug)]
pub(super) enum Effect {
    Data(String),
    Exists(String),
    Child(String),
    Added(String, AddWatchMode),
    Removed(String, WatcherType),
    Identity(AuthPacket),
}

impl Effect {
    /// What a request does if it succeeds, or what an `exists` does in any case.
    pub(super) fn of(request: &Request) -> Option<Self> {
        #[allow(clippy::wildcard_enum_match_arm, reason = "the others leave nothing")]
        match request {
            Request::GetData(body) if body.watch => Some(Self::Data(body.path.clone())),
            Request::Exists(body) if body.watch => Some(Self::Exists(body.path.clone())),
            Request::GetChildren(body) | Request::GetChildren2(body) if body.watch => {
                Some(Self::Child(body.path.clone()))
            }
            Request::AddWatch(body) => Some(Self::Added(body.path.clone(), body.mode)),
            Request::RemoveWatches(body) => {
                Some(Self::Removed(body.path.clone(), body.watcher_type))
            }
            Request::Auth(packet) => Some(Self::Identity(packet.clone())),
            _ => None,
        }
    }
}

/// The watches and identities of a session, as its client knows them.
#[derive(Debug, Default)]
pub(super) struct Memory {
    data: BTreeSet<String>,
    exist: BTreeSet<String>,
    child: BTreeSet<String>,
    persistent: BTreeSet<String>,
    recursive: BTreeSet<String>,
    identities: Vec<AuthPacket>,
}

impl Memory {
    /// Forgets the watches: the session has ended, or another process resumes it.
    pub(super) fn forget_watches(&mut self) {
        let identities = std::mem::take(&mut self.identities);
        *self = Self { identities, ..Self::default() };
    }

    /// Notes what a request has done.
    pub(super) fn apply(&mut self, effect: Effect, result: &Result<Reply, ErrorCode>) {
        match (effect, result) {
            (Effect::Exists(path), Err(ErrorCode::NoNode)) => drop(self.exist.insert(path)),
            (_, Err(_)) => {}
            (Effect::Data(path) | Effect::Exists(path), Ok(_)) => drop(self.data.insert(path)),
            (Effect::Child(path), Ok(_)) => drop(self.child.insert(path)),
            (Effect::Added(path, AddWatchMode::Persistent), Ok(_)) => {
                self.persistent.insert(path);
            }
            (Effect::Added(path, AddWatchMode::PersistentRecursive), Ok(_)) => {
                self.recursive.insert(path);
            }
            (Effect::Removed(path, kind), Ok(_)) => self.remove(&path, kind),
            (Effect::Identity(packet), Ok(_)) => {
                if !self.identities.contains(&packet) {
                    self.identities.push(packet);
                }
            }
        }
    }

    fn remove(&mut self, path: &str, kind: WatcherType) {
        let is = |one: WatcherType| kind == one || kind == WatcherType::Any;
        if is(WatcherType::Data) {
            self.data.remove(path);
            self.exist.remove(path);
        }
        if is(WatcherType::Children) {
            self.child.remove(path);
        }
        if is(WatcherType::Persistent) {
            self.persistent.remove(path);
        }
        if is(WatcherType::PersistentRecursive) {
            self.recursive.remove(path);
        }
    }

    /// Forgets the watches that an event has used up.
    pub(super) fn fire(&mut self, event: &WatcherEvent) {
        let path = event.path.as_str();
        let of_data = matches!(
            event.event_type,
            EventType::NodeCreated | EventType::NodeDataChanged | EventType::NodeDeleted
        );
        if of_data {
            self.data.remove(path);
            self.exist.remove(path);
        }
        if matches!(event.event_type, EventType::NodeDeleted | EventType::NodeChildrenChanged) {
            self.child.remove(path);
        }
    }

    /// The requests that make a new connection what the old one was: identities first, which
    /// decide about the events of watches.
    pub(super) fn restore(&self, form: Restore, relative_zxid: Zxid) -> Vec<Request> {
        let mut requests: Vec<Request> =
            self.identities.iter().cloned().map(Request::Auth).collect();
        let list = |set: &BTreeSet<String>| set.iter().cloned().collect::<Vec<String>>();
        let once = SetWatchesRequest {
            relative_zxid,
            data_watches: list(&self.data),
            exist_watches: list(&self.exist),
            child_watches: list(&self.child),
        };
        let has_once = !(self.data.is_empty() && self.exist.is_empty() && self.child.is_empty());
        let has_lasting = !(self.persistent.is_empty() && self.recursive.is_empty());
        let empty = || SetWatchesRequest {
            relative_zxid,
            data_watches: Vec::new(),
            exist_watches: Vec::new(),
            child_watches: Vec::new(),
        };
        let lasting = |base: SetWatchesRequest| {
            Request::SetWatches2(SetWatches2Request {
                persistent_watches: list(&self.persistent),
                persistent_recursive_watches: list(&self.recursive),
                ..SetWatches2Request::from(base)
            })
        };
        match (form, has_once, has_lasting) {
            (_, false, false) => {}
            (_, true, false) => requests.push(Request::SetWatches(once)),
            (Restore::Together, _, true) => requests.push(lasting(once)),
            (Restore::Apart, true, true) => {
                requests.push(Request::SetWatches(once));
                requests.push(lasting(empty()));
            }
            (Restore::Apart, false, true) => requests.push(lasting(empty())),
        }
        requests
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use zoolet_jute::{AddWatchRequest, KeeperState, OpCode, PathWatchRequest, WatchesRequest};

    fn watched(path: &str) -> PathWatchRequest {
        PathWatchRequest { path: path.to_owned(), watch: true }
    }

    fn codes(memory: &Memory, form: Restore) -> Vec<OpCode> {
        memory.restore(form, Zxid(3)).iter().map(Request::op_code).collect()
    }

    fn done(memory: &mut Memory, request: &Request, result: &Result<Reply, ErrorCode>) {
        memory.apply(Effect::of(request).unwrap(), result);
    }

    #[test]
    fn watches_come_back_in_the_form_of_each_client_until_they_fire() {
        let mut memory = Memory::default();
        assert!(memory.restore(Restore::Together, Zxid(3)).is_empty());
        done(&mut memory, &Request::GetData(watched("/a")), &Ok(Reply::Empty));
        done(&mut memory, &Request::GetData(watched("/b")), &Err(ErrorCode::NoNode));
        assert_eq!(codes(&memory, Restore::Together), [OpCode::SetWatches]);
        let add = AddWatchRequest { path: "/".into(), mode: AddWatchMode::PersistentRecursive };
        done(&mut memory, &Request::AddWatch(add), &Ok(Reply::AddWatch(0)));
        assert_eq!(codes(&memory, Restore::Together), [OpCode::SetWatches2]);
        assert_eq!(codes(&memory, Restore::Apart), [OpCode::SetWatches, OpCode::SetWatches2]);
        let Some(Request::SetWatches2(all)) = memory.restore(Restore::Together, Zxid(3)).pop()
        else {
            panic!("not a setWatches2")
        };
        assert_eq!((all.data_watches, all.relative_zxid), (vec!["/a".to_owned()], Zxid(3)));
        assert_eq!(all.persistent_recursive_watches, ["/"]);
        memory.fire(&WatcherEvent {
            event_type: EventType::NodeDeleted,
            state: KeeperState::SyncConnected,
            path: "/a".into(),
        });
        assert_eq!(codes(&memory, Restore::Apart), [OpCode::SetWatches2]);
        let remove = WatchesRequest { path: "/".into(), watcher_type: WatcherType::Any };
        done(&mut memory, &Request::RemoveWatches(remove), &Ok(Reply::Empty));
        assert!(memory.restore(Restore::Apart, Zxid(3)).is_empty());
    }

    #[test]
    fn exists_watches_what_is_there_and_what_is_not() {
        let mut memory = Memory::default();
        done(&mut memory, &Request::Exists(watched("/here")), &Ok(Reply::Empty));
        done(&mut memory, &Request::Exists(watched("/not")), &Err(ErrorCode::NoNode));
        done(&mut memory, &Request::Exists(watched("/hidden")), &Err(ErrorCode::NoAuth));
        let Some(Request::SetWatches(once)) = memory.restore(Restore::Apart, Zxid(1)).pop() else {
            panic!("not a setWatches")
        };
        assert_eq!(
            (once.data_watches, once.exist_watches),
            (vec!["/here".to_owned()], vec!["/not".to_owned()])
        );
    }
}
