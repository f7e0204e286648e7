//! Reads that leave a watch, watches that last, and what becomes of them.

use std::sync::Arc;

use tokio::sync::{mpsc, oneshot};
use zoolet_jute::{
    AddWatchMode, AddWatchRequest, ErrorCode, Request, Stat, WatcherType, WatchesRequest,
};

use bytes::Bytes;

use super::Call;
use super::bodies::{children, data, no_node_is_none};
use crate::chroot::Chroot;
use crate::session::pending::{Answer, Effect};
use crate::session::watches::{Registration, watcher_type};
use crate::watcher::Source;
use crate::{Client, Error, OneshotWatcher, PersistentWatcher, WatchedEvent};

/// The most events that wait in one persistent watcher; a slower one ends.
const WATCH_EVENTS_MAX: usize = 16 * 1024;

impl Client {
    /// The Stat of a znode, `None` if there is none, and a watch that fires when it is created,
    /// written or deleted.
    pub fn exists_watched(&self, path: &str) -> Call<(Option<Stat>, OneshotWatcher)> {
        let (sender, watcher) = self.watcher(path, WatcherType::Data);
        let effect = Effect::Register(Registration::Exists(self.path(path), sender));
        let request = Request::Exists(self.path_watch(path, true));
        self.ask(request, Some(effect), |answer| Ok((no_node_is_none(answer)?, watcher)))
    }

    /// The data and Stat of a znode, and a watch that fires when it is written or deleted. Null data
    /// is answered as empty.
    pub fn get_watched(&self, path: &str) -> Call<(Bytes, Stat, OneshotWatcher)> {
        let (sender, watcher) = self.watcher(path, WatcherType::Data);
        let effect = Effect::Register(Registration::Data(self.path(path), sender));
        let request = Request::GetData(self.path_watch(path, true));
        self.ask(request, Some(effect), |answer| {
            let (data, stat) = data(answer?.1)?;
            Ok((data, stat, watcher))
        })
    }

    /// The names of a znode's children, in no order that means anything, and its Stat, and a watch
    /// that fires when a child comes or goes, or the znode is deleted.
    pub fn children_watched(&self, path: &str) -> Call<(Vec<String>, Stat, OneshotWatcher)> {
        let (sender, watcher) = self.watcher(path, WatcherType::Children);
        let effect = Effect::Register(Registration::Children(self.path(path), sender));
        let request = Request::GetChildren2(self.path_watch(path, true));
        self.ask(request, Some(effect), |answer| {
            let (children, stat) = children(answer?.1)?;
            Ok((children, stat, watcher))
        })
    }

    /// Watches a znode and the coming and going of its children, or everything below it, until the
    /// watcher is dropped. The znode need not exist.
    pub fn add_watch(&self, path: &str, mode: AddWatchMode) -> Call<PersistentWatcher> {
        let (sender, receiver) = mpsc::channel::<WatchedEvent>(WATCH_EVENTS_MAX);
        let watcher =
            PersistentWatcher::new(receiver, self.source(path, watcher_type(mode), self.root()));
        let effect = Effect::Register(Registration::Persistent(self.path(path), mode, sender));
        let request = Request::AddWatch(AddWatchRequest { path: self.path(path), mode });
        self.ask(request, Some(effect), |answer| answer.map(|_| watcher))
    }

    /// Whether the server holds a watch of this kind on exactly this path for this session.
    pub fn check_watches(&self, path: &str, kind: WatcherType) -> Call<bool> {
        let body = WatchesRequest { path: self.path(path), watcher_type: kind };
        self.ask(Request::CheckWatches(body), None, found)
    }

    /// Removes all watches of this kind on exactly this path that this session has. Their
    /// watchers end. Returns whether there were any. To end one watch, drop its
    /// watcher.
    pub fn remove_watches(&self, path: &str, kind: WatcherType) -> Call<bool> {
        let body = WatchesRequest { path: self.path(path), watcher_type: kind };
        let effect = Effect::Remove(kind, body.path.clone());
        self.ask(Request::RemoveWatches(body), Some(effect), found)
    }

    /// A watcher is there from the moment of the call, so that one that is dropped before the
    /// answer was looked at is removed as well.
    fn watcher(
        &self,
        path: &str,
        kind: WatcherType,
    ) -> (oneshot::Sender<WatchedEvent>, OneshotWatcher) {
        let (sender, receiver) = oneshot::channel();
        (sender, OneshotWatcher::new(receiver, self.source(path, kind, self.root())))
    }

    fn source(&self, path: &str, kind: WatcherType, chroot: &Chroot) -> Source {
        Source {
            calls: Arc::clone(&self.handle.calls),
            state: self.state(),
            chroot: chroot.clone(),
            kind,
            path: self.path(path),
        }
    }
}

fn found(answer: Answer) -> Result<bool, Error> {
    match answer {
        Err(error) if error.code() == Some(ErrorCode::NoWatcher) => Ok(false),
        answer => answer.map(|_| true),
    }
}
