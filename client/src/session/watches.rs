//! The watches of a session: who waits for what, and what to register anew after a reconnect.

use std::collections::BTreeMap;

use tokio::sync::{mpsc, oneshot};
use zoolet_jute::{
    AddWatchMode, EventType, Request, SetWatches2Request, SetWatchesRequest, WatcherEvent,
    WatcherType, Zxid,
};

use crate::WatchedEvent;

/// The most bytes of paths in one `setWatches` frame, as the Java client has it. Servers accept
/// frames of 1 MiB by default (protocol §1.3).
const SET_WATCHES_BYTES_MAX: usize = 128 * 1024;

/// The bytes of a path's length on the wire.
const LENGTH_BYTES: usize = 4;

/// What a request registers if it succeeds.
#[derive(Debug)]
pub(crate) enum Registration {
    /// A one-shot watch of `getData`.
    Data(String, oneshot::Sender<WatchedEvent>),
    /// A one-shot watch of `exists`: on the data, or on the coming of the znode.
    Exists(String, oneshot::Sender<WatchedEvent>),
    /// A one-shot watch of `getChildren`.
    Children(String, oneshot::Sender<WatchedEvent>),
    /// A watch of `addWatch`.
    Persistent(String, AddWatchMode, mpsc::Sender<WatchedEvent>),
}

impl Registration {
    /// The path, and which of its watches a server would remove.
    pub(crate) fn watched(&self) -> (WatcherType, &str) {
        match self {
            Self::Data(path, _) | Self::Exists(path, _) => (WatcherType::Data, path),
            Self::Children(path, _) => (WatcherType::Children, path),
            Self::Persistent(path, mode, _) => (watcher_type(*mode), path),
        }
    }

    /// Whether its watcher was dropped.
    pub(crate) fn is_forgotten(&self) -> bool {
        match self {
            Self::Data(_, sender) | Self::Exists(_, sender) | Self::Children(_, sender) => {
                sender.is_closed()
            }
            Self::Persistent(_, _, sender) => sender.is_closed(),
        }
    }
}

/// Which watches an `addWatch` leaves.
pub(crate) const fn watcher_type(mode: AddWatchMode) -> WatcherType {
    match mode {
        AddWatchMode::Persistent => WatcherType::Persistent,
        AddWatchMode::PersistentRecursive => WatcherType::PersistentRecursive,
    }
}

type OneshotTable = BTreeMap<String, Vec<oneshot::Sender<WatchedEvent>>>;
type PersistentTable = BTreeMap<String, Vec<mpsc::Sender<WatchedEvent>>>;

/// All watches of a session.
#[derive(Debug, Default)]
pub(crate) struct Watches {
    data: OneshotTable,
    exist: OneshotTable,
    child: OneshotTable,
    persistent: PersistentTable,
    recursive: PersistentTable,
}

impl Watches {
    /// Registers what a successful request asked for; `node_exists` decides which kind of watch an
    /// `exists` has left.
    pub(crate) fn register(&mut self, registration: Registration, node_exists: bool) {
        match registration {
            Registration::Data(path, sender) => self.data.entry(path).or_default().push(sender),
            Registration::Exists(path, sender) => {
                let table = if node_exists { &mut self.data } else { &mut self.exist };
                table.entry(path).or_default().push(sender);
            }
            Registration::Children(path, sender) => {
                self.child.entry(path).or_default().push(sender);
            }
            Registration::Persistent(path, AddWatchMode::Persistent, sender) => {
                self.persistent.entry(path).or_default().push(sender);
            }
            Registration::Persistent(path, AddWatchMode::PersistentRecursive, sender) => {
                self.recursive.entry(path).or_default().push(sender);
            }
        }
    }

    /// Forgets the watchers of a path that were dropped. Returns whether there were any and none
    /// is left who watches the same, so that the server need not watch any more.
    pub(crate) fn forget(&mut self, kind: WatcherType, path: &str) -> bool {
        match kind {
            WatcherType::Data => {
                let data = prune(&mut self.data, path, oneshot::Sender::is_closed);
                let exist = prune(&mut self.exist, path, oneshot::Sender::is_closed);
                let unwatched = !self.data.contains_key(path) && !self.exist.contains_key(path);
                (data || exist) && unwatched
            }
            WatcherType::Children => prune(&mut self.child, path, oneshot::Sender::is_closed),
            WatcherType::Persistent => prune(&mut self.persistent, path, mpsc::Sender::is_closed),
            WatcherType::PersistentRecursive => {
                prune(&mut self.recursive, path, mpsc::Sender::is_closed)
            }
            WatcherType::Any => false,
        }
    }

    /// Hands an event to all its watchers (protocol §8.3). Returns the lasting watches
    /// whose last watcher did not keep up and has ended: the server need not watch any more.
    pub(crate) fn fire(&mut self, event: &WatcherEvent, zxid: Zxid) -> Vec<(WatcherType, String)> {
        let mut ended = Vec::new();
        let seen = WatchedEvent::new(event, zxid);
        let path = event.path.as_str();
        match event.event_type {
            EventType::NodeCreated | EventType::NodeDataChanged => {
                fire_once(&mut self.data, path, &seen);
                fire_once(&mut self.exist, path, &seen);
            }
            EventType::NodeDeleted => {
                fire_once(&mut self.data, path, &seen);
                fire_once(&mut self.exist, path, &seen);
                fire_once(&mut self.child, path, &seen);
            }
            EventType::NodeChildrenChanged => fire_once(&mut self.child, path, &seen),
            EventType::None
            | EventType::DataWatchRemoved
            | EventType::ChildWatchRemoved
            | EventType::PersistentWatchRemoved
            | _ => return ended,
        }
        if fire_all(&mut self.persistent, path, &seen) {
            ended.push((WatcherType::Persistent, path.to_owned()));
        }
        if event.event_type != EventType::NodeChildrenChanged {
            for ancestor in ancestors(path) {
                if fire_all(&mut self.recursive, ancestor, &seen) {
                    ended.push((WatcherType::PersistentRecursive, ancestor.to_owned()));
                }
            }
        }
        ended
    }

    /// Forgets every watcher of a path, whose watch the server has removed. Their waits end.
    pub(crate) fn remove(&mut self, kind: WatcherType, path: &str) {
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

    /// Forgets all lasting watchers, or all others: a server did not take them over.
    pub(crate) fn end(&mut self, lasting: bool) {
        if lasting {
            self.persistent.clear();
            self.recursive.clear();
        } else {
            self.data.clear();
            self.exist.clear();
            self.child.clear();
        }
    }

    /// The requests that register everything anew after a reconnect, in frames of bounded size,
    /// each with whether it holds lasting watches. Those that fire once go out in the older form,
    /// which every server knows.
    pub(crate) fn restore(
        &mut self,
        relative_zxid: Zxid,
        request_bytes_max: usize,
    ) -> Vec<(bool, Request)> {
        if !planted!("dropped-watches-restored") {
            self.prune_all();
        }
        let bytes_max = SET_WATCHES_BYTES_MAX.min(request_bytes_max / 2);
        let mut frames = Vec::new();
        let mut frame = Frame::default();
        for (list, path) in self.paths() {
            if !frame.takes(list, path, bytes_max) {
                frames.push(std::mem::take(&mut frame).request(relative_zxid));
            }
            frame.put(list, path);
        }
        if frame.bytes > 0 {
            frames.push(frame.request(relative_zxid));
        }
        frames
    }

    /// Forgets every watcher that was dropped.
    fn prune_all(&mut self) {
        for table in [&mut self.data, &mut self.exist, &mut self.child] {
            table.retain(|_, waiters| {
                waiters.retain(|waiter| !waiter.is_closed());
                !waiters.is_empty()
            });
        }
        for table in [&mut self.persistent, &mut self.recursive] {
            table.retain(|_, waiters| {
                waiters.retain(|waiter| !waiter.is_closed());
                !waiters.is_empty()
            });
        }
    }

    /// Every watched path with its list.
    fn paths(&self) -> impl Iterator<Item = (List, &String)> {
        let oneshot =
            [(List::Data, &self.data), (List::Exist, &self.exist), (List::Child, &self.child)];
        let lasting = [(List::Persistent, &self.persistent), (List::Recursive, &self.recursive)];
        oneshot
            .into_iter()
            .flat_map(|(list, table)| table.keys().map(move |path| (list, path)))
            .chain(
                lasting
                    .into_iter()
                    .flat_map(|(list, table)| table.keys().map(move |path| (list, path))),
            )
    }
}

/// The lists of `setWatches2`, in its order; `setWatches` has the first three.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum List {
    Data,
    Exist,
    Child,
    Persistent,
    Recursive,
}

impl List {
    const fn is_lasting(self) -> bool {
        matches!(self, Self::Persistent | Self::Recursive)
    }
}

/// One frame that is being filled, with lasting watches or with others.
#[derive(Debug, Default)]
struct Frame {
    paths: [Vec<String>; 5],
    lasting: bool,
    bytes: usize,
}

impl Frame {
    /// Whether there is room for a path; in an empty frame there is for any.
    fn takes(&self, list: List, path: &str, bytes_max: usize) -> bool {
        self.bytes == 0
            || self.lasting == list.is_lasting()
                && self.bytes + path.len() + LENGTH_BYTES <= bytes_max
    }

    fn put(&mut self, list: List, path: &str) {
        self.lasting = list.is_lasting();
        self.bytes += path.len() + LENGTH_BYTES;
        if let Some(paths) = self.paths.get_mut(list as usize) {
            paths.push(path.to_owned());
        }
    }

    fn request(self, relative_zxid: Zxid) -> (bool, Request) {
        let lasting = self.lasting;
        let [data_watches, exist_watches, child_watches, persistent, recursive] = self.paths;
        let request = if lasting {
            Request::SetWatches2(SetWatches2Request {
                relative_zxid,
                data_watches,
                exist_watches,
                child_watches,
                persistent_watches: persistent,
                persistent_recursive_watches: recursive,
            })
        } else {
            Request::SetWatches(SetWatchesRequest {
                relative_zxid,
                data_watches,
                exist_watches,
                child_watches,
            })
        };
        (lasting, request)
    }
}

/// Drops the senders whose receivers are gone; returns whether that has emptied the path's list.
fn prune<S>(
    table: &mut BTreeMap<String, Vec<S>>,
    path: &str,
    is_closed: impl Fn(&S) -> bool,
) -> bool {
    let Some(waiters) = table.get_mut(path) else { return false };
    waiters.retain(|waiter| !is_closed(waiter));
    let emptied = waiters.is_empty();
    if emptied {
        table.remove(path);
    }
    emptied
}

fn fire_once(table: &mut OneshotTable, path: &str, event: &WatchedEvent) {
    for waiter in table.remove(path).unwrap_or_default() {
        // A dropped watcher waits for nothing.
        let _ = waiter.send(event.clone());
    }
}

/// Hands the event to all that keep up; one whose queue is full has missed events, so it ends.
/// Returns whether that was the last one.
fn fire_all(table: &mut PersistentTable, path: &str, event: &WatchedEvent) -> bool {
    let Some(waiters) = table.get_mut(path) else { return false };
    waiters.retain(|waiter| waiter.try_send(event.clone()).is_ok());
    let ended = waiters.is_empty();
    if ended {
        table.remove(path);
    }
    ended
}

/// The path itself and everything above it, up to the root.
fn ancestors(path: &str) -> impl Iterator<Item = &str> {
    std::iter::successors(Some(path), |path| match path.rfind('/')? {
        0 if path.len() == 1 => None,
        0 => Some("/"),
        slash => path.get(..slash),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use zoolet_jute::KeeperState;

    #[test]
    fn the_ancestors_of_a_path_end_at_the_root() {
        assert_eq!(ancestors("/a/b").collect::<Vec<_>>(), ["/a/b", "/a", "/"]);
        assert_eq!(ancestors("/").collect::<Vec<_>>(), ["/"]);
    }

    #[test]
    fn a_one_shot_watch_fires_once_and_is_not_registered_again() {
        let mut watches = Watches::default();
        let (sender, mut receiver) = oneshot::channel();
        watches.register(Registration::Data("/a".into(), sender), true);
        assert_eq!(watches.restore(Zxid(5), 1 << 20).len(), 1);
        let event = WatcherEvent {
            event_type: EventType::NodeDataChanged,
            state: KeeperState::SyncConnected,
            path: "/a".into(),
        };
        assert!(watches.fire(&event, Zxid(6)).is_empty());
        assert_eq!(receiver.try_recv().unwrap().zxid, Zxid(6));
        assert!(watches.restore(Zxid(6), 1 << 20).is_empty());
    }

    /// The news of the drop may still be under way when a connection is granted.
    #[test]
    fn a_dropped_watcher_is_not_registered_again() {
        let mut watches = Watches::default();
        let (once, once_receiver) = oneshot::channel();
        watches.register(Registration::Children("/once".into(), once), true);
        let (lasting, lasting_receiver) = mpsc::channel(1);
        let mode = AddWatchMode::Persistent;
        watches.register(Registration::Persistent("/lasting".into(), mode, lasting), true);
        assert!(!watches.restore(Zxid(5), 1 << 20).is_empty());
        drop((once_receiver, lasting_receiver));
        let restored = watches.restore(Zxid(5), 1 << 20);
        assert!(restored.is_empty(), "watches without a watcher are restored: {restored:?}");
    }

    #[test]
    fn a_server_watches_on_while_another_watcher_waits_for_the_same() {
        let mut watches = Watches::default();
        let (data, data_receiver) = oneshot::channel();
        let (exists, exists_receiver) = oneshot::channel();
        watches.register(Registration::Data("/a".into(), data), true);
        watches.register(Registration::Exists("/a".into(), exists), false);
        assert!(!watches.forget(WatcherType::Data, "/a"), "no watcher was dropped");
        drop(data_receiver);
        assert!(!watches.forget(WatcherType::Data, "/a"), "the other one waits");
        drop(exists_receiver);
        assert!(watches.forget(WatcherType::Data, "/a"));
        assert!(!watches.forget(WatcherType::Data, "/a"), "it is forgotten once");
        let (sender, receiver) = mpsc::channel(1);
        let mode = AddWatchMode::PersistentRecursive;
        watches.register(Registration::Persistent("/a".into(), mode, sender), true);
        drop(receiver);
        assert!(!watches.forget(WatcherType::Persistent, "/a"));
        assert!(watches.forget(WatcherType::PersistentRecursive, "/a"));
        assert!(watches.restore(Zxid(1), 1 << 20).is_empty());
    }

    #[test]
    fn many_watches_are_registered_again_in_several_frames() {
        let mut watches = Watches::default();
        let mut receivers = Vec::new();
        for number in 0..3000 {
            let (sender, receiver) = oneshot::channel();
            receivers.push(receiver);
            let path = format!("/{}{number}", "x".repeat(100));
            watches.register(Registration::Children(path, sender), true);
        }
        let frames = watches.restore(Zxid(1), 1 << 20);
        let mut paths = 0;
        for (lasting, frame) in &frames {
            let Request::SetWatches(body) = frame else { panic!("{frame:?}") };
            assert!(!lasting);
            paths += body.child_watches.len();
            let bytes: usize = body.child_watches.iter().map(|path| path.len() + 4).sum();
            assert!(bytes <= SET_WATCHES_BYTES_MAX, "{bytes}");
        }
        assert!(frames.len() > 1);
        assert_eq!(paths, 3000);
    }

    #[test]
    fn lasting_watches_go_out_in_frames_of_their_own() {
        let mut watches = Watches::default();
        let (sender, _keep) = oneshot::channel();
        watches.register(Registration::Exists("/a".into(), sender), false);
        let (sender, _keep_too) = mpsc::channel(1);
        let mode = AddWatchMode::PersistentRecursive;
        watches.register(Registration::Persistent("/a".into(), mode, sender), true);
        let frames = watches.restore(Zxid(7), 1 << 20);
        let [(false, Request::SetWatches(once)), (true, Request::SetWatches2(lasting))] =
            frames.as_slice()
        else {
            panic!("{frames:?}")
        };
        assert_eq!((once.exist_watches.len(), once.relative_zxid), (1, Zxid(7)));
        assert_eq!(lasting.persistent_recursive_watches, ["/a"]);
        assert!(lasting.exist_watches.is_empty());
    }

    #[test]
    fn what_a_server_does_not_take_over_ends() {
        let mut watches = Watches::default();
        let (sender, mut once) = oneshot::channel();
        watches.register(Registration::Data("/a".into(), sender), true);
        let (sender, mut lasting) = mpsc::channel(1);
        let mode = AddWatchMode::Persistent;
        watches.register(Registration::Persistent("/a".into(), mode, sender), true);
        watches.end(true);
        assert_eq!(lasting.try_recv(), Err(mpsc::error::TryRecvError::Disconnected));
        assert_eq!(once.try_recv(), Err(oneshot::error::TryRecvError::Empty));
        watches.remove(WatcherType::Any, "/a");
        assert_eq!(once.try_recv(), Err(oneshot::error::TryRecvError::Closed));
    }

    #[test]
    fn a_watcher_that_is_too_slow_ends() {
        let mut watches = Watches::default();
        let (sender, mut receiver) = mpsc::channel(1);
        let mode = AddWatchMode::Persistent;
        watches.register(Registration::Persistent("/a".into(), mode, sender), true);
        let event = WatcherEvent {
            event_type: EventType::NodeDataChanged,
            state: KeeperState::SyncConnected,
            path: "/a".into(),
        };
        assert!(watches.fire(&event, Zxid(1)).is_empty());
        let ended = [(WatcherType::Persistent, "/a".to_owned())];
        assert_eq!(watches.fire(&event, Zxid(2)), ended, "no watcher is left");
        assert_eq!(receiver.try_recv().unwrap().zxid, Zxid(1));
        assert_eq!(receiver.try_recv(), Err(mpsc::error::TryRecvError::Disconnected));
        assert!(watches.restore(Zxid(2), 1 << 20).is_empty());
    }
}
