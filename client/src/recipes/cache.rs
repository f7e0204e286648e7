//! A part of the tree, mirrored in memory.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use tokio::sync::{broadcast, watch};
use tokio::task::JoinHandle;
use zoolet_jute::{AddWatchMode, ErrorCode, EventType, Stat, Zxid};

use crate::{Call, Client, Error, ErrorKind, PersistentWatcher, SessionState, WatchedEvent};

use super::name::join;
use super::retry::{children, is_not_found, retry_transient, within};

/// How many changes wait for a slow subscriber; then it gets the number that it has missed.
const CHANGES_MAX: usize = 1024;

/// How many znodes are read at a time. Their data is in memory twice then, and keeps other replies
/// of the session waiting, so it is not read all at once.
const READS_MAX: usize = 64;

/// A znode as the mirror knows it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct CachedNode {
    /// Its data.
    pub data: Bytes,
    /// Its Stat when it was read.
    pub stat: Stat,
}

/// What has changed in the mirror. Exhaustive, so that a program that follows the changes follows all
/// of them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CacheChange {
    /// A znode has come.
    Created(String, CachedNode),
    /// A znode's data has changed.
    Changed(String, CachedNode),
    /// A znode has gone; this is what it was last.
    Deleted(String, CachedNode),
}

/// How far the mirror has come.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Progress {
    /// It has not seen all of the tree since the client connected last.
    Behind,
    /// It has, and follows the changes.
    Following,
    /// It is over.
    Ended(ErrorKind),
}

type Nodes = BTreeMap<String, CachedNode>;

/// A mirror of a znode and of all below it, kept with one recursive watch: Curator's
/// `CuratorCache`.
///
/// It follows the tree and does not lead it: a read may be a moment old, and older while the
/// client is disconnected. Values that come and go between two reads are not seen; nor are znodes
/// that the session may not read, nor what is below them.
///
/// ```
/// # zoolet_doctest::with_client(async |client| {
/// use zoolet_client::CreateMode;
/// use zoolet_client::recipes::{Cache, CacheChange};
///
/// client.create("/config", b"", CreateMode::Persistent).await?;
/// let cache = Cache::start(&client, "/config");
/// cache.ready().await?;
/// let mut changes = cache.subscribe();
/// client.create("/config/limit", b"7", CreateMode::Persistent).await?;
/// let change = changes.recv().await?;
/// assert!(matches!(change, CacheChange::Created(path, _) if path == "/config/limit"));
/// assert_eq!(cache.get("/config/limit").expect("it is mirrored").data.as_ref(), b"7");
/// # Ok(())
/// # }).unwrap();
/// ```
#[derive(Debug)]
#[must_use = "dropping a cache ends the mirror"]
pub struct Cache {
    nodes: Arc<Mutex<Nodes>>,
    changes: broadcast::Sender<CacheChange>,
    progress: watch::Receiver<Progress>,
    task: JoinHandle<()>,
}

impl Cache {
    /// Begins to mirror a znode and all below it. It need not exist.
    pub fn start(client: &Client, path: &str) -> Self {
        let nodes = Arc::new(Mutex::default());
        let (changes, _) = broadcast::channel(CHANGES_MAX);
        let (sender, progress) = watch::channel(Progress::Behind);
        let mirror = Mirror {
            client: client.clone(),
            root: path.to_owned(),
            nodes: Arc::clone(&nodes),
            changes: changes.clone(),
            progress: sender,
        };
        Self { nodes, changes, progress, task: tokio::spawn(mirror.run()) }
    }

    /// Waits until all of the tree has been read. An error means that the mirror has ended.
    pub async fn ready(&self) -> Result<(), Error> {
        let mut progress = self.progress.clone();
        let known = progress.wait_for(|progress| *progress != Progress::Behind).await;
        match known.as_deref() {
            Ok(Progress::Following) => Ok(()),
            Ok(Progress::Ended(kind)) => Err(kind.clone().into()),
            Ok(Progress::Behind) | Err(_) => Err(ErrorKind::Closed.into()),
        }
    }

    /// The same, for `limit` at most; returns whether that was enough.
    pub async fn ready_timeout(&self, limit: Duration) -> Result<bool, Error> {
        Ok(within(limit, self.ready()).await?.is_some())
    }

    /// Whether all of the tree has been read since the client connected last, and the mirror
    /// follows it.
    pub fn is_ready(&self) -> bool {
        *self.progress.borrow() == Progress::Following
    }

    /// A znode, if the mirror has it.
    pub fn get(&self, path: &str) -> Option<CachedNode> {
        self.nodes().get(path).cloned()
    }

    /// The names of a znode's children.
    pub fn children(&self, path: &str) -> Vec<String> {
        let prefix = join(path, "");
        let nodes = self.nodes();
        let below = nodes.range(prefix.clone()..).map_while(|(at, _)| at.strip_prefix(&prefix));
        below.filter(|name| !name.is_empty() && !name.contains('/')).map(str::to_owned).collect()
    }

    /// All znodes, by path.
    pub fn snapshot(&self) -> BTreeMap<String, CachedNode> {
        self.nodes().clone()
    }

    /// The changes from now on. A subscriber that is too slow gets the number that it has missed.
    pub fn subscribe(&self) -> broadcast::Receiver<CacheChange> {
        self.changes.subscribe()
    }

    fn nodes(&self) -> MutexGuard<'_, Nodes> {
        self.nodes.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Cache {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// Why the mirror does not follow for the moment.
#[derive(Debug, PartialEq, Eq)]
enum Pause {
    /// The client has lost its connection, or has another one.
    Reconnect,
    WatchEnded,
}

/// What an event leads to.
enum Step {
    /// The znode was deleted by this transaction.
    Forget(String, Zxid),
    /// The znode is read.
    Read(String, Call<(Bytes, Stat)>),
}

/// The task that follows the tree.
struct Mirror {
    client: Client,
    root: String,
    nodes: Arc<Mutex<Nodes>>,
    changes: broadcast::Sender<CacheChange>,
    progress: watch::Sender<Progress>,
}

impl Mirror {
    async fn run(self) {
        let error = loop {
            if let Err(error) = self.follow().await {
                break error;
            }
        };
        self.progress.send_replace(Progress::Ended(error.kind().clone()));
    }

    /// Watches the tree and follows it until the watch ends: this was too slow for the events.
    async fn follow(&self) -> Result<(), Error> {
        let mut state = self.client.state();
        let mode = AddWatchMode::PersistentRecursive;
        // First the watch: what changes while the tree is read comes as an event.
        let mut watch =
            retry_transient(&self.client, || self.client.add_watch(&self.root, mode)).await?;
        loop {
            // The tree is read once for each connection: not before there is one.
            let is_served = |state: &SessionState| state.is_served() || state.is_terminal();
            state.wait_for(is_served).await.map_err(|_| Error::from(ErrorKind::Closed))?;
            // What was reported before is in what is read now. The last event of a connection that
            // was lost may be the end of a znode that has come again since, unreported.
            watch.discard();
            let is_empty = || self.nodes.lock().is_ok_and(|nodes| nodes.is_empty());
            if !planted!("cache-keeps-what-it-has") || is_empty() {
                self.read_all().await?;
            }
            self.progress.send_replace(Progress::Following);
            let followed = self.follow_events(&mut state, &mut watch).await;
            // Servers do not report to a recursive watch what it has missed: read it all again.
            self.progress.send_replace(Progress::Behind);
            if followed? == Pause::WatchEnded {
                return Ok(());
            }
        }
    }

    /// Takes over the events, in their order, until the connection or the watch ends.
    async fn follow_events(
        &self,
        state: &mut watch::Receiver<SessionState>,
        watch: &mut PersistentWatcher,
    ) -> Result<Pause, Error> {
        loop {
            let first = tokio::select! {
                biased;
                changed = state.changed() => {
                    return changed.map(|()| Pause::Reconnect).map_err(|_| ErrorKind::Closed.into());
                }
                event = watch.changed() => match event {
                    Ok(event) => event,
                    Err(_) => return Ok(Pause::WatchEnded),
                },
            };
            let others = std::iter::from_fn(|| watch.changed_now()).take(READS_MAX - 1);
            self.apply(std::iter::once(first).chain(others)).await?;
        }
    }

    /// Handles some events: the znodes that they name are read together.
    async fn apply(&self, events: impl Iterator<Item = WatchedEvent>) -> Result<(), Error> {
        let mut read = BTreeSet::new();
        let mut steps = Vec::new();
        for WatchedEvent { event_type, path, zxid } in events.collect::<Vec<_>>() {
            match event_type {
                EventType::NodeDeleted if zxid != Zxid::NONE => {
                    steps.push(Step::Forget(path, zxid));
                }
                // Servers before 3.9 do not say which transaction has deleted it: it is looked at.
                EventType::NodeDeleted | EventType::NodeCreated | EventType::NodeDataChanged => {
                    // A read comes behind all of these events, so one of each path is enough.
                    if read.insert(path.clone()) {
                        let node = self.client.get(&path);
                        steps.push(Step::Read(path, node));
                    }
                }
                EventType::NodeChildrenChanged
                | EventType::None
                | EventType::DataWatchRemoved
                | EventType::ChildWatchRemoved
                | EventType::PersistentWatchRemoved
                | _ => {}
            }
        }
        for step in steps {
            match step {
                Step::Forget(path, zxid) => self.forget(&path, Some(zxid)),
                Step::Read(path, node) => match self.arrived(&path, node).await? {
                    Some(node) => self.note(path, node),
                    None => self.forget(&path, None),
                },
            }
        }
        Ok(())
    }

    /// Reads the whole tree, some znodes at a time, and forgets what is not there any more.
    async fn read_all(&self) -> Result<(), Error> {
        let mut seen = Nodes::new();
        let mut paths = vec![self.root.clone()];
        let mut under_way = VecDeque::new();
        loop {
            while under_way.len() < READS_MAX
                && let Some(path) = paths.pop()
            {
                let (node, names) = (self.client.get(&path), self.client.children(&path));
                under_way.push_back((path, node, names));
            }
            let Some((path, node, names)) = under_way.pop_front() else { break };
            let node = self.arrived(&path, node).await?;
            let names = match names.await {
                Err(error) if error.is_transient() => children(&self.client, &path).await,
                names => names.map(|(names, _)| names),
            };
            if let Some(node) = node {
                match names {
                    // The watch reports a child that comes later.
                    Ok(names) => paths.extend(names.iter().map(|name| join(&path, name))),
                    Err(error) if is_not_found(&error) => {}
                    Err(error) if error.code() == Some(ErrorCode::NoAuth) => {}
                    Err(error) => return Err(error),
                }
                seen.insert(path, node);
            }
        }
        self.replace(seen);
        Ok(())
    }

    /// Takes over the tree as it was read.
    fn replace(&self, seen: Nodes) {
        let gone: Vec<String> = {
            let nodes = self.nodes.lock().unwrap_or_else(PoisonError::into_inner);
            nodes.keys().filter(|path| !seen.contains_key(*path)).cloned().collect()
        };
        for path in gone.iter().rev() {
            self.forget(path, None);
        }
        for (path, node) in seen {
            self.note(path, node);
        }
    }

    /// What a read that is under way finds; a lost one is repeated.
    async fn arrived(
        &self,
        path: &str,
        read: Call<(Bytes, Stat)>,
    ) -> Result<Option<CachedNode>, Error> {
        match found(read.await) {
            Err(error) if error.is_transient() => self.fetch(path).await,
            node => node,
        }
    }

    async fn fetch(&self, path: &str) -> Result<Option<CachedNode>, Error> {
        found(retry_transient(&self.client, || self.client.get(path)).await)
    }

    /// Takes over what was read, unless the mirror has it.
    fn note(&self, path: String, node: CachedNode) {
        let mut nodes = self.nodes.lock().unwrap_or_else(PoisonError::into_inner);
        let is_older = |known: &CachedNode| known.stat.mzxid > node.stat.mzxid;
        if nodes.get(&path).is_some_and(is_older) {
            return;
        }
        let before = nodes.insert(path.clone(), node.clone());
        drop(nodes);
        let change = match before {
            None => CacheChange::Created(path, node),
            Some(before) if before.stat.czxid != node.stat.czxid => {
                self.report(CacheChange::Deleted(path.clone(), before));
                CacheChange::Created(path, node)
            }
            Some(before) if before.stat.mzxid != node.stat.mzxid => {
                CacheChange::Changed(path, node)
            }
            Some(_) => return,
        };
        self.report(change);
    }

    /// Forgets a znode, unless the one that the mirror has is younger than the transaction that
    /// has deleted it: that was another one of its name.
    fn forget(&self, path: &str, deleted_by: Option<Zxid>) {
        let gone = {
            let mut nodes = self.nodes.lock().unwrap_or_else(PoisonError::into_inner);
            match (nodes.get(path), deleted_by) {
                (Some(node), Some(zxid)) if node.stat.czxid > zxid => None,
                _ => nodes.remove(path),
            }
        };
        if let Some(node) = gone {
            self.report(CacheChange::Deleted(path.to_owned(), node));
        }
    }

    fn report(&self, change: CacheChange) {
        // It may have no receivers.
        let _ = self.changes.send(change);
    }
}

/// What a read has found. What this session may not read is not there for it: one such znode is no
/// reason to end the mirror of all others.
fn found(read: Result<(Bytes, Stat), Error>) -> Result<Option<CachedNode>, Error> {
    match read {
        Ok((data, stat)) => Ok(Some(CachedNode { data, stat })),
        Err(error) if is_not_found(&error) || error.code() == Some(ErrorCode::NoAuth) => Ok(None),
        Err(error) => Err(error),
    }
}
